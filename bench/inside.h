/* SPDX-License-Identifier: MIT */
/* Hand-over between threads of one process, on an engine with a server: see inside.c. */
#ifndef DIBS_BENCH_INSIDE_H
#define DIBS_BENCH_INSIDE_H

#include "bench.h"

/* inside_run measures it where the caller is pinned, and reports ID.with, ID.without and
 * ID.ratio; `words` come before the labels. */
void inside_run(const char *url, const char *id, const char *words, double bar);

#endif /* DIBS_BENCH_INSIDE_H */
