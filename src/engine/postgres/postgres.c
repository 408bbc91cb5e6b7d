/* SPDX-License-Identifier: MIT */
/*
 * The engine's tables: reading the URL, open and close. See postgres.h, and address.c for
 * what a URL looks like.
 */
#include "postgres.h"

#include <stdio.h>
#include <string.h>

#include "bound.h"
#include "classic.h"

/* ---- open and close ---- */

/* libpq numbers parameters with a dollar */
static int
make_texts(struct postgres *pg, dibs_error *err)
{
    const char *const *texts = pg->drive.texts;
    size_t size = 0;
    for (size_t i = 0; i < SQL_STATEMENTS; i++)
        size += texts[i] ? strlen(texts[i]) + 1 : 0;
    char *at = pg->text_room = pg->host->alloc(size);
    if (!at)
        return pg->host->fail(err, DIBS_ENOMEM, "out of memory");
    for (unsigned i = 0; i < PG_STATEMENTS; i++)
        (void)snprintf(pg->names[i], STATEMENT_NAME_MAX, "dibs_%u", i);
    for (size_t i = 0; i < SQL_STATEMENTS; i++) {
        if (!texts[i])
            continue;
        pg->texts[i] = at;
        dibs__sql_marks(at, texts[i], '$', NULL, NULL);
        at += strlen(at) + 1;
    }
    return DIBS_OK;
}

/* with the statements and tables that the layout has chosen, if it has */
static void
make_drive(struct postgres *pg)
{
    sql_drive drive = dibs__pg_drive;
    if (pg->drive.texts)
        drive.texts = pg->drive.texts;
    if (pg->drive.makes)
        drive.makes = pg->drive.makes;
    pg->drive = drive;
    pg->sql.drive = &pg->drive;
}

static int
read_url(struct postgres *pg, const dibs_url_parts *url, dibs_error *err)
{
    static const char *const poolers[] = { "auto", "session", "transaction", NULL };
    static const enum pooler known[] = { POOLER_UNKNOWN, POOLER_NONE,
                                         POOLER_TRANSACTIONS };
    int pooler = 0;
    int rc = pg->host->param_choice(&pooler, url, "pooler", poolers, err);
    pg->pooler = known[pooler];
    return rc ? rc : dibs__pg_address_read(&pg->address, pg->session, url, err);
}

static int
read_limit(const struct postgres *pg, const dibs_url_parts *url, dibs_time *deadline,
           dibs_error *err)
{
    int64_t limit_ms = 0;
    int rc = pg->host->param_ms(&limit_ms, url, "connect_timeout", err);
    dibs_time limit = pg->host->now() + limit_ms * DIBS_MS;
    if (!rc && limit_ms > 0 && limit < *deadline)
        *deadline = limit;
    return rc;
}

static void
name_endpoint(struct postgres *pg, const struct conn *conn)
{
    const char *host = PQhost(conn->pg), *port = PQport(conn->pg), *db = PQdb(conn->pg);
    (void)snprintf(pg->session->endpoint, sizeof pg->session->endpoint,
                   "postgres://%s%s%s/%s", host && *host != '/' ? host : "",
                   host && *host != '/' ? ":" : "", host && *host != '/' ? port : "",
                   db ? db : "");
}

/* connects once, so that a wrong URL and what is refused are told at once */
static int
say_hello(struct postgres *pg, dibs_time deadline, dibs_error *err)
{
    struct sql_conn *conn = NULL;
    int rc = dibs__sql_borrow(pg->sql.pool, &conn, deadline, err);
    if (rc)
        return rc;
    name_endpoint(pg, conn->own);
    pg->server_version = PQserverVersion(((struct conn *)conn->own)->pg);
    dibs__sql_giveback(pg->sql.pool, conn);
    return DIBS_OK;
}

