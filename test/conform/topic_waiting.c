/* SPDX-License-Identifier: MIT */
/* Waiting: for no time, for some time, until cancelled. Every bound is checked from both
 * sides: not before it was asked for, and not long after. */
#include "conform.h"

#define NAME "waiting"
#define LATE slowly(200)

CASE(waiting, try_does_not_wait)
{
    peer *other = peer_new();
    dibs_hold *hold = NULL;
    peer_take(other, NAME);
    int64_t from = now_ms();
    GIVES(DIBS_EBUSY, dibs_trylock(&hold, stage.client, NAME, &oops));
    CHECK_WITHIN(now_ms() - from, 0, LATE);
    CHECK(hold == NULL);
    CHECK(strstr(oops.text, NAME) != NULL);
    await_waiters(NAME, 0);
    OK(peer_release(other, 0));
    OK(dibs_trylock(&hold, stage.client, NAME, &oops));
    give(hold);
    peer_quit(other);
}

CASE(waiting, time_out)
{
    peer *other = peer_new();
    peer_take(other, NAME);
    /* where a server must be asked, there must be time for its answer; the first claim of a
     * client may need more than one: a session, say */
    int64_t least_ms = has(DIBS_CAP_DIRECT) ? 1 : slowly(20);
    give(take_name(stage.client, "another"));
    for (int64_t wait_ms = least_ms; wait_ms < slowly(200); wait_ms *= 5) {
        dibs_hold *hold = NULL;
        int64_t from = now_ns();
        GIVES(DIBS_ETIMEDOUT, dibs_timedlock(&hold, stage.client, NAME, wait_ms, &oops));
        CHECK_WITHIN((now_ns() - from) / 1000, wait_ms * 1000, (wait_ms + LATE) * 1000);
        CHECK(hold == NULL);
        await_waiters(NAME, 0);
    }
    OK(peer_release(other, 0));
    peer_quit(other);
}

static void
time_out_in_thread(void *client, int index)
{
    dibs_hold *hold = NULL;
    int64_t from = now_ms();
    (void)index;
    GIVES(DIBS_ETIMEDOUT, dibs_timedlock(&hold, client, NAME, slowly(100), &oops));
    CHECK_WITHIN(now_ms() - from, slowly(100) - 1, slowly(100) + LATE);
}

CASE(waiting, time_out_of_many)
{
    dibs_hold *hold = take_name(stage.client, NAME);
    gang_join(gang_start(16, time_out_in_thread, stage.client));
    await_waiters(NAME, 0);
    give(hold);
    CHECK(is_free(stage.client, NAME));
}

CASE(waiting, granted_in_time)
{
    peer *other = peer_new();
    dibs_request request = want(NAME);
    dibs_hold *hold = take_name(stage.client, NAME);
    peer_acquire_begin(other, 0, &request);
    await_waiters(NAME, 1);
    sleep_ms(50);
    int64_t from = now_ns();
    give(hold);
    answer got = peer_end(other);
    OK(got.code);
    CHECK_WITHIN((got.at_ns - from) / 1000000, 0, LATE);
    CHECK(got.previous == DIBS_PREVIOUS_CLEAN || !has(DIBS_CAP_PREVIOUS));
    peer_quit(other);
}

/* one wait that a canceller ends */
struct cancelled {
    dibs_canceller *cancel;
    _Atomic int64_t ended_ns;
};

static void
wait_for_cancel(void *arg, int index)
{
    struct cancelled *wait = arg;
    dibs_request request = want(NAME);
    dibs_hold *hold = NULL;
    request.cancel = wait->cancel;
    request.flags = DIBS_NO_REENTRY;
    request.wait_ms = index % 2 == 0 ? DIBS_WAIT_FOREVER : slowly(10000);
    GIVES(DIBS_ECANCELED, acquire(&hold, stage.client, &request));
    CHECK(hold == NULL);
    atomic_store(&wait->ended_ns, now_ns());
}

static void
cancel_waits(int count)
{
    struct cancelled wait = { NULL, 0 };
    dibs_hold *hold = take_name(stage.client, NAME);
    OK(dibs_canceller_new(&wait.cancel, &oops));
    gang *waiters = gang_start(count, wait_for_cancel, &wait);
    sleep_ms(slowly(60));
    CHECK_SAME(atomic_load(&wait.ended_ns), 0);
    int64_t from = now_ns();
    dibs_cancel(wait.cancel);
    gang_join(waiters);
    CHECK_WITHIN((atomic_load(&wait.ended_ns) - from) / 1000000, 0, LATE);
    dibs_canceller_free(wait.cancel);
    await_waiters(NAME, 0);
    CHECK(dibs_held(hold));
    give(hold);
    CHECK(is_free(stage.client, NAME));
}

CASE(waiting, cancel_during)
{
    cancel_waits(1);
}

CASE(waiting, cancel_many)
{
    cancel_waits(12);
}

CASE(waiting, cancel_before)
{
    struct cancelled wait = { NULL, 0 };
    dibs_hold *hold = take_name(stage.client, NAME);
    OK(dibs_canceller_new(&wait.cancel, &oops));
    dibs_cancel(wait.cancel);
    int64_t from = now_ms();
    wait_for_cancel(&wait, 0);
    wait_for_cancel(&wait, 1);
    CHECK_WITHIN(now_ms() - from, 0, LATE);
    dibs_canceller_free(wait.cancel);
    give(hold);
    CHECK(is_free(stage.client, NAME));
}

static void
cancel_soon(void *cancel, int index)
{
    (void)index;
    sleep_ms(1);
    dibs_cancel(cancel);
}

/* the grant and the cancel race; whoever wins, the lock is not lost between them */
CASE(waiting, cancel_races_grant)
{
    peer *other = peer_new();
    for (int i = 0; i < 30; i++) {
        dibs_canceller *cancel = NULL;
        dibs_hold *hold = NULL;
        dibs_request request = want(NAME);
        int64_t args[] = { 1 };
        OK(dibs_canceller_new(&cancel, &oops));
        request.cancel = cancel;
        peer_job_begin(other, "hold_for", args, 1);
        gang *canceller = gang_start(1, cancel_soon, cancel);
        int code = acquire(&hold, stage.client, &request);
        if (code == DIBS_OK) {
            give(hold);
        } else {
            GIVES(DIBS_ECANCELED, code);
        }
        gang_join(canceller);
        CHECK_SAME(peer_end(other).value, 0);
        dibs_canceller_free(cancel);
        /* a grant that came too late may be given back in the background */
        CHECK(comes_free(stage.client, NAME, slowly(500)));
    }
    peer_quit(other);
}

JOB(hold_for)
{
    dibs_hold *hold = take_name(client, NAME);
    sleep_ms(args[0]);
    give(hold);
    return 0;
}
