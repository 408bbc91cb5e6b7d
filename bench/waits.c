/* SPDX-License-Identifier: MIT */
/*
 * What a hand-over costs the server while 2, 8 or 64 processes want the name: requests, and
 * events told to those who watch.
 */
#include <stdio.h>

#include "fight.h"
#include "waits.h"

enum { SIZES = 3 };

static const int sizes[SIZES] = { 2, 8, 64 };
static const char *const ids[SIZES] = { "2", "8", "64" };

static void
one_size(fight *f, int size, const server *s, const char *url)
{
    const fight_round round = { bench_count(500, 50), bench_count(1500, 200) };
    crowd_lock lock = crowd_dibs(url);
    crowd *c = crowd_start(&lock, 1, sizes[size], PLACE_X);
    fighters them = fighters_of_crowd(c, 0, ids[size], "");

    crowd_greedy(c, 1);
    for (int i = 0; i < bench.runs; i++)
        fight_run(f, size, &them, s, round);
    crowd_stop(c);
}

static void
report_sizes(const fight *f, int count, double bar)
{
    char label[96];

    for (int size = 0; size < count; size++) {
        fighters them = { .id = ids[size], .label = label };

        snprintf(label, sizeof label, "%d processes", sizes[size]);
        fight_report(f, size, &them, "waiters", "memory");
    }
    turns_ratio(&f->requests, count - 1, 0, "waiters.ratio",
                "requests of a hand-over, most / fewest processes", BAR_AT_MOST, bar);
}

void
waits_run(const char *layout, double bar)
{
    const server *s = server_get(LOG_MEMORY);
    fight f = { { .rounds = 1 }, { .rounds = 1 }, { .rounds = 1 } };
    int count = bench_count(SIZES, 2);
    char url[512];

    report_section("a hand-over while many wait",
                   "by the server's own count, data in memory; X");
    place_client(PLACE_X);
    server_url(url, sizeof url, s, layout);
    for (int size = 0; size < count; size++)
        one_size(&f, size, s, url);
    report_sizes(&f, count, bar);
    fight_free(&f);
}
