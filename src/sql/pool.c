/* SPDX-License-Identifier: MIT */
/*
 * Connections, lent to whoever runs a statement. The one that was given back last is lent
 * first, so that few stay warm.
 *
 * Parts: the list of all; lending; what goes wrong; statements.
 */
#include "sql/sql.h"

#include <stddef.h>

#include "util/wait.h"

/* a statement that the server rolled back is run again so often, with longer pauses */
#define AGAIN_MOST 30
#define PAUSE_FIRST (DIBS_MS / 2)
#define PAUSE_MOST (32 * DIBS_MS)

/* what is lent: a fork's child must find those in use as well */
struct entry {
    struct sql_conn conn;
    struct entry *before, *after;
    max_align_t own[];
};

struct sql_pool {
    const dibs_host *host;
    const sql_drive *drive;
    void *db;
    unsigned most;
    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t returned;
    struct entry *all;
    struct sql_conn *idle;
    unsigned count, waiting;
    uint64_t last_number;
};

/* ---- the list of all ---- */

sql_pool *
dibs__sql_pool_new(dibs_session *session, const sql_drive *drive, void *db, unsigned most)
{
    sql_pool *pool = session->host->alloc(sizeof *pool);
    if (!pool)
        return NULL;
    pool->host = session->host;
    pool->drive = drive;
    pool->db = db;
    pool->most = most;
    pthread_mutex_init(&pool->mutex, NULL);
    cond_init(&pool->returned);
    return pool;
}

/* In a fork's child the mutex and what the parent's threads were using stay as they are. */
void
dibs__sql_pool_free(sql_pool *pool, int forked)
{
    const dibs_host *host = pool->host;
    for (struct entry *entry = pool->all, *after; entry; entry = after) {
        after = entry->after;
        pool->drive->disconnect(pool->db, entry->conn.own, forked);
        host->free(entry);
    }
    if (!forked) {
        pthread_cond_destroy(&pool->returned);
        pthread_mutex_destroy(&pool->mutex);
    }
    host->free(pool);
}

static void
enlist(sql_pool *pool, struct entry *entry)
{
    pthread_mutex_lock(&pool->mutex);
    entry->conn.number = ++pool->last_number;
    entry->after = pool->all;
    if (pool->all)
        pool->all->before = entry;
    pool->all = entry;
    pthread_mutex_unlock(&pool->mutex);
}

static void
unlist(sql_pool *pool, struct entry *entry)
{
    pthread_mutex_lock(&pool->mutex);
    if (entry->after)
        entry->after->before = entry->before;
    if (entry->before)
        entry->before->after = entry->after;
    else
        pool->all = entry->after;
    pthread_mutex_unlock(&pool->mutex);
}

