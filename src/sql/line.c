/* SPDX-License-Identifier: MIT */
/*
 * Who has a lock, and who is next: line.h says by what rules. Time is line->now, at which the
 * database read the row. What had expired then has expired when the change is written, too,
 * because keeping it would have changed the version.
 *
 * Parts: looking; ending; granting; taking; observing; what becomes of a hold; writing.
 */
#include "line.h"

#include <string.h>

#include <dibs/engine.h>

/* who asked in the last tenth of its time in line is surely there */
#define SURELY_THERE 10
/* a place in line is made new when a third of it is over */
#define RENEWED_AFTER 3

static int64_t
micros(uint32_t ms)
{
    return (int64_t)ms * 1000;
}

/* ---- looking ---- */

static int
is_id(const struct party *party, const char *id, size_t id_len)
{
    return party->id_len == id_len && memcmp(party->id, id, id_len) == 0;
}

/* with lingers: what became of a hold that was given back so */
static struct party *
find(const struct line *line, const char *id, size_t id_len, int lingers)
{
    for (size_t i = 0; i < line->count; i++) {
        struct party *party = &line->parties[i];
        if (!party->is_gone && party->lingers == lingers && is_id(party, id, id_len))
            return party;
    }
    return NULL;
}

struct party *
dibs__line_find(const struct line *line, const char *id, size_t id_len)
{
    return find(line, id, id_len, 0);
}

static struct party *
first_waiter(const struct line *line)
{
    for (size_t i = 0; i < line->count; i++) {
        if (line->parties[i].kind == LINE_WAITER && !line->parties[i].is_gone)
            return &line->parties[i];
    }
    return NULL;
}

/* What the holders have together. */
struct use {
    size_t holders;
    int is_exclusive;
    uint64_t permits;
    int64_t newest; /* tick */
    int64_t first_end;
};

static struct use
use_of(const struct line *line)
{
    struct use use = { .first_end = INT64_MAX };
    for (size_t i = 0; i < line->count; i++) {
        const struct party *party = &line->parties[i];
        if (party->is_gone || !line_holds(party))
            continue;
        use.holders++;
        use.is_exclusive |= party->mode == DIBS_EXCLUSIVE;
        use.permits += party->permits;
        if (party->tick > use.newest)
            use.newest = party->tick;
        if (party->until < use.first_end)
            use.first_end = party->until;
    }
    return use;
}

static int
fits(const struct use *use, const struct party *party)
{
    if (use->is_exclusive)
        return 0;
    switch (party->mode) {
    case DIBS_EXCLUSIVE:
        return use->holders == 0;
    case DIBS_PERMITS:
        return use->permits + party->permits <= party->limit;
    default:
        return 1;
    }
}

/* ---- ending ---- */

static void
drop(struct line *line, struct party *party)
{
    party->is_gone = 1;
    line->is_changed = 1;
}

/* A hold has ended; an offer that was never taken up leaves no trace. A clean end does not
 * hide from the next one how another hold ended before. */
static void
end_hold(struct line *line, struct party *party, unsigned how)
{
    if (party->kind == LINE_OFFERED)
        how = party->told;
    if (how)
        line->previous = how;
    line->has_turned = 1;
    drop(line, party);
}

static void
tell_of_end(struct party *party)
{
    if (!party->lingers)
        party->say = LINE_SAY_ENDED;
}

void
dibs__line_expire(struct line *line, const struct party *me)
{
    for (size_t i = 0; i < line->count; i++) {
        struct party *party = &line->parties[i];
        if (party->is_gone || party->until > line->now)
            continue;
        if (line_holds(party)) {
            end_hold(line, party,
                     party->lingers ? DIBS_PREVIOUS_CLEAN : DIBS_PREVIOUS_EXPIRED);
            tell_of_end(party);
        } else if (party != me) {
            drop(line, party);
        }
    }
}

/* ---- granting ---- */

static int
is_surely_there(const struct line *line, const struct party *waiter)
{
    int64_t silent = line->now + micros(waiter->wait_ms) - waiter->until;
    return silent * SURELY_THERE <= micros(waiter->wait_ms);
}

