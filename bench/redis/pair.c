/* SPDX-License-Identifier: MIT */
/*
 * An uncontended lock+unlock pair, one thread: dibs in each layout, and the lock libraries
 * of other languages, against SET NX PX and a compare-and-delete by hand.
 */
#include <stdio.h>
#include <string.h>

#include "../pairs.h"
#include "redis.h"

enum { LAYOUTS = 4, PEERS_MAX = 8 };
static const struct {
    const char *layout, *label;
    double bar; /* 0: none */
} layouts[LAYOUTS] = { { "plain", "dibs plain", 1.05 },
                       { "queue", "dibs queue", 1.15 },
                       { "redisson", "dibs redisson", 0 },
                       { "getset", "dibs getset", 0 } };

static double
pairs_by_hand(void *by_hand, int count)
{
    series took = { NULL, 0, 0 };
    double median;

    for (int i = 0; i < count; i++) {
        double start = bench_now_ns();

        raw_lock(by_hand, "bench/pair");
        raw_unlock(by_hand, "bench/pair");
        series_add(&took, bench_now_ns() - start);
    }
    median = series_median(&took);
    series_free(&took);
    return median;
}

static void
one_place(int place)
{
    const pair_counts counts = { bench_count(200, 5), bench_count(30, 2),
                                 bench_count(150, 10) };
    pair_contestant list[TURNS_MAX];
    peer peers[PEERS_MAX];
    dibs *clients[LAYOUTS];
    raw by_hand;
    turns t = { 0 };
    char url[128], id[16];
    int count = 1, peer_count;

    place_client(place);
    raw_open(&by_hand, 0);
    list[0] =
        (pair_contestant){ "raw", "by hand with hiredis", 0, pairs_by_hand, &by_hand };
    for (int i = 0; i < LAYOUTS; i++) {
        server_url(url, sizeof url, layouts[i].layout);
        clients[i] = bench_open(url);
        list[count++] = (pair_contestant){ layouts[i].layout, layouts[i].label,
                                           layouts[i].bar, pairs_of_dibs, clients[i] };
    }
    peer_count = redis_peers_start(peers, PEERS_MAX, place);
    count = pairs_add_peers(list, count, peers, peer_count);
    pairs_run(&t, list, count, &counts);
    snprintf(id, sizeof id, "pair.%s", place_names[place]);
    pairs_report(&t, list, count, 0, id, place_names[place]);
    turns_free(&t);
    peers_stop(peers, peer_count);
    for (int i = 0; i < LAYOUTS; i++)
        dibs_close(clients[i]);
    raw_close(&by_hand);
}

void
redis_pair(void)
{
    report_section("uncontended lock+unlock pair, one thread",
                   "median pair; contestants in turn, 150 pairs a round");
    for (int place = 0; place < PLACES; place++)
        one_place(place);
}
