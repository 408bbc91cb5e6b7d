/* SPDX-License-Identifier: MIT */
/*
 * The layout `lease`: what happens to a claim that was granted. A lone holder is kept and given
 * back by one statement that knows its record and nothing else; all others by a change of the
 * line.
 */
#include <string.h>

#include "sql/lease.h"

/* a claim by its id, and what came of it */
struct hold {
    char id[LINE_ID_MAX];
    size_t id_len;
    uint32_t ms; /* its lease, or how long it lingers */
    int is_held;
    int in_doubt;
    int recalls;
    int is_crowded;
};

static struct hold
hold_of(const struct sql *sql, const dibs_claim *claim, uint32_t ms)
{
    struct hold hold = { .ms = ms };
    hold.id_len = dibs__lease_id(sql, claim, hold.id);
    hold.in_doubt = claim->priv[PRIV_DOUBT] != 0;
    return hold;
}

static int
change_hold(struct sql *sql, const dibs_claim *claim, struct hold *hold,
            void (*decide)(struct view *, void *), dibs_time deadline, dibs_error *err)
{
    const struct change change = {
        .name = claim->name,
        .name_len = claim->name_len,
        .name_hash = claim->name_hash,
        .recalls = hold->recalls,
        .decide = decide,
        .arg = hold,
    };
    int rc = dibs__lease_change(sql, &change, deadline, err);
    if (rc != DIBS_ECORRUPT)
        return rc;
    hold->is_held = 0; /* something else stands there now */
    return DIBS_OK;
}

/* ---- keeping ---- */

#define RENEWALS 64 /* at a time */
#define KEEP_PARAMS 3

static void
decide_keep(struct view *view, void *arg)
{
    struct hold *hold = arg;
    hold->is_held = dibs__line_keep(&view->line, hold->id, hold->id_len, hold->ms);
}

/* one that has others beside it, or is not there any more */
static int
keep_among_others(struct sql *sql, const dibs_claim *claim, dibs_time deadline,
                  dibs_error *err)
{
    struct hold hold = hold_of(sql, claim, claim->lease_ms);
    int rc = change_hold(sql, claim, &hold, decide_keep, deadline, err);
    if (rc)
        return rc == DIBS_EUNKNOWN ? DIBS_EUNKNOWN : DIBS_EUNAVAIL;
    return hold.is_held ? DIBS_OK : DIBS_ELOST;
}

static int
renewal_result(struct sql *sql, const dibs_claim *claim, int code, uint64_t changed,
               dibs_time deadline, dibs_error *err)
{
    if (code == SQL_NO_TABLE)
        return DIBS_ELOST;
    if (code)
        return code == DIBS_EUNKNOWN ? DIBS_EUNKNOWN : DIBS_EUNAVAIL;
    return changed ? DIBS_OK : keep_among_others(sql, claim, deadline, err);
}

static void
renew_some(struct sql *sql, dibs_claim *const *claims, int *results, size_t n,
           dibs_time deadline, dibs_error *err)
{
    char marks[RENEWALS][LINE_ID_MAX + 16], id[LINE_ID_MAX];
    struct sql_value params[RENEWALS * KEEP_PARAMS];
    uint64_t changed[RENEWALS] = { 0 };
    for (size_t i = 0; i < n; i++) {
        const dibs_claim *claim = claims[i];
        struct sql_value *own = params + i * KEEP_PARAMS;
        size_t len = dibs__line_mark(marks[i], id, dibs__lease_id(sql, claim, id));
        own[0] = sql_bytes(claim->name, claim->name_len);
        own[1] = sql_text(marks[i], len);
        own[2] = sql_number((int64_t)claim->lease_ms * 1000);
        results[i] = DIBS_EUNAVAIL;
    }
    dibs__sql_run_many(sql->pool, SQL_KEEP, params, KEEP_PARAMS, n, results, changed,
                       deadline, err);
    for (size_t i = 0; i < n; i++)
        results[i] =
            renewal_result(sql, claims[i], results[i], changed[i], deadline, err);
}