static void
grant(struct line *line, struct party *waiter)
{
    int is_final = waiter == line->me || is_surely_there(line, waiter);
    int64_t end = line->now + micros(waiter->lease_ms);
    line->tick = line->tick < line->now ? line->now : line->tick + 1;
    if (waiter != line->me)
        waiter->say = is_final ? LINE_SAY_GRANTED : LINE_SAY_OFFERED;
    waiter->kind = is_final ? LINE_HOLDER : LINE_OFFERED;
    waiter->until = is_final || waiter->until > end ? end : waiter->until;
    waiter->joined = waiter->since;
    waiter->since = line->now;
    waiter->tick = line->tick;
    waiter->told = (uint8_t)line->previous;
    line->previous = DIBS_PREVIOUS_CLEAN;
    line->is_changed = line->has_turned = 1;
}

/* A JOIN that was repeated may have come twice: the second place counts for nothing once
 * the first was served. */
static int
is_double(const struct line *line, const struct party *waiter)
{
    const struct party *first = dibs__line_find(line, waiter->id, waiter->id_len);
    return first != waiter && line_holds(first);
}

/* Grants to those who are next. The first who does not fit ends it: nobody is overtaken. */
static void
promote(struct line *line)
{
    struct party *waiter;
    struct use use = use_of(line);
    while ((waiter = first_waiter(line)) != NULL) {
        if (is_double(line, waiter)) {
            drop(line, waiter);
            continue;
        }
        if (!fits(&use, waiter))
            return;
        grant(line, waiter);
        use = use_of(line);
    }
}

/* the end of every decision */
static void
settle(struct line *line)
{
    promote(line);
    for (size_t i = 0; line->has_turned && i < line->count; i++) {
        struct party *party = &line->parties[i];
        if (party->kind == LINE_OBSERVER && !party->is_gone && party != line->me)
            party->say = LINE_SAY_LOOK;
    }
}

/* ---- taking ---- */

static struct party *
join(struct line *line, const struct party *asks)
{
    struct party *me = &line->parties[line->count++];
    *me = *asks;
    line->is_joined = 1;
    return me;
}

/* Is the lock in use in a way that cannot be together with this, however long one waits? */
static int
is_mismatch(const struct line *line, const struct party *asks, uint32_t *limit)
{
    for (size_t i = 0; i < line->count; i++) {
        const struct party *party = &line->parties[i];
        if (party->is_gone || party->kind == LINE_OBSERVER)
            continue;
        *limit = party->limit;
        return party->limit != asks->limit;
    }
    return 0;
}

/* Makes its time longer, never shorter. Nobody else is concerned by that, but by the end of a
 * hold that was only offered until now. */
static void
lengthen(struct line *line, struct party *me, int64_t us)
{
    line->before = *me;
    line->is_kept = 1;
    if (me->kind == LINE_OFFERED) {
        me->kind = LINE_HOLDER;
        line->is_changed = 1;
    }
    if (me->until < line->now + us)
        me->until = line->now + us;
}

static void
stay(struct line *line, struct party *me)
{
    int64_t wait = micros(me->wait_ms);
    if (me->until - line->now < wait - wait / RENEWED_AFTER)
        lengthen(line, me, wait);
}

/* It has the lock already: granted by another, or in an attempt whose answer was lost. */
static void
hold_on(struct line *line, struct party *me, struct line_answer *answer)
{
    answer->was_granted = me->kind == LINE_HOLDER;
    answer->base = me->until - micros(me->lease_ms);
    lengthen(line, me, micros(me->lease_ms));
}

static uint32_t
position_of(const struct line *line, const struct party *me)
{
    uint32_t position = 1;
    for (const struct party *party = line->parties; party != me; party++)
        position += party->kind == LINE_WAITER && !party->is_gone;
    return position;
}

static enum line_verdict
wait_in_line(struct line *line, int queues, struct line_answer *answer)
{
    const struct use use = use_of(line);
    answer->ends_in = use.holders ? use.first_end - line->now : 0;
    if (queues) {
        if (!line->is_joined)
            stay(line, line->me);
        answer->position = position_of(line, line->me);
        return LINE_BUSY;
    }
    line->me->is_gone = 1;
    line->is_changed |= !line->is_joined;
    line->is_joined = 0;
    answer->me = NULL;
    return LINE_BUSY;
}

