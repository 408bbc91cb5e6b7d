/* SPDX-License-Identifier: MIT */
/*
 * What is said on the connection of a stake. A session's locks are taken with prepared
 * statements, which take the token as well, once the lock is ours. A transaction's locks
 * end with it, so that works behind a pooler too; but there the token is taken on another
 * connection, since what a transaction that is not committed took from a sequence may come
 * again after a crash of the server.
 *
 * Parts: statements that are prepared; plain texts; taking; giving back; heartbeats;
 * breaking.
 */
#include "advisory.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 256
#define ARGS_MAX 48
#define AFTER (1000 * DIBS_MS) /* for the rest of an answer that has begun */
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
    char *at = advisory->text_room =
        advisory->host->alloc((size_t)ADVISORY_STATEMENTS * TEXT_MAX);
    if (!at)
        return -1;
    for (int i = 0; i < ADVISORY_STATEMENTS; i++, at += TEXT_MAX) {
        int is_shared = i % 4 / 2, is_pair = i % 2;
        (void)snprintf(at, TEXT_MAX, formats[i / 4], is_shared ? "_shared" : "",
                       keys[is_pair]);
        advisory->pg->texts[SQL_STATEMENTS + i] = at;
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
run(struct advisory *advisory, struct stake *stake, enum text text,
    struct sql_result *out, dibs_time deadline, dibs_error *err)
{
    struct sql_value key[2];
    size_t n = put_key(key, &stake->key);
    dibs__sql_result_init(out, advisory->host);
    return dibs__pg_run(advisory->pg, &stake->conn,
                        statement_of(text, stake->is_shared, stake->key.is_pair), key, n,
                        out, deadline, err);
}

/* ---- plain texts ---- */

static void
print_key(char out[ARGS_MAX], const struct pg_key *key)
{
    if (key->is_pair)
        (void)snprintf(out, ARGS_MAX, "%" PRId32 ", %" PRId32, key->first, key->second);
    else
        (void)snprintf(out, ARGS_MAX, "%" PRId64, key->big);
}

/* one question with one number, or true or false, as its answer */
static int
ask_number(struct advisory *advisory, struct conn *conn, const char *text, int64_t *out,
           dibs_time deadline, dibs_error *err)
{
    PGresult *result = NULL;
    if (!dibs__pg_is_open(conn, advisory->host->now(), advisory->host) ||
        !PQsendQuery(conn->pg, text))
        return advisory->host->fail(err, DIBS_EUNAVAIL, "the connection is closed");
    int rc = dibs__pg_ask(advisory->pg, conn, &result, deadline, err);
    if (rc)
        return rc;
    const char *value = PQntuples(result) == 1 ? PQgetvalue(result, 0, 0) : "";
    *out = *value == 't' ? 1 : strtoll(value, NULL, 10);
    PQclear(result);
    return DIBS_OK;
}

/* the same on a connection that is nobody's */
static int
ask_elsewhere(struct advisory *advisory, const char *text, int64_t *out,
              dibs_time deadline, dibs_error *err)
{
    sql_pool *pool = advisory->pg->sql.pool;
    struct sql_conn *conn = NULL;
    int rc = dibs__sql_borrow(pool, &conn, deadline, err);
    if (rc)
        return rc;
    rc = ask_number(advisory, conn->own, text, out, deadline, err);
    dibs__sql_giveback(pool, conn);
    return rc;
}

static int
take_token(struct advisory *advisory, struct stake *stake, dibs_time deadline,
           dibs_error *err)
{
    int64_t token = 0;
    int rc = ask_elsewhere(advisory, "SELECT " TOKEN, &token, deadline, err);
    if (rc == SQL_NO_TABLE) {
        rc = dibs__sql_make(advisory->pg->sql.pool, deadline, err);
        if (!rc)
            rc = ask_elsewhere(advisory, "SELECT " TOKEN, &token, deadline, err);
    }
    stake->token = (uint64_t)token;
    return rc;
}

/* The server ends the session when it heard nothing for a lease; and while it waits for a
 * lock, no other limit that the database has shall end it. */
static void
print_limits(const struct advisory *advisory, char out[TEXT_MAX], uint32_t lease_ms)
{
    int is_xact = advisory->form == FORM_XACT;
    const char *local = is_xact ? "LOCAL " : "";
    int len =
        snprintf(out, TEXT_MAX, "SET %sstatement_timeout = 0; SET %slock_timeout = 0",
                 local, local);
    if (is_xact)
        (void)snprintf(out + len, TEXT_MAX - (size_t)len,
                       "; SET LOCAL idle_in_transaction_session_timeout = %" PRIu32,
                       lease_ms);
    else if (advisory->has_timeout)
        (void)snprintf(out + len, TEXT_MAX - (size_t)len,
                       "; SET idle_session_timeout = %" PRIu32, lease_ms);
}

static int
set_lease(struct advisory *advisory, struct stake *stake, uint32_t lease_ms,
          dibs_time deadline, dibs_error *err)
{
    char text[TEXT_MAX];
    if (stake->lease_ms == lease_ms)
        return DIBS_OK;
    print_limits(advisory, text, lease_ms);
    int rc = dibs__pg_exec(advisory->pg, &stake->conn, text, deadline, err);
    if (!rc)
        stake->lease_ms = lease_ms;
    return rc;
}

/* ---- taking ---- */

static int
try_session(struct advisory *advisory, struct stake *stake, dibs_time deadline,
            dibs_error *err)
{
    struct sql_result result;
    int rc = run(advisory, stake, TEXT_TRY, &result, deadline, err);
    if (rc == SQL_NO_TABLE) { /* it was not even begun */
        rc = dibs__sql_make(advisory->pg->sql.pool, deadline, err);
        if (!rc)
            rc = run(advisory, stake, TEXT_TRY, &result, deadline, err);
    }
    const struct sql_value *token = dibs__sql_at(&result, 0, 0);
    stake->token = (uint64_t)token->number;
    if (!rc && token->kind != SQL_NUMBER)
        rc = DIBS_EBUSY;
    dibs__sql_result_free(&result);
    return rc;
}

static int
try_xact(struct advisory *advisory, struct stake *stake, uint32_t lease_ms,
         dibs_time deadline, dibs_error *err)
{
    char text[2 * TEXT_MAX], limits[TEXT_MAX], key[ARGS_MAX];
    int64_t is_ours = 0;
    print_limits(advisory, limits, lease_ms);
    print_key(key, &stake->key);
    (void)snprintf(text, sizeof text, "BEGIN; %s; SELECT pg_try_advisory_xact_lock(%s)",
                   limits, key);
    int rc = ask_number(advisory, &stake->conn, text, &is_ours, deadline, err);
    stake->lease_ms = lease_ms;
    if (!rc && !is_ours)
        return DIBS_EBUSY;
    return rc ? rc : take_token(advisory, stake, deadline, err);
}

int
dibs__advisory_try(struct advisory *advisory, struct stake *stake, uint32_t lease_ms,
                   dibs_time deadline, dibs_error *err)
{
    int rc;
    if (advisory->form == FORM_XACT) {
        rc = try_xact(advisory, stake, lease_ms, deadline, err);
    } else {
        rc = set_lease(advisory, stake, lease_ms, deadline, err);
        if (!rc)
            rc = try_session(advisory, stake, deadline, err);
    }
    /* what went wrong may have done so after the lock was taken: the session ends */
    if (rc && rc != DIBS_EBUSY)
        stake->conn.dead = 1;
    return rc;
}

static int
send_wait(struct advisory *advisory, struct stake *stake, dibs_error *err)
{
    struct sql_value key[2];
    char text[TEXT_MAX], args[ARGS_MAX];
    if (advisory->form == FORM_SESSION) {
        size_t n = put_key(key, &stake->key);
        enum sql_statement which =
            statement_of(TEXT_WAIT, stake->is_shared, stake->key.is_pair);
        return dibs__pg_send(advisory->pg, &stake->conn, which, key, n, err);
    }
    print_key(args, &stake->key);
    (void)snprintf(text, sizeof text, "SELECT pg_advisory_xact_lock(%s)", args);
    return PQsendQuery(stake->conn.pg, text)
               ? DIBS_OK
               : advisory->host->fail(err, DIBS_EUNAVAIL, "the connection is closed");
}

int
dibs__advisory_wait(struct advisory *advisory, struct stake *stake, dibs_error *err)
{
    int rc = send_wait(advisory, stake, err);
    /* a few bytes: that the socket takes them is the rule */
    if (!rc)
        (void)dibs__pg_ready(advisory->pg, &stake->conn, advisory->host->now());
    if (!rc && PQflush(stake->conn.pg) != 0)
        rc = advisory->host->fail(err, DIBS_EUNAVAIL, "PostgreSQL does not listen");
    if (rc)
        stake->conn.dead = 1;
    return rc;
}

int
dibs__advisory_won(struct advisory *advisory, struct stake *stake, dibs_time deadline,
                   dibs_error *err)
{
    PGresult *result = NULL;
    if (!dibs__pg_ready(advisory->pg, &stake->conn, advisory->host->now()))
        return DIBS_EBUSY;
    int rc = dibs__pg_ask(advisory->pg, &stake->conn, &result,
                          advisory->host->now() + AFTER, err);
    if (!rc && advisory->form == FORM_SESSION)
        stake->token = (uint64_t)dibs__pg_number(result, 0, 0);
    PQclear(result);
    if (!rc && advisory->form == FORM_XACT)
        rc = take_token(advisory, stake, deadline, err);
    /* the server may have given it to us before it found something wrong */
    if (rc)
        stake->conn.dead = 1;
    return rc;
}

/* ---- giving back ---- */

/* the answer to a heartbeat that nobody has waited for long enough */
static int
drain(struct advisory *advisory, struct stake *stake, dibs_time deadline, dibs_error *err)
{
    PGresult *result = NULL;
    if (!stake->is_asked)
        return DIBS_OK;
    if (!dibs__pg_ready(advisory->pg, &stake->conn, deadline))
        return advisory->host->fail(err, DIBS_EUNKNOWN,
                                    "PostgreSQL did not answer in time");
    int rc = dibs__pg_ask(advisory->pg, &stake->conn, &result,
                          advisory->host->now() + AFTER, err);
    PQclear(result);
    stake->is_asked = 0;
    return rc;
}

static int
give_session(struct advisory *advisory, struct stake *stake, dibs_time deadline,
             dibs_error *err)
{
    struct sql_result result;
    int rc = run(advisory, stake, TEXT_GIVE, &result, deadline, err);
    if (!rc && dibs__sql_at(&result, 0, 0)->number != 1)
        rc = DIBS_ENOTHELD;
    dibs__sql_result_free(&result);
    return rc;
}

int
dibs__advisory_give(struct advisory *advisory, struct stake *stake, dibs_time deadline,
                    dibs_error *err)
{
    int rc = drain(advisory, stake, deadline, err);
    if (!rc && advisory->form == FORM_SESSION)
        rc = give_session(advisory, stake, deadline, err);
    else if (!rc)
        rc = dibs__pg_exec(advisory->pg, &stake->conn, "ROLLBACK", deadline, err);
    if (!rc)
        stake->state = STAKE_NEW;
    return rc;
}

/* The statement that waits is ended from another connection. It may have returned just
 * before, or have the lock and fail after that: so what it took is given back in any case. */
int
dibs__advisory_cancel(struct advisory *advisory, struct stake *stake, dibs_time deadline,
                      dibs_error *err)
{
    char text[TEXT_MAX];
    PGresult *result = NULL;
    int64_t is_done;
    (void)snprintf(text, sizeof text, "SELECT pg_cancel_backend(%d)",
                   PQbackendPID(stake->conn.pg));
    int rc = ask_elsewhere(advisory, text, &is_done, deadline, err);
    if (rc)
        return rc;
    (void)dibs__pg_ask(advisory->pg, &stake->conn, &result, deadline, err);
    PQclear(result);
    if (stake->conn.dead)
        return DIBS_EUNAVAIL;
    rc = dibs__pg_exec(advisory->pg, &stake->conn,
                       advisory->form == FORM_XACT ? "ROLLBACK"
                                                   : "SELECT pg_advisory_unlock_all()",
                       deadline, err);
    if (!rc)
        stake->state = STAKE_NEW;
    return rc;
}

int
dibs__advisory_share(struct advisory *advisory, struct stake *stake, dibs_time deadline,
                     dibs_error *err)
{
    struct sql_result result;
    int rc = drain(advisory, stake, deadline, err);
    if (rc)
        return rc;
    rc = run(advisory, stake, TEXT_SHARE, &result, deadline, err);
    dibs__sql_result_free(&result);
    if (!rc)
        stake->is_shared = 1;
    return rc;
}

/* ---- heartbeats ---- */

static int
lost(struct advisory *advisory, struct stake *stake, dibs_error *err)
{
    stake->conn.dead = 1;
    return advisory->host->fail(err, DIBS_ELOST,
                                "PostgreSQL has ended the session that had the lock");
}

int
dibs__advisory_beat(struct advisory *advisory, struct stake *stake, uint32_t lease_ms,
                    dibs_time deadline, dibs_error *err)
{
    char text[TEXT_MAX] = "SELECT 1";
    dibs_time now = advisory->host->now();
    if (stake->conn.dead || !dibs__pg_is_open(&stake->conn, now, advisory->host))
        return lost(advisory, stake, err);
    /* an old one tells only that the server was there then */
    int rc = drain(advisory, stake, deadline, err);
    if (rc)
        return stake->conn.dead ? lost(advisory, stake, err) : DIBS_EUNKNOWN;
    if (stake->lease_ms != lease_ms)
        print_limits(advisory, text, lease_ms);
    stake->lease_ms = lease_ms;
    if (!PQsendQuery(stake->conn.pg, text))
        return lost(advisory, stake, err);
    stake->is_asked = 1;
    (void)PQflush(stake->conn.pg);
    return DIBS_OK;
}

int
dibs__advisory_beaten(struct advisory *advisory, struct stake *stake, dibs_time deadline,
                      dibs_error *err)
{
    int rc = drain(advisory, stake, deadline, err);
    if (rc && stake->conn.dead)
        return lost(advisory, stake, err);
    return rc ? DIBS_EUNKNOWN : DIBS_OK;
}

/* ---- breaking ---- */

/* as the view pg_locks shows keys */
static void
print_where(char out[TEXT_MAX], const struct pg_key *key)
{
    uint32_t high = (uint32_t)((uint64_t)key->big >> 32), low = (uint32_t)key->big;
    if (key->is_pair) {
        high = (uint32_t)key->first;
        low = (uint32_t)key->second;
    }
    (void)snprintf(out, TEXT_MAX,
                   "locktype = 'advisory' AND granted AND classid = '%" PRIu32 "' "
                   "AND objid = '%" PRIu32 "' AND objsubid = %d AND database = "
                   "(SELECT oid FROM pg_database WHERE datname = current_database())",
                   high, low, key->is_pair ? 2 : 1);
}

int
dibs__advisory_evict_key(struct advisory *advisory, const struct pg_key *key,
                         size_t *broken, dibs_time deadline, dibs_error *err)
{
    char text[2 * TEXT_MAX], where[TEXT_MAX];
    int64_t count = 0;
    print_where(where, key);
    (void)snprintf(text, sizeof text,
                   "SELECT count(pg_terminate_backend(pid%s)) FROM pg_locks WHERE %s",
                   advisory->has_timeout ? ", 1000" : "", where);
    int rc = ask_elsewhere(advisory, text, &count, deadline, err);
    if (!rc)
        *broken = (size_t)count;
    return rc;
}
