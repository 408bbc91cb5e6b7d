/* SPDX-License-Identifier: MIT */
/* Leases: kept while their owner lives, let run out on request, and never over in
 * silence: the owner is told once, in time, and before anybody else is granted the
 * lock. */
#include "conform.h"

#define NAME "lease"

/* what on_lost saw */
struct news {
    _Atomic int count;
    _Atomic int64_t at_ns;
    _Atomic int held;
};

static void
take_news(dibs_hold *hold, void *arg)
{
    struct news *news = arg;
    atomic_store(&news->at_ns, now_ns());
    atomic_store(&news->held, dibs_held(hold));
    atomic_fetch_add(&news->count, 1);
}

static dibs_request
watched(struct news *news, uint32_t flags)
{
    dibs_request request = brief_lease(NAME);
    request.flags = flags;
    request.on_lost = take_news;
    request.on_lost_arg = news;
    return request;
}

CASE(lease, renewed)
{
    struct news news = { 0 };
    dibs_stats stats;
    dibs_request request = watched(&news, 0);
    dibs_hold *hold = take(stage.client, &request);
    int lost = dibs_lost_fd(hold, &oops);
    CHECK(lost >= 0);
    for (int64_t until = now_ms() + 3 * stage.lease_ms; now_ms() < until;) {
        CHECK_SAME(dibs_held(hold), 1);
        int64_t left = dibs_remaining(hold);
        if (has(DIBS_CAP_LEASE)) {
            CHECK_WITHIN(left, 1, stage.lease_ms);
        } else {
            CHECK_SAME(left, INT64_MAX);
        }
        CHECK(!is_free(stage.client, NAME));
        sleep_ms(20);
    }
    dibs_stats_read(&stats, stage.client);
    CHECK(stats.renewals > 0 || !has(DIBS_CAP_LEASE));
    CHECK_SAME(stats.lost, 0);
    CHECK(!readable(lost, 0) && atomic_load(&news.count) == 0);
    give(hold);
}

/* Loses a hold by not renewing it, while a peer waits for it. Says whether the news came
 * in time; the machine may have been asleep just then. */
static int
let_it_run_out(uint32_t grace_ms)
{
    struct news news = { 0 };
    dibs_request request = watched(&news, DIBS_NO_RENEW), waiting = want(NAME);
    peer *next = peer_new();
    request.grace_ms = grace_ms;
    int64_t from = now_ns();
    dibs_hold *hold = take(stage.client, &request);
    peer_acquire_begin(next, 0, &waiting);
    int lost = dibs_lost_fd(hold, &oops);
    CHECK(lost >= 0 && !readable(lost, 0));
    CHECK(readable(lost, stage.lease_ms + slowly(200)));
    answer got = peer_end(next);
    OK(got.code);
    CHECK_SAME(dibs_held(hold), 0);
    sleep_ms(slowly(30));
    CHECK_SAME(atomic_load(&news.count), 1);
    CHECK_SAME(atomic_load(&news.held), 0);
    CHECK(got.token > dibs_token(hold) || !has(DIBS_CAP_TOKEN));
    CHECK(got.previous == DIBS_PREVIOUS_EXPIRED || !has(DIBS_CAP_PREVIOUS));
    GIVES(DIBS_ELOST, dibs_renew(hold, 0, &oops));
    CHECK(peer_state(next, 0).held == 1);
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    peer_quit(next);

    int64_t told_ns = atomic_load(&news.at_ns), told_ms = (told_ns - from) / 1000000;
    CHECK(told_ms >= stage.lease_ms / 10);
    /* the next one has it when the lease is over, at the earliest */
    CHECK((got.at_ns - from) / 1000000 >= stage.lease_ms - 1);
    return told_ns < got.at_ns && told_ms <= stage.lease_ms - grace_ms + slowly(20);
}

static void
check_told_in_time(uint32_t grace_ms)
{
    int in_time = 0;
    for (int i = 0; i < 3 && !in_time; i++) {
        in_time = let_it_run_out(grace_ms);
    }
    CHECK(in_time);
}

static void
stays_though_not_renewed(void)
{
    struct news news = { 0 };
    dibs_request request = watched(&news, DIBS_NO_RENEW);
    dibs_hold *hold = take(stage.client, &request);
    sleep_ms(2 * stage.lease_ms);
    CHECK(dibs_held(hold) && !is_free(stage.client, NAME));
    CHECK_SAME(atomic_load(&news.count), 0);
    give(hold);
}

CASE(lease, runs_out)
{
    if (has(DIBS_CAP_LEASE)) {
        check_told_in_time(0);
    } else {
        stays_though_not_renewed();
    }
}

CASE(lease, told_early)
{
    if (has(DIBS_CAP_LEASE)) {
        check_told_in_time(stage.lease_ms / 2);
    } else {
        stays_though_not_renewed();
    }
}