void
dibs__sql_lease_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                      dibs_time deadline, dibs_error *err)
{
    for (size_t at = 0; at < n; at += RENEWALS) {
        size_t some = n - at < RENEWALS ? n - at : RENEWALS;
        renew_some(state, claims + at, results + at, some, deadline, err);
    }
    dibs__lease_sweep(state, deadline);
}

/* ---- ending ---- */

/* Gives back what nobody else waits for. DIBS_EBUSY: there are others, or it is not ours. */
static int
release_lone(struct sql *sql, const dibs_claim *claim, dibs_time deadline,
             dibs_error *err)
{
    char id[LINE_ID_MAX], rest[LINE_REST_MAX], record[LINE_RECORD_MAX];
    struct party me;
    struct sql_result result;
    dibs__lease_party(sql, claim, &me, id, rest);
    me.kind = LINE_HOLDER;
    me.is_lone = 1;
    size_t len = dibs__line_record(record, &me);
    const struct sql_value params[] = { sql_bytes(claim->name, claim->name_len),
                                        sql_text(record, len) };
    dibs__sql_result_init(&result, sql->host);
    int rc = dibs__lease_run(sql, 0, SQL_GIVE, params, 2, &result, deadline, err);
    if (!rc && !result.changed)
        rc = DIBS_EBUSY;
    dibs__sql_result_free(&result);
    return rc;
}

/* If an answer was lost, what was asked may still come: a new version stops that. From memory
 * a lock is only passed on: if nobody is known to wait, somebody may have come since. */
static void
decide_give(struct view *view, void *arg)
{
    struct hold *hold = arg;
    struct line *line = &view->line;
    hold->is_held = dibs__line_give(line, hold->id, hold->id_len, hold->ms);
    if (hold->in_doubt)
        line->is_changed = 1;
    hold->is_crowded = 0;
    for (size_t i = 0; i < line->count; i++)
        hold->is_crowded |= !line->parties[i].is_gone;
    view->is_doubtful = !hold->is_held || !hold->is_crowded;
}

static int
release_among_others(struct sql *sql, const dibs_claim *claim, uint32_t linger_ms,
                     dibs_time deadline, dibs_error *err)
{
    struct hold hold = hold_of(sql, claim, linger_ms);
    hold.recalls = !hold.in_doubt && !linger_ms;
    int rc = change_hold(sql, claim, &hold, decide_give, deadline, err);
    if (rc)
        return rc == DIBS_EUNKNOWN ? DIBS_EUNKNOWN : DIBS_EUNAVAIL;
    set_crowded(sql, claim->name_hash, hold.is_crowded);
    return hold.is_held ? DIBS_OK : DIBS_ENOTHELD;
}

int
dibs__sql_lease_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                        dibs_time deadline, dibs_error *err)
{
    struct sql *sql = state;
    int rc = DIBS_EBUSY;
    dibs__lease_waiter_done(sql, claim);
    if (!linger_ms && claim->mode != DIBS_OBSERVE && !is_crowded(sql, claim->name_hash))
        rc = release_lone(sql, claim, deadline, err);
    if (rc == DIBS_EBUSY)
        rc = release_among_others(sql, claim, linger_ms, deadline, err);
    dibs__lease_sweep(sql, deadline);
    return rc == DIBS_OK || rc == DIBS_ENOTHELD || rc == DIBS_EUNKNOWN ? rc
                                                                       : DIBS_EUNAVAIL;
}

/* ---- from exclusive to shared ---- */

static void
decide_share(struct view *view, void *arg)
{
    struct hold *hold = arg;
    hold->is_held = dibs__line_share(&view->line, hold->id, hold->id_len);
}

int
dibs__sql_lease_downgrade(void *state, dibs_claim *claim, dibs_time deadline,
                          dibs_error *err)
{
    struct sql *sql = state;
    struct hold hold = hold_of(sql, claim, 0);
    int rc = change_hold(sql, claim, &hold, decide_share, deadline, err);
    if (rc)
        return rc == DIBS_EUNKNOWN ? DIBS_EUNKNOWN : DIBS_EUNAVAIL;
    if (!hold.is_held)
        return DIBS_ELOST;
    claim->mode = DIBS_SHARED;
    return DIBS_OK;
}
