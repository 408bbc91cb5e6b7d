/* SPDX-License-Identifier: MIT */
/*
 * Losses.
 *
 *  K4  on_lost is called once, if the loss was seen while the hold was neither released nor
 *      its process killed; never in addition to a release that said OK; and before the next
 *      grant that excludes the hold has returned. A release that finds the hold to be lost
 *      (DIBS_ELOST) tells it as well, and then on_lost need not come.
 *      Excused is who stood still at that time. That the owner is told first is a matter of
 *      time (the grace), so on a slow machine some lateness is allowed.
 *  K6  a loss has a reason: in the lease before it its process stood still, servers were hurt,
 *      or the store was so slow that renewals came too late. If not, somebody else's call ended it. An engine without leases has one reason
 *      less: there a pause costs nothing.
 *
 * A hold that was downgraded shares, but its turn does not say so: on names that are shared,
 * a sharer's grant after an exclusive hold proves nothing.
 */
#include "check.h"

/* how late a call of on_lost may be where nobody else is waiting for the lock */
#define TELL_BY (250 * MS)
#define TELL_LATE (50 * MS)

/* when a loss was first seen; 0: it was not */
static int64_t
seen_lost(const struct turn *turn)
{
    int64_t at = 0;
    if (turn->released && !turn->abandoned && turn->release_code == DIBS_ELOST)
        at = turn->released;
    if (turn->lost_at && (!at || turn->lost_at < at))
        at = turn->lost_at;
    if (turn->not_held && (!at || turn->not_held < at))
        at = turn->not_held;
    return at;
}

static int64_t
last_belief(const struct turn *turn)
{
    return turn->last_held ? turn->last_held : turn->returned;
}

static int
was_killed_by(const struct check *check, const struct turn *turn, int64_t at)
{
    const struct hurt *kill = kill_of(check, turn);
    return kill && kill->from <= at;
}

/* ---- K4: how often ---- */

static void
check_count(struct check *check, const struct turn *turn)
{
    if (turn->lost_calls)
        rule_looked(check, 4);
    if (turn->lost_calls > 1)
        rule_broken(check, 4, "%s was told of its loss %u times", words_of(turn).text,
                    turn->lost_calls);
    if (turn->lost_calls && turn->released && !turn->abandoned &&
        turn->release_code == DIBS_OK)
        rule_broken(check, 4, "%s was told of a loss at %.3f ms, and released at %.3f ms",
                    words_of(turn).text, ms_of(check, turn->lost_at),
                    ms_of(check, turn->released));
}

/* it saw the loss and went on for a while: it must have been told by then */
static void
check_was_told(struct check *check, const struct turn *turn)
{
    if (!turn->not_held || turn->lost_calls)
        return;
    int64_t by = turn->not_held + TELL_BY * check->slow;
    if ((turn->releasing && turn->releasing < by) || check->ended < by ||
        was_killed_by(check, turn, by) || stood_still(check, turn, last_belief(turn), by))
        return;
    rule_looked(check, 4);
    rule_broken(check, 4, "%s saw at %.3f ms that it does not hold, and was never told",
                words_of(turn).text, ms_of(check, turn->not_held));
}

/* ---- K4: before the next grant ---- */

static int
surely_excludes(const struct lot *lot, const struct turn *lost, const struct turn *next)
{
    if (same_thread(lost, next) || next->token <= lost->token)
        return 0;
    return next->mode == DIBS_EXCLUSIVE ||
           (lost->mode == DIBS_EXCLUSIVE && !lot->has_shared);
}

/* it was released in time, killed, or stood still */
static int
need_not_be_told(const struct check *check, const struct turn *lost, int64_t by)
{
    return (lost->releasing && lost->releasing <= by) || was_killed_by(check, lost, by) ||
           stood_still(check, lost, last_belief(lost), by);
}

static void
check_told_before(struct check *check, const struct turn *lost, const struct turn *next)
{
    int64_t by = next->returned + TELL_LATE * (check->slow - 1);
    int is_told = lost->lost_at && lost->lost_at <= by;
    if (!is_told && need_not_be_told(check, lost, by))
        return;
    rule_looked(check, 4);
    if (lost->lost_at && next->returned - lost->lost_at < check->out->slack_min_ns)
        check->out->slack_min_ns = next->returned - lost->lost_at;
    if (!is_told)
        rule_broken(check, 4, "%s was granted at %.3f ms, and %s told of its loss %s",
                    words_of(next).text, ms_of(check, next->returned),
                    words_of(lost).text, lost->lost_at ? "later" : "never");
}

static void
check_next_grants(struct check *check, const struct lot *lot)
{
    size_t count = order_turns(check, 0, lot, granted_at);
    for (size_t i = 0; i < count; i++) {
        const struct turn *lost = check->orders[0][i].turn;
        if (!seen_lost(lost) || lost->mode == DIBS_PERMITS)
            continue;
        for (size_t j = i + 1; j < count; j++) {
            const struct turn *next = check->orders[0][j].turn;
            if (surely_excludes(lot, lost, next)) {
                check_told_before(check, lost, next);
                break;
            }
        }
    }
}

/* ---- K6 ---- */

static int
has_reason(const struct check *check, const struct turn *turn, int64_t lost)
{
    int64_t from = last_belief(turn) - turn->lease_ms * MS;
    if (servers_hurt(check, from, lost))
        return 1;
    return (check->caps & DIBS_CAP_LEASE) &&
           (stood_still(check, turn, from, lost) ||
            was_slow(check, from, lost, turn->lease_ms * MS / 3));
}

static void
check_reason(struct check *check, const struct turn *turn)
{
    int64_t lost = seen_lost(turn);
    if (!lost && (!turn->released || turn->abandoned))
        return;
    rule_looked(check, 6);
    if (lost && !has_reason(check, turn, lost))
        rule_broken(check, 6,
                    "%s lost its hold by %.3f ms, and nothing had happened to it",
                    words_of(turn).text, ms_of(check, lost));
}

void
check_lost(struct check *check, const struct lot *lot)
{
    for (size_t i = 0; i < lot->count; i++) {
        const struct turn *turn = lot->list[i].turn;
        if (!was_granted(turn))
            continue;
        check_count(check, turn);
        check_was_told(check, turn);
        check_reason(check, turn);
    }
    check_next_grants(check, lot);
}
