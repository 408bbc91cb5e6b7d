/* SPDX-License-Identifier: MIT */
/*
 * What the layout `advisory` says on the connection of a stake. A session's locks are taken
 * with prepared statements, which take the token as well, once the lock is ours.
 *
 * Parts: statements that are prepared; locks of a session; locks of a transaction; breaking.
 */
#include "advisory.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "sql/row.h"

#define TOKEN "nextval('dibs_tokens')"

/* ---- statements that are prepared ---- */

enum text { TEXT_TRY, TEXT_WAIT, TEXT_GIVE, TEXT_SHARE };

/* %1$s is "_shared" or "", %2$s the key. To share what one has alone, the order matters. */
#define SHARE                                                                            \
    "SELECT CASE WHEN pg_advisory_lock_shared(%2$s) IS NOT NULL "                        \
    "THEN pg_advisory_unlock%1$s(%2$s) END"
static const char *const formats[] = {
    [TEXT_TRY] = "SELECT CASE WHEN pg_try_advisory_lock%1$s(%2$s) THEN " TOKEN " END",
    [TEXT_WAIT] =
        "SELECT CASE WHEN pg_advisory_lock%1$s(%2$s) IS NOT NULL THEN " TOKEN " END",
    [TEXT_GIVE] = "SELECT pg_advisory_unlock%1$s(%2$s)",
    [TEXT_SHARE] = SHARE,
};

static enum sql_statement
statement_of(enum text text, int is_shared, int is_pair)
{
    int at = (int)text * 4 + (is_shared ? 2 : 0) + (is_pair ? 1 : 0);
    return (enum sql_statement)(SQL_STATEMENTS + at);
}

int
dibs__advisory_texts_make(struct advisory *advisory)
{
    static const char *const keys[] = { "$1", "$1::int, $2::int" };
    struct bound *bound = &advisory->bound;
    char *at = bound->text_room =
        bound->host->alloc((size_t)ADVISORY_STATEMENTS * TEXT_MAX);
    if (!at)
        return -1;
    for (int i = 0; i < ADVISORY_STATEMENTS; i++, at += TEXT_MAX) {
        int is_shared = i % 4 / 2, is_pair = i % 2;
        (void)snprintf(at, TEXT_MAX, formats[i / 4], is_shared ? "_shared" : "",
                       keys[is_pair]);
        bound->pg->texts[SQL_STATEMENTS + i] = at;
    }
    return 0;
}

static size_t
put_key(struct sql_value out[2], const struct pg_key *key)
{
    out[0] = sql_number(key->is_pair ? key->first : key->big);
    out[1] = sql_number(key->second);
    return key->is_pair ? 2 : 1;
}

static int
run(struct bound *bound, struct stake *stake, enum text text, struct sql_result *out,
    dibs_time deadline, dibs_error *err)
{
    struct sql_value key[2];
    size_t n = put_key(key, &stake->key);
    dibs__sql_result_init(out, bound->host);
    return dibs__pg_run(bound->pg, &stake->conn,
                        statement_of(text, stake->is_shared, stake->key.is_pair), key, n,
                        out, deadline, err);
}

/* ---- names ---- */

int
dibs__advisory_key(const struct advisory *advisory, struct pg_key *out, const char *name,
                   size_t len, dibs_error *err)
{
    if (advisory->map(out, name, len) == 0)
        return DIBS_OK;
    return advisory->bound.host->fail(err, DIBS_EINVAL,
                                      "this name has no number in this map");
}

static int
write_key(struct bound *bound, struct stake *stake, const char *name, size_t len,
          dibs_error *err)
{
    return dibs__advisory_key((struct advisory *)bound, &stake->key, name, len, err);
}

/* ---- locks of a session ---- */

static int
set_lease(struct bound *bound, struct stake *stake, uint32_t lease_ms, dibs_time deadline,
          dibs_error *err)
{
    char text[TEXT_MAX];
    if (stake->lease_ms == lease_ms)
        return DIBS_OK;
    dibs__bound_limits(bound, text, lease_ms);
    int rc = dibs__pg_exec(bound->pg, &stake->conn, text, deadline, err);
    if (!rc)
        stake->lease_ms = lease_ms;
    return rc;
}

static int
ask_session(struct bound *bound, struct stake *stake, const dibs_claim *claim,
            dibs_time deadline, dibs_error *err)
{
    struct sql_result result;
    int rc = set_lease(bound, stake, claim->lease_ms, deadline, err);
    if (rc)
        return rc;
    rc = run(bound, stake, TEXT_TRY, &result, deadline, err);
    if (rc == SQL_NO_TABLE) { /* it was not even begun */
        rc = dibs__sql_make(bound->pg->sql.pool, deadline, err);
        if (!rc)
            rc = run(bound, stake, TEXT_TRY, &result, deadline, err);
    }
    const struct sql_value *token = dibs__sql_at(&result, 0, 0);
    stake->token = (uint64_t)token->number;
    if (!rc && token->kind != SQL_NUMBER)
        rc = DIBS_EBUSY;
    dibs__sql_result_free(&result);
    return rc;
}

