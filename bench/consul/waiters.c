/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs while 2, 8 or 64 processes want the name, and what requests they take: dibs,
 * and what Consul's documentation tells people to write by hand, as processes that stay; and
 * `dibs run` and `consul lock`, each of which is a process for every grant. All of them keep
 * the lock for so long that the others are done with waking up, or starting, and wait.
 */
#include <stdio.h>
#include <stdlib.h>

#include "../fight.h"
#include "consul.h"

enum {
    SIZES = 3,
    HOLD_MS = 2,
    DIBS = 0,
    HAND,
    STAYING,
    RUN = STAYING,
    LOCK,
    CONTESTANTS
};

static const int sizes[SIZES] = { 2, 8, 64 };

/* A process that starts takes some 50 ms of the CPU that all of them share, one that wakes up
 * some 3 ms. */
static int
hold_ms(int size)
{
    return bench_count(60 + 8 * size, 20);
}

static fight_round
round_of(int who, int size)
{
    return (fight_round){ bench_count(500 + (who < STAYING ? 10 : 80) * size, 200),
                          bench_count(2000 + 5 * hold_ms(size), 200) };
}

static void
begin_loops(void *l, int which)
{
    (void)which;
    loops_begin(l);
}

static double
grants_of_loops(void *l)
{
    return loops_grants(l);
}

static void
end_loops(void *l)
{
    loops_end(l);
}

static fighters
fighters_of_loops(loops *l, const char *id, const char *label)
{
    return (fighters){ id, label, begin_loops, grants_of_loops, end_loops, l, 0 };
}

static void
report_bar_of(const fight *f, int who, const fighters *them, const char *id,
              const char *words)
{
    char full[64], label[96];

    snprintf(full, sizeof full, "%s.%s.ratio", id, them[who].id);
    snprintf(label, sizeof label, "%s, %s / %s: requests", words, them[who].label,
             them[LOCK].label);
    turns_ratio(&f->requests, who, LOCK, full, label, BAR_AT_MOST, 1);
}

static void
fight_in_turn(const server *s, const fighters *them, int size)
{
    fight f = { { .rounds = 1 }, { .rounds = 1 }, { .rounds = 1 } };
    char id[32], words[32];

    for (int run = 0; run < bench.runs; run++)
        for (int who = 0; who < CONTESTANTS; who++)
            fight_run(&f, who, &them[who], s, round_of(who, size));
    snprintf(id, sizeof id, "waiters.%d", size);
    snprintf(words, sizeof words, "%d processes", size);
    for (int who = 0; who < CONTESTANTS; who++)
        fight_report(&f, who, &them[who], id, words);
    report_bar_of(&f, DIBS, them, id, words);
    report_bar_of(&f, RUN, them, id, words);
    fight_free(&f);
}

static void
one_size(const server *s, int size, const char *url)
{
    char hold[16];
    const char *const run[] = { bench.dibs_path, "run", "%N", "--", "sleep", hold, NULL };
    const char *const lock[] = { "consul", "lock", "%N", "sleep", hold, NULL };
    const crowd_lock locks[STAYING] = {
        crowd_dibs(url), { raw_open, raw_acquire, raw_release, raw_close, s }
    };
    crowd *c = crowd_start(locks, STAYING, size, PLACE_X);
    loops *runs = loops_make(run, size, PLACE_X),
          *theirs = loops_make(lock, size, PLACE_X);
    const fighters them[CONTESTANTS] = {
        fighters_of_crowd(c, DIBS, "dibs", "dibs"),
        fighters_of_crowd(c, HAND, "hand", "by hand"),
        fighters_of_loops(runs, "run", "dibs run"),
        fighters_of_loops(theirs, "consul", "consul lock"),
    };

    snprintf(hold, sizeof hold, "%.3f", hold_ms(size) / 1000.0);
    crowd_hold(c, hold_ms(size));
    fight_in_turn(s, them, size);
    crowd_stop(c);
    loops_free(runs);
    loops_free(theirs);
}

void
consul_waiters(void)
{
    const server *s = server_get(LOG_MEMORY);
    char url[128], address[32];

    report_section(
        "a hand-over while many wait",
        "by the server's own count, data in memory; each keeps the lock until all "
        "others wait; X");
    place_client(PLACE_X);
    server_url(url, sizeof url, s, NULL);
    snprintf(address, sizeof address, "127.0.0.1:%d", s->port);
    setenv("DIBS_URL", url, 1);
    setenv("CONSUL_HTTP_ADDR", address, 1);
    for (int i = 0; i < bench_count(SIZES, 2); i++)
        one_size(s, sizes[i], url);
}
