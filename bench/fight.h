/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs on a server, counted: whoever fights for a name takes turns in rounds, and
 * the server tells how many requests and events each grant took.
 */
#ifndef DIBS_BENCH_FIGHT_H
#define DIBS_BENCH_FIGHT_H

#include "crowd.h"
#include "logs.h"

/* A crowd of ours, or a program that has one of its own. Between begin and end they fight;
 * grants counts all there were. */
typedef struct fighters {
    const char *id, *label;
    void (*begin)(void *arg, int which);
    double (*grants)(void *arg);
    void (*end)(void *arg);
    void *arg;
    int which;
} fighters;

/* fighters_of_crowd: its processes, with one of its locks. */
fighters fighters_of_crowd(crowd *c, int which, const char *id, const char *label);

typedef struct fight {
    turns rates, requests, events;
} fight;

/* A round begins to count after warm_ms, and counts for count_ms, or longer if there were
 * hardly any grants. */
typedef struct fight_round {
    int warm_ms, count_ms;
} fight_round;

void fight_run(fight *f, int who, const fighters *them, const server *s,
               fight_round round);
/* fight_report reports ID.them, ID.them.requests and ID.them.events; `words` come before
 * the labels. */
void fight_report(const fight *f, int who, const fighters *them, const char *id,
                  const char *words);
void fight_free(fight *f);

#endif /* DIBS_BENCH_FIGHT_H */
