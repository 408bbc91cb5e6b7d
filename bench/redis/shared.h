/* SPDX-License-Identifier: MIT */
/*
 * Threads that share a few connections, by hand: the least that can be done for it. It knows
 * no time limits, no lost connections and no order but that of one name. What dibs does on its
 * links beyond that is the difference to this.
 */
#ifndef DIBS_BENCH_REDIS_SHARED_H
#define DIBS_BENCH_REDIS_SHARED_H

#include "redis.h"

typedef struct shared shared;

shared *shared_open(void);
void shared_close(shared *s);

/* SET NX PX and TIME in one, and a compare-and-delete: what the layout plain sends. Threads
 * with other indexes may call them at the same time. */
void shared_lock(shared *s, int index, const char *name);
void shared_unlock(shared *s, int index, const char *name);

#endif /* DIBS_BENCH_REDIS_SHARED_H */
