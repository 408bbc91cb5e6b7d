/* SPDX-License-Identifier: MIT */
/*
 * The layout `lease`: opening, and changing a line in the database.
 *
 * A change is read, decide, write: the write is done only if the row is still at the version
 * that was read. Two writes leave the version alone or the columns: joining appends to the
 * state without a new version, so those who come disturb nobody; and a swap keeps what was
 * appended meanwhile. That is right because who joins knows the line at that version and
 * found that it must wait, and nothing but a new version could make it wrong; and because a
 * swap after which one who comes might not have to wait demands that nobody came. Who enters
 * (SQL_ENTER) does not know the line, and learns from the same statement what it has joined:
 * it decides by that, as one in line who looks.
 *
 * So it is enough to know how a line begins at its version, and a change may be tried on what
 * is remembered (recall.c): the version says whether it is still so. What comes of reading
 * alone, without a write that confirms it, is never answered from memory.
 *
 * Parts: open and close; who asks; running; reading; writing; changing.
 */
#include "sql/lease.h"

#include <string.h>

#include "util/digits.h"

#define WAITER_MS 10000
#define WAITER_LEAST_MS 30
#define WAITER_MOST_MS 60000
#define POLL_MS 10
#define POLL_MOST_MS 10000
#define CONNECTIONS 8
#define CONNECTIONS_MOST 1000

/* after so many vain tries there are pauses, so that somebody gets through */
#define TRIES_AT_ONCE 3
#define PAUSE_FIRST (DIBS_MS / 4)
#define PAUSE_MOST (8 * DIBS_MS)

/* ---- open and close ---- */

static int
read_ms(const struct sql *sql, uint32_t *out, const dibs_url_parts *url, const char *name,
        int64_t least, int64_t most, dibs_error *err)
{
    int64_t ms = *out;
    int rc = sql->host->param_ms(&ms, url, name, err);
    if (rc)
        return rc;
    if (ms < least || ms > most)
        return sql->host->fail(err, DIBS_ECONFIG, "%s= wants %d ms to %d s", name,
                               (int)least, (int)(most / 1000));
    *out = (uint32_t)ms;
    return DIBS_OK;
}

static int
read_params(struct sql *sql, const dibs_url_parts *url, dibs_error *err)
{
    if (!sql->waiter_ms)
        sql->waiter_ms = WAITER_MS;
    if (!sql->poll_ms)
        sql->poll_ms = POLL_MS;
    if (!sql->connections)
        sql->connections = CONNECTIONS;
    int rc = read_ms(sql, &sql->waiter_ms, url, "waiter", WAITER_LEAST_MS, WAITER_MOST_MS,
                     err);
    if (!rc)
        rc = read_ms(sql, &sql->poll_ms, url, "poll", 1, POLL_MOST_MS, err);
    if (!rc)
        rc = sql->host->param_number(&sql->connections, url, "connections", 1,
                                     CONNECTIONS_MOST, err);
    return rc;
}

/* What all our records say of us: the words of a record, up to its note. */
static void
describe_self(struct sql *sql)
{
    const dibs_session *session = sql->session;
    sql->lease->self_len =
        dibs__line_self(sql->lease->self, session->app, session->machine, session->pid);
}

int
dibs__sql_open(struct sql *sql, const dibs_url_parts *url, dibs_error *err)
{
    int rc = read_params(sql, url, err);
    if (rc)
        return rc;
    sql->lease = sql->host->alloc(sizeof *sql->lease);
    if (!sql->lease)
        return DIBS_ENOMEM;
    pthread_mutex_init(&sql->lease->mutex, NULL);
    describe_self(sql);
    dibs__lease_sweep_init(sql);
    sql->pool = dibs__sql_pool_new(sql->session, sql->drive, sql->db, sql->connections);
    if (sql->pool)
        return DIBS_OK;
    dibs__sql_close(sql, 0);
    return DIBS_ENOMEM;
}

void
dibs__sql_close(struct sql *sql, int forked)
{
    if (sql->pool)
        dibs__sql_pool_free(sql->pool, forked);
    sql->pool = NULL;
    if (!sql->lease)
        return;
    dibs__lease_forget_all(sql);
    /* in a fork's child another thread of the parent may have it */
    if (!forked)
        pthread_mutex_destroy(&sql->lease->mutex);
    sql->host->free(sql->lease);
    sql->lease = NULL;
}

/* ---- who asks ---- */

