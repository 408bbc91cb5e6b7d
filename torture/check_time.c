/* SPDX-License-Identifier: MIT */
/*
 * Calls and their time.
 *
 *  K10  every call comes back by its own limit and 50 ms. What its process stood still is taken
 *       out, and it is not judged if the machine did. An engine's answer is waited for, a
 *       sixth of the lease at most (5 s): that is added where there is nothing else to wait
 *       for, or if servers were hurt. A release has a second, if that is more. If processors
 *       were lacking, what comes after the limit may take longer by that share, twice as long
 *       at most. No call of a process that lived is still under way when all is over.
 *  K11  what was refused is not held. If nobody is known to have a name, and whatever the
 *       store may have kept of killed, lost or unknown ones has run out, nobody is refused.
 *       (A request whose refusal was a lie keeps the name, and is found by this.)
 */
#include "check.h"

#include <stdlib.h>

#define LATE (50 * MS)
#define ANSWER_LEAST (50 * MS)
#define ANSWER_MOST (5000 * MS)
#define RELEASE_MOST (1000 * MS)
#define FREED_BY (100 * MS)

/* ---- K10 ---- */

static int64_t
answer_limit(const struct turn *turn)
{
    int64_t limit = turn->lease_ms * MS / 6;
    if (limit < ANSWER_LEAST)
        return ANSWER_LEAST;
    return limit < ANSWER_MOST ? limit : ANSWER_MOST;
}

/* a release goes on trying for a second, before it is left to the background */
static int64_t
release_limit(const struct turn *turn)
{
    int64_t limit = answer_limit(turn);
    return limit < RELEASE_MOST ? RELEASE_MOST : limit;
}

/* `allowed` is the call's own limit */
static void
check_took(struct check *check, const struct turn *turn, const char *what, int64_t from,
           int64_t until, int64_t allowed)
{
    int64_t beyond = LATE * check->slow;
    if (servers_hurt(check, from, until))
        beyond += answer_limit(turn);
    allowed += beyond + beyond * check->history->busy / 100;
    allowed += time_hurt(&check->pauses, turn->client, turn->life, from, until);
    if (until - from > allowed && is_hurt(&check->standstills, 0, 0, from, until))
        return;
    rule_looked(check, 10);
    if (until - from > allowed)
        rule_broken(check, 10, "%s of %s took %.3f ms, and may take %.3f", what,
                    words_of(turn).text, (double)(until - from) / MS,
                    (double)allowed / MS);
}

static void
check_under_way(struct check *check, const struct turn *turn, const char *what,
                int64_t from)
{
    if (kill_of(check, turn))
        return;
    rule_looked(check, 10);
    rule_broken(check, 10, "%s of %s, called at %.3f ms, never came back", what,
                words_of(turn).text, ms_of(check, from));
}

static void
check_calls(struct check *check, const struct turn *turn)
{
    if (!turn->returned)
        check_under_way(check, turn, "a request", turn->invoked);
    else if (turn->wait_ms == DIBS_WAIT_NONE)
        check_took(check, turn, "a request", turn->invoked, turn->returned,
                   answer_limit(turn));
    else if (turn->wait_ms != DIBS_WAIT_FOREVER)
        check_took(check, turn, "a request", turn->invoked, turn->returned,
                   turn->wait_ms * MS);
    if (turn->releasing && !turn->released)
        check_under_way(check, turn, "a release", turn->releasing);
    else if (turn->releasing)
        check_took(check, turn, "a release", turn->releasing, turn->released,
                   release_limit(turn));
}

/* ---- K11 ---- */

/* who waits for a moment only may have gone before the answer came */
static int
is_answered(const struct check *check, const struct turn *turn)
{
    return was_granted(turn) || (turn->returned && turn->code == DIBS_EBUSY) ||
           (turn->returned && turn->code == DIBS_ETIMEDOUT &&
            turn->wait_ms * MS >= LATE * check->slow);
}

static uint64_t
invoked_at(const struct check *check, const struct turn *turn)
{
    return is_answered(check, turn) ? (uint64_t)turn->invoked : 0;
}

static void
check_answer(struct check *check, const struct turn *turn, const struct span *gap)
{
    rule_looked(check, 11);
    if (turn->code != DIBS_OK)
        rule_broken(
            check, 11, "%s was refused at %.3f ms, and it is free from %.3f ms on",
            words_of(turn).text, ms_of(check, turn->returned), ms_of(check, gap->from));
}

/* A stretch begins when also what could not be taken back has had its time to run out. A
 * request that is granted ends the stretch that it is made in. */
static int
is_asked_within(const struct check *check, const struct turn *turn,
                const struct span *gap)
{
    int64_t from = gap->from + FREED_BY * check->slow;
    int64_t until = turn->code == DIBS_OK ? turn->invoked : turn->returned;
    return turn->invoked > from && until <= gap->until;
}

static void
check_refusals(struct check *check, const struct lot *lot, const struct spans *gaps)
{
    size_t count = order_turns(check, 0, lot, invoked_at);
    int64_t first_refusal = FOREVER;
    size_t at = 0;
    for (size_t i = 0; i < count && at < gaps->count; i++) {
        const struct turn *turn = check->orders[0][i].turn;
        while (at < gaps->count && gaps->list[at].until < turn->invoked)
            at++;
        if (at < gaps->count && turn->invoked >= first_refusal &&
            is_asked_within(check, turn, &gaps->list[at]))
            check_answer(check, turn, &gaps->list[at]);
        if (turn->code != DIBS_OK && turn->returned < first_refusal)
            first_refusal = turn->returned;
    }
}

void
check_time(struct check *check, const struct lot *lot)
{
    struct spans gaps;
    for (size_t i = 0; i < lot->count; i++)
        check_calls(check, lot->list[i].turn);
    if (free_times(&gaps, check, lot, FREE_TILL_INVOKED) != 0)
        return;
    check_refusals(check, lot, &gaps);
    free(gaps.list);
}
