/* SPDX-License-Identifier: MIT */
/*
 * The server's time for a hand-over while 10, 100, 1,000 or 10,000 wait for the name in
 * the default layout. As many processes would be too much for a small machine, so this
 * speaks to the engine below the library and is every waiter itself: before each call it
 * takes on the waiter's identity.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis.h"

#include "core/error.h"
#include "core/mem.h"
#include "core/name.h"
#include "core/sys.h"
#include "core/url.h"
#include "engine/redis/redis.h"

#define NAME "bench/waiters"
#define CALL_LIMIT (5000 * DIBS_MS)

enum { SIZES = 4, LEAST = 10 };

extern const dibs_engine dibs_engine_table;

static const dibs_host host = {
    .now = dibs__now,
    .ring = dibs__bell_ring,
    .sleep_until = dibs__sleep_until,
    .fail = dibs__fail,
    .alloc = dibs__alloc,
    .free = dibs__free,
    .random = dibs__random,
    .param = dibs__url_param,
    .param_ms = dibs__url_param_ms,
};

/* The queue as we know it: who comes next is `claims[first]`, in a ring. */
typedef struct line {
    dibs__url url;
    dibs_session session;
    struct redis redis;
    dibs_claim *claims;
    int size, first;
    uint64_t last_serial;
} line;

static void
be(line *l, const dibs_claim *claim)
{
    snprintf(l->redis.session_hex, sizeof l->redis.session_hex, "%032llx",
             (unsigned long long)claim->serial);
}

static int
attempt(line *l, dibs_claim *claim)
{
    dibs_error err;
    int code;

    be(l, claim);
    claim->sent = dibs__now();
    code = dibs_engine_table.attempt(&l->redis, claim, dibs__now() + CALL_LIMIT, &err);
    if (code != DIBS_OK && code != DIBS_EBUSY)
        bench_check(code, &err);
    return code;
}

static void
release(line *l, dibs_claim *claim)
{
    dibs_error err;

    be(l, claim);
    bench_check(
        dibs_engine_table.release(&l->redis, claim, 0, dibs__now() + CALL_LIMIT, &err),
        &err);
}

static void
join(line *l, dibs_claim *claim)
{
    memset(claim, 0, sizeof *claim);
    claim->name = NAME;
    claim->name_len = sizeof NAME - 1;
    claim->name_hash = dibs__hash(NAME, sizeof NAME - 1);
    claim->mode = DIBS_EXCLUSIVE;
    claim->permits = 1;
    claim->lease_ms = 600000;
    claim->serial = ++l->last_serial;
    claim->note = "";
    claim->bell = &claim->own_bell;
    (void)attempt(l, claim);
}

/* the holder leaves, which grants to the next one, and joins again at the end */
static void
hand_over(line *l)
{
    dibs_claim *holder = &l->claims[l->first];

    release(l, holder);
    join(l, holder);
    l->first = (l->first + 1) % l->size;
}

static void
open_line(line *l, int waiters)
{
    char url[128];
    dibs_error err;

    memset(l, 0, sizeof *l);
    snprintf(url, sizeof url, "redis://127.0.0.1:%d?waiter=60s", server_port(0));
    bench_check(dibs__url_parse(&l->url, url, &err), &err);
    l->session.host = &host;
    l->session.app = "bench";
    l->session.keeper_bell = &l->session.own_keeper_bell;
    l->session.caps = dibs_engine_table.caps;
    bench_check(dibs_engine_table.open(&l->redis, &l->session, &l->url.parts,
                                       dibs__now() + CALL_LIMIT, &err),
                &err);
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
    dibs_error err;

    for (int i = 0; i < l->size; i++) {
        dibs_claim *claim = &l->claims[(l->first + i) % l->size];

        be(l, claim);
        (void)dibs_engine_table.release(&l->redis, claim, 0, dibs__now() + CALL_LIMIT,
                                        &err);
    }
    free(l->claims);
    dibs_engine_table.close(&l->redis, 0);
    dibs__url_free(&l->url);
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