size_t
dibs__lease_id(const struct sql *sql, const dibs_claim *claim, char id[LINE_ID_MAX])
{
    memcpy(id, sql->session->id_hex, LINE_SESSION);
    id[LINE_SESSION] = ':';
    return LINE_SESSION + 1 + put_digits(id + LINE_SESSION + 1, claim->serial);
}

void
dibs__lease_party(const struct sql *sql, const dibs_claim *claim, struct party *party,
                  char id[LINE_ID_MAX], char rest[LINE_REST_MAX])
{
    uint32_t wait_ms =
        claim->lease_ms < sql->waiter_ms ? claim->lease_ms : sql->waiter_ms;
    *party = (struct party){
        .kind = claim->mode == DIBS_OBSERVE ? LINE_OBSERVER : LINE_WAITER,
        .mode = claim->mode,
        .permits = claim->permits ? claim->permits : 1,
        .limit = claim->limit,
        .lease_ms = claim->lease_ms,
        .wait_ms = claim->mode == DIBS_OBSERVE ? sql->waiter_ms : wait_ms,
        .id = id,
        .id_len = dibs__lease_id(sql, claim, id),
        .rest = rest,
    };
    memcpy(rest, sql->lease->self, sql->lease->self_len);
    party->rest_len =
        sql->lease->self_len + dibs__line_note(rest + sql->lease->self_len, claim->note);
}

/* ---- running ---- */

int
dibs__lease_run(struct sql *sql, int makes, enum sql_statement which,
                const struct sql_value *params, size_t n, struct sql_result *out,
                dibs_time deadline, dibs_error *err)
{
    int rc = makes ? dibs__sql_ask(sql->pool, which, params, n, out, deadline, err)
                   : dibs__sql_run(sql->pool, which, params, n, out, deadline, err);
    if (rc == SQL_NO_TABLE && !makes)
        return DIBS_OK; /* and nothing is in it */
    if (rc >= SQL_DUPLICATE)
        return DIBS_EUNAVAIL;
    return rc == DIBS_ETIMEDOUT ? DIBS_EUNAVAIL : rc;
}

/* ---- reading ---- */

void
dibs__lease_unsee(struct view *view)
{
    view->host->free(view->line.parties);
    view->host->free(view->text);
    dibs__sql_result_free(&view->result);
    view->text = NULL;
    view->line.parties = NULL;
}

static int
fail_corrupt(const struct sql *sql, const struct sql_value *state, dibs_error *err)
{
    int shown = state->text && state->len < 60 ? (int)state->len : 60;
    return sql->host->fail(err, DIBS_ECORRUPT,
                           "in its row of dibs_locks is what dibs does not write: %.*s",
                           state->text ? shown : 0, state->text ? state->text : "");
}

int
dibs__lease_see_row(struct sql *sql, struct view *view, const struct sql_result *result,
                    size_t row, size_t first, dibs_error *err)
{
    struct line *line = &view->line;
    const struct sql_value *state = dibs__sql_at(result, row, first + 4);
    const char *text = state->text ? state->text : "";
    size_t len = state->text ? state->len : 0;
    line->version = dibs__sql_at(result, row, first)->number;
    line->tick = dibs__sql_at(result, row, first + 1)->number;
    line->until = dibs__sql_at(result, row, first + 2)->number;
    line->previous = (unsigned)dibs__sql_at(result, row, first + 3)->number;
    line->now = dibs__sql_at(result, row, first + 5)->number;
    line->room = dibs__line_count(text, len) + 1;
    line->parties = sql->host->alloc(line->room * sizeof *line->parties);
    view->is_there = 1;
    if (!line->parties)
        return DIBS_ENOMEM;
    return dibs__line_parse(line, text, len) ? fail_corrupt(sql, state, err) : DIBS_OK;
}

/* a line without a row: nobody has it or wants it */
static int
see_nothing(struct sql *sql, struct view *view)
{
    view->line.room = 1;
    view->line.parties = sql->host->alloc(sizeof *view->line.parties);
    return view->line.parties ? DIBS_OK : DIBS_ENOMEM;
}

/* by a statement that gives a row like those of SQL_READ */
static int
see_by(struct sql *sql, struct view *view, int makes, enum sql_statement which,
       const struct sql_value *params, size_t n, dibs_time deadline, dibs_error *err)
{
    memset(view, 0, sizeof *view);
    view->host = sql->host;
    view->asked = sql->host->now();
    dibs__sql_result_init(&view->result, sql->host);
    int rc = dibs__lease_run(sql, makes, which, params, n, &view->result, deadline, err);
    if (!rc && view->result.rows) {
        rc = dibs__lease_see_row(sql, view, &view->result, 0, 0, err);
        view->now_most = view->line.now;
        dibs__lease_clock(sql, view->line.now, view->asked, sql->host->now());
    } else if (!rc)
        rc = see_nothing(sql, view);
    if (rc)
        dibs__lease_unsee(view);
    return rc;
}

