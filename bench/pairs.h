/* SPDX-License-Identifier: MIT */
/*
 * Uncontended lock+unlock pairs on a server: dibs, what people would write by hand, and
 * lock libraries of other languages, all in turn. What counts is the median pair of a
 * round over that of another contestant in the same round.
 */
#ifndef DIBS_BENCH_PAIRS_H
#define DIBS_BENCH_PAIRS_H

#include "bench.h"
#include "peers.h"

typedef struct pair_contestant {
    const char *id, *label;
    double bar; /* at most so many times the floor; 0: none */
    /* the median of so many pairs, in nanoseconds */
    double (*pairs)(void *arg, int count);
    void *arg;
} pair_contestant;

/* Contestants: a client of dibs, a peer, and a lock that was written by hand. */
double pairs_of_dibs(void *client, int count);
double pairs_of_peer(void *peer, int count);

typedef struct pair_hand {
    void (*lock)(void *state);
    void (*unlock)(void *state);
    void *state;
} pair_hand;

double pairs_of_hand(void *hand, int count);

/* pairs_add_peers appends those that run to a list with room for TURNS_MAX, and returns
 * the list's length. */
int pairs_add_peers(pair_contestant *list, int count, peer *peers, int peer_count);

typedef struct pair_counts {
    int warm_up, rounds, a_round;
} pair_counts;

/* pairs_run has each warm up, and then all take turns. Where a pair takes long (a slow
 * disk), it does with fewer. */
void pairs_run(turns *t, const pair_contestant *list, int count, const pair_counts *n);

/* pairs_report reports times as ID.contestant, and ratios to the floor as
 * ID.contestant.ratio; `words` come before the labels. */
void pairs_report(const turns *t, const pair_contestant *list, int count, int floor,
                  const char *id, const char *words);

#endif /* DIBS_BENCH_PAIRS_H */
