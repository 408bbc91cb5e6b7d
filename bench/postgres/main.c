/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_postgres: how fast `postgres:` is, beside statements by hand. Starts its own
 * servers. `bench/run postgres` builds and runs it; docs/speed.md explains the figures. Read
 * next: ../sql.h.
 */
#include "postgres.h"

static void
postgres_native(void)
{
    sql_native("advisory", "pg_advisory_lock() by hand");
}

static void
postgres_handover(void)
{
    sql_handover(3, &sql_native_lock, "pg_advisory_lock() by hand");
}

static const bench_part parts[] = {
    { "pair", sql_pair },
    { "native", postgres_native },
    { "handover", postgres_handover },
    { "waiters", sql_waiters },
    { "inside", sql_inside },
    { 0 },
};

static const comparison comparisons[] = {
    { "lock + unlock, upsert and delete by hand", "pair.disk.X.dibs.ratio",
      "pair.disk.X.dibs", "pair.disk.X.floor", 1 },
    { "… files in memory", "pair.memory.X.dibs.ratio", "pair.memory.X.dibs",
      "pair.memory.X.floor", 1 },
    { "… advisory locks", "native.memory.X.dibs.ratio", "native.memory.X.dibs",
      "native.memory.X.floor", 1 },
    { "16 threads, no hand-over inside", "inside.disk.X.ratio", "inside.disk.X.with",
      "inside.disk.X.without", 0 },
    { 0 },
};

const bench_program program = {
    .name = "postgres",
    .store = "PostgreSQL",
    .parts = parts,
    .comparisons = comparisons,
};