int
dibs__lease_see(struct sql *sql, struct view *view, const char *name, size_t name_len,
                int makes, dibs_time deadline, dibs_error *err)
{
    const struct sql_value params[] = { sql_bytes(name, name_len) };
    int rc = see_by(sql, view, makes, SQL_READ, params, 1, deadline, err);
    /* nothing was changed, whatever became of it */
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

/* ---- writing ---- */

/* Runs one that says by the number of changed rows whether it was done. */
static int
run_if(struct sql *sql, enum sql_statement which, const struct sql_value *params,
       size_t n, dibs_time deadline, int *done, dibs_error *err)
{
    struct sql_result result;
    dibs__sql_result_init(&result, sql->host);
    int rc = dibs__lease_run(sql, 0, which, params, n, &result, deadline, err);
    *done = !rc && result.changed > 0;
    dibs__sql_result_free(&result);
    return rc;
}

static int
keep(struct sql *sql, const struct change *change, const struct view *view,
     dibs_time deadline, int *done, dibs_error *err)
{
    char mark[LINE_ID_MAX + 16];
    const struct party *me = view->line.me;
    size_t len = dibs__line_mark(mark, me->id, me->id_len);
    const struct sql_value params[] = { sql_bytes(change->name, change->name_len),
                                        sql_text(mark, len),
                                        sql_number((int64_t)me->lease_ms * 1000) };
    return run_if(sql, SQL_KEEP, params, 3, deadline, done, err);
}

static int
join(struct sql *sql, const struct change *change, const struct view *view,
     dibs_time deadline, int *done, dibs_error *err)
{
    char record[LINE_RECORD_MAX];
    size_t len = dibs__line_record(record, view->line.me);
    int64_t version = view->tries > JOIN_TRIES ? 0 : view->line.version;
    const struct sql_value params[] = { sql_bytes(change->name, change->name_len),
                                        sql_number(version), sql_text(record, len) };
    return run_if(sql, SQL_JOIN, params, 3, deadline, done, err);
}

static int
edit(struct sql *sql, const struct change *change, const struct view *view,
     dibs_time deadline, int *done, dibs_error *err)
{
    char before[LINE_RECORD_MAX], after[LINE_RECORD_MAX];
    const struct line *line = &view->line;
    size_t before_len = dibs__line_record(before, &line->before);
    size_t after_len = dibs__line_record(after, line->me);
    const struct sql_value params[] = { sql_bytes(change->name, change->name_len),
                                        sql_text(before, before_len),
                                        sql_text(after, after_len),
                                        sql_number(line->before.until) };
    return run_if(sql, SQL_EDIT, params, 4, deadline, done, err);
}

static int
swap(struct sql *sql, const struct change *change, const struct view *view,
     dibs_time deadline, int *done, dibs_error *err)
{
    const struct line *line = &view->line;
    struct line_text text;
    size_t room = dibs__line_state_max(line);
    text.state = sql->host->alloc(room + dibs__line_tells_max(line));
    if (!text.state)
        return DIBS_ENOMEM;
    text.tells = text.state + room;
    dibs__line_print(line, &text);
    const struct sql_value params[] = {
        sql_bytes(change->name, change->name_len),
        sql_number(line->version),
        sql_number((int64_t)line->known),
        sql_number(dibs__line_needs_all(line)),
        sql_number(line->tick),
        sql_number(text.until),
        sql_number(text.previous),
        sql_text(text.state, text.state_len),
        sql_text(text.tells, sql->drive->tells ? text.tells_len : 0),
        sql_number(text.version),
    };
    int rc = run_if(sql, SQL_SWAP, params, 10, deadline, done, err);
    const struct sql_row row = { text.version, line->tick, text.until, text.previous };
    if (*done)
        dibs__lease_note(sql, change->name, change->name_len, change->name_hash, &row,
                         text.state, text.state_len);
    sql->host->free(text.state);
    return rc;
}

static int
make_row(struct sql *sql, const struct change *change, dibs_time deadline,
         dibs_error *err)
{
    const struct sql_value params[] = { sql_bytes(change->name, change->name_len) };
    return dibs__lease_run(sql, 0, SQL_MAKE, params, 1, NULL, deadline, err);
}

static int
write_down(struct sql *sql, const struct change *change, const struct view *view,
           dibs_time deadline, int *done, dibs_error *err)
{
    enum line_write how = dibs__line_written(&view->line);
    *done = how == LINE_WRITES_NOTHING || (!view->is_there && !change->makes);
    if (*done)
        return DIBS_OK;
    if (!view->is_there)
        return make_row(sql, change, deadline, err);
    if (how == LINE_KEEPS)
        return keep(sql, change, view, deadline, done, err);
    if (how == LINE_EDITS)
        return edit(sql, change, view, deadline, done, err);
    if (how == LINE_JOINS)
        return join(sql, change, view, deadline, done, err);
    return swap(sql, change, view, deadline, done, err);
}

/* ---- changing ---- */

/* Another was faster. Who has tried for long waits for a random while. */
static int
may_try_again(const struct sql *sql, unsigned tries, dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = sql->host;
    dibs_time now = host->now();
    if (now >= deadline)
        return host->fail(err, DIBS_EUNAVAIL,
                          "others changed its row each time, %u times", tries);
    if (tries < TRIES_AT_ONCE)
        return DIBS_OK;
    unsigned doubled = tries - TRIES_AT_ONCE < 5 ? tries - TRIES_AT_ONCE : 5;
    dibs_time most = PAUSE_FIRST << doubled;
    if (most > PAUSE_MOST)
        most = PAUSE_MOST;
    host->sleep_until(now + (dibs_time)(host->random() % (uint64_t)most));
    return DIBS_OK;
}

/* One try, the n-th: read (0: recall), decide, write. */
static int
try_change(struct sql *sql, const struct change *change, unsigned nth, int *done,
           dibs_time deadline, dibs_error *err)
{
    struct view view;
    int rc = DIBS_OK, recalls = nth == 0;
    *done = 0;
    if (recalls && !dibs__lease_recall(sql, &view, change->name, change->name_len,
                                       change->name_hash))
        return DIBS_OK;
    if (!recalls)
        rc = dibs__lease_see(sql, &view, change->name, change->name_len, change->makes,
                             deadline, err);
    if (rc)
        return rc;
    view.tries = nth;
    change->decide(&view, change->arg);
    if (!recalls || (!view.is_doubtful && dibs__line_written(&view.line)))
        rc = write_down(sql, change, &view, deadline, done, err);
    if (recalls && !*done)
        dibs__lease_forget(sql, change->name_hash);
    dibs__lease_unsee(&view);
    return rc;
}

/* Gets in line, and decides by what is there then. Not done: another was faster after that,
 * it was free, or the time is not known. */
static int
try_enter(struct sql *sql, const struct change *change, int *is_in, int *done,
          dibs_time deadline, dibs_error *err)
{
    char record[LINE_RECORD_MAX];
    struct view view;
    int64_t now = dibs__lease_now(sql, sql->host->now());
    if (!now)
        return DIBS_OK;
    size_t len = change->enter(record, now, change->arg);
    const struct sql_value params[] = { sql_bytes(change->name, change->name_len),
                                        sql_text(record, len) };
    int rc = see_by(sql, &view, change->makes, SQL_ENTER, params, 2, deadline, err);
    *is_in = rc == DIBS_ENOMEM || (!rc && view.is_there);
    if (rc)
        return rc;
    if (view.is_there) {
        view.tries = 1;
        change->decide(&view, change->arg);
        rc = write_down(sql, change, &view, deadline, done, err);
    } else if (change->is_hasty)
        rc = SQL_AGAIN;
    dibs__lease_unsee(&view);
    return rc;
}

/* Who is in line must not be told that nothing was done. */
static int
code_in_line(int rc)
{
    return rc == DIBS_EUNAVAIL || rc == DIBS_ENOMEM ? DIBS_EUNKNOWN : rc;
}

int
dibs__lease_change(struct sql *sql, const struct change *change, dibs_time deadline,
                   dibs_error *err)
{
    int rc = DIBS_OK, done = 0, is_in = 0;
    if (change->enter && sql->enters)
        rc = try_enter(sql, change, &is_in, &done, deadline, err);
    else if (change->recalls)
        rc = try_change(sql, change, 0, &done, deadline, err);
    for (unsigned tries = 1; !rc && !done; tries++) {
        rc = try_change(sql, change, tries, &done, deadline, err);
        if (!rc && !done)
            rc = may_try_again(sql, tries, deadline, err);
    }
    return is_in ? code_in_line(rc) : rc;
}
