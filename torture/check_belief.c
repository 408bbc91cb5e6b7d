/* SPDX-License-Identifier: MIT */
/*
 * What holders believe.
 *
 *  K1  [first_held, last_held] of two turns that exclude each other never overlap. The first
 *      is read after the call that said yes, the second before it: an overlap is proof,
 *      whoever was paused, killed or struck meanwhile. Permits that are believed in at one
 *      time are not more than the limit.
 *  K3  of two turns that exclude each other, who believes later has the larger token. Where
 *      beliefs overlap there is no order, and K1 has spoken.
 *  K5  what was not held is never held again.
 *
 * Turns of one thread do not exclude each other: they re-enter, with the same token. A hold
 * that was downgraded ends its belief (in being alone) before that.
 */
#include "check.h"

/* a semaphore with more than this is not looked at by K3 */
#define LIMIT_MOST 64

static int
believes(const struct turn *turn)
{
    return was_granted(turn) && turn->first_held && turn->last_held;
}

/* a belief of one call only is a moment between these two, the other way round */
static int64_t
belief_from(const struct turn *turn)
{
    return turn->first_held < turn->last_held ? turn->first_held : turn->last_held;
}

static int64_t
belief_until(const struct turn *turn)
{
    return turn->first_held < turn->last_held ? turn->last_held : turn->first_held;
}

/* ---- K1 ---- */

static uint64_t
proof_from(const struct check *check, const struct turn *turn)
{
    (void)check;
    return believes(turn) && turn->first_held < turn->last_held
               ? (uint64_t)turn->first_held
               : 0;
}

static uint64_t
proof_until(const struct check *check, const struct turn *turn)
{
    return proof_from(check, turn) ? (uint64_t)turn->last_held : 0;
}

/* whoever else has the largest value among those that exclude this turn */
static const struct keyed *
rival_of(const struct turn *turn, const struct top tops[2])
{
    const struct keyed *rival = top_other(&tops[DIBS_EXCLUSIVE], turn, same_thread);
    if (turn->mode != DIBS_EXCLUSIVE)
        return rival;
    const struct keyed *sharer = top_other(&tops[DIBS_SHARED], turn, same_thread);
    if (!rival || (sharer && sharer->key > rival->key))
        return sharer;
    return rival;
}

static void
check_alone(struct check *check, const struct lot *lot)
{
    struct top tops[2] = { { { 0 }, { 0 } } };
    size_t count = order_turns(check, 0, lot, proof_from);
    for (size_t i = 0; i < count; i++) {
        const struct turn *turn = check->orders[0][i].turn;
        const struct keyed *rival = rival_of(turn, tops);
        if (rival)
            rule_looked(check, 1);
        if (rival && (int64_t)rival->key > turn->first_held)
            rule_broken(check, 1, "%s believed till %.3f ms, %s from %.3f ms",
                        words_of(rival->turn).text, ms_of(check, (int64_t)rival->key),
                        words_of(turn).text, ms_of(check, turn->first_held));
        top_add(&tops[turn->mode], turn, (uint64_t)turn->last_held, same_thread);
    }
}

static void
check_permits(struct check *check, const struct lot *lot)
{
    size_t count = order_turns(check, 0, lot, proof_from);
    uint64_t out = 0;
    size_t ended = 0;
    (void)order_turns(check, 1, lot, proof_until);
    for (size_t i = 0; i < count; i++) {
        const struct turn *turn = check->orders[0][i].turn;
        for (; check->orders[1][ended].key <= (uint64_t)turn->first_held; ended++)
            out -= check->orders[1][ended].turn->permits;
        if (out)
            rule_looked(check, 1);
        out += turn->permits;
        if (out > turn->limit)
            rule_broken(check, 1,
                        "%llu of %u permits are believed in, with %s, at %.3f ms",
                        (unsigned long long)out, turn->limit, words_of(turn).text,
                        ms_of(check, turn->first_held));
    }
}

/* ---- K3 ---- */

static uint64_t
belief_begins(const struct check *check, const struct turn *turn)
{
    (void)check;
    return believes(turn) ? (uint64_t)belief_from(turn) : 0;
}

static uint64_t
belief_ends(const struct check *check, const struct turn *turn)
{
    (void)check;
    return believes(turn) ? (uint64_t)belief_until(turn) : 0;
}

/* The largest token before this one's, of those that exclude it. `tops` are by mode, or for
 * semaphores by how many permits were taken: two exclude each other if there are not enough
 * for both. */
static const struct keyed *
largest_before(const struct turn *turn, const struct top *tops)
{
    if (turn->mode != DIBS_PERMITS)
        return rival_of(turn, tops);
    const struct keyed *largest = NULL;
    for (uint32_t permits = turn->limit - turn->permits + 1; permits <= turn->limit;
         permits++) {
        const struct keyed *other = top_other(&tops[permits], turn, same_thread);
        if (other && (!largest || other->key > largest->key))
            largest = other;
    }
    return largest;
}

static size_t
top_of(const struct turn *turn)
{
    return turn->mode == DIBS_PERMITS ? turn->permits : (size_t)turn->mode;
}

static void
check_token(struct check *check, const struct turn *turn, const struct top *tops)
{
    const struct keyed *before = largest_before(turn, tops);
    if (!turn->token)
        rule_broken(check, 3, "%s has no token", words_of(turn).text);
    if (!before)
        return;
    rule_looked(check, 3);
    if (before->key >= turn->token)
        rule_broken(check, 3, "%s believed before %s did, at %.3f ms",
                    words_of(before->turn).text, words_of(turn).text,
                    ms_of(check, belief_from(turn)));
}

static int
can_be_ordered(const struct turn *turn)
{
    return turn->mode != DIBS_PERMITS ||
           (turn->limit <= LIMIT_MOST && turn->permits && turn->permits <= turn->limit);
}

static void
check_tokens(struct check *check, const struct lot *lot)
{
    struct top tops[LIMIT_MOST + 1] = { { { 0 }, { 0 } } };
    size_t count = order_turns(check, 0, lot, belief_begins);
    size_t ended = 0;
    (void)order_turns(check, 1, lot, belief_ends);
    for (size_t i = 0; i < count; i++) {
        const struct turn *turn = check->orders[0][i].turn;
        for (; check->orders[1][ended].key < check->orders[0][i].key; ended++) {
            const struct turn *other = check->orders[1][ended].turn;
            if (can_be_ordered(other))
                top_add(&tops[top_of(other)], other, other->token, same_thread);
        }
        if (can_be_ordered(turn))
            check_token(check, turn, tops);
    }
}

/* ---- K5 ---- */

static void
check_stays_lost(struct check *check, const struct lot *lot)
{
    for (size_t i = 0; i < lot->count; i++) {
        const struct turn *turn = lot->list[i].turn;
        if (!turn->not_held && !turn->held_again)
            continue;
        rule_looked(check, 5);
        if (turn->held_again)
            rule_broken(check, 5, "%s was not held at %.3f ms, and held at %.3f ms",
                        words_of(turn).text, ms_of(check, turn->not_held),
                        ms_of(check, turn->held_again));
    }
}

void
check_belief(struct check *check, const struct lot *lot)
{
    if (lot->has_permits)
        check_permits(check, lot);
    else
        check_alone(check, lot);
    if (check->caps & DIBS_CAP_TOKEN)
        check_tokens(check, lot);
    check_stays_lost(check, lot);
}
