/* SPDX-License-Identifier: MIT */
/* Re-entry: the owner of a lock takes it again without waiting, and it is free after
 * the last hold. These cases call dibs_acquire itself: a re-entry has no new token to
 * note. */
#include "conform.h"

#define NAME "reentry"
#define DEPTH 5

/* what another thread gets that tries for the name, with an owner or without */
struct attempt {
    const char *owner;
    int mode, code;
};

static void
try_once(void *arg, int index)
{
    struct attempt *attempt = arg;
    dibs_request request = try_for(NAME);
    dibs_hold *hold = NULL;
    (void)index;
    request.owner = attempt->owner;
    request.mode = attempt->mode;
    attempt->code = dibs_acquire(&hold, stage.client, &request, &oops);
    dibs_hold_free(hold);
}

static int
from_other_thread(const char *owner, int mode)
{
    struct attempt attempt = { owner, mode, 1 };
    gang_join(gang_start(1, try_once, &attempt));
    return attempt.code;
}

CASE(reentry, depth)
{
    dibs_hold *holds[DEPTH];
    for (int i = 0; i < DEPTH; i++) {
        OK(dibs_trylock(&holds[i], stage.client, NAME, &oops));
        CHECK(dibs_held(holds[i]));
    }
    /* in the order they were taken: any handle may be the last */
    for (int i = 0; i < DEPTH; i++) {
        GIVES(DIBS_EBUSY, from_other_thread(NULL, DIBS_EXCLUSIVE));
        give(holds[i]);
    }
    OK(from_other_thread(NULL, DIBS_EXCLUSIVE));
}

CASE(reentry, seen_from_outside)
{
    dibs_hold *outer = NULL, *inner = NULL;
    peer *other = peer_new();
    dibs_request request = try_for(NAME);
    OK(dibs_lock(&outer, stage.client, NAME, &oops));
    OK(dibs_lock(&inner, stage.client, NAME, &oops));
    give(inner);
    CHECK(dibs_held(outer));
    GIVES(DIBS_EBUSY, peer_acquire(other, 0, &request).code);
    give(outer);
    OK(peer_acquire(other, 0, &request).code);
    peer_quit(other);
}

CASE(reentry, handles_are_apart)
{
    dibs_hold *outer = NULL, *inner = NULL;
    OK(dibs_lock(&outer, stage.client, NAME, &oops));
    OK(dibs_lock(&inner, stage.client, NAME, &oops));
    OK(dibs_release(outer, &oops));
    /* the first handle has given up its part; the second one's stands */
    CHECK_SAME(dibs_held(outer), 0);
    CHECK_SAME(dibs_held(inner), 1);
    GIVES(DIBS_ENOTHELD, dibs_release(outer, &oops));
    CHECK_SAME(dibs_held(inner), 1);
    GIVES(DIBS_EBUSY, from_other_thread(NULL, DIBS_EXCLUSIVE));
    give(inner);
    dibs_hold_free(outer);
}

CASE(reentry, owner_string)
{
    dibs_request request = want(NAME);
    dibs_hold *hold = NULL;
    request.owner = "job 7";
    OK(dibs_acquire(&hold, stage.client, &request, &oops));
    OK(from_other_thread("job 7", DIBS_EXCLUSIVE));
    GIVES(DIBS_EBUSY, from_other_thread("job 8", DIBS_EXCLUSIVE));
    GIVES(DIBS_EBUSY, from_other_thread(NULL, DIBS_EXCLUSIVE));
    /* nor is the thread that took it an owner, if it named another */
    CHECK(!is_free(stage.client, NAME));
    give(hold);
}

CASE(reentry, refused_by_flag)
{
    dibs_request request = want(NAME);
    dibs_hold *hold = take(stage.client, &request), *again = NULL;
    int64_t from = now_ms();
    request.flags = DIBS_NO_REENTRY;
    request.wait_ms = slowly(60);
    GIVES(DIBS_ETIMEDOUT, dibs_acquire(&again, stage.client, &request, &oops));
    CHECK(again == NULL);
    CHECK_WITHIN(now_ms() - from, slowly(60) - 1, slowly(60) + slowly(200));
    CHECK(dibs_held(hold));
    give(hold);
    CHECK(is_free(stage.client, NAME));
}

CASE(reentry, shared_inside_exclusive)
{
    dibs_request request = try_for(NAME);
    dibs_hold *outer = take_name(stage.client, NAME), *inner = NULL;
    request.mode = DIBS_SHARED;
    if (!has(DIBS_CAP_SHARED)) {
        GIVES(DIBS_EUNSUPPORTED, dibs_acquire(&inner, stage.client, &request, &oops));
        give(outer);
        return;
    }
    OK(dibs_acquire(&inner, stage.client, &request, &oops));
    /* the lock as a whole is still exclusive */
    GIVES(DIBS_EBUSY, from_other_thread(NULL, DIBS_SHARED));
    give(inner);
    GIVES(DIBS_EBUSY, from_other_thread(NULL, DIBS_SHARED));
    give(outer);
    OK(from_other_thread(NULL, DIBS_SHARED));
}

CASE(reentry, shared_twice)
{
    dibs_request request = try_for(NAME);
    dibs_hold *outer = NULL, *inner = NULL;
    request.mode = DIBS_SHARED;
    if (!has(DIBS_CAP_SHARED)) {
        GIVES(DIBS_EUNSUPPORTED, dibs_acquire(&outer, stage.client, &request, &oops));
        return;
    }
    OK(dibs_acquire(&outer, stage.client, &request, &oops));
    OK(dibs_acquire(&inner, stage.client, &request, &oops));
    give(outer);
    GIVES(DIBS_EBUSY, from_other_thread(NULL, DIBS_EXCLUSIVE));
    give(inner);
    OK(from_other_thread(NULL, DIBS_EXCLUSIVE));
}

CASE(reentry, no_upgrade)
{
    dibs_request request = want(NAME);
    dibs_hold *reader = NULL, *writer = NULL;
    request.mode = DIBS_SHARED;
    if (!has(DIBS_CAP_SHARED)) {
        GIVES(DIBS_EUNSUPPORTED, dibs_acquire(&reader, stage.client, &request, &oops));
        return;
    }
    reader = take(stage.client, &request);
    int64_t from = now_ms();
    GIVES(DIBS_EDEADLOCK, dibs_wrlock(&writer, stage.client, NAME, &oops));
    CHECK_WITHIN(now_ms() - from, 0, slowly(200));
    CHECK(writer == NULL && dibs_held(reader));
    GIVES(DIBS_EBUSY, from_other_thread(NULL, DIBS_EXCLUSIVE));
    OK(from_other_thread(NULL, DIBS_SHARED));
    give(reader);
}

CASE(reentry, permits_count_each)
{
    dibs_request request = try_for(NAME);
    dibs_hold *one = NULL, *two = NULL, *three = NULL;
    request.mode = DIBS_PERMITS;
    request.limit = 2;
    if (!has(DIBS_CAP_PERMITS)) {
        GIVES(DIBS_EUNSUPPORTED, dibs_acquire(&one, stage.client, &request, &oops));
        return;
    }
    OK(dibs_acquire(&one, stage.client, &request, &oops));
    OK(dibs_acquire(&two, stage.client, &request, &oops));
    GIVES(DIBS_EBUSY, dibs_acquire(&three, stage.client, &request, &oops));
    give(one);
    OK(dibs_acquire(&three, stage.client, &request, &oops));
    give(two);
    give(three);
}
