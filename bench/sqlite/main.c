/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_sqlite: how fast `sqlite:` is, beside statements by hand. `bench/run sqlite`
 * builds and runs it; docs/speed.md explains the figures. Read next: ../sql.h.
 */
#include <stdio.h>

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
};

static const comparison comparisons[] = {
    { "lock + unlock, upsert and delete by hand", "pair.disk.X.dibs.ratio",
      "pair.disk.X.dibs", "pair.disk.X.floor", 1 },
    { "… file in memory", "pair.memory.X.dibs.ratio", "pair.memory.X.dibs",
      "pair.memory.X.floor", 1 },
    { "16 threads, no hand-over inside", "inside.disk.X.ratio", "inside.disk.X.with",
      "inside.disk.X.without", 0 },
};

static int
write_plots(const char *dir)
{
    char path[512];

    snprintf(path, sizeof path, "%s/speed-sqlite.svg", dir);
    return plot_ratios(path, "speed of dibs on SQLite: as a multiple of other ways",
                       "SQLite: as a multiple of the other's speed (log scale, longer is "
                       "faster)",
                       comparisons, sizeof comparisons / sizeof comparisons[0]);
}

int
main(int argc, char **argv)
{
    static const bench_program program = { parts, sizeof parts / sizeof parts[0],
                                           write_plots };

    return bench_main(argc, argv, &program);
}
