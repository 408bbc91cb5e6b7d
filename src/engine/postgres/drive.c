/* SPDX-License-Identifier: MIT */
/*
 * Running statements on a connection, with a deadline: sockets do not block, and what has
 * to wait waits in poll. Numbers and bytes travel as they are, in binary.
 *
 * Parts: waiting; results; parameters; statements; many at once.
 */
#include "postgres.h"

#include <endian.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

/* types of PostgreSQL; their numbers do not change */
#define TYPE_BOOL 16
#define TYPE_BYTES 17
#define TYPE_INT8 20
#define TYPE_INT2 21
#define TYPE_INT4 23
#define TYPE_TEXT 25
#define BINARY 1

/* a connection that was there a moment ago need not be looked at */
#define FRESH (20 * DIBS_MS)

/* what a connection knows of a statement (struct conn, uses) */
#define USED 1
#define PREPARED 2

/* ---- waiting ---- */

int
dibs__pg_wait_for(int fd, int events, dibs_time deadline, const dibs_host *host)
{
    const dibs_time second = 1000 * DIBS_MS, most = 3600 * second;
    struct pollfd look = { fd, (short)events, 0 };
    for (;;) {
        dibs_time left = deadline - host->now();
        left = left < 0 ? 0 : left < most ? left : most;
        struct timespec time = { (time_t)(left / second), (long)(left % second) };
        if (ppoll(&look, 1, &time, NULL) > 0)
            return look.revents;
        if (host->now() >= deadline)
            return 0;
    }
}

int
dibs__pg_is_open(struct conn *conn, dibs_time now, const dibs_host *host)
{
    if (now - conn->used_at < FRESH)
        return !conn->dead;
    if (dibs__pg_wait_for(PQsocket(conn->pg), POLLIN, 0, host) &&
        (!PQconsumeInput(conn->pg) || PQstatus(conn->pg) == CONNECTION_BAD))
        conn->dead = 1;
    conn->used_at = now;
    return !conn->dead;
}

/* A connection that breaks is "ready" too: then libpq has an error to tell. */
int
dibs__pg_ready(const struct postgres *pg, struct conn *conn, dibs_time deadline)
{
    for (;;) {
        int unsent = PQflush(conn->pg);
        if (unsent < 0 || (unsent == 0 && !PQisBusy(conn->pg)))
            return 1;
        int events = POLLIN | (unsent ? POLLOUT : 0);
        int found = dibs__pg_wait_for(PQsocket(conn->pg), events, deadline, pg->host);
        if (!found)
            return 0;
        if ((found & ~POLLOUT) && !PQconsumeInput(conn->pg))
            return 1;
    }
}

static int
late(const struct postgres *pg, struct conn *conn, dibs_error *err)
{
    conn->dead = 1;
    return pg->host->fail(err, DIBS_EUNKNOWN, "PostgreSQL did not answer in time");
}

static int
not_sent(const struct postgres *pg, struct conn *conn, dibs_error *err)
{
    char line[LINE_MAX_LEN];
    conn->dead = 1;
    dibs__pg_line(line, PQerrorMessage(conn->pg));
    return pg->host->fail(err, DIBS_EUNAVAIL, "%s",
                          *line ? line : "PostgreSQL closed the connection");
}

/* ---- results ---- */

static int
is_error(const PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);
    return status != PGRES_TUPLES_OK && status != PGRES_COMMAND_OK;
}

/* the results up to their end: an error that follows a result, at the commit, counts */
static int
collect(const struct postgres *pg, struct conn *conn, PGresult **last, dibs_time deadline,
        dibs_error *err)
{
    PGresult *next = NULL;
    int rc = DIBS_OK;
    do {
        if (!dibs__pg_ready(pg, conn, deadline))
            return late(pg, conn, err);
        next = PQgetResult(conn->pg);
        if (next && !rc && is_error(next))
            rc = dibs__pg_verdict(pg->host, conn, next, err);
        if (next) {
            PQclear(*last);
            *last = next;
        }
    } while (next && PQstatus(conn->pg) != CONNECTION_BAD);
    if (PQstatus(conn->pg) == CONNECTION_BAD)
        conn->dead = 1;
    if (!rc && (conn->dead || !*last))
        rc = dibs__pg_verdict(pg->host, conn, NULL, err);
    return rc;
}

