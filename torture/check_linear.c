/* SPDX-License-Identifier: MIT */
/*
 * K13: some order of all that was answered makes sense. Of a name that is only used
 * exclusively, each request that was granted, each release, and each "somebody else has it"
 * took effect at one moment between its call and its return; and in the order of these
 * moments each of them is true of a lock with one owner. check_search.c looks for it.
 *
 * A history is cut into windows of at most 200 turns, at moments at which somebody
 * believed to hold: who owned it then is known, whoever was granted it later came later, and
 * all others had given it back.
 *
 * What is not known is left open, and weakens the rule: the hold of somebody who was killed,
 * or lost it, ends at any moment until it surely has run out; a request whose answer is not
 * known may have been granted and ended, or not, in each window that it reaches into; and so
 * may one whose process stood still, before it was granted what it was told of.
 *
 * "Somebody else has it" counts only if it cannot be about one that was just refused too and
 * had it for a moment before it was taken back, nor (but on engines as cheap as memory)
 * about a thread of the same process that is asking, nor while servers were hurt.
 *
 * In this order: the steps of a turn, which turns are looked at, windows.
 */
#include "check_search.h"

#include <stdlib.h>

/* so many turns are put into a window on purpose; what reaches into it comes in addition */
#define WINDOW_AIM 120

/* ---- the steps of a turn ---- */

static int
is_given_back(const struct turn *turn)
{
    return turn->released && !turn->abandoned && turn->release_code == DIBS_OK;
}

/* from when on it may have ended, if it was lost or its owner killed */
static int64_t
may_end_from(const struct turn *turn)
{
    if (is_given_back(turn))
        return turn->releasing;
    if (turn->first_held && turn->last_held > turn->first_held)
        return turn->last_held;
    return turn->returned ? turn->returned : turn->invoked;
}

/* granted, and nobody knows whether it was any good when the call returned */
static int
is_open(const struct turn *turn)
{
    if (!turn->returned)
        return 1;
    if (turn->code != DIBS_OK)
        return !was_refused(turn);
    return !is_given_back(turn) && !turn->first_held;
}

static int
add_give(struct search *search, const struct check *check, const struct turn *turn,
         int partner)
{
    int64_t until = is_given_back(turn) ? turn->released : surely_over(check, turn);
    if (search_add(search, STEP_GIVE, turn, may_end_from(turn), until) != 0)
        return -1;
    search->steps[search->count - 1].partner = partner;
    return 0;
}

/* Who stood still while it waited may have had it before, and lost it unread. */
static int
may_have_had_it(const struct check *check, const struct turn *turn)
{
    return is_open(turn) || (was_granted(turn) &&
                             is_disturbed(check, turn, turn->invoked, turn->returned));
}

static int64_t
open_until(const struct check *check, const struct turn *turn)
{
    return is_open(turn) ? surely_over(check, turn) : turn->returned;
}

static int
add_open(struct search *search, const struct check *check, const struct turn *turn)
{
    int64_t until = open_until(check, turn);
    int taken = search->count;
    if (search_add(search, STEP_TAKE, turn, turn->invoked, until) != 0 ||
        search_add(search, STEP_GIVE, turn, turn->invoked, until) != 0)
        return -1;
    search->steps[taken].is_needed = 0;
    search->steps[taken + 1].is_needed = 0;
    search->steps[taken + 1].partner = taken;
    return 0;
}

/* `owner` gives back what it has from the window before; `heir` keeps it into the next */
static int
add_held(struct search *search, const struct check *check, const struct turn *turn,
         const struct turn *heir)
{
    int taken = search->count;
    if (search_add(search, STEP_TAKE, turn, turn->invoked, turn->returned) != 0)
        return -1;
    return turn == heir ? 0 : add_give(search, check, turn, taken);
}

/* ---- which turns are looked at ---- */

/* Orders of the lot, all by time: */
enum { GRANTED, BUSY, CUTS, OPEN };

