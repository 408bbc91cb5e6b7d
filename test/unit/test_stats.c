/* SPDX-License-Identifier: MIT */
/* dibs_stats: exact counters after a script, and engine calls against the trace. */
#include "unit.h"

#include <stdatomic.h>

#include "core/sys.h"

static _Atomic int traced_calls;

/* opening and closing are no calls of an open client; "break" is a remark, not a call */
static void
count_calls(const dibs_trace_event *event, void *arg)
{
    (void)arg;
    if (strcmp(event->verb, "open") != 0 && strcmp(event->verb, "close") != 0 &&
        strcmp(event->verb, "break") != 0)
        atomic_fetch_add(&traced_calls, 1);
}

static dibs *
open_traced(const char *url)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    options.trace = count_calls;
    atomic_store(&traced_calls, 0);
    return unit_open(url, &options);
}

static dibs_stats
read_stats(dibs *client)
{
    dibs_stats stats;
    memset(&stats, 'x', sizeof stats);
    dibs_stats_read(&stats, client);
    return stats;
}

#define SAME(stats, field, want)                                                         \
    do {                                                                                 \
        if ((int64_t)(stats).field != (int64_t)(want))                                   \
            fail_msg("%s is %lld instead of %lld", #field, (long long)(stats).field,     \
                     (long long)(want));                                                 \
    } while (0)

CASE(fresh_client)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        dibs *client = unit_open(*url, NULL);
        dibs_stats stats = read_stats(client), zeros;
        memset(&zeros, 0, sizeof zeros);
        assert_memory_equal(&stats, &zeros, sizeof stats);
        dibs_close(client);
    }
}

static void
script(const char *url)
{
    dibs *client = open_traced(url), *other = unit_open(url, NULL);
    dibs_canceller *cancel;
    dibs_hold *a, *again, *b, *none;
    dibs_request request = DIBS_REQUEST_INIT;
    assert_int_equal(dibs_canceller_new(&cancel, NULL), DIBS_OK);
    assert_int_equal(dibs_lock(&a, client, "a", NULL), DIBS_OK);
    assert_int_equal(dibs_lock(&again, client, "a", NULL), DIBS_OK);
    assert_int_equal(dibs_lock(&b, other, "b", NULL), DIBS_OK);
    SAME(read_stats(client), held_now, 1);
    /* four that fail: busy, out of time, cancelled before and refused */
    assert_int_equal(dibs_trylock(&none, client, "b", NULL), DIBS_EBUSY);
    assert_int_equal(dibs_timedlock(&none, client, "b", 200, NULL), DIBS_ETIMEDOUT);
    dibs_cancel(cancel);
    request.name = "b";
    request.cancel = cancel;
    assert_int_equal(dibs_acquire(&none, client, &request, NULL), DIBS_ECANCELED);
    assert_int_equal(dibs_lock(&none, client, "", NULL), DIBS_EINVAL);
    /* a semaphore counts every acquire */
    dibs_hold *permits[2];
    assert_int_equal(dibs_permit(&permits[0], client, "p", 3, NULL), DIBS_OK);
    assert_int_equal(dibs_permit(&permits[1], client, "p", 3, NULL), DIBS_OK);
    SAME(read_stats(client), held_now, 3);
    assert_int_equal(dibs_renew(a, 0, NULL), DIBS_OK);
    assert_int_equal(dibs_renew(a, 0, NULL), DIBS_OK);
    assert_int_equal(dibs_unlock(again, NULL), DIBS_OK);
    SAME(read_stats(client), held_now, 3);
    assert_int_equal(dibs_release(a, NULL), DIBS_OK);
    assert_int_equal(dibs_release(a, NULL), DIBS_ENOTHELD);
    dibs_hold_free(a);
    assert_int_equal(dibs_unlock(permits[0], NULL), DIBS_OK);
    assert_int_equal(dibs_unlock(permits[1], NULL), DIBS_OK);

    dibs_stats stats = read_stats(client);
    SAME(stats, acquired, 3);
    SAME(stats, reentered, 1);
    SAME(stats, handed_over, 0);
    SAME(stats, waited, 1);
    SAME(stats, timed_out, 1);
    SAME(stats, canceled, 1);
    SAME(stats, lost, 0);
    SAME(stats, released, 4);
    SAME(stats, renewals, dibs_caps(client) & DIBS_CAP_LEASE ? 2 : 0);
    SAME(stats, renewals_failed, 0);
    SAME(stats, reaped, 0);
    SAME(stats, held_now, 0);
    SAME(stats, engine_calls, atomic_load(&traced_calls));
    SAME(read_stats(other), acquired, 1);
    SAME(read_stats(other), held_now, 1);
    assert_int_equal(dibs_unlock(b, NULL), DIBS_OK);
    dibs_canceller_free(cancel);
    dibs_close(other);
    dibs_close(client);
}