static int
wait_session(struct bound *bound, struct stake *stake, dibs_time deadline,
             dibs_error *err)
{
    struct sql_value key[2];
    size_t n = put_key(key, &stake->key);
    (void)deadline;
    return dibs__pg_send(bound->pg, &stake->conn,
                         statement_of(TEXT_WAIT, stake->is_shared, stake->key.is_pair),
                         key, n, err);
}

static int
give_session(struct bound *bound, struct stake *stake, dibs_time deadline,
             dibs_error *err)
{
    struct sql_result result;
    int rc = run(bound, stake, TEXT_GIVE, &result, deadline, err);
    if (!rc && dibs__sql_at(&result, 0, 0)->number != 1)
        rc = DIBS_ENOTHELD;
    dibs__sql_result_free(&result);
    return rc;
}

static int
share_session(struct bound *bound, struct stake *stake, dibs_time deadline,
              dibs_error *err)
{
    struct sql_result result;
    int rc = run(bound, stake, TEXT_SHARE, &result, deadline, err);
    dibs__sql_result_free(&result);
    return rc;
}

const struct bound_form dibs__advisory_session = {
    .key = write_key,
    .ask = ask_session,
    .wait = wait_session,
    .give = give_session,
    .share = share_session,
    .clear = "SELECT pg_advisory_unlock_all()",
};

/* ---- locks of a transaction ---- */

static int
write_text(struct bound *bound, struct stake *stake, const char *name, size_t len,
           dibs_error *err)
{
    const struct pg_key *key = &stake->key;
    int rc = write_key(bound, stake, name, len, err);
    if (rc)
        return rc;
    if (key->is_pair)
        (void)snprintf(stake->key_text, KEY_TEXT_MAX, "%" PRId32 ", %" PRId32, key->first,
                       key->second);
    else
        (void)snprintf(stake->key_text, KEY_TEXT_MAX, "%" PRId64, key->big);
    return DIBS_OK;
}

static int
ask_xact(struct bound *bound, struct stake *stake, const dibs_claim *claim,
         dibs_time deadline, dibs_error *err)
{
    char text[XACT_TEXT_MAX];
    int64_t is_ours = 0;
    (void)snprintf(text, sizeof text, "SELECT pg_try_advisory_xact_lock(%s)",
                   stake->key_text);
    int rc = dibs__xact_ask(bound, stake, text, claim->lease_ms, &is_ours, deadline, err);
    if (!rc && is_ours != 1)
        return DIBS_EBUSY;
    return rc ? rc : dibs__row_token(bound->pg->sql.pool, &stake->token, deadline, err);
}

static int
wait_xact(struct bound *bound, struct stake *stake, dibs_time deadline, dibs_error *err)
{
    char text[XACT_TEXT_MAX];
    (void)snprintf(text, sizeof text, "SELECT pg_advisory_xact_lock(%s)",
                   stake->key_text);
    return dibs__xact_send(bound, stake, text, deadline, err);
}

const struct bound_form dibs__advisory_xact = {
    .is_xact = 1,
    .key = write_text,
    .ask = ask_xact,
    .wait = wait_xact,
    .give = dibs__xact_give,
    .clear = XACT_CLEAR,
};

/* ---- breaking ---- */

/* as the view pg_locks shows keys */
static void
print_where(char *out, size_t size, const struct pg_key *key)
{
    uint32_t high = (uint32_t)((uint64_t)key->big >> 32), low = (uint32_t)key->big;
    if (key->is_pair) {
        high = (uint32_t)key->first;
        low = (uint32_t)key->second;
    }
    (void)snprintf(out, size,
                   "locktype = 'advisory' AND granted AND classid = '%" PRIu32 "' "
                   "AND objid = '%" PRIu32 "' AND objsubid = %d AND database = "
                   "(SELECT oid FROM pg_database WHERE datname = current_database())",
                   high, low, key->is_pair ? 2 : 1);
}

void
dibs__advisory_print_end(const struct bound *bound, char *out, size_t size,
                         const struct pg_key *key)
{
    char where[2 * TEXT_MAX];
    print_where(where, sizeof where, key);
    (void)snprintf(out, size,
                   "SELECT count(pg_terminate_backend(pid%s)) FROM pg_locks WHERE %s",
                   bound->has_timeout ? ", 1000" : "", where);
}
