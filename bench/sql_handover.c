/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs between 16 processes: see sql.h. Two figures say what can be reached: what the
 * server's own locks take, whose queue is in its memory and needs no statement of who waits;
 * and a round trip after a rest, for a hand-over follows 2 ms in which all processes slept,
 * when caches are cold and CPUs idle.
 */
#include <stdio.h>

#include "sql.h"

enum { PROCESSES = 16, HOLD_MS = 2, US = 1000 };
enum { DIBS, NATIVE, FLOOR, RESTED, CONTESTANTS };

static double handover_bar;
static const crowd_lock *native_lock;
static const char *native_words;

/* the median hand-over of a round, in microseconds */
static double
one_crowded_round(crowd *c, int lock)
{
    series took = { NULL, 0, 0 };
    double median;

    crowd_begin(c, lock);
    bench_nap_ms(bench_count(800, 300));
    crowd_end(c);
    crowd_times(c, &took);
    median = series_median(&took) / US;
    series_free(&took);
    return median;
}

static double
rested_pairs(pair_hand *hand, int count)
{
    series took = { NULL, 0, 0 };
    double median;

    for (int i = 0; i < count; i++) {
        bench_nap_ms(HOLD_MS);
        series_add(&took, pairs_of_hand(hand, 1));
    }
    median = series_median(&took);
    series_free(&took);
    return median;
}

static void
report_time(const turns *t, int who, const log_title *title, const char *name,
            const char *words)
{
    char id[64], label[96];

    snprintf(id, sizeof id, "%s.%s", title->id, name);
    snprintf(label, sizeof label, "%s, %s", title->words, words);
    turns_figure(t, who, id, label, "us", BAR_AT_MOST, 0);
}

static void
report_ratio(const turns *t, int who, const log_title *title, const char *name,
             const char *words, double bar)
{
    char id[64], label[96];

    snprintf(id, sizeof id, "%s.%s", title->id, name);
    snprintf(label, sizeof label, "%s, %s / round trip", title->words, words);
    turns_ratio(t, who, FLOOR, id, label, BAR_AT_MOST, bar);
}

static void
report_handover(const turns *t, const log_title *title)
{
    report_time(t, DIBS, title, "dibs", "dibs: median hand-over");
    report_time(t, FLOOR, title, "floor", "a round trip by hand");
    report_ratio(t, DIBS, title, "ratio", "hand-over", handover_bar);
    report_ratio(t, RESTED, title, "rested.ratio", "round trip after 2 ms of rest", 0);
    if (native_lock == NULL)
        return;
    report_time(t, NATIVE, title, "native", native_words);
    report_ratio(t, NATIVE, title, "native.ratio", native_words, 0);
}

/* a pair by hand is two round trips that each change a row */
static void
measure_turns(turns *t, crowd *c, pair_hand *floor)
{
    turns_add(t, DIBS, one_crowded_round(c, DIBS));
    if (native_lock != NULL)
        turns_add(t, NATIVE, one_crowded_round(c, NATIVE));
    turns_add(t, FLOOR, pairs_of_hand(floor, bench_count(100, 5)) / 2 / US);
    turns_add(t, RESTED, rested_pairs(floor, bench_count(25, 2)) / 2 / US);
}

static void
measure_handover(const server *s, int place)
{
    log_title title = logs_title("handover", s, place);
    pair_hand floor = { hand_lock, hand_unlock, raw_open(s) };
    turns t = { .rounds = bench_count(5, 1) };
    crowd_lock locks[] = { [DIBS] = { 0 }, [NATIVE] = { 0 } };
    char url[512];
    crowd *c;

    server_url(url, sizeof url, s, SQL_LAYOUT);
    locks[DIBS] = crowd_dibs(url);
    if (native_lock != NULL)
        locks[NATIVE] = *native_lock;
    locks[NATIVE].arg = s;
    c = crowd_start(locks, native_lock != NULL ? 2 : 1, PROCESSES, place);
    crowd_hold(c, HOLD_MS);
    for (int i = 0; i < bench.runs * t.rounds; i++)
        measure_turns(&t, c, &floor);
    crowd_stop(c);
    report_handover(&t, &title);
    turns_free(&t);
    hand_close(floor.state);
}

void
sql_handover(double bar, const crowd_lock *native, const char *native_label)
{
    handover_bar = bar;
    native_lock = native;
    native_words = native_label;
    report_section("hand-overs between 16 processes, one name",
                   "from the call that lets go to the return of the next one's lock, all "
                   "others waiting; each keeps it for 2 ms");
    for_each_log(measure_handover);
}