CASE(scripted)
{
    for (const char *const *url = unit_urls(); *url; url++)
        script(*url);
}

CASE(losses)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        dibs *client = unit_open(*url, NULL);
        dibs_hold *hold, *again;
        assert_int_equal(dibs_lock(&hold, client, "a", NULL), DIBS_OK);
        assert_int_equal(dibs_lock(&again, client, "a", NULL), DIBS_OK);
        assert_true(dibs_lost_fd(hold, NULL) >= 0); /* from now on somebody looks */
        assert_int_equal(dibs_break(NULL, client, "a", NULL, NULL), DIBS_OK);
        for (int i = 0; i < 4000 && read_stats(client).lost < 2; i++)
            sleep_ms(1);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_ELOST);
        assert_int_equal(dibs_unlock(again, NULL), DIBS_ELOST);
        dibs_stats stats = read_stats(client);
        SAME(stats, acquired, 1);
        SAME(stats, reentered, 1);
        SAME(stats, lost, 2);
        SAME(stats, held_now, 0);
        dibs_close(client);
    }
}

struct queue {
    dibs *client;
    _Atomic int got;
};

static void
wait_in_line(void *arg, int index)
{
    struct queue *queue = arg;
    dibs_hold *hold;
    (void)index;
    CHECK_SAME(dibs_lock(&hold, queue->client, "a", NULL), DIBS_OK);
    atomic_fetch_add(&queue->got, 1);
    CHECK_SAME(dibs_unlock(hold, NULL), DIBS_OK);
}

CASE(handed_over)
{
    struct queue queue = { .client = open_traced(unit_mock()) };
    dibs_hold *hold;
    assert_int_equal(dibs_lock(&hold, queue.client, "a", NULL), DIBS_OK);
    gang *line = gang_start(4, wait_in_line, &queue);
    for (int i = 0; i < 4000 && read_stats(queue.client).waited < 4; i++)
        sleep_ms(1);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    gang_join(line);
    dibs_stats stats = read_stats(queue.client);
    SAME(stats, acquired, 5);
    SAME(stats, waited, 4);
    SAME(stats, released, 5);
    SAME(stats, held_now, 0);
    assert_true(stats.handed_over <= 4);
    SAME(stats, engine_calls, atomic_load(&traced_calls));
    dibs_close(queue.client);
}

static int
go_on(const dibs_party *leader, void *arg)
{
    (void)leader, (void)arg;
    return 0;
}

CASE(engine_calls_match_the_trace)
{
    for (const char *const *url = unit_urls(); *url; url++) {
        dibs *client = open_traced(*url);
        dibs_cell cell;
        dibs_hold *hold;
        dibs_report *report;
        assert_int_equal(dibs_lock(&hold, client, "a", NULL), DIBS_OK);
        assert_int_equal(dibs_observe(client, "a", go_on, NULL, 30, NULL, NULL),
                         DIBS_ETIMEDOUT);
        assert_int_equal(dibs_inspect(&report, client, "a", NULL), DIBS_OK);
        dibs_report_free(report);
        assert_int_equal(dibs_cell_read(&cell, client, "c", NULL), DIBS_ENOTFOUND);
        assert_int_equal(dibs_fence(client, "r", 9, NULL), DIBS_OK);
        assert_int_equal(dibs_downgrade(hold, NULL), DIBS_OK);
        assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
        SAME(read_stats(client), engine_calls, atomic_load(&traced_calls));
        dibs_close(client);
    }
}
