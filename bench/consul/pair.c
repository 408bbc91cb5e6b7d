/* SPDX-License-Identifier: MIT */
/*
 * The uncontended lock+unlock pair: dibs, against the same requests by hand on one kept
 * connection, and against ?acquire= and ?release=, which tell no token.
 */
#include <stdio.h>

#include "../pairs.h"
#include "consul.h"

enum { DIBS, FLOOR, PLAIN, CONTESTANTS };

static void
measure_pairs(const server *s, int place)
{
    const pair_counts counts = { bench_count(500, 5), bench_count(20, 2),
                                 bench_count(40, 5) };
    log_title title = logs_title("pair", s, place);
    void *connection = raw_open(s);
    pair_hand floor = { raw_lock, raw_unlock, connection };
    pair_hand plain = { raw_acquire, raw_release, connection };
    pair_contestant list[CONTESTANTS];
    turns t = { 0 };
    char url[128];
    dibs *client;

    server_url(url, sizeof url, s, NULL);
    client = bench_open(url);
    list[DIBS] = (pair_contestant){ "dibs", "dibs", 1.1, pairs_of_dibs, client };
    list[FLOOR] = (pair_contestant){ "floor", "by hand", 0, pairs_of_hand, &floor };
    list[PLAIN] = (pair_contestant){ "plain", "by hand, ?acquire= + ?release=", 0,
                                     pairs_of_hand, &plain };
    pairs_run(&t, list, CONTESTANTS, &counts);
    pairs_report(&t, list, CONTESTANTS, FLOOR, title.id, title.words);
    turns_free(&t);
    dibs_close(client);
    raw_close(connection);
}

void
consul_pair(void)
{
    report_section("uncontended lock+unlock pair, one thread",
                   "median pair; contestants in turn, 40 pairs a round; ratios to the "
                   "same requests by hand");
    for_each_log(measure_pairs);
}
