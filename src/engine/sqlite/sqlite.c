/* SPDX-License-Identifier: MIT */
/*
 * The engine's table: reading the URL, open and close.
 *
 *   sqlite:/FOLDER/FILE[?synchronous=full|normal|off&...], sqlite:FILE in this folder
 */
#include "sqlite.h"

#include <stdio.h>

#define VERSION_LEAST 3035000 /* RETURNING */
/* what the watch cannot see, and should it fail */
#define POLL_MS 200

static void
sqlite_close(void *state, int forked)
{
    struct sqlite *lite = state;
    dibs__sqlite_watch_end(lite, forked); /* it tells those below */
    dibs__sql_close(&lite->sql, forked);
    dibs__sqlite_turns_end(&lite->turns, forked);
}

static int
read_url(struct sqlite *lite, const dibs_url_parts *url, dibs_error *err)
{
    static const char *const words[] = { "off", "normal", "full", NULL };
    lite->synchronous = 2;
    int rc =
        lite->sql.host->param_choice(&lite->synchronous, url, "synchronous", words, err);
    return rc ? rc : dibs__sqlite_place(lite, url, err);
}

static int
check_library(const dibs_host *host, dibs_error *err)
{
    if (sqlite3_libversion_number() < VERSION_LEAST)
        return host->fail(err, DIBS_EUNSUPPORTED,
                          "SQLite %s is too old: 3.35 or later is needed",
                          sqlite3_libversion());
    if (!sqlite3_threadsafe())
        return host->fail(err, DIBS_EUNSUPPORTED,
                          "this SQLite was built for programs without threads");
    return DIBS_OK;
}

/* One connection, so that what is wrong is told at once. */
static int
say_hello(struct sqlite *lite, dibs_time deadline, dibs_error *err)
{
    struct sql_conn *conn = NULL;
    int rc = dibs__sql_borrow(lite->sql.pool, &conn, deadline, err);
    if (!rc)
        dibs__sql_giveback(lite->sql.pool, conn);
    return rc;
}

static int
make_parts(struct sqlite *lite, const dibs_url_parts *url, dibs_time deadline,
           dibs_error *err)
{
    int rc = dibs__sql_open(&lite->sql, url, err);
    if (rc)
        return rc;
    dibs__sqlite_turns_init(&lite->turns);
    dibs__sqlite_watch_init(lite);
    rc = say_hello(lite, deadline, err);
    if (rc)
        sqlite_close(lite, 0);
    return rc;
}

static int
sqlite_open(void *state, dibs_session *session, const dibs_url_parts *url,
            dibs_time deadline, dibs_error *err)
{
    struct sqlite *lite = state;
    lite->sql.session = session;
    lite->sql.host = session->host;
    lite->sql.drive = &dibs__sqlite_drive;
    lite->sql.db = lite;
    lite->sql.poll_ms = POLL_MS;
    lite->sql.enters = 1;
    int rc = check_library(session->host, err);
    if (!rc)
        rc = read_url(lite, url, err);
    if (!rc)
        rc = dibs__sqlite_clock_open(lite, err);
    (void)snprintf(session->endpoint, sizeof session->endpoint, "sqlite:%s", lite->path);
    return rc ? rc : make_parts(lite, url, deadline, err);
}

static const char *const schemes[] = { "sqlite", NULL };
static const char *const params[] = { "synchronous", "waiter", "poll", "connections",
                                      NULL };

__attribute__((visibility("default"))) extern const dibs_engine dibs_engine_table;

const dibs_engine dibs_engine_table = {
    .abi = DIBS_ENGINE_ABI,
    .name = "sqlite",
    .schemes = schemes,
    .params = params,
    .caps = SQL_LEASE_CAPS,
    .state_size = sizeof(struct sqlite),
    .open = sqlite_open,
    .close = sqlite_close,
    .attempt = dibs__sql_lease_attempt,
    .watch = dibs__sqlite_watch,
    .renew = dibs__sql_lease_renew,
    .release = dibs__sql_lease_release,
    .downgrade = dibs__sql_lease_downgrade,
    .list = dibs__sql_list,
    .inspect = dibs__sql_inspect,
    .evict = dibs__sql_evict,
    .cell_read = dibs__sql_cell_read,
    .cell_swap = dibs__sql_cell_swap,
    .schema = dibs__sqlite_makes,
};
