/* SPDX-License-Identifier: MIT */
/*
 * Arguments nobody should pass: each public function names what is wrong, with an error
 * struct and without one, and crashes in no case. In order: clients, names, outputs,
 * requests, several at once, values, holds and ops, callbacks that end it, structs from
 * older headers.
 */
#include "unit.h"

#include <stdlib.h>

static dibs_error err;
static dibs *client;
static dibs_hold *hold;

/* the call fails with DIBS_EINVAL, says so, and does so without an error struct too */
#define REFUSED(part, function, ...)                                                     \
    do {                                                                                 \
        memset(&err, 0, sizeof err);                                                     \
        assert_int_equal(function(__VA_ARGS__, &err), DIBS_EINVAL);                      \
        assert_says(&err, DIBS_EINVAL, part);                                            \
        assert_int_equal(function(__VA_ARGS__, NULL), DIBS_EINVAL);                      \
    } while (0)

static char too_long[DIBS_NAME_MAX + 2];

static void
open_one(const char *url)
{
    memset(too_long, 'n', sizeof too_long - 1);
    client = unit_open(url, NULL);
    hold = (dibs_hold *)too_long;
}

static void
close_one(void)
{
    assert_ptr_equal(hold, too_long); /* outputs are untouched on failure */
    dibs_close(client);
}

CASE(opening)
{
    REFUSED("out is NULL", dibs_open, NULL, "local:", NULL);
    dibs_close(NULL);
    assert_int_equal(setenv("DIBS_URL", unit_local(), 1), 0);
    client = unit_open(NULL, NULL);
    assert_string_equal(dibs_url(client), unit_local());
    assert_string_equal(dibs_engine_name(client), "local");
    assert_string_equal(dibs_notice(client), "");
    dibs_close(client);
}

/* every function that takes a client and a name, as one with nothing else */
typedef int by_name(dibs *with, const char *name, dibs_error *to);
static uint64_t version_out;
static dibs_cell cell_out;
static dibs_report *report_out;
static size_t broken_out;

#define BY_NAME(function, ...)                                                           \
    static int name_##function(dibs *with, const char *name, dibs_error *to)             \
    {                                                                                    \
        return function(__VA_ARGS__, to);                                                \
    }
BY_NAME(dibs_lock, &hold, with, name)
BY_NAME(dibs_trylock, &hold, with, name)
BY_NAME(dibs_timedlock, &hold, with, name, 5)
BY_NAME(dibs_rdlock, &hold, with, name)
BY_NAME(dibs_wrlock, &hold, with, name)
BY_NAME(dibs_permit, &hold, with, name, 3)
BY_NAME(dibs_campaign, &hold, with, name, "v", 5)
BY_NAME(dibs_cell_read, &cell_out, with, name)
BY_NAME(dibs_cell_swap, &version_out, with, name, 0, "v", 1)
BY_NAME(dibs_fence, with, name, 1)
BY_NAME(dibs_inspect, &report_out, with, name)
BY_NAME(dibs_break, &broken_out, with, name, NULL)

CASE(names)
{
    static by_name *const all[] = {
        name_dibs_lock,      name_dibs_trylock, name_dibs_timedlock, name_dibs_rdlock,
        name_dibs_wrlock,    name_dibs_permit,  name_dibs_campaign,  name_dibs_cell_read,
        name_dibs_cell_swap, name_dibs_fence,   name_dibs_inspect,   name_dibs_break,
    };
    open_one(unit_local());
    for (size_t i = 0; i < COUNT(all); i++) {
        const char *what = all[i] == name_dibs_fence ? "resource is " : "name is ";
        REFUSED(what, all[i], client, NULL);
        assert_says(&err, DIBS_EINVAL, "NULL");
        REFUSED(what, all[i], client, "");
        assert_says(&err, DIBS_EINVAL, "empty");
        REFUSED(what, all[i], client, too_long);
        assert_says(&err, DIBS_EINVAL, "longer");
        REFUSED("client is NULL", all[i], NULL, "x");
    }
    close_one();
}

