/* SPDX-License-Identifier: MIT */
/* A lock that tells everybody when it is free; see herd.c. */
#ifndef DIBS_BENCH_HERD_H
#define DIBS_BENCH_HERD_H

#include "redis.h"

/* One who takes part, with its two connections. */
typedef struct herd {
    redisContext *link, *ear;
    char name[64], channel[80], me[32];
    char acquire_sha[41], release_sha[41];
} herd;

void herd_open(herd *h, const char *name);
void herd_close(herd *h);
void herd_lock(herd *h);
void herd_unlock(herd *h);

#endif /* DIBS_BENCH_HERD_H */
