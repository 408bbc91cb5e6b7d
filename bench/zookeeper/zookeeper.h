/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks of zookeeper: share: the programs that run beside dibs. ../bench.h has
 * the rules and the placements, ../logs.h the servers; the log of the one in memory is not
 * forced (forceSync=no).
 */
#ifndef DIBS_BENCH_ZOOKEEPER_H
#define DIBS_BENCH_ZOOKEEPER_H

#include "../logs.h"
#include "../peers.h"

/* --------------------------------------------------------------------- peers ---- */

/* A bare create and delete, with the single-threaded and the multi-threaded C client. */
#define PEER_ST "bare-st"
#define PEER_MT "bare-mt"
#define PEER_CURATOR "curator-java"

/* zookeeper_peers_start starts the program with this id (NULL: all) that are there: see
 * ../peers.h. */
int zookeeper_peers_start(peer *out, int most, const char *id, const server *s,
                          int place);

/* ---------------------------------------------------------------- benchmarks ---- */

void zookeeper_pair(void);
void zookeeper_handover(void);
void zookeeper_waiters(void);

#endif /* DIBS_BENCH_ZOOKEEPER_H */
