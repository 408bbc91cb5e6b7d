/* SPDX-License-Identifier: MIT */
/* Looking at locks: inspect, list and the counters tell the truth. */
#include "conform.h"

#include <time.h>

#define NAME "looking"

static int
looking_refused(void)
{
    dibs_report *report = NULL;
    if (has(DIBS_CAP_INSPECT)) {
        return 0;
    }
    GIVES(DIBS_EUNSUPPORTED, dibs_inspect(&report, stage.client, NAME, &oops));
    GIVES(DIBS_EUNSUPPORTED, dibs_list(stage.client, NULL, NULL, NULL, &oops));
    return 1;
}

static dibs_report *
look(void)
{
    dibs_report *report = NULL;
    OK(dibs_inspect(&report, stage.client, NAME, &oops));
    CHECK(report->name_len == strlen(NAME) &&
          memcmp(report->name, NAME, strlen(NAME)) == 0);
    return report;
}

static void
check_party(const dibs_party *party, const peer *who, const char *note, uint64_t token)
{
    CHECK_SAME(party->pid, peer_pid(who));
    CHECK(strcmp(party->note, note) == 0);
    CHECK_SAME(party->token, token);
    CHECK(party->host != NULL && party->host[0] != '\0');
    CHECK(party->app != NULL && party->app[0] != '\0');
    int64_t wall_ms = (int64_t)time(NULL) * 1000;
    CHECK(party->since_ms == 0 ||
          (party->since_ms > wall_ms - 60000 && party->since_ms < wall_ms + 2000));
}

/* what every engine that can look at a lock tells of its holder */
CASE(looking, holder)
{
    if (looking_refused()) {
        return;
    }
    dibs_hold *hold = take_name(stage.client, NAME);
    dibs_report *report = look();
    CHECK_SAME(report->holder_count, 1);
    CHECK_SAME(report->holders[0].mode, DIBS_EXCLUSIVE);
    if (has(DIBS_CAP_LEASE)) {
        /* what the backend itself shows may be longer than the hold's own */
        CHECK_WITHIN(report->holders[0].lease_left_ms, 1,
                     has(DIBS_CAP_DETAIL) ? 30000 : 2 * 30000);
    } else {
        CHECK_SAME(report->holders[0].lease_left_ms, -1);
    }
    CHECK(report->holders[0].host && report->holders[0].app && report->holders[0].note);
    dibs_report_free(report);
    give(hold);
}

CASE(looking, holder_and_queue)
{
    if (looking_refused() || !has(DIBS_CAP_DETAIL)) {
        return;
    }
    static const char *const notes[] = { "holds", "first", "second" };
    dibs_request request = want(NAME);
    peer *peers[3];
    for (size_t i = 0; i < 3; i++) {
        peers[i] = peer_new();
        request.note = notes[i];
        peer_acquire_begin(peers[i], 0, &request);
        await_waiters(NAME, i);
        if (i == 0) {
            OK(peer_end(peers[0]).code);
        }
    }
    dibs_report *report = look();
    CHECK_SAME(report->mode, DIBS_EXCLUSIVE);
    CHECK_SAME(report->holder_count, 1);
    CHECK_SAME(report->waiter_count, 2);
    check_party(&report->holders[0], peers[0], "holds", peer_state(peers[0], 0).token);
    int64_t left = report->holders[0].lease_left_ms;
    if (has(DIBS_CAP_LEASE)) {
        CHECK_WITHIN(left, 1, 30000);
    } else {
        CHECK_SAME(left, -1);
    }
    check_party(&report->waiters[0], peers[1], "first", 0);
    check_party(&report->waiters[1], peers[2], "second", 0);
    dibs_report_free(report);
    for (int i = 0; i < 3; i++) {
        if (i > 0) {
            OK(peer_end(peers[i]).code);
        }
        peer_quit(peers[i]);
    }
}

CASE(looking, unused)
{
    if (looking_refused()) {
        return;
    }
    dibs_report *report = look();
    CHECK(report->holder_count == 0 && report->waiter_count == 0);
    dibs_report_free(report);
    give(take_name(stage.client, NAME));
    report = look();
    CHECK(report->holder_count == 0 && report->waiter_count == 0);
    dibs_report_free(report);
    dibs_report_free(NULL);
}

