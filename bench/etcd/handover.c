/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs between two processes: dibs, against the server's own lock service. Rates with
 * nothing done inside; how long a hand-over takes is measured in rounds of its own, where
 * each keeps the lock for 2 ms, so that the other one surely waits.
 */
#include <stdio.h>

#include "../fight.h"
#include "etcd.h"

enum { DIBS, SERVICE, CONTESTANTS, PROCESSES = 2, HOLD_MS = 2, P50 = 0, P99, QUANTILES };

static const struct {
    const char *id, *label;
    double q, bar_ms;
} quantiles[QUANTILES] = { { "p50", "median hand-over", 0.5, 0 },
                           { "p99", "99 of 100 hand-overs within", 0.99, 25 } };

typedef struct arena {
    crowd *crowd;
    fighters them[CONTESTANTS];
    fight rates;
    series times[CONTESTANTS][QUANTILES]; /* ms, one of each run */
} arena;

static void
run_rates(arena *a, const server *s)
{
    const fight_round round = { bench_count(100, 20), bench_count(600, 100) };

    crowd_hold(a->crowd, 0);
    for (int i = 0; i < a->rates.rates.rounds; i++)
        for (int who = 0; who < CONTESTANTS; who++)
            fight_run(&a->rates, who, &a->them[who], s, round);
}

static void
one_timed_round(arena *a, int who, series *took)
{
    crowd_begin(a->crowd, who);
    bench_nap_ms(bench_count(600, 300));
    crowd_end(a->crowd);
    crowd_times(a->crowd, took);
}

static void
run_times(arena *a)
{
    series took[CONTESTANTS] = { { NULL, 0, 0 } };

    crowd_hold(a->crowd, HOLD_MS);
    for (int i = 0; i < bench_count(5, 1); i++)
        for (int who = 0; who < CONTESTANTS; who++)
            one_timed_round(a, who, &took[who]);
    for (int who = 0; who < CONTESTANTS; who++) {
        for (int i = 0; i < QUANTILES; i++)
            series_add(&a->times[who][i],
                       series_quantile(&took[who], quantiles[i].q) / 1e6);
        series_free(&took[who]);
    }
}

static void
report_times(arena *a, int who, const log_title *title)
{
    char full[64], label[96];

    for (int i = 0; i < QUANTILES; i++) {
        snprintf(full, sizeof full, "%s.%s.%s", title->id, a->them[who].id,
                 quantiles[i].id);
        snprintf(label, sizeof label, "%s, %s: %s", title->words, a->them[who].label,
                 quantiles[i].label);
        if (who == DIBS && quantiles[i].bar_ms > 0)
            report_bar(full, label, "ms", &a->times[who][i], BAR_AT_MOST,
                       quantiles[i].bar_ms);
        else
            report_figure(full, label, "ms", &a->times[who][i]);
        series_free(&a->times[who][i]);
    }
}

static void
report_arena(arena *a, const log_title *title)
{
    char full[64], label[96];

    for (int who = 0; who < CONTESTANTS; who++) {
        fight_report(&a->rates, who, &a->them[who], title->id, title->words);
        report_times(a, who, title);
    }
    snprintf(full, sizeof full, "%s.ratio", title->id);
    snprintf(label, sizeof label, "%s, dibs / lock service: hand-overs", title->words);
    turns_ratio(&a->rates.rates, DIBS, SERVICE, full, label, BAR_AT_LEAST, 5);
}

static void
measure_handover(const server *s, int place)
{
    log_title title = logs_title("handover", s, place);
    int rounds = bench_count(5, 1);
    arena a = { .rates = {
                    { .rounds = rounds }, { .rounds = rounds }, { .rounds = rounds } } };
    char url[128];
    crowd_lock locks[CONTESTANTS];

    server_url(url, sizeof url, s, ETCD_LAYOUT);
    locks[DIBS] = crowd_dibs(url);
    locks[SERVICE] =
        (crowd_lock){ raw_open, raw_service_lock, raw_service_unlock, raw_close, s };
    a.crowd = crowd_start(locks, CONTESTANTS, PROCESSES, place);
    /* both are fair: the other one is always next */
    crowd_greedy(a.crowd, 1);
    a.them[DIBS] = fighters_of_crowd(a.crowd, DIBS, "dibs", "dibs");
    a.them[SERVICE] = fighters_of_crowd(a.crowd, SERVICE, "service", "lock service");
    for (int run = 0; run < bench.runs; run++) {
        run_rates(&a, s);
        run_times(&a);
    }
    crowd_stop(a.crowd);
    report_arena(&a, &title);
    fight_free(&a.rates);
}

void
etcd_handover(void)
{
    report_section("hand-overs between two processes, one name",
                   "dibs against /v3/lock/lock and /v3/lock/unlock; rounds of 600 ms in "
                   "turn");
    for_each_log(measure_handover);
}
