/* SPDX-License-Identifier: MIT */
/*
 * The layout `lease`: asking, waiting in line, and being told.
 *
 * Where the database can tell, a grant comes as a message with all there is to know, so the
 * one who waits asks nothing more. A claim is registered before it joins; so whatever is
 * decided later is heard, and the second attempt, which core makes before it sleeps, can be
 * answered from memory. Where nobody tells, those in line look from time to time.
 *
 * A hold counts from before the request that last found the claim in line: the grant came
 * later. But the one who granted may have been paused between reading the row and writing it,
 * and the lease it wrote counts from its reading. So a grant's end says from when it really
 * counts (counts_from). If that is long ago the claim asks again, which gives it its full
 * lease from now.
 *
 * Parts: granted; from memory; waiting; asking; observing; the slots.
 */
#include <inttypes.h>
#include <string.h>

#include "sql/lease.h"
#include "util/digits.h"

/* a grant that is older than this part of its lease is made new */
#define OLD_PART 4
/* so often it is tried to get in line, and to take what is free, one after the other */
#define TURNS 4
/* one who polls pauses for this part of the time it has waited, within bounds */
#define POLL_PART 8
#define POLL_MOST 10

/* ---- granted ---- */

static int
granted(dibs_claim *claim, int64_t tick, unsigned previous)
{
    claim->token = token_of_tick(tick);
    claim->token_room = TICK_ROOM - 1;
    claim->previous = (uint8_t)previous;
    return DIBS_OK;
}

/* From when on counts a lease that another has given to one in line, by our clock, if its
 * lease began at `base` by the database's? 0: it is not known, or long ago. */
static dibs_time
counts_from(const struct sql *sql, const dibs_claim *claim, int64_t base)
{
    const struct waiter *waiter = waiter_of(claim);
    if (!waiter || !waiter->asked)
        return 0;
    dibs_time sent = waiter->asked;
    if (base < waiter->asked_at)
        sent -= (waiter->asked_at - base) * 1000;
    dibs_time age = sql->host->now() - sent;
    return age > claim->lease_ms * DIBS_MS / OLD_PART ? 0 : sent;
}

/* ---- from memory ---- */

/* How the line begins: "VERSION\tRECORD\tRECORD.." */
static void
take_gist(struct sql *sql, const dibs_claim *claim, struct sql_row *row, const char *at)
{
    char text[MESSAGE_MAX + 1];
    uint64_t version;
    size_t len = 0;
    if (get_digits(&at, &version) || version > INT64_MAX || *at != '\t')
        return;
    for (at++; *at; at++)
        text[len++] = *at == '\t' ? '\n' : *at;
    text[len++] = '\n';
    row->version = (int64_t)version;
    dibs__lease_note(sql, claim->name, claim->name_len, claim->name_hash, row, text, len);
}

/* "g SERIAL JOINED TICK PREVIOUS UNTIL", and maybe how the line begins */
static int
take_grant(struct sql *sql, dibs_claim *claim, const char *message)
{
    const char *at = message + 1;
    uint64_t serial, ticket, tick, previous, until;
    if (message[0] != LINE_SAY_GRANTED || get_digits(&at, &serial) ||
        get_digits(&at, &ticket) || get_digits(&at, &tick) ||
        get_digits(&at, &previous) || get_digits(&at, &until) || until > INT64_MAX ||
        tick > INT64_MAX / TICK_ROOM || ticket != (uint64_t)waiter_of(claim)->ticket)
        return 0;
    dibs_time sent =
        counts_from(sql, claim, (int64_t)until - (int64_t)claim->lease_ms * 1000);
    if (!sent)
        return 0;
    struct sql_row row = { 0, (int64_t)tick, (int64_t)until, (unsigned)previous };
    take_gist(sql, claim, &row, at);
    claim->sent = sent;
    dibs__lease_waiter_done(sql, claim);
    granted(claim, (int64_t)tick, (unsigned)previous);
    return 1;
}

/* Is what was said last still true, and for how long? */
static int
still_waits(const struct sql *sql, dibs_claim *claim)
{
    const struct waiter *waiter = waiter_of(claim);
    if (!waiter->epoch || waiter->epoch != atomic_load(&sql->lease->epoch))
        return 0;
    dibs_time left = waiter->good_until - sql->host->now();
    if (left <= 0)
        return 0;
    claim->position = waiter->position;
    claim->hint_ms = (uint32_t)(left / DIBS_MS) + 1;
    return 1;
}

