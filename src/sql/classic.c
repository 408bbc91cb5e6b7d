/* SPDX-License-Identifier: MIT */
/*
 * The frame of the classic layouts (classic.h): opening, taking, keeping and giving back.
 *
 * Taking a lock that is free is one statement, and so is giving it back. Who waits tries
 * again, at longer and longer intervals: a lock that is handed on within another process is
 * free for a moment only, so nobody looks first.
 */
#include "sql/classic.h"

#include <string.h>

#include "sql/lease.h"

/* claim->priv: how long to wait before the next try; may a row be ours? */
#define PRIV_PAUSE 0
#define PRIV_MAYBE 1

#define TOKEN_ROOM 255 /* the sequence counts in steps of one more */
#define PAUSE_MOST 5   /* times the shortest */
#define SWEEP_EVERY (300 * 1000 * DIBS_MS)
#define UNUSED_US (INT64_C(600) * 1000000)
#define RENEW_MAX 64 /* at once */
#define REGION "DEFAULT"
#define REGION_MAX 100
#define TTL_MS 10000
#define OWNER_MAX 1600

/* ---- open and close ---- */

static int
read_url(struct classic *classic, const dibs_url_parts *url, dibs_error *err)
{
    int64_t ttl_ms = TTL_MS;
    const char *region = classic->host->param(url, "region");
    int rc = classic->host->param_ms(&ttl_ms, url, "ttl", err);
    classic->region = region ? region : REGION;
    classic->ttl_us = ttl_ms * 1000;
    if (!rc && ttl_ms <= 0)
        rc = classic->host->fail(err, DIBS_ECONFIG, "ttl= wants more than 0");
    if (!rc && strlen(classic->region) > REGION_MAX)
        rc = classic->host->fail(err, DIBS_ECONFIG, "region= wants at most %d characters",
                                 REGION_MAX);
    return rc;
}

static const struct classic_kind *
kind_of(const struct classic_engine *engine, const char *layout)
{
    const struct classic_kind *kind = engine->kinds;
    while (strcmp(kind->form->layout, layout) != 0)
        kind++;
    return kind;
}

static void
free_classic(struct classic *classic)
{
    classic->host->free(classic->room);
    classic->host->free(classic);
}

static int
make(struct classic **out, const struct classic_engine *engine, dibs_session *session,
     const dibs_url_parts *url, dibs_error *err)
{
    const dibs_host *host = session->host;
    const struct classic_kind *kind = kind_of(engine, session->engine->layout);
    struct classic *classic = host->alloc(sizeof *classic);
    if (!classic)
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    classic->host = host;
    classic->session = session;
    classic->form = kind->form;
    classic->first = SQL_HOLD_TAKE;
    int rc = read_url(classic, url, err);
    if (!rc)
        rc = dibs__classic_texts(classic, engine->texts, kind->texts, kind->makes, url,
                                 err);
    if (rc)
        free_classic(classic);
    else
        *out = classic;
    return rc;
}

/* does the table have these columns? 1, 0, or *rc is not 0 */
static int
has_columns(struct classic *classic, enum sql_statement probe, int *rc,
            dibs_time deadline, dibs_error *err)
{
    int said = dibs__sql_run(classic->sql->pool, probe, NULL, 0, NULL, deadline, err);
    if (said && said != SQL_NO_TABLE)
        *rc = said == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : said;
    return said == DIBS_OK;
}

/* finds out which columns the table has */
static int
begin(struct classic *classic, struct sql *sql, dibs_time deadline, dibs_error *err)
{
    int rc = DIBS_OK;
    dibs_time first = (dibs_time)(sql->host->random() % (uint64_t)SWEEP_EVERY);
    classic->sql = sql;
    sql->layout = classic;
    atomic_store(&classic->sweep_at, sql->host->now() + first);
    if (!classic->texts[SQL_HOLD_PROBE] ||
        has_columns(classic, SQL_HOLD_PROBE, &rc, deadline, err) || rc)
        return rc;
    if (has_columns(classic, SQL_OLD_PROBE, &rc, deadline, err))
        classic->first = SQL_OLD_TAKE;
    return rc;
}

int
dibs__classic_open(void *state, const struct classic_engine *engine,
                   dibs_session *session, const dibs_url_parts *url, dibs_time deadline,
                   dibs_error *err)
{
    struct classic *classic = NULL;
    int rc = make(&classic, engine, session, url, err);
    if (rc)
        return rc;
    rc = engine->open(state, classic, session, url, deadline, err);
    if (!rc) {
        rc = begin(classic, state, deadline, err);
        if (rc)
            engine->close(state, 0);
    }
    if (rc)
        free_classic(classic);
    return rc;
}

void
dibs__classic_close(void *state, const struct classic_engine *engine, int forked)
{
    struct classic *classic = ((struct sql *)state)->layout;
    engine->close(state, forked);
    free_classic(classic);
}

/* ---- keys, owners, statements ---- */

