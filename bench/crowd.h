/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs: processes that all want one name, all the time. Who lets go asks again when
 * another one has got it, so that every grant is a hand-over, with all others waiting. With
 * two processes and nothing done inside nobody would wait: then they are greedy, or hold.
 *
 * The processes are told by a shared page which lock to fight for in this round, and count
 * there while they have it; the page proves exclusion too.
 */
#ifndef DIBS_BENCH_CROWD_H
#define DIBS_BENCH_CROWD_H

#include "bench.h"

/* A lock to fight for, as one process sees it. `open` is called once in each process. */
typedef struct crowd_lock {
    void *(*open)(const void *arg);
    void (*lock)(void *state);
    void (*unlock)(void *state);
    void (*close)(void *state);
    const void *arg;
} crowd_lock;

/* A lock of dibs on the URL in `arg`. */
crowd_lock crowd_dibs(const char *url);

enum { CROWD_MAX = 64, CROWD_LOCKS_MAX = 4 };

typedef struct crowd crowd;

/* crowd_start starts the processes on the CPU of that placement; they sleep. begin and end
 * are a round; grants counts all there were. */
crowd *crowd_start(const crowd_lock *locks, int count, int processes, int place);
void crowd_begin(crowd *c, int which);
double crowd_grants(crowd *c);
void crowd_end(crowd *c);
void crowd_stop(crowd *c);

/* From the next round on: crowd_hold has whoever has the lock keep it so long before it lets
 * go, 0 at first; crowd_greedy has it ask again at once. Only grants to another one than the
 * one before count. crowd_times adds how long each hand-over of the last round took, from the
 * call that lets go to the return of the next one's lock, in nanoseconds. */
void crowd_hold(crowd *c, int ms);
void crowd_greedy(crowd *c, int is_greedy);
void crowd_times(crowd *c, series *out);

#endif /* DIBS_BENCH_CROWD_H */
