/* SPDX-License-Identifier: MIT */
/* The parts that are the same on every database: see sql.h. */
#include "sql.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "waits.h"

enum { DIBS, ITS, FLOOR, CONTESTANTS };

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

/* ---- by hand ---- */

void
hand_change_one(void *hand, int which)
{
    if (hand_change(hand, which) != 1)
        bench_die("a statement by hand changes nothing");
}

void
hand_warm_up(void *hand)
{
    if (hand_change(hand, HAND_FIRST) != 0)
        hand_change_one(hand, HAND_GIVE);
}

void
hand_lock(void *hand)
{
    hand_change_one(hand, HAND_TAKE);
}

void
hand_unlock(void *hand)
{
    hand_change_one(hand, HAND_GIVE);
}

/* ---- pairs ---- */

static void
report_client(const turns *t, const log_title *title)
{
    char id[64], label[96];

    snprintf(id, sizeof id, "%s.client.ratio", title->id);
    snprintf(label, sizeof label, "%s, dibs / its statements by hand", title->words);
    turns_ratio(t, DIBS, ITS, id, label, BAR_AT_MOST, 0);
}

void
sql_compare(const server *s, const log_title *title, sql_pairs *them)
{
    const pair_counts counts = { bench_count(1000, 5), bench_count(15, 2),
                                 bench_count(100, 5) };
    pair_contestant list[CONTESTANTS];
    turns t = { 0 };
    char url[512];
    dibs *client;

    server_url(url, sizeof url, s, them->layout);
    client = bench_open(url);
    list[DIBS] = (pair_contestant){ "dibs", "dibs", them->bar, pairs_of_dibs, client };
    list[ITS] = (pair_contestant){ "its", "its statements by hand", 0, pairs_of_hand,
                                   &them->its };
    list[FLOOR] =
        (pair_contestant){ "floor", them->label, 0, pairs_of_hand, &them->floor };
    pairs_run(&t, list, CONTESTANTS, &counts);
    pairs_report(&t, list, CONTESTANTS, FLOOR, title->id, title->words);
    report_client(&t, title);
    turns_free(&t);
    dibs_close(client);
}

static void
measure_pair(const server *s, int place)
{
    log_title title = logs_title("pair", s, place);
    sql_pairs them = { SQL_LAYOUT,
                       "upsert and delete by hand",
                       { hand_lock, hand_unlock, raw_open(s) },
                       { hand_lock, hand_unlock, its_open(s) },
                       1.1 };

    sql_compare(s, &title, &them);
    hand_close(them.its.state);
    hand_close(them.floor.state);
}

void
sql_pair(void)
{
    report_section("uncontended lock+unlock pair, one thread",
                   "median pair; contestants in turn, 100 pairs a round; ratios to "
                   "prepared statements by hand");
    for_each_log(measure_pair);
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