int
dibs__classic_plain_key(const struct classic *classic, struct classic_text *out,
                        const char *name, size_t len, dibs_error *err)
{
    (void)classic;
    (void)err;
    memcpy(out->text, name, len);
    out->len = len;
    return DIBS_OK;
}

void
dibs__classic_person(const struct classic *classic, struct classic_text *out,
                     const dibs_claim *claim, size_t most)
{
    const struct sql_lease *about = classic->sql->lease;
    size_t len = dibs__lease_id(classic->sql, claim, out->text);
    out->text[len++] = ' ';
    memcpy(out->text + len, about->self, about->self_len);
    len += about->self_len;
    size_t note = dibs__line_note(out->text + len, claim->note);
    out->len = len + note <= most ? len + note : len < most ? len : most;
}

void
dibs__classic_own_owner(const struct classic *classic, struct classic_text *out,
                        const dibs_claim *claim)
{
    dibs__classic_person(classic, out, claim, OWNER_MAX);
}

void
dibs__classic_values(const struct classic *classic, struct sql_value out[CLASSIC_VALUES],
                     const struct classic_text *key, const struct classic_text *owner,
                     int64_t number)
{
    out[0] = sql_text(key->text, key->len);
    out[0].kind = classic->form->key_kind;
    out[1] = sql_text(owner ? owner->text : "", owner ? owner->len : 0);
    out[2] = sql_number(number);
    out[3] = sql_text(classic->region, strlen(classic->region));
    out[4] = sql_number(classic->ttl_us);
}

/* the statement of this table */
static enum sql_statement
of_table(const struct classic *classic, enum sql_statement which)
{
    return (enum sql_statement)(classic->first + which - SQL_HOLD_TAKE);
}

int
dibs__classic_run(const struct classic *classic, enum sql_statement which,
                  const struct sql_value values[CLASSIC_VALUES], struct sql_result *out,
                  dibs_time deadline, dibs_error *err)
{
    int rc = dibs__sql_ask(classic->sql->pool, of_table(classic, which), values,
                           CLASSIC_VALUES, out, deadline, err);
    if (rc != SQL_BUSY && rc != SQL_DUPLICATE)
        return rc;
    return classic->host->fail(err, DIBS_EUNAVAIL, "another changes the same row");
}

int
dibs__classic_seen(const struct classic *classic, struct classic_seen *out,
                   const struct sql_result *result, size_t row, size_t column,
                   dibs_error *err)
{
    const struct sql_value *owner = dibs__sql_at(result, row, column);
    const struct sql_value *until = dibs__sql_at(result, row, column + 1);
    const struct sql_value *now = dibs__sql_at(result, row, column + 2);
    if (until->kind != SQL_NUMBER || now->kind != SQL_NUMBER)
        return classic->host->fail(err, DIBS_ECORRUPT, "its row is not that of a lock");
    out->owner = *owner;
    out->left_us = until->number - now->number;
    return DIBS_OK;
}

/* ---- attempt ---- */

/* The text of a claim: the same each time. */
struct ask {
    struct classic_text key, owner;
    struct sql_value values[CLASSIC_VALUES];
};

static int
ask_for(const struct classic *classic, struct ask *ask, const dibs_claim *claim,
        uint32_t ms, dibs_error *err)
{
    int rc = classic->form->key(classic, &ask->key, claim->name, claim->name_len, err);
    if (rc)
        return rc;
    classic->form->owner(classic, &ask->owner, claim);
    dibs__classic_values(classic, ask->values, &ask->key, &ask->owner,
                         (int64_t)ms * 1000);
    return DIBS_OK;
}

static int
busy(const struct classic *classic, dibs_claim *claim)
{
    uint64_t least = classic->sql->poll_ms, pause = 2 * claim->priv[PRIV_PAUSE];
    pause = pause < least ? least : pause;
    claim->priv[PRIV_PAUSE] = pause < PAUSE_MOST * least ? pause : PAUSE_MOST * least;
    claim->hint_ms = (uint32_t)claim->priv[PRIV_PAUSE];
    return DIBS_EBUSY;
}

static int
take(const struct classic *classic, dibs_claim *claim, const struct ask *ask,
     dibs_time deadline, dibs_error *err)
{
    struct sql_result result;
    dibs__sql_result_init(&result, classic->host);
    int rc =
        dibs__classic_run(classic, SQL_HOLD_TAKE, ask->values, &result, deadline, err);
    int64_t token = result.rows ? dibs__sql_at(&result, 0, 0)->number : 0;
    dibs__sql_result_free(&result);
    if (rc == DIBS_EUNKNOWN)
        claim->priv[PRIV_MAYBE] = 1;
    if (rc)
        return rc;
    if (token <= 0)
        return busy(classic, claim);
    claim->priv[PRIV_MAYBE] = 1;
    claim->token = (uint64_t)token;
    claim->token_room = TOKEN_ROOM;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
    return DIBS_OK;
}

