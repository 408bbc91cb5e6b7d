/* SPDX-License-Identifier: MIT */
/*
 * The engine's tables, one for each layout: opening and closing.
 *
 *   mysql://[USER[:PASSWORD]@]HOST[:3306][,...]/DATABASE[?...], and the same with mariadb://
 */
#include "bell.h"
#include "bound.h"
#include "classic.h"

#include <stdio.h>

#define RETURNING_LEAST 100500 /* MariaDB, of what inserts */

void
dibs__mysql_close(void *state, int forked)
{
    struct mysql *mysql = state;
    if (mysql->bells)
        dibs__my_bells_close(mysql->bells, forked);
    mysql->bells = NULL;
    if (mysql->bound)
        dibs__my_bound_close(mysql->bound, forked);
    mysql->bound = NULL;
    dibs__sql_close(&mysql->sql, forked);
    if (!forked)
        pthread_mutex_destroy(&mysql->strays.mutex);
}

static void
set_endpoint(dibs_session *session, const struct my_login *login)
{
    (void)snprintf(session->endpoint, sizeof session->endpoint, "mysql://%s/%s",
                   *login->hosts ? login->hosts : "localhost", login->database);
}

/* One connection, so that a wrong URL and a server that is refused are told at once. */
static int
say_hello(struct mysql *mysql, dibs_time deadline, dibs_error *err)
{
    struct sql_conn *conn = NULL;
    int rc = dibs__sql_borrow(mysql->sql.pool, &conn, deadline, err);
    if (rc)
        return rc;
    const struct my_link *link = conn->own;
    mysql->is_mariadb = link->is_mariadb;
    mysql->sql.enters = link->is_mariadb && !link->is_shared &&
                        mysql_get_server_version(link->mysql) >= RETURNING_LEAST;
    dibs__sql_warn(mysql->sql.session, link->risk,
                   mysql->sql.session->engine->attempt == dibs__my_bound_attempt);
    dibs__sql_giveback(mysql->sql.pool, conn);
    return DIBS_OK;
}

int
dibs__mysql_open(struct mysql *mysql, dibs_session *session, const dibs_url_parts *url,
                 dibs_time deadline, dibs_error *err)
{
    sql_drive drive = dibs__mysql_drive;
    if (mysql->drive.texts)
        drive.texts = mysql->drive.texts;
    if (mysql->drive.makes)
        drive.makes = mysql->drive.makes;
    mysql->drive = drive;
    mysql->sql = (struct sql){
        .session = session, .host = session->host, .drive = &mysql->drive, .db = mysql
    };
    int rc = dibs__my_login_read(&mysql->login, session->host, url, err);
    if (rc)
        return rc;
    set_endpoint(session, &mysql->login);
    rc = dibs__sql_open(&mysql->sql, url, err);
    if (rc)
        return rc;
    pthread_mutex_init(&mysql->strays.mutex, NULL);
    rc = say_hello(mysql, deadline, err);
    if (rc)
        dibs__mysql_close(mysql, 0);
    return rc;
}

static int
lease_open(void *state, dibs_session *session, const dibs_url_parts *url,
           dibs_time deadline, dibs_error *err)
{
    struct mysql *mysql = state;
    int rc = dibs__mysql_open(mysql, session, url, deadline, err);
    if (rc)
        return rc;
    rc = dibs__my_bells_open(mysql, err);
    if (rc)
        dibs__mysql_close(mysql, 0);
    return rc;
}

/* ---- the slots of the layout lease: those of src/sql, with bells ---- */

/* Who will be rung need only stay in line; the first looks all the same, since a lock that
 * was free is held without a bell. */
static int
lease_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct mysql *mysql = state;
    int rc = dibs__sql_lease_attempt(state, claim, deadline, err);
    dibs__my_bell_attempted(mysql->bells, claim, rc, deadline);
    if (rc == DIBS_EBUSY && claim->position > 1 &&
        dibs__my_bell_rings(mysql->bells, claim)) {
        uint32_t wait_ms = mysql->sql.waiter_ms;
        claim->hint_ms = (claim->lease_ms < wait_ms ? claim->lease_ms : wait_ms) / 3 + 1;
    }
    return rc;
}

static int
lease_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct mysql *mysql = state;
    dibs__my_bell_watch(mysql->bells, claim, deadline);
    return dibs__sql_lease_watch(state, claim, deadline, err);
}

static void
lease_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
            dibs_time deadline, dibs_error *err)
{
    struct mysql *mysql = state;
    dibs__sql_lease_renew(state, claims, results, n, deadline, err);
    for (size_t i = 0; i < n; i++) {
        if (results[i] == DIBS_ELOST)
            dibs__my_bell_ended(mysql->bells, claims[i], deadline);
    }
}

/* The next has been granted before it is woken. */
static int
lease_release(void *state, dibs_claim *claim, uint32_t linger_ms, dibs_time deadline,
              dibs_error *err)
{
    struct mysql *mysql = state;
    int rc = dibs__sql_lease_release(state, claim, linger_ms, deadline, err);
    dibs__my_bell_ended(mysql->bells, claim, deadline);
    return rc;
}

static int
lease_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct mysql *mysql = state;
    int rc = dibs__sql_lease_downgrade(state, claim, deadline, err);
    dibs__my_bell_ended(mysql->bells, claim, deadline);
    return rc;
}

const char *const dibs__mysql_schemes[] = { "mysql", "mariadb", NULL };

static const char *const lease_params[] = { MYSQL_PARAMS, "waiter", "poll", NULL };

__attribute__((visibility("default"))) extern const dibs_engine dibs_engine_table;

const dibs_engine *const dibs__mysql_layouts[] = {
    &dibs_engine_table,  &dibs__mysql_get_lock, &dibs__mysql_row,    &dibs__mysql_unique,
    &dibs__mysql_status, &dibs__mysql_shedlock, &dibs__mysql_spring, NULL
};

const dibs_engine dibs_engine_table = {
    .abi = DIBS_ENGINE_ABI,
    .name = "mysql",
    .schemes = dibs__mysql_schemes,
    .layout = "lease",
    .layouts = dibs__mysql_layouts,
    .params = lease_params,
    .caps = SQL_LEASE_CAPS,
    .state_size = sizeof(struct mysql),
    .open = lease_open,
    .close = dibs__mysql_close,
    .attempt = lease_attempt,
    .watch = lease_watch,
    .renew = lease_renew,
    .release = lease_release,
    .downgrade = lease_downgrade,
    .list = dibs__sql_list,
    .inspect = dibs__sql_inspect,
    .evict = dibs__sql_evict,
    .cell_read = dibs__sql_cell_read,
    .cell_swap = dibs__sql_cell_swap,
    .schema = dibs__mysql_makes,
};