CASE(outputs)
{
    open_one(unit_local());
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_canceller *canceller = NULL;
    request.name = "x";
    REFUSED("out is NULL", dibs_acquire, NULL, client, &request);
    REFUSED("out is NULL", dibs_lock, NULL, client, "x");
    REFUSED("out is NULL", dibs_trylock, NULL, client, "x");
    REFUSED("out is NULL", dibs_acquire_async, NULL, client, &request, NULL, NULL);
    REFUSED("out is NULL", dibs_cell_read, NULL, client, "x");
    REFUSED("out is NULL", dibs_inspect, NULL, client, "x");
    REFUSED("out is NULL", dibs_campaign, NULL, client, "x", NULL, 5);
    memset(&err, 0, sizeof err);
    assert_int_equal(dibs_canceller_new(NULL, &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "out is NULL");
    assert_int_equal(dibs_canceller_new(NULL, NULL), DIBS_EINVAL);
    dibs_cancel(canceller);
    dibs_canceller_free(canceller);
    unit_is_free(unit_local(), "x");
    close_one();
}

static void
refused_request(dibs_request *request, const char *part)
{
    dibs_op *op = NULL;
    dibs_hold *none = NULL;
    REFUSED(part, dibs_acquire, &hold, client, request);
    /* in the background, at once or through the op */
    int rc = dibs_acquire_async(&op, client, request, NULL, NULL, &err);
    if (!rc)
        rc = dibs_op_finish(&none, op, &err);
    assert_int_equal(rc, DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, part);
    assert_null(none);
    *request = (dibs_request)DIBS_REQUEST_INIT;
    request->name = "x";
}

CASE(requests)
{
    char note[DIBS_NOTE_MAX + 2], owner[DIBS_OWNER_MAX + 2];
    dibs_request request = DIBS_REQUEST_INIT;
    open_one(unit_local());
    memset(note, 'n', sizeof note);
    memset(owner, 'o', sizeof owner);
    note[DIBS_NOTE_MAX + 1] = owner[DIBS_OWNER_MAX + 1] = '\0';
    REFUSED("request is NULL", dibs_acquire, &hold, client, NULL);
    REFUSED("request is NULL", dibs_acquire_async, (dibs_op **)&hold, client, NULL, NULL,
            NULL);
    refused_request(&request, "name is NULL");
    request.name_len = DIBS_NAME_MAX + 1;
    request.name = too_long;
    refused_request(&request, "name is longer");
    request.name = "a\0b";
    request.name_len = 3;
    refused_request(&request, "NUL");
    request.mode = 3; /* an engine's mode, not a user's */
    refused_request(&request, "mode 3");
    request.mode = -1;
    refused_request(&request, "mode -1");
    request.mode = DIBS_PERMITS;
    refused_request(&request, "limit is 0");
    request.mode = DIBS_PERMITS;
    request.permits = 4;
    request.limit = 3;
    refused_request(&request, "permits is 4, more than the limit of 3");
    request.wait_ms = -2;
    refused_request(&request, "wait_ms");
    request.wait_ms = INT64_MIN;
    refused_request(&request, "wait_ms");
    request.note = note;
    refused_request(&request, "note is longer than 256");
    request.owner = owner;
    refused_request(&request, "owner");
    request.owner = "";
    refused_request(&request, "owner");
    unit_is_free(unit_local(), "x");
    close_one();
}

CASE(extreme_values_are_accepted)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_options options = DIBS_OPTIONS_INIT;
    options.lease_ms = options.open_wait_ms = options.handover_max = UINT32_MAX;
    options.handover_ms = options.drift_ppm = UINT32_MAX;
    client = unit_open(unit_local(), &options);
    request.name = "x";
    request.wait_ms = INT64_MAX;
    request.lease_ms = request.max_hold_ms = request.grace_ms = UINT32_MAX;
    request.flags = UINT32_MAX;
    assert_int_equal(dibs_acquire(&hold, client, &request, &err), DIBS_OK);
    assert_int_equal(dibs_held(hold), 1);
    assert_in_range(dibs_remaining(hold), UINT32_MAX - 60000, UINT32_MAX);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    request = (dibs_request)DIBS_REQUEST_INIT;
    request.name = "p";
    request.mode = DIBS_PERMITS;
    request.limit = request.permits = UINT32_MAX;
    assert_int_equal(dibs_acquire(&hold, client, &request, &err), DIBS_OK);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    assert_int_equal(dibs_timedlock(&hold, client, "x", INT64_MIN, NULL), DIBS_OK);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
}

CASE(many)
{
    dibs_wanted wanted[2] = { { 0 } };
    dibs_hold *got[2] = { NULL, NULL };
    open_one(unit_local());
    wanted[0].client = wanted[1].client = client;
    wanted[0].request.name = "x";
    wanted[1].request.name = "y";
    REFUSED("1024", dibs_acquire_all, NULL, wanted, 2, 5);
    REFUSED("1024", dibs_acquire_all, got, NULL, 2, 5);
    REFUSED("1024", dibs_acquire_all, got, wanted, 0, 5);
    REFUSED("1024", dibs_acquire_all, got, wanted, 1025, 5);
    REFUSED("wait_ms", dibs_acquire_all, got, wanted, 2, -2);
    wanted[1].request.name = NULL;
    REFUSED("name is NULL", dibs_acquire_all, got, wanted, 2, 5);
    wanted[1].request.name = "";
    REFUSED("name is empty", dibs_acquire_all, got, wanted, 2, 5);
    wanted[1].request.name = "y";
    wanted[1].client = NULL;
    REFUSED("client is NULL", dibs_acquire_all, got, wanted, 2, 5);
    wanted[1].client = client;
    wanted[1].request.mode = 77;
    REFUSED("mode 77", dibs_acquire_all, got, wanted, 2, 5);
    assert_null(got[0]);
    assert_null(got[1]);
    unit_is_free(unit_local(), "x");
    unit_is_free(unit_local(), "y");
    close_one();
}

