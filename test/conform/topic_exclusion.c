/* SPDX-License-Identifier: MIT */
/* Exclusion: a hundred contenders, over threads and over processes, and none of them
 * ever meets another inside. The counter is not atomic: only the lock makes it come out
 * right. */
#include "conform.h"

#include <stdlib.h>

#define NAME "exclusion"
#define CONTENDERS 100
#define ROUNDS 10
#define PROCESSES 10

static void
contend(void *client, int index)
{
    (void)index;
    for (int i = 0; i < ROUNDS; i++) {
        dibs_request request = want(NAME);
        request.wait_ms = DIBS_WAIT_FOREVER;
        dibs_hold *hold = take(client, &request);
        guard_visit(&stage.shared->guards[0]);
        CHECK(dibs_held(hold) == 1);
        give(hold);
    }
}

CASE(exclusion, threads)
{
    gang_join(gang_start(CONTENDERS, contend, stage.client));
    CHECK_SAME(stage.shared->guards[0].count, CONTENDERS * ROUNDS);
}

JOB(contend)
{
    gang_join(gang_start((int)args[0], contend, client));
    return 0;
}

CASE(exclusion, processes)
{
    const int64_t threads = CONTENDERS / PROCESSES;
    peer *peers[PROCESSES];
    for (int i = 0; i < PROCESSES; i++) {
        peers[i] = peer_new();
    }
    for (int i = 0; i < PROCESSES; i++) {
        peer_job_begin(peers[i], "contend", &threads, 1);
    }
    for (int i = 0; i < PROCESSES; i++) {
        CHECK_SAME(peer_end(peers[i]).value, 0);
    }
    for (int i = 0; i < PROCESSES; i++) {
        peer_quit(peers[i]);
    }
    CHECK_SAME(stage.shared->guards[0].count, CONTENDERS * ROUNDS);
}

/* a server's answer may take longer than a millisecond or two */
static int
may_be_cut_off(int code, int64_t wait_ms)
{
    return code == DIBS_EUNAVAIL && wait_ms > 0 && wait_ms < 10 && !has(DIBS_CAP_DIRECT);
}

/* those who do not want to wait, or not for long, give up at every possible moment */
static int64_t
be_impatient(dibs *client, unsigned seed)
{
    int64_t visits = 0;
    for (int i = 0; i < 100; i++) {
        dibs_request request = want(NAME);
        dibs_hold *hold = NULL;
        int64_t waits[] = { DIBS_WAIT_NONE, 1, 2, slowly(10000) };
        request.wait_ms = waits[rand_r(&seed) % 4];
        int code = acquire(&hold, client, &request);
        if (code == DIBS_OK) {
            guard_visit(&stage.shared->guards[0]);
            give(hold);
            visits++;
        } else if (code != DIBS_EBUSY && code != DIBS_ETIMEDOUT &&
                   !may_be_cut_off(code, request.wait_ms)) {
            OK(code);
        }
    }
    return visits;
}

static void
be_impatient_in_thread(void *client, int index)
{
    int64_t visits = be_impatient(client, (unsigned)index);
    atomic_fetch_add(&stage.shared->words[0], visits);
}

JOB(impatient)
{
    return be_impatient(client, (unsigned)args[0]);
}

CASE(exclusion, impatient)
{
    int64_t visits = 0;
    peer *peers[3];
    for (int64_t i = 0; i < 3; i++) {
        int64_t seed = 100 + i;
        peers[i] = peer_new();
        peer_job_begin(peers[i], "impatient", &seed, 1);
    }
    gang_join(gang_start(6, be_impatient_in_thread, stage.client));
    for (int i = 0; i < 3; i++) {
        visits += peer_end(peers[i]).value;
        peer_quit(peers[i]);
    }
    visits += atomic_load(&stage.shared->words[0]);
    CHECK(visits > 0);
    CHECK_SAME(stage.shared->guards[0].count, visits);
}

CASE(exclusion, names_apart)
{
    peer *other = peer_new();
    dibs_hold *one = take_name(stage.client, "one");
    peer_take(other, "two");
    CHECK(!is_free(stage.client, "two"));
    CHECK(!is_free(stage.client, "one"));
    CHECK(is_free(stage.client, "three"));
    give(one);
    CHECK(is_free(stage.client, "one"));
    CHECK(!is_free(stage.client, "two"));
    peer_quit(other);
    CHECK(is_free(stage.client, "two"));
}
