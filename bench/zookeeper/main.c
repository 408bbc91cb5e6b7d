/* SPDX-License-Identifier: MIT */
/*
 * dibs_bench_zookeeper: how fast `zookeeper:` is, beside the bare client library, Curator
 * and kazoo. Starts its own servers. `bench/run zookeeper` builds and runs it;
 * docs/speed.md explains the figures. Read next: zookeeper.h.
 */
#include "zookeeper.h"

static void
zookeeper_inside(void)
{
    logs_inside("curator", 50);
}

static void
zookeeper_holds(void)
{
    logs_holds("curator", NULL, NULL);
}

static const bench_part parts[] = {
    { "pair", zookeeper_pair },     { "handover", zookeeper_handover },
    { "inside", zookeeper_inside }, { "waiters", zookeeper_waiters },
    { "holds", zookeeper_holds },   { 0 },
};

static const comparison comparisons[] = {
    { "lock + unlock, bare create + delete", "pair.disk.X.curator.ratio",
      "pair.disk.X.curator", "pair.disk.X.floor", 1 },
    { "lock + unlock, Curator", "pair.disk.X.speed", "pair.disk.X.curator",
      "pair.disk.X." PEER_CURATOR, 0 },
    { "… log in memory", "pair.memory.X.speed", "pair.memory.X.curator",
      "pair.memory.X." PEER_CURATOR, 0 },
    { "16 sessions on one name, Curator", "handover.disk.X.ratio",
      "handover.disk.X.curator", "handover.disk.X." PEER_CURATOR, 0 },
    { "… log in memory", "handover.memory.X.ratio", "handover.memory.X.curator",
      "handover.memory.X." PEER_CURATOR, 0 },
    { "… our herd", "handover.disk.X.herd", "handover.disk.X.curator",
      "handover.disk.X.node", 0 },
    { "16 threads, no hand-over inside", "inside.disk.X.ratio", "inside.disk.X.with",
      "inside.disk.X.without", 0 },
    { 0 },
};

const bench_program program = {
    .name = "zookeeper",
    .store = "zookeeper",
    .parts = parts,
    .comparisons = comparisons,
};
