/* SPDX-License-Identifier: MIT */
/*
 * Threads of one process, each with a name of its own: all of them on one client of dibs,
 * which has a few connections, against one blocking connection of hiredis for each. The
 * work is the same, SET NX PX and a compare-and-delete (layout plain); the default layout
 * is measured beside it, and what sharing connections gains at best (shared.h).
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared.h"

enum { THREADS_MAX = 64, BY_HAND = 0, PLAIN, QUEUE, SHARED, CONTESTANTS };

static const char *const contestant_names[CONTESTANTS] = { "raw", "plain", "queue",
                                                           "shared by hand" };

/* How many threads, and by how much dibs has to be faster: across CPUs, on one. */
static const struct {
    int threads;
    double bars[PLACES];
} settings[] = {
    { 1, { 0.95, 0.95 } }, { 2, { 0.95, 0.95 } }, { 4, { 0.95, 0.95 } },
    { 16, { 1.3, 1.15 } }, { 64, { 1.5, 1.5 } },
};
enum { SETTINGS = sizeof settings / sizeof settings[0] };

typedef struct crowd {
    raw links[THREADS_MAX];
    shared *shared;
    dibs *clients[CONTESTANTS]; /* PLAIN and QUEUE */
    int who;
    _Atomic int stop;
    struct {
        _Alignas(64) _Atomic uint64_t pairs;
    } counts[THREADS_MAX];
} crowd;

typedef struct member {
    crowd *c;
    int index;
} member;

static void
one_pair(crowd *c, int index, const char *name)
{
    dibs_error err;
    dibs_hold *hold;

    if (c->who == BY_HAND) {
        raw_lock(&c->links[index], name);
        raw_unlock(&c->links[index], name);
        return;
    }
    if (c->who == SHARED) {
        shared_lock(c->shared, index, name);
        shared_unlock(c->shared, index, name);
        return;
    }
    bench_check(dibs_lock(&hold, c->clients[c->who], name, &err), &err);
    bench_check(dibs_unlock(hold, &err), &err);
}

static void *
work(void *arg)
{
    const member *m = arg;
    char name[32];

    snprintf(name, sizeof name, "bench/thread/%d", m->index);
    while (!atomic_load_explicit(&m->c->stop, memory_order_relaxed)) {
        one_pair(m->c, m->index, name);
        atomic_fetch_add_explicit(&m->c->counts[m->index].pairs, 1, memory_order_relaxed);
    }
    return NULL;
}

static double
all_pairs(crowd *c, int threads)
{
    double sum = 0;

    for (int i = 0; i < threads; i++)
        sum += (double)atomic_load_explicit(&c->counts[i].pairs, memory_order_relaxed);
    return sum;
}

/* one_round returns pairs per second, between two readings in full swing. */
static double
one_round(crowd *c, int who, int threads)
{
    pthread_t running[THREADS_MAX];
    member members[THREADS_MAX];
    double start, before, rate;

    c->who = who;
    atomic_store(&c->stop, 0);
    for (int i = 0; i < threads; i++) {
        members[i] = (member){ c, i };
        if (pthread_create(&running[i], NULL, work, &members[i]) != 0)
            bench_die("no more threads");
    }
    bench_nap_ms(bench_count(30, 2));
    before = all_pairs(c, threads);
    start = bench_now_ns();
    bench_nap_ms(bench_count(150, 10));
    rate = (all_pairs(c, threads) - before) * 1e9 / (bench_now_ns() - start);
    atomic_store(&c->stop, 1);
    for (int i = 0; i < threads; i++)
        pthread_join(running[i], NULL);
    return rate < 1 ? 1 : rate;
}

static void
report_setting(int place, int setting, const turns *rates)
{
    int threads = settings[setting].threads;
    char id[64], label[96];

    for (int who = 0; who < CONTESTANTS; who++) {
        snprintf(id, sizeof id, "threads.%s%d.%s", place_names[place], threads,
                 contestant_names[who]);
        snprintf(label, sizeof label, "%s, %d thread(s), %s: pairs", place_names[place],
                 threads, who == BY_HAND ? "a connection each" : contestant_names[who]);
        turns_figure(rates, who, id, label, "/s", BAR_AT_LEAST, 0);
    }
    for (int who = PLAIN; who < CONTESTANTS; who++) {
        snprintf(id, sizeof id, "threads.%s%d.%s.ratio", place_names[place], threads,
                 contestant_names[who]);
        snprintf(label, sizeof label, "%s, %d thread(s), %s / a connection each",
                 place_names[place], threads, contestant_names[who]);
        turns_ratio(rates, who, BY_HAND, id, label, BAR_AT_LEAST,
                    who == PLAIN ? settings[setting].bars[place] : 0);
    }
}

static void
one_setting(crowd *c, int place, int setting)
{
    turns rates = { .rounds = bench_count(6, 1) };

    for (int round = 0; round < bench.runs * rates.rounds; round++)
        for (int who = 0; who < CONTESTANTS; who++)
            turns_add(&rates, who, one_round(c, who, settings[setting].threads));
    report_setting(place, setting, &rates);
    turns_free(&rates);
}

void
redis_threads(void)
{
    crowd *c = bench_shared(sizeof *c); /* for its alignment */
    char url[128];

    report_section("threads of one process, each with a name of its own",
                   "one client of dibs against a blocking connection for each thread; "
                   "rounds of 150 ms in turn");
    for (int i = 0; i < THREADS_MAX; i++)
        raw_open(&c->links[i], 0);
    c->shared = shared_open();
    for (int place = 0; place < PLACES; place++) {
        place_client(place);
        /* the client's own threads start where it was opened */
        for (int who = PLAIN; who <= QUEUE; who++) {
            server_url(url, sizeof url, contestant_names[who]);
            c->clients[who] = bench_open(url);
        }
        for (int setting = 0; setting < SETTINGS; setting++)
            one_setting(c, place, setting);
        for (int who = PLAIN; who <= QUEUE; who++)
            dibs_close(c->clients[who]);
    }
    for (int i = 0; i < THREADS_MAX; i++)
        raw_close(&c->links[i]);
    shared_close(c->shared);
}
