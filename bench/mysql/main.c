/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_mysql: how fast `mysql:` is, beside statements by hand. Starts its own
 * servers. `bench/run mysql` builds and runs it; docs/speed.md explains the figures. Read
 * next: ../sql.h.
 */
#include <stdio.h>

#include "mysql_bench.h"

static void
mysql_native(void)
{
    sql_native("get_lock", "GET_LOCK() by hand");
}

static void
mysql_handover(void)
{
    static const crowd_lock native = { raw_open, raw_native_lock, raw_native_unlock,
                                       raw_close, NULL };

    sql_handover(4, &native, "GET_LOCK() by hand");
}

static const bench_part parts[] = {
    { "pair", sql_pair },           { "native", mysql_native },
    { "handover", mysql_handover }, { "waiters", sql_waiters },
    { "inside", sql_inside },
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
};

static int
write_plots(const char *dir)
{
    char path[512];

    snprintf(path, sizeof path, "%s/speed-mysql.svg", dir);
    return plot_ratios(path, "speed of dibs on MariaDB: as a multiple of other ways",
                       "MariaDB: as a multiple of the other's speed (log scale, longer "
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
