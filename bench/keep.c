/* SPDX-License-Identifier: MIT */
/* Many holds, kept: see keep.h. */
#include <stdio.h>
#include <stdlib.h>

#include "keep.h"

void
keep_start(keep *k, const char *url, int count)
{
    dibs_error err;
    char name[32];

    k->count = count;
    k->holds = calloc((size_t)count, sizeof(dibs_hold *));
    if (k->holds == NULL)
        bench_die("out of memory");
    k->client = bench_open(url);
    for (int i = 0; i < count; i++) {
        snprintf(name, sizeof name, "bench/hold/%06d", i);
        bench_check(dibs_lock(&k->holds[i], k->client, name, &err), &err);
    }
}

double
keep_turn(const keep *k, double *seconds)
{
    double start = bench_now_ns(), cpu = bench_cpu_ns();
    dibs_stats stats;

    bench_nap_ms(bench_count(KEEP_TURN_MS, 100));
    *seconds = (bench_now_ns() - start) / 1e9;
    cpu = (bench_cpu_ns() - cpu) / 1e9;
    dibs_stats_read(&stats, k->client);
    if (stats.lost > 0)
        bench_die("%llu holds were lost", (unsigned long long)stats.lost);
    return 100 * cpu / *seconds;
}

void
keep_stop(keep *k)
{
    for (int i = 0; i < k->count; i++)
        (void)dibs_unlock(k->holds[i], NULL);
    dibs_close(k->client);
    free(k->holds);
}
