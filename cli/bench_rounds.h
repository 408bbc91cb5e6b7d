/* SPDX-License-Identifier: MIT */
/* The measuring part of `dibs bench`: see bench_rounds.c. */
#ifndef DIBS_CLI_BENCH_ROUNDS_H
#define DIBS_CLI_BENCH_ROUNDS_H

#include <dibs.h>

/* What is measured, in the order in which it is shown. */
enum bench_kind {
    BENCH_FLOCK,      /* local: only, a floor: flock(2) pair */
    BENCH_PING_PONG,  /* local: only, a floor: a futex to another process and back */
    BENCH_ROUND_TRIP, /* what the engine takes to answer a question */
    BENCH_PAIR,       /* lock and unlock, nobody else wants it */
    BENCH_THREADS,    /* one hand-over, between two threads of this process */
    BENCH_PROCESSES,  /* one hand-over, between two processes */
    BENCH_KINDS
};

enum { BENCH_ROUNDS_MAX = 32 };

struct bench_figure {
    int rounds;                  /* 0: does not apply to this engine */
    double ns[BENCH_ROUNDS_MAX]; /* time per operation in each round */
};

struct bench_result {
    struct bench_figure figures[BENCH_KINDS];
    char url[512]; /* without a password */
    char engine[16];
};

/* bench_rounds measures everything that applies to the engine, in turns. `progress` (may
 * be NULL) is told before each round. Returns DIBS_OK, or the code of what failed;
 * DIBS_ECANCELED after bench_interrupt, a signal handler; err->engine_code is the signal.
 */
int bench_rounds(struct bench_result *result, const char *url, int rounds,
                 void (*progress)(int round, int rounds), dibs_error *err);
void bench_interrupt(int signal);

#endif /* DIBS_CLI_BENCH_ROUNDS_H */
