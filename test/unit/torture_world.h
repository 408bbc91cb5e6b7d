/* SPDX-License-Identifier: MIT */
/*
 * A world in virtual time, to make histories from: a store with a line for each name, with
 * leases or (as local:) without, and processes that use it and are paused and killed. It does
 * everything right, or makes one mistake all the time.
 */
#ifndef UNIT_TORTURE_WORLD_H
#define UNIT_TORTURE_WORLD_H

#include "unit.h"

#include "torture.h"

/* What may be done wrong, and the rule that must notice. */
#define WORLD_MISTAKES(X)                                                                \
    X(BELIEVES_TOO_LONG, 1, "a lease counts from when it was read, and twice")           \
    X(EXPIRES_EARLY, 1, "the store ends leases after half their time")                   \
    X(REGISTER_TAKES_ALL, 2, "the register refuses nobody")                              \
    X(FENCE_TAKES_ALL, 2, "the fence refuses nobody")                                    \
    X(WRITE_IS_LOST, 2, "a write is acknowledged, and is not there")                     \
    X(OWN_TOKENS, 3, "each process counts its own tokens")                               \
    X(TOKENS_BEGIN_ANEW, 3, "tokens begin anew after a strike")                          \
    X(NOT_TOLD, 4, "nobody is told of a loss")                                           \
    X(TOLD_TWICE, 4, "a loss is told twice")                                             \
    X(TOLD_LATE, 4, "a loss is told when it is too late")                                \
    X(HELD_AGAIN, 5, "what was lost is held again")                                      \
    X(ENDS_BY_NAME, 6, "a release ends whatever is there")                               \
    X(FORGETS, 6, "the store forgets a hold")                                            \
    X(LAST_FIRST, 7, "who comes last is served first")                                   \
    X(SERVES_LATE, 8, "what is free is not given to those who wait")                     \
    X(KEEPS_THE_DEAD, 8, "what the dead had is kept for long")                           \
    X(OVERSLEEPS, 10, "who has waited long enough sleeps on")                            \
    X(NEVER_RETURNS, 10, "a call never comes back")                                      \
    X(KEEPS_REFUSED, 11, "what was refused is held")                                     \
    X(GUESSES, 13, "busy is said without looking")

enum mistake {
    NO_MISTAKE,
#define WORLD_MISTAKE_NAME(name, rule, what) name,
    WORLD_MISTAKES(WORLD_MISTAKE_NAME)
#undef WORLD_MISTAKE_NAME
};

/* How long servers take to heal from a strike. */
#define WORLD_HEAL_MS 300

/* world_play empties a history and fills it: six seconds, as the seed says. Every fourth seed
 * has no leases, but for mistakes, of which most need them. */
void world_play(struct history *into, uint64_t seed, enum mistake mistake);
int world_has_leases(void);

#endif