/* DIBS_OK, DIBS_EBUSY, or DIBS_EUNKNOWN: the database must be asked */
static int
attempt_from_memory(struct sql *sql, dibs_claim *claim)
{
    char message[MESSAGE_MAX + 1];
    struct waiter *waiter = waiter_of(claim);
    if (!waiter)
        return DIBS_EUNKNOWN;
    if (dibs__lease_take_message(sql, waiter, message))
        return claim->mode != DIBS_OBSERVE && take_grant(sql, claim, message)
                   ? DIBS_OK
                   : DIBS_EUNKNOWN;
    return still_waits(sql, claim) ? DIBS_EBUSY : DIBS_EUNKNOWN;
}

/* ---- waiting ---- */

/* When to look again even if nobody rings: in time to stay in line; the first, when a lease
 * before it ends; and if nobody will ring, more often, the first most often. */
static uint32_t
hint_of(const struct sql *sql, const struct waiter *waiter, uint32_t wait_ms,
        int64_t ends_in, uint32_t position)
{
    int64_t hint = wait_ms / 3;
    if (position == 1 && ends_in > 0 && ends_in / 1000 + 1 < hint)
        hint = ends_in / 1000 + 1;
    if (!atomic_load(&sql->lease->epoch)) {
        int64_t least = sql->poll_ms, most = least * POLL_MOST;
        int64_t poll =
            waiter ? (sql->host->now() - waiter->since) / DIBS_MS / POLL_PART : 0;
        poll = poll < least ? least : poll > most ? most : poll;
        poll *= position ? position : 1;
        hint = poll < hint ? poll : hint;
    }
    return hint > 0 ? (uint32_t)hint : 1;
}

/* What the database said is good until then. */
static int
wait_here(dibs_claim *claim, uint64_t epoch, dibs_time asked)
{
    struct waiter *waiter = waiter_of(claim);
    if (waiter) {
        waiter->is_there = 1;
        waiter->epoch = epoch;
        waiter->position = claim->position;
        waiter->good_until = asked + claim->hint_ms * DIBS_MS;
    }
    return DIBS_EBUSY;
}

/* ---- asking ---- */

struct ask {
    struct sql *sql;
    dibs_claim *claim;
    struct party me;
    enum line_verdict verdict;
    struct line_answer answer;
    dibs_time asked, sent;
    int64_t tick; /* granted; an observer: the newest */
    unsigned previous;
    int is_crowded;
    int is_blind; /* it joined what it does not know */
    char id[LINE_ID_MAX], rest[LINE_REST_MAX];
};

/* As one would join now. No ticket comes twice, also if the clock is set back. */
static void
join_at(struct ask *ask, int64_t now)
{
    const struct waiter *waiter = waiter_of(ask->claim);
    ask->me.since = waiter && waiter->ticket >= now ? waiter->ticket + 1 : now;
    ask->me.until = now + (int64_t)ask->me.wait_ms * 1000;
}

/* the id of the one who stands before a party */
static void
find_before(char out[LINE_ID_MAX + 1], const struct line *line, const struct party *me)
{
    const struct party *before = NULL;
    for (const struct party *party = line->parties; party != me; party++) {
        if (!party->is_gone && party->kind != LINE_OBSERVER)
            before = party;
    }
    out[0] = '\0';
    if (!before || before->id_len > LINE_ID_MAX)
        return;
    memcpy(out, before->id, before->id_len);
    out[before->id_len] = '\0';
}

/* It is in line, or will be if it may join. A message can only come after this. */
static void
remember(const struct ask *ask, const struct view *view)
{
    struct waiter *waiter = waiter_of(ask->claim);
    if (!waiter)
        return;
    waiter->ticket = ask->answer.me->since;
    waiter->asked = view->asked;
    waiter->asked_at = view->now_most;
    find_before(waiter->before, &view->line, ask->answer.me);
}

static size_t
enter_line(char *record, int64_t now, void *arg)
{
    struct ask *ask = arg;
    join_at(ask, now);
    return dibs__line_record(record, &ask->me);
}

static int
has_others(const struct line *line)
{
    for (size_t i = 0; i < line->count; i++) {
        if (&line->parties[i] != line->me && !line->parties[i].is_gone)
            return 1;
    }
    return 0;
}

/* It was granted by another, and nothing has to be written: giving it back can begin with what
 * was just read. */
static void
note_turn(const struct ask *ask, const struct view *view)
{
    const dibs_claim *claim = ask->claim;
    const struct sql_result *result = &view->result;
    const struct sql_value *state = dibs__sql_at(result, 0, 4);
    const struct sql_row row = { dibs__sql_at(result, 0, 0)->number,
                                 dibs__sql_at(result, 0, 1)->number,
                                 dibs__sql_at(result, 0, 2)->number,
                                 (unsigned)dibs__sql_at(result, 0, 3)->number };
    if (state->text)
        dibs__lease_note(ask->sql, claim->name, claim->name_len, claim->name_hash, &row,
                         state->text, state->len);
}