static uint64_t
closed_at(const struct check *check, const struct turn *turn)
{
    (void)check;
    return was_granted(turn) && !is_open(turn) ? (uint64_t)turn->returned : 0;
}

static uint64_t
open_from(const struct check *check, const struct turn *turn)
{
    return may_have_had_it(check, turn) ? (uint64_t)turn->invoked : 0;
}

/* a moment at which it surely was the owner */
static uint64_t
owner_at(const struct check *check, const struct turn *turn)
{
    (void)check;
    if (!was_granted(turn) || !turn->first_held || turn->last_held <= turn->first_held)
        return 0;
    return (uint64_t)(turn->first_held + (turn->last_held - turn->first_held) / 2);
}

static uint64_t
refused_from(const struct check *check, const struct turn *turn)
{
    (void)check;
    return was_refused(turn) ? (uint64_t)turn->invoked : 0;
}

static uint64_t
busy_at(const struct check *check, const struct turn *turn)
{
    return turn->code == DIBS_EBUSY && turn->returned &&
                   !servers_hurt(check, turn->invoked, turn->returned)
               ? (uint64_t)turn->returned
               : 0;
}

static int64_t
in_use_until(const struct check *check, const struct turn *turn)
{
    if (was_refused(turn))
        return turn->returned + 50 * MS * check->slow;
    return turn->released ? turn->released : FOREVER;
}

/* Keeps those of a list, sorted by `invoked` within its groups, that no other of the same
 * group overlaps. */
static size_t
keep_apart(const struct check *check, struct keyed *list, size_t count, int is_grouped)
{
    int64_t before = 0;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const struct turn *turn = list[i].turn;
        const struct turn *next = i + 1 < count ? list[i + 1].turn : NULL;
        int has_next = next && (!is_grouped || list[i].key == list[i + 1].key);
        int apart =
            before <= turn->invoked && !(has_next && next->invoked < turn->returned);
        int64_t until = in_use_until(check, turn);
        before = until > before ? until : before;
        if (is_grouped && !has_next)
            before = 0;
        if (apart)
            list[kept++] = list[i];
    }
    return kept;
}

/* what is in both lists, which are sorted by the same key */
static size_t
keep_common(struct keyed *list, size_t count, const struct keyed *other, size_t others)
{
    size_t kept = 0, at = 0;
    for (size_t i = 0; i < count; i++) {
        while (at < others && other[at].key < list[i].key)
            at++;
        for (size_t j = at; j < others && other[j].key == list[i].key; j++) {
            if (other[j].turn == list[i].turn)
                list[kept++] = list[i];
        }
    }
    return kept;
}

static size_t
order_busy(struct check *check, const struct lot *lot)
{
    size_t count = order_turns(check, BUSY, lot, refused_from);
    count = keep_apart(check, check->orders[BUSY], count, 0);
    count = order_again(check, BUSY, count, busy_at);
    if (check->caps & DIBS_CAP_DIRECT)
        return count;
    size_t others = order_turns(check, CUTS, lot, by_process);
    others = keep_apart(check, check->orders[CUTS], others, 1);
    others = order_again(check, CUTS, others, busy_at);
    return keep_common(check->orders[BUSY], count, check->orders[CUTS], others);
}

/* ---- windows ---- */

/* how far the lists have been looked at */
struct place {
    size_t granted, busy, cut, open;
    int64_t at;
    const struct turn *owner;
};

struct counts {
    size_t granted, busy, cuts, open;
};

