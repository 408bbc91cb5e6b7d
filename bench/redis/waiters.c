/* SPDX-License-Identifier: MIT */
/*
 * The server's time for a hand-over while 10, 100, 1,000 or 10,000 wait for the name in
 * the default layout. As many processes would be too much for a small machine, so this
 * speaks to the engine below the library and is every waiter itself: before each call it
 * takes on the waiter's identity.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../below.h"
#include "redis.h"

enum { SIZES = 4 };

/* The queue as we know it: who comes next is `claims[first]`, in a ring. */
typedef struct line {
    below engine;
    dibs_claim *claims;
    int size, first;
} line;

static void
be(line *l, const dibs_claim *claim)
{
    dibs_session *session = &l->engine.session;

    snprintf(session->id_hex, sizeof session->id_hex, "%032llx",
             (unsigned long long)claim->serial);
}

static void
leave(line *l, dibs_claim *claim)
{
    be(l, claim);
    below_release(&l->engine, claim);
}

static void
join(line *l, dibs_claim *claim)
{
    below_claim(&l->engine, claim);
    claim->lease_ms = 600000;
    be(l, claim);
    (void)below_attempt(&l->engine, claim);
}

/* the holder leaves, which grants to the next one, and joins again at the end */
static void
hand_over(line *l)
{
    dibs_claim *holder = &l->claims[l->first];

    leave(l, holder);
    join(l, holder);
    l->first = (l->first + 1) % l->size;
}

static void
open_line(line *l, int waiters)
{
    char url[128];

    snprintf(url, sizeof url, "redis://127.0.0.1:%d?waiter=60s", server_port(0));
    below_open(&l->engine, url, "bench/waiters");
    l->first = 0;
    l->size = waiters + 1;
    l->claims = calloc((size_t)l->size, sizeof *l->claims);
    if (l->claims == NULL)
        bench_die("out of memory");
    for (int i = 0; i < l->size; i++)
        join(l, &l->claims[i]);
}

static void
close_line(line *l)
{
    for (int i = 0; i < l->size; i++)
        leave(l, &l->claims[(l->first + i) % l->size]);
    free(l->claims);
    below_close(&l->engine);
}

/* one_size returns microseconds of the server per hand-over */
static double
one_size(int waiters)
{
    redisContext *link = server_connect(0);
    int count = bench_count(2000, 20);
    double usec;
    line l;

    open_line(&l, waiters);
    usec = server_usec(link, " evalsha eval ");
    for (int i = 0; i < count; i++)
        hand_over(&l);
    usec = server_usec(link, " evalsha eval ") - usec;
    close_line(&l);
    redisFree(link);
    return usec / count;
}

void
redis_waiters(void)
{
    static const int sizes[SIZES] = { 10, 100, 1000, 10000 };
    series times[SIZES] = { { NULL, 0, 0 } }, ratios = { NULL, 0, 0 };
    int count = bench_count(SIZES, 2);

    report_section("the server's time for a hand-over while many wait",
                   "release and joining the queue again, by the server's own count; X");
    place_client(PLACE_X);
    for (int run = 0; run < bench.runs; run++) {
        for (int i = 0; i < count; i++)
            series_add(&times[i], one_size(sizes[i]));
        series_add(&ratios, times[count - 1].values[run] / times[0].values[run]);
    }
    for (int i = 0; i < count; i++) {
        char id[64], label[96];

        snprintf(id, sizeof id, "waiters.%d", sizes[i]);
        snprintf(label, sizeof label, "%d waiting", sizes[i]);
        report_figure(id, label, "us", &times[i]);
        series_free(&times[i]);
    }
    report_bar("waiters.ratio", "most / least", "x", &ratios, BAR_AT_MOST, 2);
    series_free(&ratios);
}
