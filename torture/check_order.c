/* SPDX-License-Identifier: MIT */
/*
 * K7: first come, first served, on engines that say so.
 *
 * Looked at are requests of different processes that exclude each other, both ready to wait,
 * of which one was made clearly before the other, and neither process, nor servers, nor the
 * machine were hurt while they waited, nor was the store so slow that the first may have come
 * to it after the second. Who was served first is told by the tokens, not by
 * when the calls returned: waking up takes its time. One that timed out counts as well, if
 * somebody who came later had it clearly before that.
 *
 * Threads of one process settle some things among themselves (but on engines as cheap as
 * memory), so these are not compared:
 *  - who asked while another thread of its process had the lock or asked for it: it came to
 *    the store later than it was called;
 *  - who had it from a thread of its own process: for some milliseconds a lock is handed on
 *    inside, before others are served.
 */
#include "check.h"

#include <string.h>

#define CLEARLY (100 * MS)

static int64_t
clearly(const struct check *check)
{
    return CLEARLY * check->slow;
}

static int
waits(const struct turn *turn)
{
    return turn->wait_ms != DIBS_WAIT_NONE && turn->mode != DIBS_PERMITS;
}

static int
is_undisturbed(const struct check *check, const struct turn *turn)
{
    return !is_disturbed(check, turn, turn->invoked, turn->returned) &&
           !was_slow(check, turn->invoked, turn->returned, 0);
}

/* ---- who asked the store itself ---- */

static int64_t
use_ends(const struct turn *turn)
{
    if (!turn->returned)
        return FOREVER;
    if (turn->code != DIBS_OK)
        return turn->returned;
    return turn->released ? turn->released : FOREVER;
}

/* Moves those to the front of orders[which] that were not behind a thread of their own
 * process; returns how many. The list is by process and `invoked`. */
static size_t
keep_leaders(struct check *check, int which, size_t count)
{
    struct keyed *list = check->orders[which];
    uint64_t process = 0;
    int64_t busy_until = 0;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const struct turn *turn = list[i].turn;
        int is_behind = list[i].key == process && busy_until > turn->invoked &&
                        turn->mode == DIBS_EXCLUSIVE;
        if (list[i].key != process)
            busy_until = 0;
        process = list[i].key;
        if (use_ends(turn) > busy_until)
            busy_until = use_ends(turn);
        if (!is_behind || (check->caps & DIBS_CAP_DIRECT))
            list[kept++] = list[i];
    }
    return kept;
}

/* Those that may say that they were passed: orders[which], not sorted. */
static size_t
find_early(struct check *check, int which, const struct lot *lot)
{
    struct keyed *list = check->orders[which];
    size_t count = keep_leaders(check, which, order_turns(check, which, lot, by_process));
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        const struct turn *turn = list[i].turn;
        if (waits(turn) && turn->returned &&
            (turn->code == DIBS_OK || turn->code == DIBS_ETIMEDOUT) &&
            is_undisturbed(check, turn))
            list[kept++] = list[i];
    }
    return kept;
}

/* ---- who was served when ---- */

static int
was_handed_on(const struct check *check, const struct keyed *list, size_t at)
{
    return at && !(check->caps & DIBS_CAP_DIRECT) &&
           same_process(list[at].turn, list[at - 1].turn);
}

/* Moves those to the front of orders[which] that may have passed somebody. */
static size_t
find_late(struct check *check, int which, const struct lot *lot)
{
    struct keyed *list = check->orders[which];
    size_t count = order_turns(check, which, lot, by_token);
    /* from the end, because each is compared with the one before it */
    size_t kept = count;
    for (size_t i = count; i-- > 0;) {
        if (waits(list[i].turn) && !was_handed_on(check, list, i) &&
            is_undisturbed(check, list[i].turn))
            list[--kept] = list[i];
    }
    memmove(list, list + kept, (count - kept) * sizeof *list);
    return count - kept;
}