/* the furthest cut with not too many turns before it, or the end */
static struct place
next_cut(const struct check *check, const struct counts *counts, const struct place *from)
{
    struct place next = *from, best = *from;
    for (; next.cut <= counts->cuts; next.cut++) {
        int is_end = next.cut == counts->cuts;
        next.owner = is_end ? NULL : check->orders[CUTS][next.cut].turn;
        next.at = is_end ? FOREVER : (int64_t)check->orders[CUTS][next.cut].key;
        while (next.granted < counts->granted &&
               check->orders[GRANTED][next.granted].key <= (uint64_t)next.at)
            next.granted++;
        while (next.busy < counts->busy &&
               check->orders[BUSY][next.busy].key <= (uint64_t)next.at)
            next.busy++;
        size_t turns = next.granted - from->granted + next.busy - from->busy;
        if (turns > WINDOW_AIM && best.at != from->at)
            break;
        best = next;
        best.cut++;
        if (turns > WINDOW_AIM)
            break;
    }
    return best;
}

static int
add_busy(struct search *search, const struct check *check, const struct counts *counts,
         const struct place *from, const struct place *until)
{
    int64_t first_grant =
        counts->granted ? (int64_t)check->orders[GRANTED][0].key : FOREVER;
    for (size_t i = from->busy; i < until->busy; i++) {
        const struct turn *turn = check->orders[BUSY][i].turn;
        /* what spans the cut is true of its owner; before any grant nothing is known */
        if (turn->invoked > from->at && turn->returned > first_grant &&
            search_add(search, STEP_BUSY, turn, turn->invoked, turn->returned) != 0)
            return -1;
    }
    return 0;
}

static int
add_opens(struct search *search, const struct check *check, const struct counts *counts,
          struct place *from, const struct place *until)
{
    while (from->open < counts->open &&
           open_until(check, check->orders[OPEN][from->open].turn) < from->at)
        from->open++;
    for (size_t i = from->open; i < counts->open; i++) {
        const struct turn *turn = check->orders[OPEN][i].turn;
        if (turn->invoked > until->at)
            break;
        if (open_until(check, turn) >= from->at && add_open(search, check, turn) != 0)
            return -1;
    }
    return 0;
}

/* returns -1 if there are too many steps */
static int
fill_window(struct search *search, const struct check *check, const struct counts *counts,
            struct place *from, const struct place *until)
{
    search_begin(search, from->owner, from->at, until->at);
    if (add_busy(search, check, counts, from, until) != 0)
        return -1;
    if (from->owner && add_give(search, check, from->owner, -1) != 0)
        return -1;
    for (size_t i = from->granted; i < until->granted; i++) {
        if (add_held(search, check, check->orders[GRANTED][i].turn, until->owner) != 0)
            return -1;
    }
    return add_opens(search, check, counts, from, until);
}

static void
check_window(struct check *check, struct search *search, const struct counts *counts,
             struct place *from, const struct place *until)
{
    if (fill_window(search, check, counts, from, until) != 0)
        return;
    enum found found = search_order(search);
    if (found == FOUND_NOTHING_OUT)
        return;
    check->out->looked[13] += until->granted - from->granted + until->busy - from->busy;
    if (found == FOUND_NONE)
        rule_broken(check, 13,
                    "no order makes sense of what was answered: not with %s, "
                    "of %.3f to %.3f ms",
                    words_of(search->stuck).text, ms_of(check, search->stuck->invoked),
                    ms_of(check, search->stuck->returned));
}

void
check_linear(struct check *check, const struct lot *lot)
{
    if (lot->has_shared || lot->has_permits)
        return;
    struct search *search = calloc(1, sizeof *search);
    if (!search) {
        rule_out_of_memory(check);
        return;
    }
    struct counts counts = { .busy = order_busy(check, lot) };
    counts.granted = order_turns(check, GRANTED, lot, closed_at);
    counts.cuts = order_turns(check, CUTS, lot, owner_at);
    counts.open = order_turns(check, OPEN, lot, open_from);
    struct place from = { .at = 0 };
    while (from.at != FOREVER) {
        struct place until = next_cut(check, &counts, &from);
        check_window(check, search, &counts, &from, &until);
        until.open = from.open;
        from = until;
    }
    free(search);
}
