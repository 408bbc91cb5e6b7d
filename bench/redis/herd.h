/* SPDX-License-Identifier: MIT */
/* A lock that tells everybody when it is free; see herd.c. */
#ifndef DIBS_BENCH_HERD_H
#define DIBS_BENCH_HERD_H

#include "../crowd.h"
#include "redis.h"

/* herd_in_crowd is that lock under this name, for processes that fight for it. */
crowd_lock herd_in_crowd(const char *name);

#endif /* DIBS_BENCH_HERD_H */
