/* SPDX-License-Identifier: MIT */
/* Waiting in the background: by descriptor, by callback, cancelled, and closed under. */
#include "conform.h"

#define NAME "async"
#define LATE slowly(200)

static dibs_op *
start(dibs *client, const dibs_request *request)
{
    dibs_op *op = NULL;
    OK(dibs_acquire_async(&op, client, request, NULL, NULL, &oops));
    return op;
}

CASE(async, by_descriptor)
{
    dibs_request request = want(NAME);
    dibs_hold *hold = take_name(stage.client, NAME), *second = NULL;
    dibs_op *op = start(stage.client, &request);
    CHECK(!readable(dibs_op_fd(op), slowly(50)));
    give(hold);
    CHECK(readable(dibs_op_fd(op), LATE));
    OK(dibs_op_finish(&second, op, &oops));
    note_token(second, DIBS_EXCLUSIVE);
    CHECK(dibs_held(second) && !is_free(stage.client, NAME));
    give(second);
}

CASE(async, copies_the_request)
{
    char name[] = "async copied", note[] = "kept";
    dibs_request request = want(name);
    dibs_hold *hold = NULL;
    request.note = note;
    dibs_op *op = start(stage.client, &request);
    memset(name, 'x', sizeof(name) - 1);
    memset(note, 'x', sizeof(note) - 1);
    OK(dibs_op_finish(&hold, op, &oops));
    CHECK(strcmp(dibs_hold_name(hold, NULL), "async copied") == 0);
    give(hold);
}

static void
finish_it(dibs_op *op, void *arg)
{
    dibs_hold *hold = NULL;
    OK(dibs_op_finish(&hold, op, &oops));
    note_token(hold, DIBS_EXCLUSIVE);
    guard_visit(&stage.shared->guards[0]);
    give(hold);
    atomic_fetch_add((_Atomic int *)arg, 1);
}

CASE(async, by_callback)
{
    enum { COUNT = 20 };
    _Atomic int done = 0;
    dibs_request request = want(NAME);
    dibs_hold *hold = take_name(stage.client, NAME);
    for (int i = 0; i < COUNT; i++) {
        dibs_op *op = NULL;
        OK(dibs_acquire_async(&op, stage.client, &request, finish_it, &done, &oops));
    }
    sleep_ms(20);
    CHECK_SAME(atomic_load(&done), 0);
    give(hold);
    for (int64_t until = now_ms() + slowly(3000); atomic_load(&done) < COUNT;) {
        CHECK(now_ms() < until);
        sleep_ms(2);
    }
    CHECK_SAME(stage.shared->guards[0].count, COUNT);
}

CASE(async, nobody_reenters)
{
    dibs_request request = want(NAME);
    dibs_hold *hold = NULL, *again = NULL;
    OK(dibs_op_finish(&hold, start(stage.client, &request), &oops));
    GIVES(DIBS_EBUSY, dibs_trylock(&again, stage.client, NAME, &oops));
    give(hold);
    /* but an owner that is named does */
    request.owner = "loop";
    OK(dibs_op_finish(&hold, start(stage.client, &request), &oops));
    OK(dibs_acquire(&again, stage.client, &request, &oops));
    give(again);
    give(hold);
}

CASE(async, time_out)
{
    dibs_request request = want(NAME);
    dibs_hold *hold = take_name(stage.client, NAME), *none = NULL;
    request.wait_ms = slowly(80);
    int64_t from = now_ms();
    dibs_op *op = start(stage.client, &request);
    CHECK(readable(dibs_op_fd(op), slowly(80) + LATE));
    CHECK_WITHIN(now_ms() - from, slowly(80) - 1, slowly(80) + LATE);
    GIVES(DIBS_ETIMEDOUT, dibs_op_finish(&none, op, &oops));
    CHECK(none == NULL);
    request.wait_ms = DIBS_WAIT_NONE;
    GIVES(DIBS_EBUSY, dibs_op_finish(&none, start(stage.client, &request), &oops));
    give(hold);
}

CASE(async, bad_request)
{
    dibs_request request = want("");
    dibs_op *op = NULL;
    GIVES(DIBS_EINVAL,
          dibs_acquire_async(&op, stage.client, &request, NULL, NULL, &oops));
    CHECK(op == NULL);
}

CASE(async, cancelled)
{
    dibs *rival = open_client();
    dibs_request request = want(NAME);
    dibs_hold *hold = take_name(rival, NAME), *none = NULL;
    request.wait_ms = DIBS_WAIT_FOREVER;
    dibs_op *op = start(stage.client, &request);
    await_waiters(NAME, 1);
    int64_t from = now_ms();
    dibs_op_cancel(op);
    dibs_op_cancel(op);
    CHECK(readable(dibs_op_fd(op), LATE));
    GIVES(DIBS_ECANCELED, dibs_op_finish(&none, op, &oops));
    CHECK_WITHIN(now_ms() - from, 0, LATE);
    CHECK(none == NULL);
    await_waiters(NAME, 0);
    give(hold);
    CHECK(is_free(stage.client, NAME));
    dibs_close(rival);
}

/* the op has its grant already: it is either handed over or undone, never left behind */
static void
check_no_grant_is_left(dibs_op *op)
{
    dibs_hold *hold = NULL;
    int code = dibs_op_finish(&hold, op, &oops);
    if (code == DIBS_OK) {
        CHECK(dibs_held(hold));
        give(hold);
    } else {
        GIVES(DIBS_ECANCELED, code);
        CHECK(hold == NULL);
    }
    /* what could not be undone at once is undone in the background */
    CHECK(comes_free(stage.client, NAME, slowly(500)));
}

CASE(async, cancelled_after_grant)
{
    dibs_request request = want(NAME);
    dibs_op *op = start(stage.client, &request);
    CHECK(readable(dibs_op_fd(op), slowly(1000)));
    dibs_op_cancel(op);
    check_no_grant_is_left(op);
}

CASE(async, cancel_races_grant)
{
    for (int i = 0; i < 40; i++) {
        dibs_request request = want(NAME);
        dibs_hold *hold = take_name(stage.client, NAME);
        dibs_op *op = start(stage.client, &request);
        if (i % 2 == 0) {
            sleep_ms(1);
        }
        give(hold);
        dibs_op_cancel(op);
        check_no_grant_is_left(op);
    }
}

CASE(async, closed_under)
{
    dibs *client = open_client();
    dibs_request request = want(NAME);
    dibs_hold *hold = take_name(stage.client, NAME), *none = NULL;
    dibs_op *op = start(client, &request);
    await_waiters(NAME, 1);
    int64_t from = now_ms();
    dibs_close(client);
    CHECK_WITHIN(now_ms() - from, 0, slowly(500));
    CHECK(readable(dibs_op_fd(op), 0));
    GIVES(DIBS_ECANCELED, dibs_op_finish(&none, op, &oops));
    await_waiters(NAME, 0);
    CHECK(dibs_held(hold));
    give(hold);
}
