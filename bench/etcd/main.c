/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_etcd: how fast `etcd:` is, beside the same requests by hand, the server's own
 * lock service, etcdctl and npm's etcd3. Starts its own servers. `bench/run etcd` builds and
 * runs it; docs/speed.md explains the figures. Read next: etcd.h.
 */
#include "../waits.h"
#include "etcd.h"

static void
etcd_run(void)
{
    static const command others[] = {
        { "etcdctl", "etcdctl lock x true", { "etcdctl", "lock", "x", "true" } },
        { "version", "etcdctl version", { "etcdctl", "version" } },
        { "libcurl", "loading libcurl", { LOAD_CURL } },
    };

    logs_run(ETCD_LAYOUT, others, sizeof others / sizeof others[0], "ETCDCTL_ENDPOINTS",
             0.25);
}

static void
etcd_inside(void)
{
    logs_inside(ETCD_LAYOUT, 100);
}

static void
etcd_holds(void)
{
    logs_holds(ETCD_LAYOUT, "leases", etcd_leases);
}

static void
etcd_waiters(void)
{
    waits_run(ETCD_LAYOUT, 1.1);
}

static const bench_part parts[] = {
    { "pair", etcd_pair },
    { "run", etcd_run },
    { "handover", etcd_handover },
    { "inside", etcd_inside },
    { "waiters", etcd_waiters },
    { "holds", etcd_holds },
    { 0 },
};

static const comparison comparisons[] = {
    { "lock + unlock, the same by hand", "pair.disk.X.dibs.ratio", "pair.disk.X.dibs",
      "pair.disk.X.floor", 1 },
    { "… data in memory", "pair.memory.X.dibs.ratio", "pair.memory.X.dibs",
      "pair.memory.X.floor", 1 },
    { "2 processes on one name, lock service", "handover.disk.X.ratio",
      "handover.disk.X.dibs", "handover.disk.X.service", 0 },
    { "… data in memory", "handover.memory.X.ratio", "handover.memory.X.dibs",
      "handover.memory.X.service", 0 },
    { "dibs run, etcdctl lock", "run.disk.X.ratio", "run.disk.X.dibs",
      "run.disk.X.etcdctl", 1 },
    { "16 threads, no hand-over inside", "inside.disk.X.ratio", "inside.disk.X.with",
      "inside.disk.X.without", 0 },
    { 0 },
};

const bench_program program = {
    .name = "etcd",
    .store = "etcd",
    .parts = parts,
    .comparisons = comparisons,
};
