/* SPDX-License-Identifier: MIT */
/*
 * Does an operation cost more when many names are held? With 1 to 100,000 names held by a
 * process, two costs are measured: a lock+unlock pair of a name that has nothing to do
 * with them; and giving back and taking again one of them, picked at random. The second
 * touches memory all over the table, which no cache holds at 100,000: its floor, a
 * pointer chase over as many robust mutexes 512 bytes apart, is shown beside it.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

enum { NAMES_MAX = 100000, SPACING = 512, NAME_SIZE = 24 };

typedef struct table {
    dibs *client;
    dibs_hold **holds;
    char (*names)[NAME_SIZE]; /* written beforehand: we measure locks, not snprintf */
    int held;
    char *mutexes; /* the floor: NAMES_MAX of them, SPACING apart */
    uint64_t random;
} table;

static int
pick(table *t)
{
    /* xorshift: fast, and the same for both contestants */
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return (int)(t->random % (uint64_t)t->held);
}

static void
lock_number(table *t, int number)
{
    dibs_error err;

    bench_check(dibs_lock(&t->holds[number], t->client, t->names[number], &err), &err);
}

static double
unrelated_ns(table *t, int count)
{
    double start = bench_now_ns();
    dibs_error err;
    dibs_hold *hold;

    for (int i = 0; i < count; i++) {
        bench_check(dibs_lock(&hold, t->client, "bench/unrelated", &err), &err);
        bench_check(dibs_unlock(hold, &err), &err);
    }
    return (bench_now_ns() - start) / count;
}

static double
retake_ns(table *t, int count)
{
    double start = bench_now_ns();
    dibs_error err;

    for (int i = 0; i < count; i++) {
        int number = pick(t);

        bench_check(dibs_unlock(t->holds[number], &err), &err);
        lock_number(t, number);
    }
    return (bench_now_ns() - start) / count;
}

static double
mutex_ns(table *t, int count)
{
    double start = bench_now_ns();

    for (int i = 0; i < count; i++) {
        pthread_mutex_t *mutex =
            (pthread_mutex_t *)(void *)(t->mutexes + (size_t)pick(t) * SPACING);

        if (pthread_mutex_lock(mutex) != 0 || pthread_mutex_unlock(mutex) != 0)
            bench_die("a robust mutex failed");
    }
    return (bench_now_ns() - start) / count;
}

static void
make_mutexes(table *t, int count)
{
    pthread_mutexattr_t attr;

    t->mutexes = bench_shared((size_t)count * SPACING);
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    for (int i = 0; i < count; i++)
        pthread_mutex_init((pthread_mutex_t *)(void *)(t->mutexes + (size_t)i * SPACING),
                           &attr);
    pthread_mutexattr_destroy(&attr);
}

static void *
prepare(const char *url, int size)
{
    table *t = calloc(1, sizeof *t);

    if (t == NULL)
        bench_die("out of memory");
    t->client = bench_open(url);
    t->random = 88172645463325252u;
    t->holds = calloc((size_t)size, sizeof *t->holds);
    t->names = calloc((size_t)size, sizeof *t->names);
    if (t->holds == NULL || t->names == NULL)
        bench_die("out of memory");
    make_mutexes(t, size);
    for (; t->held < size; t->held++) {
        snprintf(t->names[t->held], NAME_SIZE, "bench/name/%06d", t->held);
        lock_number(t, t->held);
    }
    return t;
}

static double
measure(void *state, int which)
{
    static double (*const costs[])(table *, int) = { unrelated_ns, retake_ns, mutex_ns };

    return costs[which](state, bench_count(1000, 20));
}

static void
finish(void *state)
{
    table *t = state;

    for (int i = 0; i < t->held; i++)
        dibs_unlock(t->holds[i], NULL);
    dibs_close(t->client);
    free(t->holds);
    free(t->names);
    free(t);
}

void
bench_names(void)
{
    static const char *const ids[] = { "unrelated", "retake", "mutex" };
    static const char *const labels[] = { "pair of an unrelated name",
                                          "unlock+lock of a random one of them",
                                          "random one of as many mutexes (floor)" };
    const panel p = { "names", "held", 3, ids, labels, prepare, measure, finish };

    report_section("cost of a pair while many names are held",
                   "a process per size, all on one CPU; rounds of 1000 pairs in turn");
    panel_run(&p, bench_count(NAMES_MAX, 100));
}
