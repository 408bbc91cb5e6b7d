/* SPDX-License-Identifier: MIT */
/*
 * Wing and Gong's search: is there an order of steps, each of which took effect at one moment
 * between two times, in which each is true of a lock with one owner? What may be first is
 * placed first; which sets of placed steps have been tried is remembered.
 */
#ifndef TORTURE_CHECK_SEARCH_H
#define TORTURE_CHECK_SEARCH_H

#include "check.h"

#define SEARCH_STEPS 400
#define SEARCH_WORDS ((SEARCH_STEPS + 63) / 64)
/* what a search may cost; one that costs more decides nothing */
#define SEARCH_SETS 16384u
#define SEARCH_SLOTS (2 * SEARCH_SETS)

/* Somebody takes it; gives it back, or loses it; is told that somebody else has it. */
enum step_kind { STEP_TAKE, STEP_GIVE, STEP_BUSY };

struct step {
    enum step_kind kind;
    int64_t from, until;
    const struct turn *turn;
    int is_needed; /* it has happened */
    int partner;   /* STEP_GIVE: the step that took it; -1: the owner it began with */
};

struct step_set {
    uint64_t words[SEARCH_WORDS];
};

struct search {
    struct step steps[SEARCH_STEPS];
    int count;
    int64_t from, until; /* all that happens, happens between */
    struct step_set placed;
    int path[SEARCH_STEPS]; /* in the order placed */
    int depth, deepest;
    const struct turn *stuck; /* what could not be placed after the longest path */
    const struct turn *owner;
    int holds; /* of the owner: it may re-enter */
    struct step_set sets[SEARCH_SETS];
    uint32_t slots[SEARCH_SLOTS]; /* 1 and the number of a set */
    uint32_t set_count;
};

/* search_begin empties it; `owner` has the lock, or NULL. search_add adds a step that has
 * happened; returns 0, or -1 if there is no room. */
void search_begin(struct search *search, const struct turn *owner, int64_t from,
                  int64_t until);
int search_add(struct search *search, enum step_kind kind, const struct turn *turn,
               int64_t from, int64_t until);

/* search_order is quick if what is likely to be next is added first: what changes nothing,
 * then takes in the order in which they returned, then what need not have happened. */
enum found { FOUND, FOUND_NONE, FOUND_NOTHING_OUT };
enum found search_order(struct search *search);

#endif /* TORTURE_CHECK_SEARCH_H */