static int
never_called(const dibs_party *leader, void *arg)
{
    (void)leader, (void)arg;
    FAIL("called though the arguments are wrong");
    return 0;
}

CASE(values_and_callbacks)
{
    char value[DIBS_CELL_MAX + 1] = { 0 };
    open_one(unit_local());
    REFUSED("value is NULL", dibs_cell_swap, NULL, client, "c", 0, NULL, 1);
    REFUSED("value is longer than 4096", dibs_cell_swap, NULL, client, "c", 0, value,
            DIBS_CELL_MAX + 1);
    assert_int_equal(dibs_cell_swap(NULL, client, "c", 0, value, DIBS_CELL_MAX, &err),
                     DIBS_OK);
    assert_int_equal(dibs_cell_swap(NULL, client, "empty", 0, NULL, 0, &err), DIBS_OK);
    REFUSED("token is 0", dibs_fence, client, "r", 0);
    REFUSED("each is NULL", dibs_list, client, NULL, NULL, NULL);
    REFUSED("client is NULL", dibs_list, NULL, NULL, NULL, NULL);
    REFUSED("changed is NULL", dibs_observe, client, "x", NULL, NULL, 5, NULL);
    REFUSED("name is NULL", dibs_observe, client, NULL, never_called, NULL, 5, NULL);
    REFUSED("name is empty", dibs_observe, client, "", never_called, NULL, 5, NULL);
    REFUSED("client is NULL", dibs_observe, NULL, "x", never_called, NULL, 5, NULL);
    REFUSED("wait_ms", dibs_observe, client, "x", never_called, NULL, -2, NULL);
    close_one();
}