/* gives the place of a connection, which is not there any more or not yet, to another */
static void
vacate(sql_pool *pool)
{
    pthread_mutex_lock(&pool->mutex);
    pool->count--;
    if (pool->waiting)
        pthread_cond_signal(&pool->returned);
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- lending ---- */

static int
connect_one(sql_pool *pool, struct sql_conn **out, dibs_time deadline, dibs_error *err)
{
    struct entry *entry = pool->host->alloc(sizeof *entry + pool->drive->conn_size);
    if (!entry) {
        vacate(pool);
        return pool->host->fail(err, DIBS_ENOMEM, "out of memory");
    }
    entry->conn.own = entry->own;
    int rc = pool->drive->connect(pool->db, entry->own, deadline, err);
    if (rc) {
        pool->host->free(entry);
        vacate(pool);
        return rc;
    }
    enlist(pool, entry);
    *out = &entry->conn;
    return DIBS_OK;
}

static void
drop(sql_pool *pool, struct sql_conn *conn)
{
    struct entry *entry = (struct entry *)conn;
    unlist(pool, entry);
    pool->drive->disconnect(pool->db, conn->own, 0);
    pool->host->free(entry);
    vacate(pool);
}

/* -1: the deadline has passed */
static int
wait_locked(sql_pool *pool, dibs_time deadline)
{
    pool->waiting++;
    int rc = wait_for(&pool->returned, &pool->mutex, deadline - pool->host->now());
    pool->waiting--;
    return rc;
}

/* an idle one; or NULL: there may be one more (then it is counted), or *rc is not 0 */
static struct sql_conn *
take_idle(sql_pool *pool, int *rc, dibs_time deadline)
{
    pthread_mutex_lock(&pool->mutex);
    while (!*rc && !pool->idle && pool->count >= pool->most)
        *rc = wait_locked(pool, deadline);
    struct sql_conn *conn = pool->idle;
    if (conn) {
        pool->idle = conn->next;
        *rc = 0;
    } else if (!*rc) {
        pool->count++;
    }
    pthread_mutex_unlock(&pool->mutex);
    return conn;
}

int
dibs__sql_borrow(sql_pool *pool, struct sql_conn **out, dibs_time deadline,
                 dibs_error *err)
{
    int rc = 0;
    struct sql_conn *conn = take_idle(pool, &rc, deadline);
    if (rc)
        return pool->host->fail(err, DIBS_EUNAVAIL, "all %u connections are in use",
                                pool->most);
    if (!conn)
        return connect_one(pool, out, deadline, err);
    *out = conn;
    return DIBS_OK;
}

void
dibs__sql_giveback(sql_pool *pool, struct sql_conn *conn)
{
    if (pool->drive->broken(conn->own)) {
        drop(pool, conn);
        return;
    }
    pthread_mutex_lock(&pool->mutex);
    conn->next = pool->idle;
    pool->idle = conn;
    if (pool->waiting)
        pthread_cond_signal(&pool->returned);
    pthread_mutex_unlock(&pool->mutex);
}

/* ---- what goes wrong ---- */

/* A connection that was closed while it was idle: others are probably just as old, so that
 * a new one is made. On failure there is no connection any more. */
static int
replace(sql_pool *pool, struct sql_conn **conn, dibs_time deadline, dibs_error *err)
{
    drop(pool, *conn);
    *conn = NULL;
    pthread_mutex_lock(&pool->mutex);
    int is_room = pool->count < pool->most;
    pool->count += (unsigned)is_room;
    pthread_mutex_unlock(&pool->mutex);
    return is_room ? connect_one(pool, conn, deadline, err)
                   : dibs__sql_borrow(pool, conn, deadline, err);
}

static int
is_stale(const sql_pool *pool, const struct sql_conn *conn, int rc)
{
    return rc == DIBS_EUNAVAIL && pool->drive->broken(conn->own);
}

/* Not to have connected in time means, for a statement, that it was not sent. */
static int
not_sent(int rc, dibs_error *err)
{
    if (rc != DIBS_ETIMEDOUT)
        return rc;
    if (err)
        err->code = DIBS_EUNAVAIL;
    return DIBS_EUNAVAIL;
}

/* 0 after a pause, or -1: there is no time for another try */
static int
pause_again(sql_pool *pool, unsigned tries, dibs_time deadline)
{
    dibs_time most = PAUSE_FIRST << (tries < 6 ? tries : 6), now = pool->host->now();
    dibs_time until = now + (dibs_time)(pool->host->random() % (uint64_t)most);
    if (tries >= AGAIN_MOST || until >= deadline)
        return -1;
    pool->host->sleep_until(until);
    return 0;
}

/* ---- statements ---- */

int
dibs__sql_run_on(sql_pool *pool, struct sql_conn *conn, enum sql_statement which,
                 const struct sql_value *params, size_t n, struct sql_result *out,
                 dibs_time deadline, dibs_error *err)
{
    struct sql_result ignored;
    struct sql_result *result = out ? out : &ignored;
    if (!out)
        dibs__sql_result_init(&ignored, pool->host);
    int rc =
        pool->drive->run(pool->db, conn->own, which, params, n, result, deadline, err);
    if (!out)
        dibs__sql_result_free(&ignored);
    return rc;
}

int
dibs__sql_exec_on(sql_pool *pool, struct sql_conn *conn, const char *text,
                  dibs_time deadline, dibs_error *err)
{
    return pool->drive->exec(pool->db, conn->own, text, deadline, err);
}

const sql_drive *
dibs__sql_drive_of(const sql_pool *pool)
{
    return pool->drive;
}

const dibs_host *
dibs__sql_host_of(const sql_pool *pool)
{
    return pool->host;
}

static int
run_again(sql_pool *pool, struct sql_conn *conn, enum sql_statement which,
          const struct sql_value *params, size_t n, struct sql_result *out,
          dibs_time deadline, dibs_error *err)
{
    for (unsigned tries = 0;; tries++) {
        int rc = dibs__sql_run_on(pool, conn, which, params, n, out, deadline, err);
        if (rc != SQL_AGAIN)
            return rc;
        if (pause_again(pool, tries, deadline))
            return pool->host->fail(err, DIBS_EUNAVAIL,
                                    "%s rolled the statement back each time",
                                    pool->drive->database);
    }
}

int
dibs__sql_run(sql_pool *pool, enum sql_statement which, const struct sql_value *params,
              size_t n, struct sql_result *out, dibs_time deadline, dibs_error *err)
{
    struct sql_conn *conn = NULL;
    int rc = dibs__sql_borrow(pool, &conn, deadline, err);
    if (rc)
        return not_sent(rc, err);
    rc = run_again(pool, conn, which, params, n, out, deadline, err);
    if (is_stale(pool, conn, rc)) {
        rc = replace(pool, &conn, deadline, err);
        if (rc)
            return not_sent(rc, err);
        rc = run_again(pool, conn, which, params, n, out, deadline, err);
    }
    dibs__sql_giveback(pool, conn);
    return rc;
}

/* those that the drive could not run many at once of, or that the server rolled back */
static void
run_singly(sql_pool *pool, enum sql_statement which, const struct sql_value *params,
           size_t each, size_t n, int only, int *codes, uint64_t *changed,
           dibs_time deadline, dibs_error *err)
{
    for (size_t i = 0; i < n; i++) {
        struct sql_result result;
        if (only && codes[i] != only)
            continue;
        dibs__sql_result_init(&result, pool->host);
        codes[i] =
            dibs__sql_run(pool, which, params + i * each, each, &result, deadline, err);
        changed[i] = result.changed;
        dibs__sql_result_free(&result);
    }
}

static void
run_together(sql_pool *pool, struct sql_conn *conn, enum sql_statement which,
             const struct sql_value *params, size_t each, size_t n, int *codes,
             uint64_t *changed, dibs_time deadline, dibs_error *err)
{
    pool->drive->run_many(pool->db, conn->own, which, params, each, n, codes, changed,
                          deadline, err);
    dibs__sql_giveback(pool, conn);
    /* the first of a batch finds out that the connection was closed: none of it was sent */
    run_singly(pool, which, params, each, n, DIBS_EUNAVAIL, codes, changed, deadline,
               err);
    run_singly(pool, which, params, each, n, SQL_AGAIN, codes, changed, deadline, err);
}

void
dibs__sql_run_many(sql_pool *pool, enum sql_statement which,
                   const struct sql_value *params, size_t each, size_t n, int *codes,
                   uint64_t *changed, dibs_time deadline, dibs_error *err)
{
    struct sql_conn *conn = NULL;
    if (!pool->drive->run_many || n == 1) {
        run_singly(pool, which, params, each, n, 0, codes, changed, deadline, err);
        return;
    }
    int rc = not_sent(dibs__sql_borrow(pool, &conn, deadline, err), err);
    for (size_t i = 0; i < n; i++) {
        codes[i] = rc;
        changed[i] = 0;
    }
    if (!rc)
        run_together(pool, conn, which, params, each, n, codes, changed, deadline, err);
}