CASE(looking, sharers)
{
    dibs_request request = want(NAME);
    request.mode = DIBS_SHARED;
    if (looking_refused() || !has(DIBS_CAP_SHARED)) {
        return;
    }
    peer *one = peer_new(), *two = peer_new(), *writer = peer_new();
    OK(peer_acquire(one, 0, &request).code);
    OK(peer_acquire(two, 0, &request).code);
    request.mode = DIBS_EXCLUSIVE;
    peer_acquire_begin(writer, 0, &request);
    await_waiters(NAME, 1);
    dibs_report *report = look();
    CHECK_SAME(report->holder_count, 2);
    CHECK_SAME(report->holders[0].mode, DIBS_SHARED);
    CHECK_SAME(report->holders[1].mode, DIBS_SHARED);
    if (has(DIBS_CAP_DETAIL)) {
        CHECK_SAME(report->waiters[0].mode, DIBS_EXCLUSIVE);
    }
    dibs_report_free(report);
    peer_quit(one);
    peer_quit(two);
    OK(peer_end(writer).code);
    report = look();
    CHECK(report->holder_count == 1 && report->holders[0].mode == DIBS_EXCLUSIVE);
    dibs_report_free(report);
    peer_quit(writer);
}

CASE(looking, semaphore)
{
    dibs_request request = want(NAME);
    request.mode = DIBS_PERMITS;
    request.limit = 5;
    request.permits = 2;
    if (looking_refused() || !has(DIBS_CAP_PERMITS)) {
        return;
    }
    dibs_hold *hold = take(stage.client, &request);
    dibs_hold *second = take(stage.client, &request);
    dibs_report *report = look();
    CHECK_SAME(report->mode, DIBS_PERMITS);
    CHECK_SAME(report->limit, 5);
    CHECK_SAME(report->holder_count, 2);
    CHECK_SAME(report->holders[0].permits, 2);
    dibs_report_free(report);
    give(hold);
    give(second);
}

static int
count_each(const dibs_report *report, void *arg)
{
    (void)report;
    ++*(int *)arg;
    return 0;
}

static int
stop_at_two(const dibs_report *report, void *arg)
{
    (void)report;
    return ++*(int *)arg == 2 ? 42 : 0;
}

static int
listed(const char *glob)
{
    int count = 0;
    OK(dibs_list(stage.client, glob, count_each, &count, &oops));
    return count;
}

CASE(looking, list)
{
    int count = 0;
    if (looking_refused()) {
        return;
    }
    dibs_hold *holds[] = { take_name(stage.client, "a/1"), take_name(stage.client, "a/2"),
                           take_name(stage.client, "b/1") };
    CHECK_SAME(listed(NULL), 3);
    CHECK_SAME(listed("a/*"), 2);
    CHECK_SAME(listed("*1"), 2);
    CHECK_SAME(listed("b/[12]"), 1);
    CHECK_SAME(listed("none"), 0);
    CHECK_SAME(dibs_list(stage.client, NULL, stop_at_two, &count, &oops), 42);
    CHECK_SAME(count, 2);
    for (int i = 0; i < 3; i++) {
        give(holds[i]);
        CHECK_SAME(listed(NULL), 2 - i);
    }
}

static dibs_stats
stats_of(const dibs *client)
{
    dibs_stats stats;
    dibs_stats_read(&stats, client);
    return stats;
}

CASE(looking, counters)
{
    dibs_hold *hold = take_name(stage.client, NAME), *inner = NULL, *none = NULL;
    dibs *rival = open_client();
    OK(dibs_lock(&inner, stage.client, NAME, &oops));
    dibs_stats stats = stats_of(stage.client);
    CHECK(stats.acquired == 1 && stats.reentered == 1 && stats.held_now >= 1);
    CHECK_SAME(stats.released, 0);
    GIVES(DIBS_EBUSY, dibs_trylock(&none, rival, NAME, &oops));
    GIVES(DIBS_ETIMEDOUT, dibs_timedlock(&none, rival, NAME, slowly(50), &oops));
    stats = stats_of(rival);
    CHECK(stats.acquired == 0 && stats.timed_out == 1 && stats.waited == 1);
    give(inner);
    give(hold);
    stats = stats_of(stage.client);
    CHECK(stats.held_now == 0 && stats.released >= 1 && stats.lost == 0);
    CHECK(stats.engine_calls > 0);
    CHECK(stats_of(rival).held_now == 0);
    dibs_close(rival);
}

CASE(looking, client)
{
    CHECK(strcmp(dibs_engine_name(stage.client), stage.fixture->engine) == 0);
    CHECK(strncmp(dibs_url(stage.client), stage.url, strcspn(stage.url, ":") + 1) == 0);
    CHECK_SAME(dibs_caps(stage.client), stage.caps);
}
