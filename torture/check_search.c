/* SPDX-License-Identifier: MIT */
/* Is there an order that makes sense? See check_search.h. */
#include "check_search.h"

#include <string.h>

/* ---- the steps ---- */

void
search_begin(struct search *search, const struct turn *owner, int64_t from, int64_t until)
{
    search->count = search->depth = search->deepest = 0;
    search->from = from;
    search->until = until;
    search->owner = owner;
    search->holds = owner != NULL;
    search->stuck = NULL;
    search->set_count = 0;
    memset(&search->placed, 0, sizeof search->placed);
    memset(search->slots, 0, sizeof search->slots);
}

int
search_add(struct search *search, enum step_kind kind, const struct turn *turn,
           int64_t from, int64_t until)
{
    struct step *step = &search->steps[search->count];
    if (search->count == SEARCH_STEPS)
        return -1;
    *step = (struct step){ kind, from, until, turn, 1, -1 };
    if (step->from < search->from)
        step->from = search->from;
    if (step->until > search->until)
        step->until = search->until;
    search->count++;
    return 0;
}

/* ---- sets of them ---- */

static int
is_placed(const struct search *search, int step)
{
    return (int)(search->placed.words[step / 64] >> (step % 64) & 1);
}

static void
flip(struct search *search, int step)
{
    search->placed.words[step / 64] ^= UINT64_C(1) << (step % 64);
}

static uint64_t
hash_of(const struct step_set *set)
{
    uint64_t hash = 0;
    for (int i = 0; i < SEARCH_WORDS; i++)
        hash = (hash ^ set->words[i]) * UINT64_C(0x9e3779b97f4a7c15) + (hash >> 29);
    return hash >> 20;
}

/* 1: new; 0: tried before; -1: no room */
static int
remember(struct search *search)
{
    uint64_t slot = hash_of(&search->placed) % SEARCH_SLOTS;
    for (; search->slots[slot]; slot = (slot + 1) % SEARCH_SLOTS) {
        if (memcmp(&search->sets[search->slots[slot] - 1], &search->placed,
                   sizeof search->placed) == 0)
            return 0;
    }
    if (search->set_count == SEARCH_SETS)
        return -1;
    search->sets[search->set_count++] = search->placed;
    search->slots[slot] = search->set_count;
    return 1;
}

/* ---- what a step needs, and does ---- */

/* giving back is needed if it was taken */
static int
is_due(const struct search *search, int at)
{
    const struct step *step = &search->steps[at];
    if (is_placed(search, at))
        return 0;
    if (step->kind == STEP_GIVE && step->partner >= 0)
        return is_placed(search, step->partner) || search->steps[step->partner].is_needed;
    return step->is_needed;
}

static int
is_true_now(const struct search *search, const struct step *step)
{
    switch (step->kind) {
    case STEP_TAKE:
        return search->holds == 0 || same_thread(search->owner, step->turn);
    case STEP_GIVE:
        return step->partner < 0 || is_placed(search, step->partner);
    default:
        return search->holds > 0;
    }
}

static void
place(struct search *search, int at)
{
    const struct step *step = &search->steps[at];
    flip(search, at);
    search->path[search->depth++] = at;
    if (step->kind == STEP_TAKE) {
        search->owner = step->turn;
        search->holds++;
    }
    if (step->kind == STEP_GIVE)
        search->holds--;
}

/* all who hold at one time are of one thread, so any of them does for an owner */
static int
take_back(struct search *search)
{
    int at = search->path[--search->depth];
    const struct step *step = &search->steps[at];
    flip(search, at);
    if (step->kind == STEP_TAKE)
        search->holds--;
    if (step->kind == STEP_GIVE) {
        search->owner = step->turn;
        search->holds++;
    }
    return at;
}

/* ---- the search ---- */

/* what is due first; no other step may be placed before it that begins after its end */
static const struct step *
first_due(const struct search *search)
{
    const struct step *first = NULL;
    for (int i = 0; i < search->count; i++) {
        if (is_due(search, i) && (!first || search->steps[i].until < first->until))
            first = &search->steps[i];
    }
    return first;
}

/* What need not have happened is not waited for; but it cannot come after something that began
 * when it was over. */
static int
is_too_late(const struct search *search, const struct step *step)
{
    for (int i = 0; !step->is_needed && i < search->depth; i++) {
        if (search->steps[search->path[i]].from > step->until)
            return 1;
    }
    return 0;
}

/* the next step after `at` that may be placed now, or -1 */
static int
next_step(const struct search *search, const struct step *first, int at)
{
    for (int i = at + 1; i < search->count; i++) {
        const struct step *step = &search->steps[i];
        if (!is_placed(search, i) && step->from <= first->until &&
            is_true_now(search, step) && !is_too_late(search, step))
            return i;
    }
    return -1;
}

enum found
search_order(struct search *search)
{
    int at = -1;
    for (;;) {
        const struct step *first = first_due(search);
        if (!first)
            return FOUND;
        if (search->depth >= search->deepest) {
            search->deepest = search->depth;
            search->stuck = first->turn;
        }
        at = next_step(search, first, at);
        if (at < 0) {
            if (!search->depth)
                return FOUND_NONE;
            at = take_back(search);
            continue;
        }
        place(search, at);
        int is_new = remember(search);
        if (is_new < 0)
            return FOUND_NOTHING_OUT;
        at = is_new ? -1 : take_back(search);
    }
}
