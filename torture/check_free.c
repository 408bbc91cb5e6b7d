/* SPDX-License-Identifier: MIT */
/*
 * When nobody can have had a name; of a semaphore, when so few permits can have been out that
 * whoever asks could have been served. All that may have it, or explains why nobody gets it,
 * is counted from one time to another:
 *
 *  - a hold, from when it is known till it is surely over; the same of a request that was
 *    granted while its process was killed, or of which nobody knows what became;
 *  - the time in which somebody who asks or holds is paused: it may be served and not know;
 *  - the time in which servers are hurt and heal, and in which the machine stood still.
 */
#include "check.h"

#include <stdlib.h>

/* more than any semaphore has */
#define ALL ((int64_t)1 << 40)

/* At a time, so many more (or fewer) are out. */
struct change {
    int64_t at, by;
};

struct changes {
    struct change *list;
    size_t count, room;
};

static int
add_change(struct changes *changes, int64_t at, int64_t by)
{
    if (changes->count == changes->room) {
        size_t room = changes->room ? 2 * changes->room : 64;
        struct change *list = realloc(changes->list, room * sizeof *list);
        if (!list)
            return -1;
        changes->list = list;
        changes->room = room;
    }
    changes->list[changes->count++] = (struct change){ at, by };
    return 0;
}

static int
add_span(struct changes *changes, int64_t from, int64_t until, int64_t weight)
{
    if (until <= from)
        return 0;
    return add_change(changes, from, weight) || add_change(changes, until, -weight) ? -1
                                                                                    : 0;
}

static int
by_time(const void *left, const void *right)
{
    const struct change *a = left, *b = right;
    if (a->at != b->at)
        return a->at < b->at ? -1 : 1;
    return a->by < b->by ? -1 : a->by > b->by;
}

/* who waits, or may have waited, holds up those behind it */
static int64_t
weight_of(const struct turn *turn)
{
    if (!was_granted(turn))
        return ALL;
    return turn->mode == DIBS_PERMITS ? turn->permits : 1;
}

/* from when on a turn may have the name; FOREVER: it cannot */
static int64_t
may_have_from(const struct check *check, const struct turn *turn, enum free_kind kind)
{
    const struct hurt *kill = kill_of(check, turn);
    if (was_refused(turn))
        return turn->returned;
    if (kind == FREE_TILL_INVOKED)
        return turn->invoked;
    if (turn->returned)
        return turn->returned;
    return kill ? kill->from : FOREVER;
}

static int
add_turn(struct changes *changes, const struct check *check, const struct turn *turn,
         enum free_kind kind)
{
    int64_t until = surely_over(check, turn);
    if (add_span(changes, may_have_from(check, turn, kind), until, weight_of(turn)) != 0)
        return -1;
    if (until > check->ended)
        until = check->ended;
    const struct hurt *pause =
        hurts_last(&check->pauses, turn->client, turn->life, turn->invoked, until);
    for (; pause; pause = hurts_before(&check->pauses, pause, turn->invoked)) {
        if (add_span(changes, pause->from, pause->until, ALL) != 0)
            return -1;
    }
    return 0;
}

static int
add_hurts(struct changes *changes, const struct hurts *hurts)
{
    for (size_t i = 0; i < hurts->count; i++) {
        if (add_span(changes, hurts->list[i].from, hurts->list[i].until, ALL) != 0)
            return -1;
    }
    return 0;
}

static int
add_all(struct changes *changes, const struct check *check, const struct lot *lot,
        enum free_kind kind)
{
    for (size_t i = 0; i < lot->count; i++) {
        if (add_turn(changes, check, lot->list[i].turn, kind) != 0)
            return -1;
    }
    return add_hurts(changes, &check->strikes) || add_hurts(changes, &check->standstills)
               ? -1
               : 0;
}

/* with so many out there is enough for anybody */
static int64_t
enough_left(const struct lot *lot)
{
    uint32_t limit = 0, most = 0;
    for (size_t i = 0; i < lot->count; i++) {
        const struct turn *turn = lot->list[i].turn;
        if (turn->mode != DIBS_PERMITS)
            return 0;
        limit = turn->limit;
        most = turn->permits > most ? turn->permits : most;
    }
    return limit > most ? limit - most : 0;
}

/* the first one may have to make the place that locks are kept in */
static int64_t
first_grant(const struct lot *lot)
{
    int64_t first = FOREVER;
    for (size_t i = 0; i < lot->count; i++) {
        const struct turn *turn = lot->list[i].turn;
        if (was_granted(turn) && turn->returned < first)
            first = turn->returned;
    }
    return first;
}

static void
add_free(struct spans *out, int64_t from, int64_t until, int64_t begin)
{
    if (from < begin)
        from = begin;
    if (from < until)
        out->list[out->count++] = (struct span){ from, until };
}

/* `out` has room for as many as there are changes, and one more */
static void
find_free(struct spans *out, const struct changes *changes, int64_t enough, int64_t begin,
          int64_t end)
{
    int64_t sum = 0, free_from = FOREVER;
    for (size_t i = 0; i < changes->count; i++) {
        const struct change *change = &changes->list[i];
        int was_free = free_from != FOREVER;
        sum += change->by;
        if (was_free && sum > enough)
            add_free(out, free_from, change->at, begin);
        if (sum > enough)
            free_from = FOREVER;
        else if (!was_free)
            free_from = change->at;
    }
    add_free(out, free_from, end, begin);
}

int
free_times(struct spans *out, struct check *check, const struct lot *lot,
           enum free_kind kind)
{
    struct changes changes = { NULL, 0, 0 };
    out->count = 0;
    out->list = NULL;
    if (add_all(&changes, check, lot, kind) == 0)
        out->list = calloc(changes.count + 1, sizeof *out->list);
    if (!out->list) {
        free(changes.list);
        rule_out_of_memory(check);
        return -1;
    }
    if (changes.count)
        qsort(changes.list, changes.count, sizeof *changes.list, by_time);
    find_free(out, &changes, enough_left(lot), first_grant(lot), check->ended);
    free(changes.list);
    return 0;
}
