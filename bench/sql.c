/* SPDX-License-Identifier: MIT */
/* The parts that are the same on every database: see sql.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "crowd.h"
#include "sql.h"
#include "waits.h"

enum { DIBS, FLOOR, CONTESTANTS };

void
sql_shell(const char *format, ...)
{
    char line[2048];
    va_list args;

    va_start(args, format);
    vsnprintf(line, sizeof line, format, args);
    va_end(args);
    if (system(line) != 0)
        bench_die("this fails: %s", line);
}

/* ---- pairs ---- */

void
sql_compare(const server *s, const log_title *title, const char *layout, pair_hand *floor,
            const char *label, double bar)
{
    const pair_counts counts = { bench_count(1000, 5), bench_count(15, 2),
                                 bench_count(100, 5) };
    pair_contestant list[CONTESTANTS];
    turns t = { 0 };
    char url[512];
    dibs *client;

    server_url(url, sizeof url, s, layout);
    client = bench_open(url);
    list[DIBS] = (pair_contestant){ "dibs", "dibs", bar, pairs_of_dibs, client };
    list[FLOOR] = (pair_contestant){ "floor", label, 0, pairs_of_hand, floor };
    pairs_run(&t, list, CONTESTANTS, &counts);
    pairs_report(&t, list, CONTESTANTS, FLOOR, title->id, title->words);
    turns_free(&t);
    dibs_close(client);
}

static void
measure_pair(const server *s, int place)
{
    log_title title = logs_title("pair", s, place);
    pair_hand floor = { raw_lock, raw_unlock, raw_open(s) };

    sql_compare(s, &title, SQL_LAYOUT, &floor, "upsert and delete by hand", 1.1);
    raw_close(floor.state);
}

void
sql_pair(void)
{
    report_section("uncontended lock+unlock pair, one thread",
                   "median pair; contestants in turn, 100 pairs a round; ratios to "
                   "prepared statements by hand");
    for_each_log(measure_pair);
}

/* ---- hand-overs ---- */

enum { PROCESSES = 16, HOLD_MS = 2, US = 1000 };

static double handover_bar;

/* the median hand-over of a round, in microseconds */
static double
one_crowded_round(crowd *c)
{
    series took = { NULL, 0, 0 };
    double median;

    crowd_begin(c, 0);
    bench_nap_ms(bench_count(800, 300));
    crowd_end(c);
    crowd_times(c, &took);
    median = series_median(&took) / US;
    series_free(&took);
    return median;
}

static void
report_handover(const turns *t, const log_title *title)
{
    char id[64], label[96];

    snprintf(id, sizeof id, "%s.dibs", title->id);
    snprintf(label, sizeof label, "%s, dibs: median hand-over", title->words);
    turns_figure(t, DIBS, id, label, "us", BAR_AT_MOST, 0);
    snprintf(id, sizeof id, "%s.floor", title->id);
    snprintf(label, sizeof label, "%s, a round trip by hand", title->words);
    turns_figure(t, FLOOR, id, label, "us", BAR_AT_MOST, 0);
    snprintf(id, sizeof id, "%s.ratio", title->id);
    snprintf(label, sizeof label, "%s, hand-over / round trip", title->words);
    turns_ratio(t, DIBS, FLOOR, id, label, BAR_AT_MOST, handover_bar);
}

/* a pair by hand is two round trips that each change a row */
static void
measure_handover(const server *s, int place)
{
    log_title title = logs_title("handover", s, place);
    pair_hand floor = { raw_lock, raw_unlock, raw_open(s) };
    turns t = { .rounds = bench_count(5, 1) };
    char url[512];
    crowd_lock lock;
    crowd *c;

    server_url(url, sizeof url, s, SQL_LAYOUT);
    lock = crowd_dibs(url);
    c = crowd_start(&lock, 1, PROCESSES, place);
    crowd_hold(c, HOLD_MS);
    for (int i = 0; i < bench.runs * t.rounds; i++) {
        turns_add(&t, DIBS, one_crowded_round(c));
        turns_add(&t, FLOOR, pairs_of_hand(&floor, bench_count(100, 5)) / 2 / US);
    }
    crowd_stop(c);
    report_handover(&t, &title);
    turns_free(&t);
    raw_close(floor.state);
}

void
sql_handover(double bar)
{
    handover_bar = bar;
    report_section("hand-overs between 16 processes, one name",
                   "from the call that lets go to the return of the next one's lock, all "
                   "others waiting; each keeps it for 2 ms");
    for_each_log(measure_handover);
}

/* ---- the rest ---- */

void
sql_waiters(void)
{
    waits_run(SQL_LAYOUT, 1.1);
}

void
sql_inside(void)
{
    logs_inside(SQL_LAYOUT, 20);
}
