/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_local: how fast `local:` is, beside what people use today. Prints a table,
 * and writes JSON and plots if asked to. bench/run builds and runs it; docs/speed.md
 * explains the figures. Read next: bench.h.
 */
#include <stdio.h>

#include "bench.h"

static const bench_part parts[] = {
    { "pair", bench_pair },   { "handover", bench_handover },
    { "order", bench_order }, { "run", bench_spawn },
    { "names", bench_names }, { "waiters", bench_waiters },
    { "holds", bench_holds }, { 0 },
};

static const comparison comparisons[] = {
    { "lock + unlock, uncontended", "pair.ratio", "pair.dibs", "pair.flock", 1 },
    { "hand-over, 2 processes, one CPU", "handover.2S-queued.ratio",
      "handover.2S-queued.dibs", "handover.2S-queued.flock", 0 },
    { "hand-over, 16 processes, one CPU", "handover.16S-queued.ratio",
      "handover.16S-queued.dibs", "handover.16S-queued.flock", 0 },
    { "hand-over, 2 processes, all CPUs", "handover.2X-queued.ratio",
      "handover.2X-queued.dibs", "handover.2X-queued.flock", 0 },
    { "hand-over, 16 processes, all CPUs", "handover.16X-queued.ratio",
      "handover.16X-queued.dibs", "handover.16X-queued.flock", 0 },
    { "command: run … true", "run.ratio", "run.dibs", "run.flock", 1 },
    { 0 },
};

static int
plot_curve(const char *dir)
{
    char path[512];

    snprintf(path, sizeof path, "%s/speed-curve.svg", dir);
    return plot_curves(path);
}

const bench_program program = {
    .name = "local",
    .store = "local",
    .rival = "flock",
    .parts = parts,
    .comparisons = comparisons,
    .plot_more = plot_curve,
};
