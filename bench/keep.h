/* SPDX-License-Identifier: MIT */
/* Many holds of one process, kept by renewing them for as long as it lives. */
#ifndef DIBS_BENCH_KEEP_H
#define DIBS_BENCH_KEEP_H

#include "bench.h"

typedef struct keep {
    dibs *client;
    dibs_hold **holds;
    int count;
} keep;

/* The keeper renews each hold every third of its lease of 30 s. */
enum { KEEP_TURN_MS = 10000 };

void keep_start(keep *k, const char *url, int count);
/* keep_turn lets a turn pass, and returns what this process used, in % of a CPU. Dies if a
 * hold was lost. */
double keep_turn(const keep *k, double *seconds);
void keep_stop(keep *k);

#endif /* DIBS_BENCH_KEEP_H */
