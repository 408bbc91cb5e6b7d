/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_consul: how fast `consul:` is, beside the same requests by hand, and `consul lock`.
 * Starts its own servers. `bench/run consul` builds and runs it; docs/speed.md explains the
 * figures. Read next: consul.h.
 */
#include "consul.h"

static void
consul_run(void)
{
    static const command others[] = {
        { "consul", "consul lock x true", { "consul", "lock", "x", "true" } },
        { "version", "consul version", { "consul", "version" } },
        { "libcurl", "loading libcurl", { LOAD_CURL } },
    };

    logs_run(NULL, others, sizeof others / sizeof others[0], "CONSUL_HTTP_ADDR", 0.25);
}

static void
consul_inside(void)
{
    logs_inside(NULL, 100);
}

static void
consul_holds(void)
{
    logs_holds(NULL, "sessions", consul_sessions);
}

static const bench_part parts[] = {
    { "pair", consul_pair },       { "run", consul_run },     { "inside", consul_inside },
    { "waiters", consul_waiters }, { "holds", consul_holds }, { 0 },
};

static const comparison comparisons[] = {
    { "lock + unlock, the same by hand", "pair.disk.X.dibs.ratio", "pair.disk.X.dibs",
      "pair.disk.X.floor", 1 },
    { "… data in memory", "pair.memory.X.dibs.ratio", "pair.memory.X.dibs",
      "pair.memory.X.floor", 1 },
    { "dibs run, consul lock", "run.disk.X.ratio", "run.disk.X.dibs", "run.disk.X.consul",
      1 },
    { "16 threads, no hand-over inside", "inside.disk.X.ratio", "inside.disk.X.with",
      "inside.disk.X.without", 0 },
    { 0 },
};

const bench_program program = {
    .name = "consul",
    .store = "consul",
    .parts = parts,
    .comparisons = comparisons,
};
