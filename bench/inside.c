/* SPDX-License-Identifier: MIT */
/*
 * 16 threads of one process that all want one name: with hand-over inside the process, and
 * with a budget of none, which sends every grant through the server. In turn.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "inside.h"

enum { THREADS = 16, WITH = 0, WITHOUT, CONTESTANTS };

static const char *const ids[CONTESTANTS] = { "with", "without" };
static const char *const labels[CONTESTANTS] = { "hand-over inside the process",
                                                 "every grant from the server" };

typedef struct crowd {
    dibs *client;
    _Atomic int stop;
    _Atomic int inside;
    _Atomic uint64_t grants; /* added to by the holder only */
} crowd;

static void *
work(void *arg)
{
    crowd *c = arg;
    dibs_error err;
    dibs_hold *hold;

    while (!atomic_load_explicit(&c->stop, memory_order_relaxed)) {
        bench_check(dibs_lock(&hold, c->client, "bench/inside", &err), &err);
        if (atomic_exchange(&c->inside, 1) != 0)
            bench_die("two threads had the lock at once");
        atomic_fetch_add_explicit(&c->grants, 1, memory_order_relaxed);
        atomic_store(&c->inside, 0);
        bench_check(dibs_unlock(hold, &err), &err);
    }
    return NULL;
}

static double
one_round(dibs *client)
{
    crowd c = { .client = client };
    pthread_t threads[THREADS];
    double start, before, rate;

    for (int i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, &c) != 0)
            bench_die("no more threads");
    bench_nap_ms(bench_count(30, 3));
    before = (double)atomic_load(&c.grants);
    start = bench_now_ns();
    bench_nap_ms(bench_count(150, 15));
    rate = ((double)atomic_load(&c.grants) - before) * 1e9 / (bench_now_ns() - start);
    atomic_store(&c.stop, 1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    return rate < 1 ? 1 : rate;
}

static dibs *
open_with(int contestant, const char *url)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    dibs_error err;
    dibs *client;

    options.handover_max = contestant == WITHOUT ? 1 : 0;
    bench_check(dibs_open(&client, url, &options, &err), &err);
    return client;
}

static void
report_inside(const turns *t, const char *id, const char *words, double bar)
{
    char full[64], label[96];

    for (int who = 0; who < CONTESTANTS; who++) {
        snprintf(full, sizeof full, "%s.%s", id, ids[who]);
        snprintf(label, sizeof label, "%s, %s", words, labels[who]);
        turns_figure(t, who, full, label, "/s", BAR_AT_LEAST, 0);
    }
    snprintf(full, sizeof full, "%s.ratio", id);
    snprintf(label, sizeof label, "%s, with / without", words);
    turns_ratio(t, WITH, WITHOUT, full, label, BAR_AT_LEAST, bar);
}

void
inside_run(const char *url, const char *id, const char *words, double bar)
{
    turns t = { .rounds = bench_count(6, 1) };
    dibs *clients[CONTESTANTS];

    for (int who = 0; who < CONTESTANTS; who++)
        clients[who] = open_with(who, url);
    for (int round = 0; round < bench.runs * t.rounds; round++)
        for (int who = 0; who < CONTESTANTS; who++)
            turns_add(&t, who, one_round(clients[who]));
    for (int who = 0; who < CONTESTANTS; who++)
        dibs_close(clients[who]);
    report_inside(&t, id, words, bar);
    turns_free(&t);
}
