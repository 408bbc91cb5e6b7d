/* SPDX-License-Identifier: MIT */
/*
 * 100,000 holds kept in one process: memory for each, and what the keeper costs.
 *
 * Memory is what was taken from malloc plus the growth of the resident shared memory; the
 * heap's share is shown beside it. On `mock:` the engine's own state, which a server would
 * keep, is in the same process and counted too. `local:` has no lease (a hold lasts as
 * long as its process), so the keeper's cost is measured on `mock:` with a lease of 30 s:
 * the CPU time of a process that does nothing but hold, over more than one lease. Every
 * run is a process of its own, so that none inherits the heap of the last.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { WATCH_S = 40 };

/* What a child tells its parent. */
typedef struct outcome {
    double shared_each, heap_each; /* bytes */
    double keeper_percent;         /* of one CPU */
    double renewals, lost, late_ms;
} outcome;

typedef struct plan {
    const char *url;
    int holds;
    int watch; /* measure the keeper as well */
    outcome *result;
} plan;

/* shared_bytes: pages of files that this process has touched, in memory or on a disk. */
static double
shared_bytes(void)
{
    FILE *file = fopen("/proc/self/status", "r");
    char line[128];
    double kib = 0;

    if (file == NULL)
        bench_die("cannot read /proc/self/status");
    while (fgets(line, sizeof line, file) != NULL)
        if (strncmp(line, "RssFile:", 8) == 0 || strncmp(line, "RssShmem:", 9) == 0)
            kib += strtod(strchr(line, ':') + 1, NULL);
    fclose(file);
    return kib * 1024;
}

static double
heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();

    return (double)info.uordblks + (double)info.hblkhd;
}

static void
take(dibs_hold **holds, dibs *client, int count)
{
    dibs_error err;
    char name[32];

    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "bench/hold/%06d", i);
        bench_check(dibs_lock(&holds[i], client, name, &err), &err);
    }
}

/* watch_keeper does nothing for a while and looks at what that cost. */
static void
watch_keeper(dibs *client, const plan *p, int seconds)
{
    double cpu = bench_cpu_ns();
    double start = bench_now_ns();
    dibs_stats before, after;
    struct timespec pause = { seconds, 0 };

    dibs_stats_read(&before, client);
    nanosleep(&pause, NULL);
    dibs_stats_read(&after, client);
    p->result->keeper_percent = 100 * (bench_cpu_ns() - cpu) / (bench_now_ns() - start);
    p->result->renewals = (double)(after.renewals - before.renewals);
    p->result->lost = (double)after.lost;
    p->result->late_ms = (double)after.renewal_lateness_max_ms;
}

static void
hold_many(void *arg, int index)
{
    const plan *p = arg;
    size_t size = (size_t)p->holds * sizeof(dibs_hold *);
    dibs_hold **holds = malloc(size);
    dibs *client = bench_open(p->url);
    dibs_hold *warm;
    double shared, heap;

    (void)index;
    if (holds == NULL)
        bench_die("out of memory");
    /* what is needed once, and our own array, is not counted */
    memset(holds, 0, size);
    take(&warm, client, 1);
    dibs_unlock(warm, NULL);
    shared = shared_bytes();
    heap = heap_bytes();
    take(holds, client, p->holds);
    p->result->shared_each = (shared_bytes() - shared) / p->holds;
    p->result->heap_each = (heap_bytes() - heap) / p->holds;
    if (p->watch)
        watch_keeper(client, p, bench_count(WATCH_S, 1));
    for (int i = 0; i < p->holds; i++)
        dibs_unlock(holds[i], NULL);
    dibs_close(client);
    free(holds);
}

static void
measure(const char *engine, const char *url, int watch, int runs)
{
    plan p = { url, bench_count(100000, 500), watch, bench_shared(sizeof(outcome)) };
    series sum = { NULL, 0, 0 }, heap = { NULL, 0, 0 }, keeper = { NULL, 0, 0 };
    char id[64], label[96];

    for (int run = 0; run < runs; run++) {
        bench_join(bench_fork(hold_many, &p, run));
        series_add(&sum, p.result->heap_each + p.result->shared_each);
        series_add(&heap, p.result->heap_each);
        series_add(&keeper, p.result->keeper_percent);
    }
    snprintf(id, sizeof id, "holds.%s.heap", engine);
    snprintf(label, sizeof label, "%s: the process's memory per hold, %d holds", engine,
             p.holds);
    if (watch)
        report_figure(id, label, "B", &heap); /* the engine's own state is in there */
    else
        report_bar(id, label, "B", &heap, BAR_AT_MOST, 512);
    snprintf(id, sizeof id, "holds.%s.bytes", engine);
    snprintf(label, sizeof label, "%s: ... and the table's, in shared memory", engine);
    report_figure(id, label, "B", &sum);
    if (watch) {
        snprintf(id, sizeof id, "holds.%s.keeper", engine);
        snprintf(label, sizeof label, "%s: keeper's share of a CPU, lease 30 s", engine);
        report_bar(id, label, "%", &keeper, BAR_AT_MOST, 5);
        report_note("last run: %.0f renewals in %d s, at most %.0f ms late; %.0f lost",
                    p.result->renewals, bench_count(WATCH_S, 1), p.result->late_ms,
                    p.result->lost);
    }
    series_free(&sum);
    series_free(&heap);
    series_free(&keeper);
}

void
bench_holds(void)
{
    dibs_error err;
    dibs *client;

    report_section("many holds in one process",
                   "malloc and shared memory together; keeper over 40 s");
    measure("local", bench.url, 0, bench.runs);
    if (dibs_open(&client, "mock:", NULL, &err) != DIBS_OK) {
        report_note("mock: skipped: %s", err.text);
        return;
    }
    dibs_close(client);
    measure("mock", "mock:", 1, bench.runs);
}