static void
decide_take(struct view *view, void *arg)
{
    struct ask *ask = arg;
    struct line *line = &view->line;
    join_at(ask, line->now);
    ask->verdict = dibs__line_take(
        line, &ask->me, !(ask->claim->flags & DIBS_CLAIM_NOQUEUE), &ask->answer);
    ask->asked = view->asked;
    ask->sent = 0;
    ask->is_crowded = has_others(line);
    ask->is_blind = view->tries > JOIN_TRIES && dibs__line_written(line) == LINE_JOINS;
    if (ask->verdict == LINE_BUSY && ask->answer.me)
        remember(ask, view);
    if (ask->verdict != LINE_GRANTED)
        return;
    view->is_doubtful = 1;
    ask->tick = ask->answer.me->tick;
    ask->previous = ask->answer.me->told;
    if (ask->answer.was_granted)
        ask->sent = counts_from(ask->sql, ask->claim, ask->answer.base);
    if (ask->sent)
        line->is_kept = 0;
    if (ask->sent && !line->is_changed)
        note_turn(ask, view);
}

static int
fail_mismatch(const struct ask *ask, dibs_error *err)
{
    const dibs_host *host = ask->sql->host;
    uint32_t limit = ask->answer.limit;
    if (limit == 0)
        return host->fail(err, DIBS_EMISMATCH, "it is in use as a lock, not a semaphore");
    if (ask->claim->limit == 0)
        return host->fail(err, DIBS_EMISMATCH,
                          "it is in use as a semaphore of %" PRIu32 " permits", limit);
    return host->fail(err, DIBS_EMISMATCH,
                      "it is in use with %" PRIu32 " permits, and this asks for one of "
                      "%" PRIu32,
                      limit, ask->claim->limit);
}

static int
read_verdict(const struct ask *ask, uint64_t epoch, dibs_error *err)
{
    dibs_claim *claim = ask->claim;
    set_crowded(ask->sql, claim->name_hash, ask->is_crowded);
    switch (ask->verdict) {
    case LINE_GRANTED:
        if (ask->sent)
            claim->sent = ask->sent;
        return granted(claim, ask->tick, ask->previous);
    case LINE_BUSY:
        claim->position = ask->answer.position;
        claim->hint_ms = hint_of(ask->sql, waiter_of(claim), ask->me.wait_ms,
                                 ask->answer.ends_in, claim->position);
        if (ask->is_blind)
            claim->hint_ms = 1;
        return wait_here(claim, ask->is_blind ? 0 : epoch, ask->asked);
    default:
        return fail_mismatch(ask, err);
    }
}

/* SQL_AGAIN, if it is hasty: it is free */
static int
ask_in_line(struct sql *sql, dibs_claim *claim, int is_hasty, dibs_time deadline,
            dibs_error *err)
{
    struct ask ask = { .sql = sql, .claim = claim };
    const struct waiter *waiter = waiter_of(claim);
    int is_first = waiter && !waiter->is_there && !claim->priv[PRIV_DOUBT];
    const struct change change = {
        .name = claim->name,
        .name_len = claim->name_len,
        .name_hash = claim->name_hash,
        .makes = 1,
        .recalls = is_first,
        .enter = is_first ? enter_line : NULL,
        .is_hasty = is_hasty,
        .decide = decide_take,
        .arg = &ask,
    };
    uint64_t epoch = atomic_load(&sql->lease->epoch);
    dibs__lease_party(sql, claim, &ask.me, ask.id, ask.rest);
    int rc = dibs__lease_change(sql, &change, deadline, err);
    return rc ? rc : read_verdict(&ask, epoch, err);
}

/* Takes what is free; DIBS_EBUSY if it is not. */
static int
ask_if_free(struct sql *sql, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    char id[LINE_ID_MAX], rest[LINE_REST_MAX], record[LINE_RECORD_MAX];
    struct party me;
    struct sql_result result;
    dibs__lease_party(sql, claim, &me, id, rest);
    me.kind = LINE_HOLDER;
    me.is_lone = 1;
    size_t len = dibs__line_record(record, &me);
    const struct sql_value params[] = { sql_bytes(claim->name, claim->name_len),
                                        sql_text(record, len),
                                        sql_number((int64_t)claim->lease_ms * 1000) };
    enum sql_statement which = has_row(sql, claim->name_hash) ? SQL_RETAKE : SQL_TAKE;
    dibs__sql_result_init(&result, sql->host);
    int rc = dibs__lease_run(sql, 1, which, params, 3, &result, deadline, err);
    if (!rc && result.rows)
        granted(claim, dibs__sql_at(&result, 0, 0)->number,
                (unsigned)dibs__sql_at(&result, 0, 1)->number);
    else if (!rc && result.changed && result.last_id)
        granted(claim, (int64_t)(result.last_id / 4), (unsigned)(result.last_id % 4));
    else if (!rc)
        rc = DIBS_EBUSY;
    if (!rc || rc == DIBS_EBUSY) /* if it was not there, asking in line will make it */
        set_row(sql, claim->name_hash);
    claim->priv[PRIV_DOUBT] = rc == DIBS_EUNKNOWN;
    dibs__sql_result_free(&result);
    return rc;
}

