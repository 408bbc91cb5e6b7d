/* SPDX-License-Identifier: MIT */
/*
 * Servers of our own: children on the first CPU that end when we do, on ports that were
 * free.
 */
#ifndef DIBS_BENCH_SERVE_H
#define DIBS_BENCH_SERVE_H

#include <sys/types.h>

/* serve starts one; what it prints is thrown away. serve_runs says whether it still runs;
 * serve_end ends it. */
pid_t serve(const char *const *argv);
int serve_runs(pid_t server);
void serve_end(pid_t server);

/* serve_free_port asks the kernel. Somebody may take it before the server does: then the
 * server ends at once. */
int serve_free_port(void);

/* serve_cpu returns the seconds of CPU that a server has used. */
double serve_cpu(pid_t server);

#endif /* DIBS_BENCH_SERVE_H */
