/* SPDX-License-Identifier: MIT */
/* What queue's scripts cost without a client: see line.c. */
#ifndef DIBS_BENCH_REDIS_LINE_H
#define DIBS_BENCH_REDIS_LINE_H

#include "../crowd.h"
#include "redis.h"

/* Taking part costs two connections. */
crowd_lock line_in_crowd(const char *key);

#endif /* DIBS_BENCH_REDIS_LINE_H */