/* ---- comparing ---- */

/* of the requests of other processes that exclude this one, that with the largest value */
static const struct turn *
foremost_other(const struct turn *turn, const struct top tops[2])
{
    const struct keyed *first = top_other(&tops[DIBS_EXCLUSIVE], turn, same_process);
    if (turn->mode == DIBS_EXCLUSIVE) {
        const struct keyed *sharer = top_other(&tops[DIBS_SHARED], turn, same_process);
        if (!first || (sharer && sharer->key > first->key))
            first = sharer;
    }
    return first ? first->turn : NULL;
}

static void
check_passed(struct check *check, const struct turn *late, const struct top tops[2])
{
    const struct turn *early = foremost_other(late, tops);
    if (early && early->invoked + clearly(check) < late->invoked &&
        late->invoked < early->returned)
        rule_broken(check, 7, "%s asked at %.3f ms, and was passed by %s, of %.3f ms",
                    words_of(early).text, ms_of(check, early->invoked),
                    words_of(late).text, ms_of(check, late->invoked));
}

/* the earliest request has the largest value */
static void
add_early(struct top tops[2], const struct turn *turn)
{
    top_add(&tops[turn->mode], turn, UINT64_MAX - (uint64_t)turn->invoked, same_process);
}

/* Both lists are sorted by when they were served. From the last one backwards, whoever has
 * been met was served later than the one at hand; so it must not have asked earlier. */
static void
compare(struct check *check, size_t early_count, size_t late_count, int64_t apart)
{
    const struct keyed *early = check->orders[0], *late = check->orders[1];
    struct top tops[2] = { { { 0 }, { 0 } } };
    size_t at = early_count;
    for (size_t i = late_count; i-- > 0;) {
        while (at > 0 && early[at - 1].key > late[i].key + (uint64_t)apart)
            add_early(tops, early[--at].turn);
        check_passed(check, late[i].turn, tops);
    }
}

static uint64_t
returned_at(const struct check *check, const struct turn *turn)
{
    (void)check;
    return (uint64_t)turn->returned;
}

static uint64_t
invoked_at(const struct check *check, const struct turn *turn)
{
    (void)check;
    return (uint64_t)turn->invoked;
}

static uint64_t
timed_out_at(const struct check *check, const struct turn *turn)
{
    (void)check;
    return turn->code == DIBS_ETIMEDOUT ? (uint64_t)turn->returned : 0;
}

/* how often somebody came while another, who had asked clearly before, still waited */
static void
count_chances(struct check *check, size_t early_count, size_t late_count)
{
    const struct keyed *early = check->orders[0], *late = check->orders[1];
    struct top tops[2] = { { { 0 }, { 0 } } };
    size_t at = 0;
    for (size_t i = 0; i < late_count; i++) {
        const struct turn *turn = late[i].turn;
        for (; at < early_count && early[at].key + (uint64_t)clearly(check) < late[i].key;
             at++)
            top_add(&tops[early[at].turn->mode], early[at].turn,
                    (uint64_t)early[at].turn->returned, same_process);
        const struct turn *other = foremost_other(turn, tops);
        if (other && other->returned > turn->invoked)
            rule_looked(check, 7);
    }
}

void
check_order(struct check *check, const struct lot *lot)
{
    if (!(check->caps & DIBS_CAP_FAIR) || lot->has_permits)
        return;
    size_t late = find_late(check, 1, lot);
    size_t early = order_again(check, 0, find_early(check, 0, lot), by_token);
    compare(check, early, late, 0);

    late = order_again(check, 1, late, returned_at);
    early = order_again(check, 0, find_early(check, 0, lot), timed_out_at);
    compare(check, early, late, clearly(check));

    late = order_again(check, 1, late, invoked_at);
    early = order_again(check, 0, find_early(check, 0, lot), invoked_at);
    count_chances(check, early, late);
}
