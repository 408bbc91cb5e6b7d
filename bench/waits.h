/* SPDX-License-Identifier: MIT */
/* What a hand-over costs the server while many wait. */
#ifndef DIBS_BENCH_WAITS_H
#define DIBS_BENCH_WAITS_H

/* waits_run measures it with 2, 8 and 64 processes, data in memory; the requests of a
 * hand-over with the most may be at most `bar` times those with the fewest. */
void waits_run(const char *layout, double bar);

#endif /* DIBS_BENCH_WAITS_H */
