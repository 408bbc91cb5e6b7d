/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_redis: how fast `redis:` and `redlock:` are, beside locks by hand and the
 * libraries people use today. Starts its own servers. `bench/run redis` builds and runs
 * it; docs/speed.md explains the figures. Read next: redis.h.
 */
#include "redis.h"

static const bench_part parts[] = {
    { "pair", redis_pair },         { "threads", redis_threads },
    { "handover", redis_handover }, { "inside", redis_inside },
    { "waiters", redis_waiters },   { "redlock", redis_redlock },
    { "holds", redis_holds },       { 0 },
};

static const comparison comparisons[] = {
    { "lock + unlock, plain, by hand", "pair.X.plain.ratio", "pair.X.plain", "pair.X.raw",
      1 },
    { "lock + unlock, queue, by hand", "pair.X.queue.ratio", "pair.X.queue", "pair.X.raw",
      1 },
    { "16 threads, a connection each", "threads.X16.plain.ratio", "threads.X16.plain",
      "threads.X16.raw", 0 },
    { "64 threads, a connection each", "threads.X64.plain.ratio", "threads.X64.plain",
      "threads.X64.raw", 0 },
    { "16 processes, publish to all", "handover.X.ratio", "handover.X.dibs",
      "handover.X.publish-to-all", 0 },
    { "… all on one CPU", "handover.S.ratio", "handover.S.dibs",
      "handover.S.publish-to-all", 0 },
    { "16 threads on one name, no hand-over", "inside.X.ratio", "inside.X.with",
      "inside.X.without", 0 },
    { 0 },
};

const bench_program program = {
    .name = "redis",
    .store = "redis",
    .parts = parts,
    .comparisons = comparisons,
};
