/* SPDX-License-Identifier: MIT */
/* Semaphores: never more permits out than the limit, and all users agree on the limit. */
#include "conform.h"

#include <sched.h>

#define NAME "permits"
#define LIMIT 3

static dibs_request
permits(uint32_t count, uint32_t limit, int64_t wait_ms)
{
    dibs_request request = want(NAME);
    request.mode = DIBS_PERMITS;
    request.permits = count;
    request.limit = limit;
    request.wait_ms = wait_ms;
    return request;
}

static int
permits_refused(void)
{
    dibs_hold *hold = NULL;
    if (has(DIBS_CAP_PERMITS)) {
        return 0;
    }
    GIVES(DIBS_EUNSUPPORTED, dibs_permit(&hold, stage.client, NAME, LIMIT, &oops));
    return 1;
}

CASE(permits, limit)
{
    if (permits_refused()) {
        return;
    }
    peer *other = peer_new();
    dibs_request one = permits(1, LIMIT, DIBS_WAIT_NONE);
    dibs_hold *first = take(stage.client, &one), *hold = NULL;
    OK(peer_acquire(other, 0, &one).code);
    OK(peer_acquire(other, 1, &one).code);
    GIVES(DIBS_EBUSY, peer_acquire(other, 2, &one).code);
    GIVES(DIBS_EBUSY, acquire(&hold, stage.client, &one));
    give(first);
    OK(peer_acquire(other, 2, &one).code);
    GIVES(DIBS_EBUSY, acquire(&hold, stage.client, &one));
    peer_quit(other);
    OK(dibs_permit(&hold, stage.client, NAME, LIMIT, &oops));
    give(hold);
}

CASE(permits, several_at_once)
{
    if (permits_refused()) {
        return;
    }
    dibs_request one = permits(1, LIMIT, DIBS_WAIT_NONE);
    dibs_request two = permits(2, LIMIT, DIBS_WAIT_NONE);
    dibs_request all = permits(LIMIT, LIMIT, DIBS_WAIT_NONE);
    dibs_hold *pair = take(stage.client, &two), *hold = NULL;
    GIVES(DIBS_EBUSY, acquire(&hold, stage.client, &two));
    dibs_hold *single = take(stage.client, &one);
    GIVES(DIBS_EBUSY, acquire(&hold, stage.client, &one));
    give(pair);
    GIVES(DIBS_EBUSY, acquire(&hold, stage.client, &all));
    give(single);
    hold = take(stage.client, &all);
    give(hold);
}

CASE(permits, bad_counts)
{
    if (permits_refused()) {
        return;
    }
    dibs_request more = permits(LIMIT + 1, LIMIT, DIBS_WAIT_NONE);
    dibs_request none = permits(1, 0, DIBS_WAIT_NONE);
    dibs_hold *hold = NULL;
    GIVES(DIBS_EINVAL, acquire(&hold, stage.client, &more));
    GIVES(DIBS_EINVAL, acquire(&hold, stage.client, &none));
    CHECK(strstr(oops.text, "limit") != NULL);
}

CASE(permits, mismatch)
{
    if (permits_refused()) {
        return;
    }
    peer *other = peer_new();
    dibs_request one = permits(1, LIMIT, DIBS_WAIT_NONE);
    dibs_request wrong = permits(1, LIMIT + 1, slowly(5000));
    dibs_request lock = want(NAME);
    dibs_hold *hold = take(stage.client, &one), *second = NULL;
    /* at once, though they would wait */
    GIVES(DIBS_EMISMATCH, peer_acquire(other, 0, &wrong).code);
    GIVES(DIBS_EMISMATCH, peer_acquire(other, 0, &lock).code);
    GIVES(DIBS_EMISMATCH, acquire(&second, stage.client, &wrong));
    CHECK(dibs_held(hold));
    give(hold);
    /* nobody uses it any more: it may be something else now */
    OK(peer_acquire(other, 0, &wrong).code);
    OK(peer_release(other, 0));
    OK(peer_acquire(other, 0, &lock).code);
    GIVES(DIBS_EMISMATCH, acquire(&second, stage.client, &one));
    peer_quit(other);
}

/* word 0: permits out; word 1: the most there ever were */
static void
use_permits(void *client, int index)
{
    for (int i = 0; i < 25; i++) {
        uint32_t count = 1 + (uint32_t)(i + index) % 2;
        dibs_request request = permits(count, LIMIT, slowly(10000));
        dibs_hold *hold = take(client, &request);
        int64_t out = atomic_fetch_add(&stage.shared->words[0], count) + count;
        CHECK_WITHIN(out, 1, LIMIT);
        int64_t most = atomic_load(&stage.shared->words[1]);
        while (out > most &&
               !atomic_compare_exchange_weak(&stage.shared->words[1], &most, out)) {
        }
        sched_yield();
        atomic_fetch_sub(&stage.shared->words[0], count);
        give(hold);
    }
}

JOB(use_permits)
{
    gang_join(gang_start((int)args[0], use_permits, client));
    return 0;
}

CASE(permits, crowd)
{
    const int64_t threads = 6;
    peer *peers[3];
    if (permits_refused()) {
        return;
    }
    for (int i = 0; i < 3; i++) {
        peers[i] = peer_new();
        peer_job_begin(peers[i], "use_permits", &threads, 1);
    }
    gang_join(gang_start((int)threads, use_permits, stage.client));
    for (int i = 0; i < 3; i++) {
        CHECK_SAME(peer_end(peers[i]).value, 0);
        peer_quit(peers[i]);
    }
    CHECK_SAME(atomic_load(&stage.shared->words[0]), 0);
    CHECK_WITHIN(atomic_load(&stage.shared->words[1]), 2, LIMIT);
}

/* a large request at the head is not starved by small ones behind it */
CASE(permits, large_request_is_served)
{
    if (permits_refused()) {
        return;
    }
    const int64_t threads = 4;
    dibs_request all = permits(LIMIT, LIMIT, slowly(5000));
    peer *other = peer_new();
    peer_job_begin(other, "use_permits", &threads, 1);
    for (int i = 0; i < 5; i++) {
        dibs_hold *hold = take(stage.client, &all);
        give(hold);
    }
    CHECK_SAME(peer_end(other).value, 0);
    peer_quit(other);
}
