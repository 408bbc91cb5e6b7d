/* SPDX-License-Identifier: MIT */
/* Death and sleep of holders and waiters: the next one gets its turn, in time, and is
 * told how the last hold ended; the one who slept is told that it has nothing any
 * more. */
#include "conform.h"

#include <stdlib.h>

#include "freeze.h"

#define NAME "death"
#define ROUNDS 5

static void
check_previous(const answer *got, int previous)
{
    if (has(DIBS_CAP_PREVIOUS)) {
        CHECK_SAME(got->previous, previous);
    }
}

/* one death of a holder that others wait for; how long the next one had to wait */
static int64_t
kill_holder_once(peer *next)
{
    dibs_request request = brief_lease(NAME);
    peer *holder = peer_new();
    answer first = peer_acquire(holder, 0, &request);
    OK(first.code);
    peer_acquire_begin(next, 0, &request);
    await_waiters(NAME, 1);
    int64_t from = now_ns();
    peer_kill(holder);
    answer got = peer_end(next);
    OK(got.code);
    CHECK(got.token > first.token);
    check_previous(&got, DIBS_PREVIOUS_EXPIRED);
    OK(peer_release(next, 0));
    /* the one after that hears nothing of it */
    answer later = peer_acquire(next, 0, &request);
    check_previous(&later, DIBS_PREVIOUS_CLEAN);
    OK(peer_release(next, 0));
    return (got.at_ns - from) / 1000000;
}

static int
by_size(const void *a, const void *b)
{
    int64_t left = *(const int64_t *)a, right = *(const int64_t *)b;
    return (left > right) - (left < right);
}

CASE(death, holder_killed)
{
    int64_t took_ms[ROUNDS];
    peer *next = peer_new();
    for (int i = 0; i < ROUNDS; i++) {
        took_ms[i] = kill_holder_once(next);
    }
    peer_quit(next);
    /* one round may fall into a pause of the machine; not most of them */
    qsort(took_ms, ROUNDS, sizeof(took_ms[0]), by_size);
    CHECK_WITHIN(took_ms[ROUNDS / 2], 0, death_limit_ms());
    CHECK_WITHIN(took_ms[ROUNDS - 1], 0, death_limit_ms() + slowly(1000));
}

CASE(death, nobody_waits)
{
    dibs_request request = brief_lease(NAME);
    peer *holder = peer_new();
    OK(peer_acquire(holder, 0, &request).code);
    peer_kill(holder);
    dibs_hold *hold = take(stage.client, &request);
    if (has(DIBS_CAP_PREVIOUS)) {
        CHECK_SAME(dibs_previous(hold), DIBS_PREVIOUS_EXPIRED);
    }
    give(hold);
}

CASE(death, holder_of_many_killed)
{
    char name[32];
    peer *holder = peer_new();
    for (int i = 0; i < PEER_SLOTS; i++) {
        (void)snprintf(name, sizeof(name), "%s %d", NAME, i);
        dibs_request request = brief_lease(name);
        OK(peer_acquire(holder, i, &request).code);
    }
    peer_kill(holder);
    int64_t from = now_ms();
    for (int i = 0; i < PEER_SLOTS; i++) {
        (void)snprintf(name, sizeof(name), "%s %d", NAME, i);
        give(take_name(stage.client, name));
    }
    CHECK_WITHIN(now_ms() - from, 0, death_limit_ms() + slowly(250));
}

CASE(death, reader_killed)
{
    dibs_request request = brief_lease(NAME);
    dibs_hold *hold = NULL;
    request.mode = DIBS_SHARED;
    if (!has(DIBS_CAP_SHARED)) {
        GIVES(DIBS_EUNSUPPORTED, acquire(&hold, stage.client, &request));
        return;
    }
    peer *reader = peer_new(), *other = peer_new();
    OK(peer_acquire(reader, 0, &request).code);
    OK(peer_acquire(other, 0, &request).code);
    peer_kill(reader);
    sleep_ms(death_limit_ms());
    /* the other reader is alive and keeps the writer out */
    CHECK(peer_state(other, 0).held == 1 && !is_free(stage.client, NAME));
    OK(peer_release(other, 0));
    give(take_name(stage.client, NAME));
    peer_quit(other);
}

CASE(death, permit_comes_back)
{
    dibs_request request = brief_lease(NAME);
    dibs_hold *hold = NULL;
    request.mode = DIBS_PERMITS;
    request.limit = 2;
    request.permits = 2;
    if (!has(DIBS_CAP_PERMITS)) {
        GIVES(DIBS_EUNSUPPORTED, acquire(&hold, stage.client, &request));
        return;
    }
    peer *holder = peer_new();
    OK(peer_acquire(holder, 0, &request).code);
    int64_t from = now_ms();
    peer_kill(holder);
    hold = take(stage.client, &request);
    CHECK_WITHIN(now_ms() - from, 0, death_limit_ms() + slowly(250));
    give(hold);
}

/* the waiter that has the lock now: the first, or without fairness any of them */
static int
next_of(peer *const *waiters)
{
    for (int64_t until = now_ms() + slowly(10000); now_ms() < until;) {
        for (int i = 0; i < 3; i++) {
            if (waiters[i] != NULL && peer_is_done(waiters[i], 5)) {
                return i;
            }
            if (waiters[i] != NULL && has(DIBS_CAP_FAIR)) {
                break;
            }
        }
    }
    FAIL("nobody is next");
}

