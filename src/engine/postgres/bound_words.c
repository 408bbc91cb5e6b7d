/* SPDX-License-Identifier: MIT */
/*
 * What is said on the connection of a stake, whatever the layout. See bound.h.
 *
 * Parts: questions; waiting; giving back; heartbeats.
 */
#include "bound.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "sql/row.h"

#define VERSION_17 170000

/* ---- questions ---- */

int
dibs__bound_ask_number(struct bound *bound, struct conn *conn, const char *text,
                       int64_t *out, dibs_time deadline, dibs_error *err)
{
    PGresult *result = NULL;
    if (!dibs__pg_is_open(conn, bound->host->now(), bound->host) ||
        !PQsendQuery(conn->pg, text))
        return bound->host->fail(err, DIBS_EUNAVAIL, "the connection is closed");
    int rc = dibs__pg_ask(bound->pg, conn, &result, deadline, err);
    if (rc)
        return rc;
    const char *value = PQntuples(result) == 1 ? PQgetvalue(result, 0, 0) : "-1";
    *out = *value == 't' ? 1 : strtoll(value, NULL, 10);
    PQclear(result);
    return DIBS_OK;
}

int
dibs__bound_ask_elsewhere(struct bound *bound, const char *text, int64_t *out,
                          dibs_time deadline, dibs_error *err)
{
    sql_pool *pool = bound->pg->sql.pool;
    struct sql_conn *conn = NULL;
    int rc = dibs__sql_borrow(pool, &conn, deadline, err);
    if (rc)
        return rc;
    rc = dibs__bound_ask_number(bound, conn->own, text, out, deadline, err);
    dibs__sql_giveback(pool, conn);
    return rc;
}

/* Who is behind a pooler is not told of what connect.c tells others. */
static int
print_xact_limits(const struct bound *bound, char *out, size_t size, uint32_t lease_ms)
{
    return snprintf(
        out, size,
        "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = %u; "
        "SET LOCAL idle_in_transaction_session_timeout = %" PRIu32 "%s%s",
        bound->wait_most_ms, lease_ms,
        bound->has_timeout ? "; SET LOCAL client_connection_check_interval = 1000" : "",
        bound->pg->server_version >= VERSION_17 ? "; SET LOCAL transaction_timeout = 0"
                                                : "");
}

void
dibs__bound_limits(const struct bound *bound, char out[TEXT_MAX], uint32_t lease_ms)
{
    if (bound->form->is_xact) {
        (void)print_xact_limits(bound, out, TEXT_MAX, lease_ms);
        return;
    }
    int len = snprintf(out, TEXT_MAX, "SET statement_timeout = 0; SET lock_timeout = 0");
    if (bound->has_timeout)
        (void)snprintf(out + len, TEXT_MAX - (size_t)len,
                       "; SET idle_session_timeout = %" PRIu32, lease_ms);
}

/* ---- waiting ---- */

int
dibs__bound_wait(struct bound *bound, struct stake *stake, dibs_time deadline,
                 dibs_error *err)
{
    int rc = bound->form->wait(bound, stake, deadline, err);
    /* a few bytes: that the socket takes them is the rule */
    if (!rc)
        (void)dibs__pg_ready(bound->pg, &stake->conn, bound->host->now());
    if (!rc && PQflush(stake->conn.pg) != 0)
        rc = bound->host->fail(err, DIBS_EUNAVAIL, "PostgreSQL does not listen");
    if (rc)
        stake->conn.dead = 1;
    return rc;
}

int
dibs__bound_won(struct bound *bound, struct stake *stake, dibs_time deadline,
                dibs_error *err)
{
    PGresult *result = NULL;
    if (!dibs__pg_ready(bound->pg, &stake->conn, bound->host->now()))
        return DIBS_EBUSY;
    int rc = dibs__pg_ask(bound->pg, &stake->conn, &result,
                          bound->host->now() + BOUND_AFTER, err);
    if (!rc && PQntuples(result) != 1)
        rc = bound->host->fail(err, DIBS_EUNAVAIL, "the row was deleted");
    if (!rc && !bound->form->is_xact)
        stake->token = (uint64_t)dibs__pg_number(result, 0, 0);
    PQclear(result);
    if (!rc && bound->form->is_xact)
        rc = dibs__row_token(bound->pg->sql.pool, &stake->token, deadline, err);
    /* the server may have given it to us before it found something wrong */
    if (rc)
        stake->conn.dead = 1;
    return rc;
}