int
dibs__pg_open(struct postgres *pg, dibs_session *session, const dibs_url_parts *url,
              dibs_time deadline, dibs_error *err)
{
    pg->session = session;
    pg->host = session->host;
    pthread_mutex_init(&pg->starting, NULL);
    pthread_mutex_init(&pg->ghosts.mutex, NULL);
    pg->sql.session = session;
    pg->sql.host = session->host;
    make_drive(pg);
    pg->sql.db = pg;
    int rc = read_limit(pg, url, &deadline, err);
    if (!rc)
        rc = read_url(pg, url, err);
    if (!rc)
        rc = make_texts(pg, err);
    if (!rc)
        rc = dibs__sql_open(&pg->sql, url, err);
    if (!rc)
        rc = say_hello(pg, deadline, err);
    if (rc)
        dibs__pg_close(pg, 0);
    return rc;
}

void
dibs__pg_close(struct postgres *pg, int forked)
{
    dibs__pg_listener_free(pg, forked);
    dibs__sql_close(&pg->sql, forked);
    dibs__pg_address_free(&pg->address, pg->host);
    pg->host->free(pg->text_room);
    if (forked)
        return;
    pthread_mutex_destroy(&pg->ghosts.mutex);
    pthread_mutex_destroy(&pg->starting);
}

/* ---- the layout lease ---- */

static int
lease_open(void *state, dibs_session *session, const dibs_url_parts *url,
           dibs_time deadline, dibs_error *err)
{
    struct postgres *pg = state;
    int rc = dibs__pg_open(pg, session, url, deadline, err);
    pg->sql.enters = pg->pooler == POOLER_NONE;
    if (rc || pg->pooler != POOLER_TRANSACTIONS)
        return rc;
    session->caps &= ~(uint32_t)DIBS_CAP_WAKE; /* who waits looks from time to time */
    dibs__sql_note(session, "there is a pooler, so that who waits looks now and then "
                            "(pooler=session if it lends whole sessions)");
    return DIBS_OK;
}

static void
lease_close(void *state, int forked)
{
    dibs__pg_close(state, forked);
}

static int
lease_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct postgres *pg = state;
    int rc = DIBS_OK;
    if (pg->pooler == POOLER_NONE)
        rc = dibs__pg_listen(pg, deadline, err);
    return rc ? rc : dibs__sql_lease_watch(&pg->sql, claim, deadline, err);
}

const char *const dibs__pg_schemes[] = { "postgres", "postgresql", NULL };

static const char *const lease_params[] = { PG_PARAMS, "waiter", "poll", NULL };

__attribute__((visibility("default"))) extern const dibs_engine dibs_engine_table;

const dibs_engine dibs_engine_table = {
    .abi = DIBS_ENGINE_ABI,
    .name = "postgres",
    .schemes = dibs__pg_schemes,
    .layout = "lease",
    .layouts = dibs__pg_layouts,
    .params = lease_params,
    .caps = SQL_LEASE_CAPS,
    .state_size = sizeof(struct postgres),
    .open = lease_open,
    .close = lease_close,
    .attempt = dibs__sql_lease_attempt,
    .watch = lease_watch,
    .renew = dibs__sql_lease_renew,
    .release = dibs__sql_lease_release,
    .downgrade = dibs__sql_lease_downgrade,
    .list = dibs__sql_list,
    .inspect = dibs__sql_inspect,
    .evict = dibs__sql_evict,
    .cell_read = dibs__sql_cell_read,
    .cell_swap = dibs__sql_cell_swap,
    .schema = dibs__pg_makes,
    .sleep = dibs__pg_sleep,
    .rouse = dibs__pg_rouse,
};

const dibs_engine *const dibs__pg_layouts[] = { &dibs_engine_table, &dibs__pg_advisory,
                                                &dibs__pg_row,      &dibs__pg_unique,
                                                &dibs__pg_status,   &dibs__pg_shedlock,
                                                &dibs__pg_spring,   NULL };