int
dibs__classic_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct classic *classic = ((struct sql *)state)->layout;
    struct ask ask;
    int rc = ask_for(classic, &ask, claim, claim->lease_ms, err);
    return rc ? rc : take(classic, claim, &ask, deadline, err);
}

/* ---- renew ---- */

/* is that the owner that we would write? */
static int
is_ours(const struct ask *ask, const struct sql_value *owner)
{
    return owner->len == ask->owner.len &&
           memcmp(owner->text, ask->owner.text, owner->len) == 0;
}

/* Nothing was changed: it is lost, or what was written is what was there already, which
 * databases do not count as a change. */
static int
confirm(const struct classic *classic, const struct ask *ask, dibs_time deadline,
        dibs_error *err)
{
    struct sql_result result;
    struct classic_seen seen = { .left_us = 0 };
    dibs__sql_result_init(&result, classic->host);
    int rc =
        dibs__classic_run(classic, SQL_HOLD_READ, ask->values, &result, deadline, err);
    if (!rc && !result.rows)
        rc = DIBS_ELOST;
    if (!rc)
        rc = dibs__classic_seen(classic, &seen, &result, 0, 0, err);
    if (!rc && !is_ours(ask, &seen.owner))
        rc = DIBS_ELOST;
    dibs__sql_result_free(&result);
    return rc;
}

/* to one of those that renew may return */
static int
renew_code(int rc)
{
    return rc == DIBS_OK || rc == DIBS_ELOST || rc == DIBS_EUNKNOWN ? rc : DIBS_EUNAVAIL;
}

static void
renew_some(const struct classic *classic, struct ask *asks, dibs_claim *const *claims,
           int *results, size_t n, dibs_time deadline, dibs_error *err)
{
    struct sql_value values[RENEW_MAX * CLASSIC_VALUES];
    uint64_t changed[RENEW_MAX] = { 0 };
    for (size_t i = 0; i < n; i++) {
        (void)ask_for(classic, &asks[i], claims[i], claims[i]->lease_ms, err);
        memcpy(values + i * CLASSIC_VALUES, asks[i].values, sizeof asks[i].values);
    }
    dibs__sql_run_many(classic->sql->pool, of_table(classic, SQL_HOLD_KEEP), values,
                       CLASSIC_VALUES, n, results, changed, deadline, err);
    for (size_t i = 0; i < n; i++) {
        if (!results[i] && !changed[i])
            results[i] = confirm(classic, &asks[i], deadline, err);
        results[i] = renew_code(results[i]);
    }
}

void
dibs__classic_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                    dibs_time deadline, dibs_error *err)
{
    struct classic *classic = ((struct sql *)state)->layout;
    size_t most = n < RENEW_MAX ? n : RENEW_MAX;
    struct ask *asks = classic->host->alloc(most * sizeof *asks);
    for (size_t at = 0; at < n; at += most) {
        size_t some = n - at < most ? n - at : most;
        if (asks)
            renew_some(classic, asks, claims + at, results + at, some, deadline, err);
        for (size_t i = at; !asks && i < at + some; i++)
            results[i] = classic->host->fail(err, DIBS_EUNAVAIL, "out of memory");
    }
    classic->host->free(asks);
}

/* ---- release ---- */

/* rows of those who died, and whose lock nobody has wanted since */
static void
sweep(struct classic *classic, dibs_time deadline)
{
    const struct classic_text none = { 0 };
    struct sql_value values[CLASSIC_VALUES];
    dibs_time now = classic->host->now(), due = atomic_load(&classic->sweep_at);
    if (!classic->texts[of_table(classic, SQL_HOLD_SWEEP)] || now < due ||
        now >= deadline)
        return;
    if (!atomic_compare_exchange_strong(&classic->sweep_at, &due, now + SWEEP_EVERY))
        return;
    dibs__classic_values(classic, values, &none, NULL, UNUSED_US);
    (void)dibs__classic_run(classic, SQL_HOLD_SWEEP, values, NULL, deadline, NULL);
}

int
dibs__classic_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                      dibs_time deadline, dibs_error *err)
{
    struct classic *classic = ((struct sql *)state)->layout;
    struct sql_result result;
    struct ask ask;
    if (!claim->priv[PRIV_MAYBE])
        return DIBS_ENOTHELD;
    int rc = ask_for(classic, &ask, claim, linger_ms, err);
    if (rc)
        return DIBS_ENOTHELD;
    dibs__sql_result_init(&result, classic->host);
    rc = dibs__classic_run(classic, linger_ms ? SQL_HOLD_KEEP : SQL_HOLD_GIVE, ask.values,
                           &result, deadline, err);
    if (!rc && !result.changed)
        rc = linger_ms ? confirm(classic, &ask, deadline, err) : DIBS_ENOTHELD;
    dibs__sql_result_free(&result);
    sweep(classic, deadline);
    return rc == DIBS_ELOST ? DIBS_ENOTHELD : rc;
}