int
dibs__pg_ask(struct postgres *pg, struct conn *conn, PGresult **out, dibs_time deadline,
             dibs_error *err)
{
    PGresult *last = NULL;
    int rc = collect(pg, conn, &last, deadline, err);
    if (rc == DIBS_EUNKNOWN)
        dibs__pg_ghost_add(pg, conn);
    if (rc)
        PQclear(last);
    else
        *out = last;
    return rc;
}

static int64_t
read_number(const char *bytes, int len)
{
    uint64_t number = 0;
    for (int i = 0; i < len; i++)
        number = number << 8 | (unsigned char)bytes[i];
    if (len > 0 && len < 8 && (bytes[0] & 0x80))
        number |= ~(uint64_t)0 << (8 * len);
    return (int64_t)number;
}

static int
is_number(Oid type)
{
    return type == TYPE_INT8 || type == TYPE_INT4 || type == TYPE_INT2 ||
           type == TYPE_BOOL;
}

int64_t
dibs__pg_number(const PGresult *result, int row, int column)
{
    if (row >= PQntuples(result) || column >= PQnfields(result) ||
        PQgetisnull(result, row, column) || !is_number(PQftype(result, column)))
        return 0;
    return read_number(PQgetvalue(result, row, column), PQgetlength(result, row, column));
}

static struct sql_value
read_value(const PGresult *result, int row, int column)
{
    Oid type = PQftype(result, column);
    const char *bytes = PQgetvalue(result, row, column);
    int len = PQgetlength(result, row, column);
    if (PQgetisnull(result, row, column))
        return (struct sql_value){ .kind = SQL_NULL };
    if (is_number(type))
        return sql_number(read_number(bytes, len));
    return type == TYPE_BYTES ? sql_bytes(bytes, (size_t)len)
                              : sql_text(bytes, (size_t)len);
}

static int
read_rows(const PGresult *from, struct sql_result *out)
{
    struct sql_value row[SQL_COLUMNS_MAX];
    int columns = PQnfields(from), rows = PQntuples(from), rc = DIBS_OK;
    if (columns > SQL_COLUMNS_MAX)
        columns = SQL_COLUMNS_MAX;
    for (int i = 0; !rc && i < rows && columns > 0; i++) {
        for (int k = 0; k < columns; k++)
            row[k] = read_value(from, i, k);
        rc = dibs__sql_result_row(out, row, (size_t)columns);
    }
    return rc;
}

static uint64_t
read_changed(PGresult *result)
{
    return strtoull(PQcmdTuples(result), NULL, 10);
}

/* ---- parameters ---- */

struct params {
    int count;
    Oid types[SQL_PARAMS_MAX];
    const char *values[SQL_PARAMS_MAX];
    int lengths[SQL_PARAMS_MAX], formats[SQL_PARAMS_MAX];
    uint64_t numbers[SQL_PARAMS_MAX];
};

static void
put_param(struct params *to, int i, const struct sql_value *value)
{
    static const Oid types[] = { [SQL_NULL] = 0,
                                 [SQL_NUMBER] = TYPE_INT8,
                                 [SQL_TEXT] = TYPE_TEXT,
                                 [SQL_BYTES] = TYPE_BYTES };
    to->types[i] = types[value->kind];
    to->formats[i] = BINARY;
    to->values[i] = value->text ? value->text : "";
    to->lengths[i] = (int)value->len;
    if (value->kind == SQL_NULL)
        to->values[i] = NULL;
    if (value->kind == SQL_NUMBER) {
        to->numbers[i] = htobe64((uint64_t)value->number);
        to->values[i] = (const char *)&to->numbers[i];
        to->lengths[i] = sizeof to->numbers[i];
    }
}

static void
put_params(struct params *to, const struct sql_value *values, size_t n)
{
    to->count = (int)(n < SQL_PARAMS_MAX ? n : SQL_PARAMS_MAX);
    for (int i = 0; i < to->count; i++)
        put_param(to, i, &values[i]);
}

/* ---- statements ---- */

