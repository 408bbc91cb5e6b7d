/* SPDX-License-Identifier: MIT */
/* Fairness: who comes first is served first. On engines without DIBS_CAP_FAIR everybody
 * is served, in whatever order. */
#include "conform.h"

#define NAME "fairness"
#define WAITERS 6

/* the order of grants, taken down by those who are granted */
static void
sign_in(int who)
{
    int64_t place = atomic_fetch_add(&stage.shared->words[0], 1);
    atomic_store(&stage.shared->words[1 + place], who);
}

static void
check_order(int count)
{
    CHECK_SAME(atomic_load(&stage.shared->words[0]), count);
    for (int i = 0; i < count && has(DIBS_CAP_FAIR); i++) {
        CHECK_SAME(atomic_load(&stage.shared->words[1 + i]), i);
    }
}

JOB(queue_up)
{
    dibs_request request = want(NAME);
    request.mode = (int)args[1];
    request.limit = request.mode == DIBS_PERMITS ? 1 : 0;
    dibs_hold *hold = take(client, &request);
    sign_in((int)args[0]);
    give(hold);
    return 0;
}

static void
serve_peers(int mode)
{
    dibs_request request = want(NAME);
    request.mode = mode;
    request.limit = mode == DIBS_PERMITS ? 1 : 0;
    peer *peers[WAITERS];
    dibs_hold *hold = take(stage.client, &request);
    for (int i = 0; i < WAITERS; i++) {
        int64_t args[] = { i, mode };
        peers[i] = peer_new();
        peer_job_begin(peers[i], "queue_up", args, 2);
        await_waiters(NAME, (size_t)i + 1);
    }
    give(hold);
    for (int i = 0; i < WAITERS; i++) {
        CHECK_SAME(peer_end(peers[i]).value, 0);
        peer_quit(peers[i]);
    }
    check_order(WAITERS);
}

CASE(fairness, processes)
{
    serve_peers(DIBS_EXCLUSIVE);
}

CASE(fairness, permits)
{
    dibs_hold *hold = NULL;
    if (!has(DIBS_CAP_PERMITS)) {
        GIVES(DIBS_EUNSUPPORTED, dibs_permit(&hold, stage.client, NAME, 1, &oops));
        return;
    }
    serve_peers(DIBS_PERMITS);
}

static void
queue_up_in_thread(void *arg, int index)
{
    const int64_t args[] = { *(int *)arg, DIBS_EXCLUSIVE };
    (void)index;
    job_queue_up(stage.client, args);
}

CASE(fairness, threads)
{
    int numbers[WAITERS];
    gang *gangs[WAITERS];
    dibs_hold *hold = take_name(stage.client, NAME);
    for (int i = 0; i < WAITERS; i++) {
        numbers[i] = i;
        gangs[i] = gang_start(1, queue_up_in_thread, &numbers[i]);
        /* threads of one client queue inside it, where no inspect sees them */
        sleep_ms(slowly(25));
    }
    give(hold);
    for (int i = 0; i < WAITERS; i++) {
        gang_join(gangs[i]);
    }
    check_order(WAITERS);
}

/* a client that hands over among its own threads must not starve another one */
static void
take_turns(void *client, int index)
{
    (void)index;
    while (atomic_load(&stage.shared->words[1]) == 0) {
        dibs_hold *hold = take_name(client, NAME);
        atomic_fetch_add(&stage.shared->words[0], 1);
        give(hold);
    }
}

CASE(fairness, other_process_is_not_starved)
{
    peer *other = peer_new();
    gang *busy = gang_start(4, take_turns, stage.client);
    await_word(0, 10);
    for (int i = 0; i < 5; i++) {
        int64_t from = now_ms();
        peer_take(other, NAME);
        CHECK_WITHIN(now_ms() - from, 0, slowly(1000));
        OK(peer_release(other, 0));
    }
    atomic_store(&stage.shared->words[1], 1);
    gang_join(busy);
    peer_quit(other);
}
