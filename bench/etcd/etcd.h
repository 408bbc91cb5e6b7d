/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks of etcd: share: locks as people would write them by hand. ../bench.h
 * has the rules and the placements, ../logs.h the servers; the one in memory has its data on
 * a tmpfs.
 */
#ifndef DIBS_BENCH_ETCD_H
#define DIBS_BENCH_ETCD_H

#include "../logs.h"
#include "../raw_http.h"

#define ETCD_LAYOUT "concurrency"

/* etcd_leases returns how many there are. */
double etcd_leases(const server *s);

/* ------------------------------------------------------------- locks by hand ---- */

/* raw_open makes one kept connection to a server, with a lease of its own that outlives the
 * benchmark. As ../crowd.h and ../pairs.h want it, what it returns has no type. */
void *raw_open(const void *server);
void raw_close(void *raw);

/* raw_lock and raw_unlock send what dibs sends for a lock that nobody else wants.
 * raw_service_lock and -unlock use the server's own lock service, which waits. Each have one
 * name. */
void raw_lock(void *raw);
void raw_unlock(void *raw);
void raw_service_lock(void *raw);
void raw_service_unlock(void *raw);

/* ---------------------------------------------------------------- benchmarks ---- */

void etcd_pair(void);
void etcd_handover(void);

#endif /* DIBS_BENCH_ETCD_H */