static int
prepare(struct postgres *pg, struct conn *conn, enum sql_statement which,
        const struct params *params, dibs_time deadline, dibs_error *err)
{
    PGresult *result = NULL;
    if (!PQsendPrepare(conn->pg, pg->names[which], pg->texts[which], params->count,
                       params->types))
        return not_sent(pg, conn, err);
    int rc = dibs__pg_ask(pg, conn, &result, deadline, err);
    PQclear(result);
    if (!rc)
        conn->uses[which] = PREPARED;
    /* whether it was prepared does not matter */
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

/* A statement is prepared at its second use: a client that does not live long has no use
 * for it. */
static int
needs_prepare(struct postgres *pg, const struct conn *conn, enum sql_statement which)
{
    return pg->pooler == POOLER_NONE && conn->uses[which] == USED;
}

static int
send_statement(const struct postgres *pg, struct conn *conn, enum sql_statement which,
               const struct params *params)
{
    if (conn->uses[which] != PREPARED) {
        conn->uses[which] = USED;
        return PQsendQueryParams(conn->pg, pg->texts[which], params->count, params->types,
                                 params->values, params->lengths, params->formats,
                                 BINARY);
    }
    return PQsendQueryPrepared(conn->pg, pg->names[which], params->count, params->values,
                               params->lengths, params->formats, BINARY);
}

static int
run_now(struct postgres *pg, struct conn *conn, enum sql_statement which,
        const struct params *params, struct sql_result *out, dibs_time deadline,
        dibs_error *err)
{
    PGresult *result = NULL;
    int rc = DIBS_OK;
    if (needs_prepare(pg, conn, which))
        rc = prepare(pg, conn, which, params, deadline, err);
    if (rc)
        return rc;
    if (!send_statement(pg, conn, which, params))
        return not_sent(pg, conn, err);
    rc = dibs__pg_ask(pg, conn, &result, deadline, err);
    if (rc)
        return rc;
    out->changed = read_changed(result);
    rc = read_rows(result, out);
    PQclear(result);
    return rc ? pg->host->fail(err, rc, "out of memory") : DIBS_OK;
}

static int
is_usable(struct postgres *pg, struct conn *conn, dibs_time deadline, dibs_error *err)
{
    dibs_time now = pg->host->now();
    if (!dibs__pg_is_open(conn, now, pg->host))
        return not_sent(pg, conn, err);
    if (deadline <= now)
        return pg->host->fail(err, DIBS_EUNAVAIL, "there was no time to ask PostgreSQL");
    return atomic_load_explicit(&pg->ghosts.count, memory_order_relaxed)
               ? dibs__pg_ghosts_end(pg, conn, deadline, err)
               : DIBS_OK;
}

int
dibs__pg_send(const struct postgres *pg, struct conn *conn, enum sql_statement which,
              const struct sql_value *values, size_t n, dibs_error *err)
{
    struct params params;
    put_params(&params, values, n);
    return send_statement(pg, conn, which, &params) ? DIBS_OK : not_sent(pg, conn, err);
}

int
dibs__pg_run(void *db, void *own, enum sql_statement which,
             const struct sql_value *values, size_t n, struct sql_result *out,
             dibs_time deadline, dibs_error *err)
{
    struct postgres *pg = db;
    struct conn *conn = own;
    struct params params;
    int rc = is_usable(pg, conn, deadline, err);
    if (rc)
        return rc;
    put_params(&params, values, n);
    conn->busy = 1;
    rc = run_now(pg, conn, which, &params, out, deadline, err);
    conn->busy = 0;
    return rc;
}

int
dibs__pg_query(struct postgres *pg, struct conn *conn, const char *text, PGresult **out,
               dibs_time deadline, dibs_error *err)
{
    PGresult *result = NULL;
    conn->busy = 1;
    int rc = PQsendQuery(conn->pg, text) ? dibs__pg_ask(pg, conn, &result, deadline, err)
                                         : not_sent(pg, conn, err);
    conn->busy = 0;
    if (!rc && out)
        *out = result;
    else
        PQclear(result);
    return rc;
}

int
dibs__pg_exec(void *db, void *own, const char *text, dibs_time deadline, dibs_error *err)
{
    int rc = is_usable(db, own, deadline, err);
    return rc ? rc : dibs__pg_query(db, own, text, NULL, deadline, err);
}

/* A connection in a transaction that somebody has forgotten is not lent to others. */
static int
pg_broken(void *own)
{
    const struct conn *conn = own;
    return conn->dead || PQstatus(conn->pg) == CONNECTION_BAD ||
           PQtransactionStatus(conn->pg) != PQTRANS_IDLE;
}

/* ---- many at once ---- */

/* They are one transaction: the disk is waited for once. Holds of one client are rows of
 * its own, so none of them has to wait for others; and if it happens all the same, the server
 * rolls all of them back, and the pool runs each by itself. */
static int
send_many(const struct postgres *pg, struct conn *conn, enum sql_statement which,
          const struct sql_value *values, size_t each, size_t n)
{
    struct params params;
    for (size_t i = 0; i < n; i++) {
        put_params(&params, values + i * each, each);
        if (!send_statement(pg, conn, which, &params))
            return -1;
    }
    return PQpipelineSync(conn->pg) ? 0 : -1;
}

/* the results up to the mark at the end; between two there is always a NULL */
static int
collect_many(const struct postgres *pg, struct conn *conn, uint64_t *changed, size_t n,
             dibs_time deadline, dibs_error *err)
{
    int rc = DIBS_OK, is_over = 0;
    for (size_t at = 0; !is_over;) {
        if (!dibs__pg_ready(pg, conn, deadline))
            return late(pg, conn, err);
        PGresult *result = PQgetResult(conn->pg);
        is_over = result && PQresultStatus(result) == PGRES_PIPELINE_SYNC;
        if (result && !is_over && !rc && is_error(result))
            rc = dibs__pg_verdict(pg->host, conn, result, err);
        else if (result && !is_over && !rc && at < n)
            changed[at++] = read_changed(result);
        PQclear(result);
        if (PQstatus(conn->pg) == CONNECTION_BAD)
            return rc ? rc : dibs__pg_verdict(pg->host, conn, NULL, err);
    }
    return rc;
}

static int
run_pipeline(struct postgres *pg, struct conn *conn, enum sql_statement which,
             const struct sql_value *values, size_t each, size_t n, uint64_t *changed,
             dibs_time deadline, dibs_error *err)
{
    int rc = DIBS_EUNKNOWN;
    if (!PQenterPipelineMode(conn->pg))
        return not_sent(pg, conn, err);
    if (send_many(pg, conn, which, values, each, n) == 0)
        rc = collect_many(pg, conn, changed, n, deadline, err);
    if (rc == DIBS_EUNKNOWN)
        dibs__pg_ghost_add(pg, conn);
    if (rc == DIBS_EUNKNOWN || !PQexitPipelineMode(conn->pg))
        conn->dead = 1;
    return rc;
}

/* poolers and pipelines do not get along with each other everywhere */
static void
run_singly(struct postgres *pg, struct conn *conn, enum sql_statement which,
           const struct sql_value *values, size_t each, size_t n, int *codes,
           uint64_t *changed, dibs_time deadline, dibs_error *err)
{
    struct sql_result result;
    for (size_t i = 0; i < n; i++) {
        dibs__sql_result_init(&result, pg->host);
        codes[i] = dibs__pg_run(pg, conn, which, values + i * each, each, &result,
                                deadline, err);
        changed[i] = result.changed;
        dibs__sql_result_free(&result);
    }
}

static void
pg_run_many(void *db, void *own, enum sql_statement which, const struct sql_value *values,
            size_t each, size_t n, int *codes, uint64_t *changed, dibs_time deadline,
            dibs_error *err)
{
    struct postgres *pg = db;
    struct conn *conn = own;
    struct params params;
    if (pg->pooler != POOLER_NONE) {
        run_singly(pg, conn, which, values, each, n, codes, changed, deadline, err);
        return;
    }
    memset(changed, 0, n * sizeof *changed);
    int rc = is_usable(pg, conn, deadline, err);
    conn->busy = 1;
    if (!rc && conn->uses[which] != PREPARED) {
        put_params(&params, values, each);
        rc = prepare(pg, conn, which, &params, deadline, err);
    }
    if (!rc)
        rc = run_pipeline(pg, conn, which, values, each, n, changed, deadline, err);
    for (size_t i = 0; i < n; i++)
        codes[i] = rc;
    conn->busy = 0;
}

const sql_drive dibs__pg_drive = {
    .database = "PostgreSQL",
    .texts = dibs__pg_texts,
    .makes = dibs__pg_makes,
    .tells = 1,
    .conn_size = sizeof(struct conn),
    .connect = dibs__pg_connect,
    .disconnect = dibs__pg_disconnect,
    .run = dibs__pg_run,
    .run_many = pg_run_many,
    .exec = dibs__pg_exec,
    .broken = pg_broken,
};
