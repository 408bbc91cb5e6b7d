/* SPDX-License-Identifier: MIT */
/* A client and its holds in the child of a fork: dead there, untouched in the parent. */
#include "unit.h"

#include <sys/wait.h>
#include <unistd.h>

static dibs *client;
static dibs_hold *hold;

/* what fails in the child is seen by its exit code: CHECK ends the process */
static void
in_a_child(void (*work)(void))
{
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        limit_time(20);
        work();
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

/* for each engine: take, let the child do its work, see that we still hold it */
static void
around_a_child(void (*work)(void))
{
    for (const char *const *url = unit_urls(); *url; url++) {
        client = unit_open(*url, NULL);
        assert_int_equal(dibs_lock(&hold, client, "x", NULL), DIBS_OK);
        in_a_child(work);
        assert_int_equal(dibs_held(hold), 1);
        dibs *other = unit_open(*url, NULL);
        dibs_hold *none;
        assert_int_equal(dibs_trylock(&none, other, "x", NULL), DIBS_EBUSY);
        dibs_close(other);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
        unit_is_free(*url, "x");
        dibs_close(client);
    }
}

static void
ask_the_hold(void)
{
    dibs_error err = { 0 };
    CHECK_SAME(dibs_held(hold), 0);
    CHECK_SAME(dibs_remaining(hold), 0);
    CHECK(dibs_token(hold) != 0);
    CHECK(strcmp(dibs_hold_name(hold, NULL), "x") == 0);
    CHECK_SAME(dibs_renew(hold, 0, &err), DIBS_ELOST);
    CHECK_SAME(dibs_downgrade(hold, &err), DIBS_ELOST);
    CHECK(dibs_lost_fd(hold, &err) < 0);
    CHECK_SAME(dibs_release(hold, &err), DIBS_ELOST);
    CHECK(strstr(err.text, "parent") != NULL);
    CHECK_SAME(dibs_release_after(hold, 1000, NULL), DIBS_ELOST);
    CHECK_SAME(dibs_unlock(hold, NULL), DIBS_ELOST);
}

CASE(child_holds_nothing)
{
    around_a_child(ask_the_hold);
}

static int
be_called(const dibs_report *report, void *arg)
{
    (void)report, (void)arg;
    return 1;
}

static void
ask_the_client(void)
{
    dibs_error err = { 0 };
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_wanted wanted = { .client = client };
    dibs_hold *none;
    dibs_op *op;
    dibs_cell cell;
    dibs_report *report;
    request.name = wanted.request.name = "y";
    CHECK_SAME(dibs_trylock(&none, client, "y", &err), DIBS_EINVAL);
    CHECK(strstr(err.text, "before fork()") != NULL);
    CHECK_SAME(dibs_trylock(&none, client, "x", NULL), DIBS_EINVAL);
    CHECK_SAME(dibs_acquire_all(&none, &wanted, 1, 5, NULL), DIBS_EINVAL);
    CHECK_SAME(dibs_acquire_async(&op, client, &request, NULL, NULL, NULL), DIBS_EINVAL);
    CHECK_SAME(dibs_cell_read(&cell, client, "c", NULL), DIBS_EINVAL);
    CHECK_SAME(dibs_cell_swap(NULL, client, "c", 0, "", 0, NULL), DIBS_EINVAL);
    CHECK_SAME(dibs_fence(client, "r", 1, NULL), DIBS_EINVAL);
    CHECK_SAME(dibs_inspect(&report, client, "x", NULL), DIBS_EINVAL);
    CHECK_SAME(dibs_list(client, NULL, be_called, NULL, NULL), DIBS_EINVAL);
    CHECK_SAME(dibs_break(NULL, client, "x", NULL, NULL), DIBS_EINVAL);
}

CASE(child_cannot_use_the_client)
{
    around_a_child(ask_the_client);
}

static void
clean_up(void)
{
    dibs_hold_free(hold);
    dibs_close(client);
}

static void
clean_up_the_other_way(void)
{
    dibs_abandon(hold);
    dibs_close(client);
}

CASE(child_cleans_up)
{
    around_a_child(clean_up);
    around_a_child(clean_up_the_other_way);
}

static void
open_another(void)
{
    dibs *own;
    dibs_hold *mine;
    CHECK_SAME(dibs_open(&own, unit_local(), NULL, NULL), DIBS_OK);
    CHECK_SAME(dibs_trylock(&mine, own, "x", NULL), DIBS_EBUSY);
    CHECK_SAME(dibs_trylock(&mine, own, "y", NULL), DIBS_OK);
    CHECK_SAME(dibs_held(mine), 1);
    CHECK_SAME(dibs_unlock(mine, NULL), DIBS_OK);
    dibs_close(own);
}

CASE(child_opens_its_own)
{
    client = unit_open(unit_local(), NULL);
    assert_int_equal(dibs_lock(&hold, client, "x", NULL), DIBS_OK);
    in_a_child(open_another);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
}