/* only who is in line, or may be, is called again or released */
static int
keeps_waiter(const dibs_claim *claim, int rc)
{
    return rc == DIBS_EBUSY || rc == DIBS_EUNKNOWN ||
           (rc == DIBS_EUNAVAIL && waiter_of(claim)->is_there);
}

/* It is free, or others are there; and while we ask for the one it may become the other. */
static int
ask_in_turns(struct sql *sql, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    int rc = ask_in_line(sql, claim, 1, deadline, err);
    for (int turns = 1; rc == SQL_AGAIN; turns++) {
        rc = ask_if_free(sql, claim, deadline, err);
        if (rc == DIBS_EBUSY)
            rc = ask_in_line(sql, claim, turns < TURNS, deadline, err);
    }
    return rc;
}

static int
attempt(struct sql *sql, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    int rc = attempt_from_memory(sql, claim);
    if (rc != DIBS_EUNKNOWN)
        return rc;
    if (!waiter_of(claim) && !claim->priv[PRIV_DOUBT] &&
        !is_crowded(sql, claim->name_hash)) {
        rc = ask_if_free(sql, claim, deadline, err);
        if (rc != DIBS_EBUSY)
            return rc;
    }
    if (!(claim->flags & DIBS_CLAIM_NOQUEUE) && !dibs__lease_waiter(sql, claim))
        return DIBS_ENOMEM;
    rc = ask_in_turns(sql, claim, deadline, err);
    if (rc == DIBS_EUNKNOWN)
        claim->priv[PRIV_DOUBT] = 1;
    if (waiter_of(claim) && rc == DIBS_EUNKNOWN)
        waiter_of(claim)->is_there = 1;
    if (waiter_of(claim) && !keeps_waiter(claim, rc))
        dibs__lease_waiter_done(sql, claim);
    return rc;
}

/* ---- observing ---- */

static void
decide_observe(struct view *view, void *arg)
{
    struct ask *ask = arg;
    join_at(ask, view->line.now);
    ask->me.since = 0;
    ask->asked = view->asked;
    ask->tick = dibs__line_observe(&view->line, &ask->me,
                                   (int64_t)(ask->claim->token / TICK_ROOM));
}

/* An observer is never in line. It stays registered from one change to the next. */
static int
observe(struct sql *sql, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct ask ask = { .sql = sql, .claim = claim };
    const struct change change = {
        .name = claim->name,
        .name_len = claim->name_len,
        .name_hash = claim->name_hash,
        .makes = 1,
        .decide = decide_observe,
        .arg = &ask,
    };
    uint64_t epoch = atomic_load(&sql->lease->epoch);
    if (attempt_from_memory(sql, claim) == DIBS_EBUSY)
        return DIBS_EBUSY;
    dibs__lease_party(sql, claim, &ask.me, ask.id, ask.rest);
    int rc = dibs__lease_change(sql, &change, deadline, err);
    if (rc == DIBS_EUNKNOWN)
        claim->priv[PRIV_DOUBT] = 1;
    if (rc)
        return rc;
    if (token_of_tick(ask.tick) == claim->token) {
        claim->hint_ms = hint_of(sql, waiter_of(claim), ask.me.wait_ms, 0, 0);
        return wait_here(claim, epoch, ask.asked);
    }
    claim->token = token_of_tick(ask.tick);
    if (waiter_of(claim))
        waiter_of(claim)->good_until = 0;
    return DIBS_OK;
}

/* ---- the slots ---- */

int
dibs__sql_lease_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                        dibs_error *err)
{
    return claim->mode == DIBS_OBSERVE ? observe(state, claim, deadline, err)
                                       : attempt(state, claim, deadline, err);
}

const char *
dibs__sql_before(const dibs_claim *claim)
{
    return waiter_of(claim) ? waiter_of(claim)->before : "";
}

int
dibs__sql_lease_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    (void)deadline, (void)err;
    return dibs__lease_waiter(state, claim) ? DIBS_OK : DIBS_ENOMEM;
}
