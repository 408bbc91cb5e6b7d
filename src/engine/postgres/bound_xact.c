/* SPDX-License-Identifier: MIT */
/*
 * Locks that are a transaction's, and end with it: so that they work behind a pooler too.
 * Nothing is written in it, so that it is always rolled back. See bound.h.
 */
#include "bound.h"

#include <stdio.h>

/* whatever the database's defaults are */
#define BEGIN "BEGIN ISOLATION LEVEL READ COMMITTED"

int
dibs__xact_ask(struct bound *bound, struct stake *stake, const char *text,
               uint32_t lease_ms, int64_t *out, dibs_time deadline, dibs_error *err)
{
    char all[XACT_TEXT_MAX + TEXT_MAX], limits[TEXT_MAX];
    dibs__bound_limits(bound, limits, lease_ms);
    (void)snprintf(all, sizeof all, BEGIN "; %s; %s", limits, text);
    int rc = dibs__bound_ask_number(bound, &stake->conn, all, out, deadline, err);
    stake->lease_ms = lease_ms;
    return rc == SQL_BUSY ? DIBS_EBUSY : rc;
}

/* An error has made the transaction void: that another had the lock just then. */
static int
begin_anew(struct bound *bound, struct stake *stake, dibs_time deadline, dibs_error *err)
{
    char text[2 * TEXT_MAX], limits[TEXT_MAX];
    if (PQtransactionStatus(stake->conn.pg) == PQTRANS_INTRANS)
        return DIBS_OK;
    dibs__bound_limits(bound, limits, stake->lease_ms);
    (void)snprintf(text, sizeof text, "ROLLBACK; " BEGIN "; %s", limits);
    return dibs__pg_exec(bound->pg, &stake->conn, text, deadline, err);
}

int
dibs__xact_send(struct bound *bound, struct stake *stake, const char *text,
                dibs_time deadline, dibs_error *err)
{
    int rc = begin_anew(bound, stake, deadline, err);
    if (rc)
        return rc;
    return PQsendQuery(stake->conn.pg, text)
               ? DIBS_OK
               : bound->host->fail(err, DIBS_EUNAVAIL, "the connection is closed");
}

int
dibs__xact_give(struct bound *bound, struct stake *stake, dibs_time deadline,
                dibs_error *err)
{
    return dibs__pg_exec(bound->pg, &stake->conn, XACT_CLEAR, deadline, err);
}