CASE(lease, renewed_by_hand)
{
    struct news news = { 0 };
    dibs_request request = watched(&news, DIBS_NO_RENEW);
    dibs_hold *hold = take(stage.client, &request);
    for (int i = 0; i < 8; i++) {
        sleep_ms(stage.lease_ms / 5);
        OK(dibs_renew(hold, 0, &oops));
        CHECK(dibs_held(hold) && !is_free(stage.client, NAME));
    }
    OK(dibs_renew(hold, 4 * stage.lease_ms, &oops));
    if (has(DIBS_CAP_LEASE)) {
        CHECK_WITHIN(dibs_remaining(hold), 2 * stage.lease_ms, 4 * stage.lease_ms);
    }
    sleep_ms(3 * stage.lease_ms / 2);
    CHECK(dibs_held(hold) && !is_free(stage.client, NAME));
    CHECK_SAME(atomic_load(&news.count), 0);
    OK(dibs_release(hold, &oops));
    GIVES(DIBS_ENOTHELD, dibs_renew(hold, 0, &oops));
    dibs_hold_free(hold);
}

/* Answers come all the time, to threads that compete for the processors. Some may come too
 * late; but the lease is long, and nobody ends it. */
static void
renew_all_the_time(void *arg, int index)
{
    struct news *news = arg;
    char name[32];
    dibs_request request = watched(news, 0);
    (void)snprintf(name, sizeof(name), "%s often %d", NAME, index);
    request.name = name;
    request.lease_ms = 10 * stage.lease_ms;
    dibs_hold *hold = take(stage.client, &request);
    for (int64_t until = now_ms() + 1000; now_ms() < until;) {
        CHECK(dibs_renew(hold, 0, NULL) != DIBS_ELOST);
    }
    CHECK(dibs_held(hold));
    dibs_hold_free(hold);
}

CASE(lease, renewed_often)
{
    struct news news = { 0 };
    gang_join(gang_start(12, renew_all_the_time, &news));
    CHECK_SAME(atomic_load(&news.count), 0);
}

/* Holds for too long, while a peer waits; says whether the news came in time. */
static int
hold_for_too_long(uint32_t max_hold_ms, uint32_t grace_ms)
{
    struct news news = { 0 };
    dibs_request request = watched(&news, 0), waiting = want(NAME);
    peer *next = peer_new();
    request.lease_ms = 10 * stage.lease_ms;
    request.max_hold_ms = max_hold_ms;
    request.grace_ms = grace_ms;
    int64_t from = now_ns();
    dibs_hold *hold = take(stage.client, &request);
    peer_acquire_begin(next, 0, &waiting);
    int lost = dibs_lost_fd(hold, &oops);
    CHECK(lost >= 0 && !readable(lost, 0) && dibs_held(hold));
    answer got = peer_end(next);
    OK(got.code);
    CHECK_SAME(dibs_held(hold), 0);
    /* the lock is free after that time, no sooner, and not much later */
    CHECK_WITHIN((got.at_ns - from) / 1000000, max_hold_ms - 1,
                 max_hold_ms + slowly(200));
    sleep_ms(slowly(30));
    CHECK(readable(lost, 0) && atomic_load(&news.count) == 1);
    int64_t told_ms = (atomic_load(&news.at_ns) - from) / 1000000;
    CHECK_WITHIN(told_ms, max_hold_ms - grace_ms - 1, max_hold_ms + slowly(200));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK_SAME(peer_state(next, 0).held, 1);
    peer_quit(next);
    return atomic_load(&news.at_ns) <= got.at_ns;
}

CASE(lease, max_hold)
{
    int in_time = 0;
    for (int i = 0; i < 3 && !in_time; i++) {
        in_time = hold_for_too_long(200, 60);
    }
    CHECK(in_time);
}

/* the callback may use the hold, and even end its life, once nobody else uses it */
struct last_use {
    _Atomic int others_are_done;
    _Atomic int code;
};

static void
unlock_it(dibs_hold *hold, void *arg)
{
    struct last_use *use = arg;
    while (atomic_load(&use->others_are_done) == 0) {
        sleep_ms(1);
    }
    atomic_store(&use->code, dibs_unlock(hold, &oops));
}

CASE(lease, unlocked_by_callback)
{
    struct last_use use = { 0, 1 };
    dibs_request request = brief_lease(NAME);
    request.max_hold_ms = 60;
    request.on_lost = unlock_it;
    request.on_lost_arg = &use;
    (void)take(stage.client, &request);
    atomic_store(&use.others_are_done, 1);
    for (int64_t until = now_ms() + slowly(2000); atomic_load(&use.code) == 1;) {
        CHECK(now_ms() < until);
        sleep_ms(2);
    }
    GIVES(DIBS_ELOST, atomic_load(&use.code));
    CHECK(comes_free(stage.client, NAME, slowly(200)));
}

/* many short holds side by side, each of them told */
CASE(lease, many_told)
{
    enum { COUNT = 50 };
    struct news news[COUNT] = { { 0 } };
    dibs_hold *holds[COUNT];
    char name[32];
    for (int i = 0; i < COUNT; i++) {
        dibs_request request = watched(&news[i], 0);
        (void)snprintf(name, sizeof(name), "%s %d", NAME, i);
        request.name = name;
        request.max_hold_ms = (uint32_t)(100 + i);
        holds[i] = take(stage.client, &request);
    }
    for (int i = 0; i < COUNT; i++) {
        CHECK(readable(dibs_lost_fd(holds[i], &oops), slowly(1000)));
    }
    sleep_ms(slowly(50));
    for (int i = 0; i < COUNT; i++) {
        CHECK_SAME(atomic_load(&news[i].count), 1);
        CHECK_SAME(atomic_load(&news[i].held), 0);
        GIVES(DIBS_ELOST, dibs_unlock(holds[i], &oops));
    }
}
