/* SPDX-License-Identifier: MIT */
/* The drive: what src/sql asks of a database, on connections of link.c. */
#include "my.h"

static int
drive_connect(void *db, void *conn, dibs_time deadline, dibs_error *err)
{
    const struct mysql *mysql = db;
    int rc = dibs__my_link_open(conn, &mysql->login, deadline, err);
    if (rc)
        return rc;
    rc = dibs__my_stray_prepare(conn, deadline, err);
    if (rc)
        dibs__my_link_close(conn, 0);
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

static void
drive_disconnect(void *db, void *conn, int forked)
{
    (void)db;
    dibs__my_link_close(conn, forked);
}

static int
drive_broken(void *conn)
{
    const struct my_link *link = conn;
    return link->is_broken;
}

/* A server that goes away says so on connections that nobody uses: asked there, it would be
 * unknown whether the statement was done. */
static int
check_open(struct my_link *link, dibs_error *err)
{
    if (!dibs__my_link_is_closed(link))
        return DIBS_OK;
    return link->login->host->fail(err, DIBS_EUNAVAIL,
                                   "the server has closed the connection");
}

static int
drive_run(void *db, void *conn, enum sql_statement which, const struct sql_value *params,
          size_t n, struct sql_result *out, dibs_time deadline, dibs_error *err)
{
    struct mysql *mysql = db;
    struct my_link *link = conn;
    struct my_statement **slot = &link->statements[which];
    link->is_busy = 1;
    int rc = check_open(link, err);
    if (!rc && atomic_load(&mysql->strays.count))
        rc = dibs__my_strays_end(mysql, link, deadline, err);
    if (!rc)
        rc = dibs__my_prepare(link, slot, mysql->drive.texts[which], deadline, err);
    if (!rc)
        rc = dibs__my_execute(link, *slot, params, n, out, deadline, err);
    if (rc == DIBS_EUNKNOWN)
        dibs__my_stray_add(mysql, link);
    link->is_busy = 0;
    return rc;
}

static int
drive_exec(void *db, void *conn, const char *text, dibs_time deadline, dibs_error *err)
{
    struct my_link *link = conn;
    (void)db;
    link->is_busy = 1;
    int rc = check_open(link, err);
    if (!rc)
        rc = dibs__my_link_exec(link, text, deadline, err);
    link->is_busy = 0;
    return rc;
}

const sql_drive dibs__mysql_drive = {
    .database = "MySQL",
    .texts = dibs__mysql_texts,
    .makes = dibs__mysql_makes,
    .conn_size = sizeof(struct my_link),
    .connect = drive_connect,
    .disconnect = drive_disconnect,
    .run = drive_run,
    .exec = drive_exec,
    .broken = drive_broken,
};
