/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks of consul: share: locks as people would write them by hand. ../bench.h
 * has the rules and the placements, ../logs.h the servers; the one in memory is an agent
 * with -dev.
 */
#ifndef DIBS_BENCH_CONSUL_H
#define DIBS_BENCH_CONSUL_H

#include "../logs.h"
#include "../raw_http.h"

/* consul_sessions returns how many there are. */
double consul_sessions(const server *s);

/* ------------------------------------------------------------- locks by hand ---- */

/* raw_open makes one kept connection to a server, with a session of its own that outlives
 * the benchmark. As ../crowd.h and ../pairs.h want it, what it returns has no type. */
void *raw_open(const void *server);
void raw_close(void *raw);

/* raw_lock and raw_unlock send what dibs sends for a lock that nobody else wants.
 * raw_acquire and raw_release are as Consul's documentation has it, ?acquire= and ?release=;
 * raw_acquire waits by blocking queries. Each have one name. */
void raw_lock(void *raw);
void raw_unlock(void *raw);
void raw_acquire(void *raw);
void raw_release(void *raw);

/* ---------------------------------------------------------------- benchmarks ---- */

void consul_pair(void);
void consul_waiters(void);

#endif /* DIBS_BENCH_CONSUL_H */