enum line_verdict
dibs__line_take(struct line *line, const struct party *asks, int queues,
                struct line_answer *answer)
{
    struct party *me = dibs__line_find(line, asks->id, asks->id_len);
    memset(answer, 0, sizeof *answer);
    dibs__line_expire(line, me);
    if (me && me->is_gone)
        me = dibs__line_find(line, asks->id, asks->id_len);
    /* one in line may have joined without knowing it */
    if ((!me || me->kind == LINE_WAITER) && is_mismatch(line, asks, &answer->limit)) {
        if (me)
            drop(line, me);
        settle(line);
        return LINE_MISMATCH;
    }
    line->me = answer->me = me ? me : join(line, asks);
    int has_it = line_holds(line->me);
    settle(line);
    if (has_it)
        hold_on(line, line->me, answer);
    return line_holds(line->me) ? LINE_GRANTED : wait_in_line(line, queues, answer);
}

/* ---- observing ---- */

int64_t
dibs__line_observe(struct line *line, const struct party *asks, int64_t seen)
{
    line->me = dibs__line_find(line, asks->id, asks->id_len);
    dibs__line_expire(line, line->me);
    settle(line);
    int64_t newest = use_of(line).newest;
    if (newest != seen)
        return newest;
    if (line->me) {
        stay(line, line->me);
        return newest;
    }
    /* others must know of it, to tell it: so it does not just join */
    line->me = join(line, asks);
    line->is_changed = 1;
    return newest;
}

/* ---- what becomes of a hold ---- */

/* Whatever else has this id goes as well: a place in line that came twice. */
int
dibs__line_give(struct line *line, const char *id, size_t id_len, uint32_t linger_ms)
{
    struct party *party;
    int held = 0;
    dibs__line_expire(line, NULL);
    if (linger_ms && find(line, id, id_len, 1))
        held = 1;
    while ((party = dibs__line_find(line, id, id_len)) != NULL) {
        if (!line_holds(party)) {
            drop(line, party);
        } else if (linger_ms) {
            party->kind = LINE_HOLDER;
            party->lingers = 1;
            party->until = line->now + micros(linger_ms);
            line->is_changed = line->has_turned = held = 1;
        } else {
            end_hold(line, party, DIBS_PREVIOUS_CLEAN);
            held = 1;
        }
    }
    settle(line);
    return held;
}

static struct party *
holder(const struct line *line, const char *id, size_t id_len)
{
    struct party *party = dibs__line_find(line, id, id_len);
    return party && line_holds(party) ? party : NULL;
}

int
dibs__line_keep(struct line *line, const char *id, size_t id_len, uint32_t lease_ms)
{
    dibs__line_expire(line, NULL);
    line->me = holder(line, id, id_len);
    settle(line);
    if (line->me)
        lengthen(line, line->me, micros(lease_ms));
    return line->me != NULL;
}

int
dibs__line_share(struct line *line, const char *id, size_t id_len)
{
    dibs__line_expire(line, NULL);
    struct party *party = holder(line, id, id_len);
    if (party && party->mode == DIBS_EXCLUSIVE) {
        party->mode = DIBS_SHARED;
        line->is_changed = 1;
    }
    settle(line);
    return party != NULL;
}

size_t
dibs__line_end_all(struct line *line)
{
    size_t count = 0;
    dibs__line_expire(line, NULL);
    for (size_t i = 0; i < line->count; i++) {
        struct party *party = &line->parties[i];
        if (party->is_gone || !line_holds(party))
            continue;
        end_hold(line, party, DIBS_PREVIOUS_BROKEN);
        tell_of_end(party);
        count++;
    }
    settle(line);
    return count;
}

/* ---- writing ---- */

enum line_write
dibs__line_written(const struct line *line)
{
    if (line->is_changed)
        return LINE_SWAPS;
    if (line->is_kept && line->me->is_lone)
        return LINE_KEEPS;
    /* a place that is over is anybody's to take away: it is made new by version */
    if (line->is_kept)
        return line->before.until > line->now ? LINE_EDITS : LINE_SWAPS;
    return line->is_joined ? LINE_JOINS : LINE_WRITES_NOTHING;
}

/* Who joined meanwhile saw the line as it was before. It is behind all whom we know: if one
 * of those has to wait, so has it; and if a holder excludes everybody. */
int
dibs__line_needs_all(const struct line *line)
{
    if (first_waiter(line))
        return 0;
    const struct use use = use_of(line);
    if (use.is_exclusive)
        return 0;
    for (size_t i = 0; i < line->count; i++) {
        const struct party *party = &line->parties[i];
        if (!party->is_gone && line_holds(party) && party->mode == DIBS_PERMITS)
            return use.permits < party->limit;
    }
    return 1;
}
