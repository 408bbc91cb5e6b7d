/* SPDX-License-Identifier: MIT */
/*
 * An uncontended lock+unlock pair, one thread: dibs in each layout, and the lock libraries
 * of other languages, against SET NX PX and a compare-and-delete by hand. What counts is
 * the median pair of a round over that by hand in the same round.
 */
#include <stdio.h>
#include <string.h>

#include "redis.h"

#define NAME "bench/pair"

enum { LAYOUTS = 4, PEERS_MAX = 8, CONTESTANTS_MAX = 1 + LAYOUTS + PEERS_MAX };
static const struct {
    const char *layout;
    double bar; /* 0: none */
} layouts[LAYOUTS] = {
    { "plain", 1.05 }, { "queue", 1.15 }, { "redisson", 0 }, { "getset", 0 }
};

typedef struct contest {
    raw by_hand;
    dibs *clients[LAYOUTS];
    peer peers[PEERS_MAX];
    int peer_count;
} contest;

static double
raw_pairs(raw *r, int count)
{
    series took = { NULL, 0, 0 };
    double median;

    for (int i = 0; i < count; i++) {
        double start = bench_now_ns();

        raw_lock(r, NAME);
        raw_unlock(r, NAME);
        series_add(&took, bench_now_ns() - start);
    }
    median = series_median(&took);
    series_free(&took);
    return median;
}

static double
dibs_pairs(dibs *client, int count)
{
    series took = { NULL, 0, 0 };
    double median;
    dibs_error err;
    dibs_hold *hold;

    for (int i = 0; i < count; i++) {
        double start = bench_now_ns();

        bench_check(dibs_lock(&hold, client, NAME, &err), &err);
        bench_check(dibs_unlock(hold, &err), &err);
        series_add(&took, bench_now_ns() - start);
    }
    median = series_median(&took);
    series_free(&took);
    return median;
}

/* contestant 0 is by hand, then come the layouts, then the peers */
static double
pairs_of(contest *c, int who, int count)
{
    if (who == 0)
        return raw_pairs(&c->by_hand, count);
    if (who <= LAYOUTS)
        return dibs_pairs(c->clients[who - 1], count);
    return peer_pairs(&c->peers[who - 1 - LAYOUTS], count);
}

static void
one_run(contest *c, series *times, series *ratios)
{
    series time[CONTESTANTS_MAX] = { { NULL, 0, 0 } };
    series ratio[CONTESTANTS_MAX] = { { NULL, 0, 0 } };
    int contestants = 1 + LAYOUTS + c->peer_count;

    for (int round = 0; round < bench_count(30, 2); round++) {
        double took[CONTESTANTS_MAX];

        for (int who = 0; who < contestants; who++) {
            took[who] = pairs_of(c, who, bench_count(150, 10));
            series_add(&time[who], took[who]);
            series_add(&ratio[who], took[who] / took[0]);
        }
    }
    for (int who = 0; who < contestants; who++) {
        series_fold(&times[who], &time[who]);
        series_fold(&ratios[who], &ratio[who]);
    }
}

static void
report_contestant(int place, const char *id, const char *label, double bar, series *time,
                  series *ratio)
{
    char full[64], words[96];

    snprintf(full, sizeof full, "pair.%s.%s", place_names[place], id);
    snprintf(words, sizeof words, "%s, %s", place_names[place], label);
    report_figure(full, words, "ns", time);
    snprintf(full, sizeof full, "pair.%s.%s.ratio", place_names[place], id);
    snprintf(words, sizeof words, "%s, %s / by hand", place_names[place], label);
    if (bar > 0)
        report_bar(full, words, "x", ratio, BAR_AT_MOST, bar);
    else
        report_figure(full, words, "x", ratio);
    series_free(time);
    series_free(ratio);
}

static void
report_all_of(int place, const contest *c, series *times, series *ratios)
{
    char full[64], words[96];

    snprintf(full, sizeof full, "pair.%s.raw", place_names[place]);
    snprintf(words, sizeof words, "%s, by hand with hiredis", place_names[place]);
    report_figure(full, words, "ns", &times[0]);
    series_free(&times[0]);
    series_free(&ratios[0]);
    for (int i = 0; i < LAYOUTS; i++) {
        snprintf(words, sizeof words, "dibs %s", layouts[i].layout);
        report_contestant(place, layouts[i].layout, words, layouts[i].bar, &times[1 + i],
                          &ratios[1 + i]);
    }
    for (int i = 0; i < c->peer_count; i++)
        report_contestant(place, c->peers[i].id, c->peers[i].label, 0,
                          &times[1 + LAYOUTS + i], &ratios[1 + LAYOUTS + i]);
}

static void
one_place(int place)
{
    contest c = { 0 };
    series times[CONTESTANTS_MAX] = { { NULL, 0, 0 } };
    series ratios[CONTESTANTS_MAX] = { { NULL, 0, 0 } };
    char url[128];

    place_client(place);
    raw_open(&c.by_hand, 0);
    for (int i = 0; i < LAYOUTS; i++) {
        server_url(url, sizeof url, layouts[i].layout);
        c.clients[i] = bench_open(url);
    }
    c.peer_count = peers_start(c.peers, PEERS_MAX, place);
    /* the first pairs connect and load scripts */
    for (int who = 0; who < 1 + LAYOUTS + c.peer_count; who++)
        (void)pairs_of(&c, who, bench_count(200, 5));
    for (int run = 0; run < bench.runs; run++)
        one_run(&c, times, ratios);
    report_all_of(place, &c, times, ratios);
    peers_stop(c.peers, c.peer_count);
    for (int i = 0; i < LAYOUTS; i++)
        dibs_close(c.clients[i]);
    raw_close(&c.by_hand);
}

void
redis_pair(void)
{
    report_section("uncontended lock+unlock pair, one thread",
                   "median pair; contestants in turn, 150 pairs a round");
    for (int place = 0; place < PLACES; place++)
        one_place(place);
}
