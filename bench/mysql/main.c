/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_mysql: how fast `mysql:` is, beside statements by hand. Starts its own
 * servers. `bench/run mysql` builds and runs it; docs/speed.md explains the figures. Read
 * next: ../sql.h.
 */
#include "mysql_bench.h"

static void
mysql_native(void)
{
    sql_native("get_lock", "GET_LOCK() by hand");
}

static void
mysql_handover(void)
{
    sql_handover(4, &sql_native_lock, "GET_LOCK() by hand");
}

static const bench_part parts[] = {
    { "pair", sql_pair },           { "native", mysql_native },
    { "handover", mysql_handover }, { "waiters", sql_waiters },
    { "inside", sql_inside },       { 0 },
};

static const comparison comparisons[] = {
    { "lock + unlock, upsert and delete by hand", "pair.disk.X.dibs.ratio",
      "pair.disk.X.dibs", "pair.disk.X.floor", 1 },
    { "… files in memory", "pair.memory.X.dibs.ratio", "pair.memory.X.dibs",
      "pair.memory.X.floor", 1 },
    { "… GET_LOCK", "native.memory.X.dibs.ratio", "native.memory.X.dibs",
      "native.memory.X.floor", 1 },
    { "16 threads, no hand-over inside", "inside.disk.X.ratio", "inside.disk.X.with",
      "inside.disk.X.without", 0 },
    { 0 },
};

const bench_program program = {
    .name = "mysql",
    .store = "MariaDB",
    .parts = parts,
    .comparisons = comparisons,
};