CASE(holds_and_ops)
{
    dibs_hold *out = NULL;
    dibs_op *op = NULL;
    REFUSED("hold is NULL", dibs_renew, NULL, 5);
    REFUSED("hold is NULL", dibs_release_after, NULL, 5);
    memset(&err, 0, sizeof err);
    assert_int_equal(dibs_unlock(NULL, &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "hold is NULL");
    assert_int_equal(dibs_unlock(NULL, NULL), DIBS_EINVAL);
    assert_int_equal(dibs_release(NULL, &err), DIBS_EINVAL);
    assert_int_equal(dibs_release(NULL, NULL), DIBS_EINVAL);
    assert_int_equal(dibs_downgrade(NULL, &err), DIBS_EINVAL);
    assert_int_equal(dibs_downgrade(NULL, NULL), DIBS_EINVAL);
    assert_int_equal(dibs_lost_fd(NULL, &err), DIBS_EINVAL);
    assert_int_equal(dibs_lost_fd(NULL, NULL), DIBS_EINVAL);
    REFUSED("op is NULL", dibs_op_finish, &out, op);
    dibs_hold_free(NULL);
    dibs_abandon(NULL);
    dibs_report_free(NULL);
    assert_int_equal(dibs_held(NULL), 0);
    assert_int_equal(dibs_token(NULL), 0);
    assert_int_equal(dibs_remaining(NULL), 0);
    assert_int_equal(dibs_previous(NULL), DIBS_PREVIOUS_UNKNOWN);
    assert_string_equal(dibs_previous_name(DIBS_PREVIOUS_BROKEN), "broken");
    assert_string_equal(dibs_previous_name(-1), "unknown");
    assert_string_equal(dibs_previous_name(4), "unknown");
}

CASE(null_handles)
{
    dibs_stats stats;
    size_t len = 7;
    memset(&stats, 'x', sizeof stats);
    assert_string_equal(dibs_url(NULL), "");
    assert_string_equal(dibs_engine_name(NULL), "");
    assert_string_equal(dibs_notice(NULL), "");
    assert_int_equal(dibs_caps(NULL), 0);
    dibs_stats_read(&stats, NULL);
    assert_int_equal(stats.acquired, 0);
    assert_string_equal(dibs_hold_name(NULL, &len), "");
    assert_int_equal(len, 0);
    assert_string_equal(dibs_hold_name(NULL, NULL), "");
    assert_true(dibs_op_fd(NULL) < 0);
    dibs_op_cancel(NULL);
}

/* ---- callbacks that end it ---- */

static int calls;

static int
stop_listing(const dibs_report *report, void *arg)
{
    (void)report;
    calls++;
    return *(int *)arg;
}

static int
stop_observing(const dibs_party *leader, void *arg)
{
    (void)leader;
    calls++;
    return *(int *)arg;
}

CASE(stopped_by_positive)
{
    dibs_hold *holds[2];
    int stop = 42;
    client = unit_open(unit_local(), NULL);
    assert_int_equal(dibs_lock(&holds[0], client, "a", NULL), DIBS_OK);
    assert_int_equal(dibs_lock(&holds[1], client, "b", NULL), DIBS_OK);
    assert_int_equal(dibs_list(client, NULL, stop_listing, &stop, NULL), 42);
    assert_int_equal(calls, 1);
    assert_int_equal(dibs_list(client, "b*", stop_listing, &stop, NULL), 42);
    assert_int_equal(calls, 2);
    assert_int_equal(dibs_list(client, "c*", stop_listing, &stop, NULL), DIBS_OK);
    assert_int_equal(calls, 2);
    assert_int_equal(dibs_observe(client, "a", stop_observing, &stop, 50, NULL, NULL),
                     42);
    assert_int_equal(calls, 3);
    (void)dibs_unlock(holds[0], NULL);
    (void)dibs_unlock(holds[1], NULL);
    dibs_close(client);
}

static void
assert_stops(int stop)
{
    calls = 0;
    assert_int_equal(dibs_list(client, NULL, stop_listing, &stop, NULL), DIBS_OK);
    assert_int_equal(calls, 1);
    calls = 0;
    assert_int_equal(dibs_observe(client, "a", stop_observing, &stop, 300, NULL, NULL),
                     DIBS_OK);
    assert_int_equal(calls, 1);
}

CASE(stopped_by_negative)
{
    dibs_hold *holds[2];
    client = unit_open(unit_local(), NULL);
    assert_int_equal(dibs_lock(&holds[0], client, "a", NULL), DIBS_OK);
    assert_int_equal(dibs_lock(&holds[1], client, "b", NULL), DIBS_OK);
    assert_stops(-1);
    assert_stops(DIBS_ETIMEDOUT);
    assert_stops(DIBS_EUNAVAIL); /* not to be taken for the engine's own */
    (void)dibs_unlock(holds[0], NULL);
    (void)dibs_unlock(holds[1], NULL);
    dibs_close(client);
}

/* ---- programs compiled against an older header ---- */

CASE(options_of_an_older_header)
{
    for (size_t size = sizeof(size_t); size < sizeof(dibs_options); size += 4) {
        dibs_options options;
        memset(&options, 0xa5, sizeof options); /* what lies behind the older struct */
        memset(&options, 0, size);
        options.size = size;
        client = unit_open(unit_local(), &options);
        assert_int_equal(dibs_lock(&hold, client, "x", NULL), DIBS_OK);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
        dibs_close(client);
    }
}

CASE(request_of_an_older_header)
{
    client = unit_open(unit_local(), NULL);
    /* in steps that do not cut a field in half, from after the name on */
    const size_t sizes[] = {
        offsetof(dibs_request, mode),       offsetof(dibs_request, wait_ms),
        offsetof(dibs_request, lease_ms),   offsetof(dibs_request, flags),
        offsetof(dibs_request, owner),      offsetof(dibs_request, note),
        offsetof(dibs_request, cancel),     offsetof(dibs_request, on_lost),
        offsetof(dibs_request, on_lost_arg)
    };
    for (size_t i = 0; i < COUNT(sizes); i++) {
        dibs_request request;
        dibs_wanted wanted;
        dibs_op *op;
        memset(&request, 0xa5, sizeof request);
        memset(&request, 0, sizes[i]);
        request.size = sizes[i];
        request.name = "x";
        assert_int_equal(dibs_acquire(&hold, client, &request, &err), DIBS_OK);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
        assert_int_equal(dibs_acquire_async(&op, client, &request, NULL, NULL, &err),
                         DIBS_OK);
        assert_int_equal(dibs_op_finish(&hold, op, &err), DIBS_OK);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
        wanted.client = client;
        wanted.request = request;
        assert_int_equal(dibs_acquire_all(&hold, &wanted, 1, 1000, &err), DIBS_OK);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    }
    dibs_close(client);
}

CASE(structs_of_size_zero_and_larger)
{
    struct {
        dibs_request request;
        char newer[64];
    } larger = { .request = { .size = sizeof larger, .name = "x" } };
    dibs_options options = { 0 };
    dibs_request request = { 0 };
    client = unit_open(unit_local(), &options);
    request.name = "x";
    assert_int_equal(dibs_acquire(&hold, client, &request, &err), DIBS_OK);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    assert_int_equal(dibs_acquire(&hold, client, &larger.request, &err), DIBS_OK);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
}
