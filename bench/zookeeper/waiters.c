/* SPDX-License-Identifier: MIT */
/*
 * What a hand-over costs while 10, 100 or 1,000 wait for the name: requests, and events
 * told to those who watch. As many processes would be too much for a small machine, so
 * this speaks to the engine below the library and is every waiter itself.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../below.h"
#include "zookeeper.h"

#include "core/sys.h"

#define RING_LIMIT (5000 * DIBS_MS)

enum { SIZES = 3 };

/* The queue as we know it: the holder is `claims[first]`, and the next one behind it. */
typedef struct line {
    below engine;
    dibs_claim *claims;
    int size, first;
} line;

/* as core does it: attempt, watch, and attempt once more before sleeping */
static void
wait_in(line *l, dibs_claim *claim)
{
    if (below_attempt(&l->engine, claim) == DIBS_OK)
        return;
    below_watch(&l->engine, claim);
    if (below_attempt(&l->engine, claim) == DIBS_OK)
        bench_die("granted while somebody else has it");
}

static void
take_over(line *l, dibs_claim *claim)
{
    for (;;) {
        if (!dibs__bell_wait(claim->bell, claim->seen, dibs__now() + RING_LIMIT))
            bench_die("the next one in line was not told");
        if (below_attempt(&l->engine, claim) == DIBS_OK)
            return;
        below_watch(&l->engine, claim);
        if (below_attempt(&l->engine, claim) == DIBS_OK)
            return;
    }
}

/* the holder leaves, the next one takes over, and the old one joins at the end */
static void
hand_over(line *l)
{
    dibs_claim *holder = &l->claims[l->first];

    below_release(&l->engine, holder);
    l->first = (l->first + 1) % l->size;
    take_over(l, &l->claims[l->first]);
    below_claim(&l->engine, holder);
    wait_in(l, holder);
}

static void
open_line(line *l, const server *s, int waiters)
{
    char url[128];

    server_url(url, sizeof url, s, "curator");
    below_open(&l->engine, url, "bench/waiters");
    l->first = 0;
    l->size = waiters + 1;
    l->claims = calloc((size_t)l->size, sizeof *l->claims);
    if (l->claims == NULL)
        bench_die("out of memory");
    for (int i = 0; i < l->size; i++) {
        below_claim(&l->engine, &l->claims[i]);
        wait_in(l, &l->claims[i]);
    }
}

/* from the end, so that nobody is woken */
static void
close_line(line *l)
{
    for (int i = l->size - 1; i >= 0; i--)
        below_release(&l->engine, &l->claims[(l->first + i) % l->size]);
    free(l->claims);
    below_close(&l->engine);
}

typedef struct tally {
    series requests, events, times;
} tally;

static void
one_size(const server *s, int waiters, tally *t)
{
    int count = bench_count(1000, 20);
    server_counts before, after;
    double start;
    line l;

    open_line(&l, s, waiters);
    before = server_count(s);
    start = bench_now_ns();
    for (int i = 0; i < count; i++)
        hand_over(&l);
    series_add(&t->times, (bench_now_ns() - start) / count / 1000);
    after = server_count(s);
    close_line(&l);
    series_add(&t->requests, (after.requests - before.requests) / count);
    series_add(&t->events, (after.events - before.events) / count);
}

static void
report_size(int waiters, tally *t)
{
    char id[64], label[96];

    snprintf(id, sizeof id, "waiters.%d.events", waiters);
    snprintf(label, sizeof label, "%d waiting: watch events per hand-over", waiters);
    report_bar(id, label, "", &t->events, BAR_AT_MOST, 1);
    snprintf(id, sizeof id, "waiters.%d.requests", waiters);
    snprintf(label, sizeof label, "%d waiting: requests per hand-over", waiters);
    report_figure(id, label, "", &t->requests);
    snprintf(id, sizeof id, "waiters.%d.time", waiters);
    snprintf(label, sizeof label, "%d waiting: hand over and join again", waiters);
    report_figure(id, label, "us", &t->times);
    series_free(&t->events);
    series_free(&t->requests);
    series_free(&t->times);
}

void
zookeeper_waiters(void)
{
    static const int sizes[SIZES] = { 10, 100, 1000 };
    const server *s = server_get(LOG_MEMORY);
    int count = bench_count(SIZES, 2);
    tally tallies[SIZES] = { 0 };

    report_section("a hand-over while many wait",
                   "by the server's own count, log in memory; one session; X");
    place_client(PLACE_X);
    for (int run = 0; run < bench.runs; run++)
        for (int i = 0; i < count; i++)
            one_size(s, sizes[i], &tallies[i]);
    for (int i = 0; i < count; i++)
        report_size(sizes[i], &tallies[i]);
}