/* three wait, one of them is killed; the others are served in order */
static void
kill_waiter(int which)
{
    dibs_request request = brief_lease(NAME);
    peer *waiters[3];
    dibs_hold *hold = take_name(stage.client, NAME);
    for (size_t i = 0; i < 3; i++) {
        waiters[i] = peer_new();
        peer_acquire_begin(waiters[i], 0, &request);
        await_waiters(NAME, i + 1);
    }
    peer_kill(waiters[which]);
    waiters[which] = NULL;
    uint64_t last = dibs_token(hold);
    int64_t from = now_ns();
    give(hold);
    for (int left = 2; left > 0; left--) {
        int next = next_of(waiters);
        answer got = peer_end(waiters[next]);
        OK(got.code);
        CHECK_WITHIN((got.at_ns - from) / 1000000, 0, death_limit_ms() + slowly(250));
        /* what it is told of the hold before may be either: the dead one may have been
         * granted the lock before its death was known */
        CHECK(got.token > last || !has(DIBS_CAP_TOKEN));
        last = got.token;
        peer_quit(waiters[next]);
        waiters[next] = NULL;
    }
    /* if the dead one had it last, that is remembered for the next one, and no longer */
    give(take_name(stage.client, NAME));
}

CASE(death, first_waiter_killed)
{
    kill_waiter(0);
}

CASE(death, middle_waiter_killed)
{
    kill_waiter(1);
}

CASE(death, last_waiter_killed)
{
    kill_waiter(2);
}

/* the holder sleeps for longer than its lease and wakes up when somebody else has it */
static void
wake_up_too_late(peer *holder, void (*wake)(peer *))
{
    dibs_request request = want(NAME);
    int64_t from = now_ms();
    dibs_hold *hold = take(stage.client, &request);
    CHECK_WITHIN(now_ms() - from, 0, death_limit_ms());
    if (has(DIBS_CAP_PREVIOUS)) {
        CHECK_SAME(dibs_previous(hold), DIBS_PREVIOUS_EXPIRED);
    }
    wake(holder);
    /* not a moment later: what it may do with the lock is over */
    answer state = peer_state(holder, 0);
    CHECK_SAME(state.held, 0);
    CHECK_SAME(state.remaining_ms, 0);
    sleep_ms(slowly(50));
    state = peer_state(holder, 0);
    CHECK_SAME(state.told, 1);
    CHECK_SAME(state.lost_fd_ready, 1);
    GIVES(DIBS_ELOST, peer_release(holder, 0));
    CHECK(dibs_held(hold));
    give(hold);
}

static void
put_to_sleep(void (*stop)(peer *), void (*wake)(peer *))
{
    dibs_request request = brief_lease(NAME);
    peer *holder = peer_new();
    request.flags = peer_pause_flags();
    OK(peer_acquire(holder, 0, &request).code);
    stop(holder);
    if (has(DIBS_CAP_LEASE)) {
        wake_up_too_late(holder, wake);
    } else {
        dibs_hold *hold = NULL;
        GIVES(DIBS_ETIMEDOUT,
              dibs_timedlock(&hold, stage.client, NAME, 2 * stage.lease_ms, &oops));
        wake(holder);
        answer state = peer_state(holder, 0);
        CHECK(state.held == 1 && state.told == 0 && state.lost_fd_ready == 0);
        OK(peer_release(holder, 0));
    }
    peer_quit(holder);
}

CASE(death, holder_paused)
{
    put_to_sleep(peer_pause, peer_resume);
}

/* ---- without a signal ---- */

static struct freezer freezer;

static void
freeze(peer *holder)
{
    CHECK_SAME(freezer_take(&freezer, 0, (pid_t)peer_pid(holder)), 0);
    CHECK_SAME(freezer_freeze(&freezer, 0), 0);
}

static void
thaw(peer *holder)
{
    (void)holder;
    freezer_thaw(&freezer, 0);
}

static _Noreturn void
skip(const char *why)
{
    dibs_close(stage.client);
    stage.fixture->stop();
    printf("skipped: %s\n", why);
    exit(EXIT_SKIPPED);
}

CASE(death, holder_frozen)
{
    char why[160];
    if (stage.fixture->one_process) {
        skip("the peer is a thread, and only processes can be frozen");
    }
    if (freezer_open(&freezer, 0, why) != 0) {
        skip(why);
    }
    put_to_sleep(freeze, thaw);
    freezer_close(&freezer);
}

/* ---- for less than a lease, and in the queue ---- */

CASE(death, holder_paused_briefly)
{
    dibs_request request = brief_lease(NAME);
    peer *holder = peer_new();
    OK(peer_acquire(holder, 0, &request).code);
    /* right after a grant or a renewal half a lease is not too long */
    peer_pause(holder);
    sleep_ms(stage.lease_ms / 3);
    CHECK(!is_free(stage.client, NAME));
    peer_resume(holder);
    sleep_ms(2 * stage.lease_ms);
    answer state = peer_state(holder, 0);
    CHECK(state.held == 1 && state.told == 0 && !is_free(stage.client, NAME));
    OK(peer_release(holder, 0));
    peer_quit(holder);
}

CASE(death, waiter_paused)
{
    dibs_request request = brief_lease(NAME);
    peer *sleeper = peer_new(), *awake = peer_new();
    dibs_hold *hold = take_name(stage.client, NAME);
    peer_acquire_begin(sleeper, 0, &request);
    await_waiters(NAME, 1);
    peer_acquire_begin(awake, 0, &request);
    await_waiters(NAME, 2);
    peer_pause(sleeper);
    give(hold);
    if (has(DIBS_CAP_LEASE) && !stage.fixture->one_process) {
        /* a sleeper's turn lasts no longer than its lease */
        OK(peer_end(awake).code);
        OK(peer_release(awake, 0));
        peer_resume(sleeper);
        OK(peer_end(sleeper).code);
    } else {
        peer_resume(sleeper);
        OK(peer_end(sleeper).code);
        OK(peer_release(sleeper, 0));
        OK(peer_end(awake).code);
    }
    peer_quit(sleeper);
    peer_quit(awake);
}
