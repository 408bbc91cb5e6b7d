/* SPDX-License-Identifier: MIT */
/*
 * Making the tables, when a statement found that they are not there. Every statement of a
 * drive's `makes` does nothing if what it makes is there already; so any number of clients
 * may run them, one after the other. Databases do not promise that for two at once: who
 * comes second may be told that it is there already (a duplicate), and goes on.
 */
#include "sql/sql.h"

#include <stdio.h>

#define TRIES_MOST 10
#define PAUSE (20 * DIBS_MS)

/* another makes the same at this moment, or the database asks for another try */
static int
is_race(int rc)
{
    return rc == SQL_DUPLICATE || rc == SQL_AGAIN || rc == SQL_BUSY;
}

static int
make_one(sql_pool *pool, struct sql_conn *conn, const dibs_host *host, const char *text,
         dibs_time deadline, dibs_error *err)
{
    for (int tries = 1;; tries++) {
        int rc = dibs__sql_exec_on(pool, conn, text, deadline, err);
        if (!is_race(rc))
            return rc;
        if (tries == TRIES_MOST || host->now() + PAUSE >= deadline)
            return host->fail(err, DIBS_EUNAVAIL, "others are making the tables");
        host->sleep_until(host->now() + PAUSE);
    }
}

/* Whoever may make tables has to do it, and finds out here how. */
static int
refused(const sql_pool *pool, const dibs_host *host, dibs_error *err)
{
    char said[sizeof err->text / 2];
    if (!err)
        return DIBS_EDENIED;
    (void)snprintf(said, sizeof said, "%s", err->text);
    return host->fail(err, DIBS_EDENIED,
                      "%s has no tables for dibs, and this user may not make them (%s): "
                      "somebody who may has to run what `dibs schema URL` prints",
                      dibs__sql_drive_of(pool)->database, said);
}

int
dibs__sql_make(sql_pool *pool, dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = dibs__sql_host_of(pool);
    struct sql_conn *conn = NULL;
    int rc = dibs__sql_borrow(pool, &conn, deadline, err);
    if (rc)
        return rc;
    const char *const *text = dibs__sql_drive_of(pool)->makes;
    for (; !rc && *text; text++)
        rc = make_one(pool, conn, host, *text, deadline, err);
    dibs__sql_giveback(pool, conn);
    return rc == DIBS_EDENIED ? refused(pool, host, err) : rc;
}

int
dibs__sql_ask(sql_pool *pool, enum sql_statement which, const struct sql_value *params,
              size_t n, struct sql_result *out, dibs_time deadline, dibs_error *err)
{
    int rc = dibs__sql_run(pool, which, params, n, out, deadline, err);
    if (rc != SQL_NO_TABLE)
        return rc;
    rc = dibs__sql_make(pool, deadline, err);
    if (!rc)
        rc = dibs__sql_run(pool, which, params, n, out, deadline, err);
    if (rc == SQL_NO_TABLE) /* a table of that name has other columns */
        return dibs__sql_host_of(pool)->fail(err, DIBS_ECORRUPT,
                                             "its tables are not those of dibs");
    return rc;
}
