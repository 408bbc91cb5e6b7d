/* SPDX-License-Identifier: MIT */
/*
 * The n-th call fails. A play (play.c) is all that a client does in its life, on a real server:
 * open, lock, renew, let somebody wait, unlock, cells, look, close. It is run again and again,
 * each time in a process of its own, in which the n-th allocation, or the n-th call of the
 * system, that dibs makes fails in one of the ways in which such a call can (hook.c). Calls
 * of the libraries below dibs are left alone. Whatever fails: no crash, no hang, no leak, no
 * result that is none, and afterwards another client gets the lock (main.c).
 */
#ifndef TEST_NTH_H
#define TEST_NTH_H

#include <stdatomic.h>

#include "harness.h"

enum nth_family { NTH_ALLOC, NTH_CALL };

/* What is to fail, and what did; in memory that the play and the one who judges it share. */
typedef struct nth_plan {
    int family;   /* enum nth_family */
    long target;  /* which call; 0: none, it is only counted */
    unsigned way; /* in which of the ways */
    _Atomic long count;
    _Atomic int has_struck;
    char function[24], where[200];
    char step[32]; /* what the play does, or did last */
    char trouble[200];
} nth_plan;

/* arm makes the calls of dibs go through here, those of modules that are loaded later as
 * well: 0, or -1 if that is not known for this machine. disarm lets them pass. */
int nth_arm(nth_plan *plan);
void nth_disarm(void);

/* play runs all of it; what is wrong is in plan->trouble. */
void nth_play(nth_plan *plan, const char *url, const char *name, uint32_t lease_ms);

#endif /* TEST_NTH_H */
