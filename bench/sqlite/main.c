/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_sqlite: how fast `sqlite:` is, beside statements by hand. `bench/run sqlite`
 * builds and runs it; docs/speed.md explains the figures. Read next: ../sql.h.
 */
#include "sqlite_bench.h"

/* who waits looks for changes, since nobody can tell it: no bar */
static void
sqlite_handover(void)
{
    sql_handover(0, NULL, NULL);
}

static const bench_part parts[] = {
    { "pair", sql_pair },
    { "handover", sqlite_handover },
    { "inside", sql_inside },
    { 0 },
};

static const comparison comparisons[] = {
    { "lock + unlock, upsert and delete by hand", "pair.disk.X.dibs.ratio",
      "pair.disk.X.dibs", "pair.disk.X.floor", 1 },
    { "… file in memory", "pair.memory.X.dibs.ratio", "pair.memory.X.dibs",
      "pair.memory.X.floor", 1 },
    { "16 threads, no hand-over inside", "inside.disk.X.ratio", "inside.disk.X.with",
      "inside.disk.X.without", 0 },
    { 0 },
};

const bench_program program = {
    .name = "sqlite",
    .store = "SQLite",
    .parts = parts,
    .comparisons = comparisons,
};
