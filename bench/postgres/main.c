/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_postgres: how fast `postgres:` is, beside statements by hand. Starts its own
 * servers. `bench/run postgres` builds and runs it; docs/speed.md explains the figures. Read
 * next: ../sql.h.
 */
#include <stdio.h>

#include "postgres.h"

static void
postgres_native(void)
{
    sql_native("advisory", "pg_advisory_lock() by hand");
}

static void
postgres_handover(void)
{
    static const crowd_lock native = { raw_open, raw_native_lock, raw_native_unlock,
                                       raw_close, NULL };

    sql_handover(3, &native, "pg_advisory_lock() by hand");
}

static const bench_part parts[] = {
    { "pair", sql_pair },
    { "native", postgres_native },
    { "handover", postgres_handover },
    { "waiters", sql_waiters },
    { "inside", sql_inside },
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
};

static int
write_plots(const char *dir)
{
    char path[512];

    snprintf(path, sizeof path, "%s/speed-postgres.svg", dir);
    return plot_ratios(
        path, "speed of dibs on PostgreSQL: as a multiple of other ways",
        "PostgreSQL: as a multiple of the other's speed (log scale, longer "
        "is faster)",
        comparisons, sizeof comparisons / sizeof comparisons[0]);
}

int
main(int argc, char **argv)
{
    static const bench_program program = { parts, sizeof parts / sizeof parts[0],
                                           write_plots };

    return bench_main(argc, argv, &program);
}