/* ---- giving back ---- */

int
dibs__bound_drain(struct bound *bound, struct stake *stake, dibs_time deadline,
                  dibs_error *err)
{
    PGresult *result = NULL;
    if (!stake->is_asked)
        return DIBS_OK;
    if (!dibs__pg_ready(bound->pg, &stake->conn, deadline))
        return bound->host->fail(err, DIBS_EUNKNOWN, "PostgreSQL did not answer in time");
    int rc = dibs__pg_ask(bound->pg, &stake->conn, &result,
                          bound->host->now() + BOUND_AFTER, err);
    PQclear(result);
    stake->is_asked = 0;
    return rc;
}

int
dibs__bound_give(struct bound *bound, struct stake *stake, dibs_time deadline,
                 dibs_error *err)
{
    int rc = dibs__bound_drain(bound, stake, deadline, err);
    if (!rc)
        rc = bound->form->give(bound, stake, deadline, err);
    if (!rc)
        stake->state = STAKE_NEW;
    return rc;
}

/* The statement that waits is ended from another connection. It may have returned just
 * before, or have the lock and fail after that: so what it took is given back in any case. */
int
dibs__bound_cancel(struct bound *bound, struct stake *stake, dibs_time deadline,
                   dibs_error *err)
{
    char text[TEXT_MAX];
    PGresult *result = NULL;
    int64_t is_done;
    (void)snprintf(text, sizeof text, "SELECT pg_cancel_backend(%d)",
                   PQbackendPID(stake->conn.pg));
    int rc = dibs__bound_ask_elsewhere(bound, text, &is_done, deadline, err);
    if (rc)
        return rc;
    (void)dibs__pg_ask(bound->pg, &stake->conn, &result, deadline, err);
    PQclear(result);
    if (stake->conn.dead)
        return DIBS_EUNAVAIL;
    rc = dibs__pg_exec(bound->pg, &stake->conn, bound->form->clear, deadline, err);
    if (!rc)
        stake->state = STAKE_NEW;
    return rc;
}

/* ---- heartbeats ---- */

static int
lost(struct bound *bound, struct stake *stake, dibs_error *err)
{
    stake->conn.dead = 1;
    return bound->host->fail(err, DIBS_ELOST,
                             "PostgreSQL has ended the session that had the lock");
}

int
dibs__bound_beat(struct bound *bound, struct stake *stake, uint32_t lease_ms,
                 dibs_time deadline, dibs_error *err)
{
    char text[TEXT_MAX] = "SELECT 1";
    dibs_time now = bound->host->now();
    if (stake->conn.dead || !dibs__pg_is_open(&stake->conn, now, bound->host))
        return lost(bound, stake, err);
    /* an old one tells only that the server was there then */
    int rc = dibs__bound_drain(bound, stake, deadline, err);
    if (rc)
        return stake->conn.dead ? lost(bound, stake, err) : DIBS_EUNKNOWN;
    if (stake->lease_ms != lease_ms)
        dibs__bound_limits(bound, text, lease_ms);
    stake->lease_ms = lease_ms;
    if (!PQsendQuery(stake->conn.pg, text))
        return lost(bound, stake, err);
    stake->is_asked = 1;
    (void)PQflush(stake->conn.pg);
    return DIBS_OK;
}

int
dibs__bound_beaten(struct bound *bound, struct stake *stake, dibs_time deadline,
                   dibs_error *err)
{
    int rc = dibs__bound_drain(bound, stake, deadline, err);
    if (rc && stake->conn.dead)
        return lost(bound, stake, err);
    return rc ? DIBS_EUNKNOWN : DIBS_OK;
}
