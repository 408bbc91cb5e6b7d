/* SPDX-License-Identifier: MIT */
/*
 * 16 threads of one process that all want one name: with hand-over inside the process, and
 * with a budget of none, which sends every grant through the server.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "redis.h"

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
open_with(int contestant)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    dibs_error err;
    dibs *client;
    char url[128];

    options.handover_max = contestant == WITHOUT ? 1 : 0;
    server_url(url, sizeof url, "queue");
    bench_check(dibs_open(&client, url, &options, &err), &err);
    return client;
}

static void
one_place(int place)
{
    dibs *clients[CONTESTANTS];
    series rates[CONTESTANTS] = { { NULL, 0, 0 } };
    series ratios = { NULL, 0, 0 };
    char id[64], label[96];

    place_client(place);
    for (int who = 0; who < CONTESTANTS; who++)
        clients[who] = open_with(who);
    for (int run = 0; run < bench.runs; run++) {
        series rate[CONTESTANTS] = { { NULL, 0, 0 } };
        series ratio = { NULL, 0, 0 };

        for (int round = 0; round < bench_count(6, 1); round++) {
            for (int who = 0; who < CONTESTANTS; who++)
                series_add(&rate[who], one_round(clients[who]));
            series_add(&ratio, rate[WITH].values[round] / rate[WITHOUT].values[round]);
        }
        for (int who = 0; who < CONTESTANTS; who++)
            series_fold(&rates[who], &rate[who]);
        series_fold(&ratios, &ratio);
    }
    for (int who = 0; who < CONTESTANTS; who++) {
        snprintf(id, sizeof id, "inside.%s.%s", place_names[place], ids[who]);
        snprintf(label, sizeof label, "%s, %s", place_names[place], labels[who]);
        report_figure(id, label, "/s", &rates[who]);
        series_free(&rates[who]);
        dibs_close(clients[who]);
    }
    snprintf(id, sizeof id, "inside.%s.ratio", place_names[place]);
    snprintf(label, sizeof label, "%s, with / without", place_names[place]);
    report_bar(id, label, "x", &ratios, BAR_AT_LEAST, 10);
    series_free(&ratios);
}

void
redis_inside(void)
{
    report_section("16 threads of one process, one name",
                   "hand-over inside the process against none; rounds of 150 ms in turn");
    for (int place = 0; place < PLACES; place++)
        one_place(place);
}
