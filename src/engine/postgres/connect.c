/* SPDX-License-Identifier: MIT */
/*
 * One connection: made without blocking (libpq looks up names in one go, so it is asked
 * before whether they can be), and told what its locks rely on.
 */
#include "postgres.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sql/lookup.h"

#define VERSION_14 140000

static void
ignore_notice(void *arg, const char *message)
{
    (void)arg, (void)message;
}

/* ---- connecting ---- */

static int
poll_on(const struct postgres *pg, struct conn *conn, dibs_time deadline, dibs_error *err)
{
    PostgresPollingStatusType next = PGRES_POLLING_WRITING;
    while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
        int events = next == PGRES_POLLING_READING ? POLLIN : POLLOUT;
        if (!dibs__pg_wait_for(PQsocket(conn->pg), events, deadline, pg->host))
            return pg->host->fail(err, DIBS_ETIMEDOUT, "%s does not answer in time",
                                  PQhost(conn->pg) ? PQhost(conn->pg) : "the server");
        next = PQconnectPoll(conn->pg);
    }
    return next == PGRES_POLLING_OK ? DIBS_OK : dibs__pg_refusal(pg->host, conn->pg, err);
}

static int
begin(const struct postgres *pg, struct conn *conn, size_t host, dibs_error *err)
{
    conn->pg = dibs__pg_address_begin(&pg->address, host);
    if (!conn->pg)
        return pg->host->fail(err, DIBS_ENOMEM, "out of memory");
    (void)PQsetErrorVerbosity(conn->pg, PQERRORS_VERBOSE);
    (void)PQsetNoticeProcessor(conn->pg, ignore_notice, NULL);
    if (PQstatus(conn->pg) == CONNECTION_BAD) /* it could not even begin: the URL */
        return dibs__pg_refusal(pg->host, conn->pg, err);
    return DIBS_OK;
}

/* ---- what is at the other end ---- */

/* What locks rely on. A setting that the server does not know, or does not show, is NULL. */
#define LOOK                                                                             \
    "SELECT pg_backend_pid(), current_setting('fsync', true), "                          \
    "current_setting('synchronous_commit', true), "                                      \
    "current_setting('full_page_writes', true)"

/* Compare-and-swap does not need more than READ COMMITTED, and gets along with less trouble
 * there. The server shall notice that we are gone: in general by keepalives, and while a
 * statement waits for a lock by looking whether the connection is still there. */
#define SETTLE                                                                           \
    "SET default_transaction_isolation = 'read committed';"                              \
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 3;"                     \
    "SET tcp_keepalives_count = 3;"
#define SETTLE_14 "SET client_connection_check_interval = 1000;"

/* A pooler invents the process number that it tells its clients. */
static void
find_pooler(struct postgres *pg, const struct conn *conn, const PGresult *found)
{
    long pid = PQntuples(found) == 1 ? strtol(PQgetvalue(found, 0, 0), NULL, 10) : 0;
    pg->pooler = pid == PQbackendPID(conn->pg) ? POOLER_NONE : POOLER_TRANSACTIONS;
}

/* a text that ends with LOOK */
static int
look(struct postgres *pg, struct conn *conn, const char *text, dibs_time deadline,
     dibs_error *err)
{
    PGresult *found = NULL;
    if (!PQsendQuery(conn->pg, text))
        return dibs__pg_refusal(pg->host, conn->pg, err);
    int rc = dibs__pg_ask(pg, conn, &found, deadline, err);
    if (rc)
        return rc;
    if (pg->pooler == POOLER_UNKNOWN)
        find_pooler(pg, conn, found);
    dibs__pg_warn(pg, found);
    PQclear(found);
    return DIBS_OK;
}

/* The first connection looks: while it is not known what is there, before anything is set. */
static int
greet(struct postgres *pg, struct conn *conn, dibs_time deadline, dibs_error *err)
{
    const char *more = PQserverVersion(conn->pg) >= VERSION_14 ? SETTLE_14 : "";
    char text[sizeof SETTLE SETTLE_14 LOOK];
    int rc = DIBS_OK, looks = !pg->server_version;
    if (looks && pg->pooler != POOLER_NONE) {
        rc = look(pg, conn, LOOK, deadline, err);
        looks = 0;
    }
    if (rc || pg->pooler != POOLER_NONE)
        return rc;
    (void)snprintf(text, sizeof text, SETTLE "%s%s", more, looks ? LOOK : "");
    return looks ? look(pg, conn, text, deadline, err)
                 : dibs__pg_query(pg, conn, text, NULL, deadline, err);
}

static const char *
value_of(const struct address *address, const char *name)
{
    for (size_t i = 0; i < address->count; i++) {
        if (strcmp(address->names[i], name) == 0)
            return address->values[i];
    }
    return NULL;
}

/* The name that libpq will look up; NULL: it looks up none, or it is for libpq to say which (in
 * lists and services). */
static const char *
name_of(const struct address *address, size_t host)
{
    if (address->host_count)
        return address->host_names[host];
    const char *name = value_of(address, "host");
    if (!name && !value_of(address, "service") && !getenv("PGSERVICE"))
        name = getenv("PGHOST");
    return name && !strchr(name, ',') && !getenv("PGHOSTADDR") ? name : NULL;
}

/* to one host */
static int
connect_to(struct postgres *pg, struct conn *conn, size_t host, dibs_time deadline,
           dibs_error *err)
{
    const char *name = name_of(&pg->address, host);
    conn->busy = 1;
    int rc = dibs__sql_look_up(pg->host, name, deadline, err);
    if (!rc)
        rc = begin(pg, conn, host, err);
    if (!rc)
        rc = poll_on(pg, conn, deadline, err);
    if (!rc) {
        (void)PQsetErrorVerbosity(conn->pg, PQERRORS_DEFAULT);
        (void)PQsetnonblocking(conn->pg, 1);
        conn->pid = PQbackendPID(conn->pg);
    }
    if (!rc)
        rc = greet(pg, conn, deadline, err);
    conn->busy = 0;
    if (rc)
        dibs__pg_disconnect(pg, conn, 0);
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

/* to whichever answers, beginning with the one that did so last; none may use up the time
 * of the others */
int
dibs__pg_connect(void *db, void *own, dibs_time deadline, dibs_error *err)
{
    struct postgres *pg = db;
    size_t count = pg->address.host_count ? pg->address.host_count : 1;
    size_t first = atomic_load(&pg->good_host);
    int rc = DIBS_EUNAVAIL;
    for (size_t i = 0; i < count && (rc == DIBS_EUNAVAIL || rc == DIBS_ETIMEDOUT); i++) {
        size_t host = (first + i) % count;
        dibs_time now = pg->host->now(), left = deadline - now;
        rc = connect_to(pg, own, host, now + left / (dibs_time)(count - i), err);
        if (!rc)
            atomic_store(&pg->good_host, host);
    }
    return rc;
}

/* ---- disconnecting ---- */

/* The connection is the parent's: what libpq says at its end must not get there. */
static void
deaden(int fd)
{
    int nowhere = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return;
    if (nowhere < 0 || dup3(nowhere, fd, O_CLOEXEC) < 0)
        (void)close(fd);
    if (nowhere >= 0)
        (void)close(nowhere);
}

void
dibs__pg_disconnect(void *db, void *own, int forked)
{
    struct conn *conn = own;
    (void)db;
    if (!conn->pg)
        return;
    if (forked)
        deaden(PQsocket(conn->pg));
    if (forked && conn->busy) /* another thread of the parent left it in any state */
        return;
    PQfinish(conn->pg);
    memset(conn, 0, sizeof *conn);
}
