/* SPDX-License-Identifier: MIT */
/*
 * Running statements. A statement that finds the file locked by another process is run again
 * until the deadline, from outside of SQLite: a fork need not wait for it, and nobody waits
 * with a lock of ours.
 *
 * Parts: what SQLite says; values; one try; until the deadline; many at once; connections.
 */
#include <string.h>

#include "sqlite.h"

/* how often to look whether the file is still the one of that name */
#define CHECK_EVERY (20 * DIBS_MS)

/* what one try may say besides the codes of sql.h */
#define LITE_LOCKED 2000

/* A statement to run, and where its outcome goes. */
struct call {
    struct lite_conn *conn;
    sqlite3_stmt **kept; /* as it was prepared */
    const char *text;
    const struct sql_value *params;
    size_t n;
    struct sql_result *out; /* NULL: not wanted */
    dibs_error *err;
};

/* ---- what SQLite says ---- */

/* SQLite has no code of its own for these. */
static int
is_about_tables(const char *said)
{
    return strstr(said, "no such table") || strstr(said, "no such column") ||
           strstr(said, "has no column");
}

static int
code_of(const char *said, int rc, int is_write)
{
    switch (rc & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
    case SQLITE_PROTOCOL:
        return LITE_LOCKED;
    case SQLITE_CONSTRAINT:
        return rc == SQLITE_CONSTRAINT_PRIMARYKEY || rc == SQLITE_CONSTRAINT_UNIQUE
                   ? SQL_DUPLICATE
                   : DIBS_ECORRUPT;
    case SQLITE_ERROR:
        return is_about_tables(said) ? SQL_NO_TABLE : DIBS_ECORRUPT;
    case SQLITE_NOMEM:
        return DIBS_ENOMEM;
    case SQLITE_CORRUPT:
    case SQLITE_NOTADB:
        return DIBS_ECORRUPT;
    case SQLITE_READONLY:
        return rc == SQLITE_READONLY_DBMOVED ? DIBS_EUNAVAIL : DIBS_EDENIED;
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return DIBS_EDENIED;
    case SQLITE_IOERR: /* what was written may still be found after a crash */
        return is_write ? DIBS_EUNKNOWN : DIBS_EUNAVAIL;
    default: /* no room on the disk, the file is gone, ..: rolled back */
        return DIBS_EUNAVAIL;
    }
}

static int
is_lasting(int rc)
{
    int kind = rc & 0xff;
    return kind == SQLITE_IOERR || kind == SQLITE_CANTOPEN || kind == SQLITE_NOTADB ||
           kind == SQLITE_CORRUPT || rc == SQLITE_READONLY_DBMOVED;
}

/* what the system said, where it was asked for something: no descriptors, no such file, .. */
static int
system_error(sqlite3 *db, int rc)
{
    int kind = rc & 0xff;
    return kind == SQLITE_CANTOPEN || kind == SQLITE_IOERR ? sqlite3_system_errno(db) : 0;
}

static int
failed(struct lite_conn *conn, int rc, int is_write, dibs_error *err)
{
    const char *said = sqlite3_errmsg(conn->handle->db);
    int code = code_of(said, rc, is_write);
    if (code == LITE_LOCKED)
        return code;
    conn->is_broken |= is_lasting(rc);
    int error = system_error(conn->handle->db, rc);
    return conn->lite->sql.host->fail(err, code, "SQLite says: %s (%d)%s%s", said, rc,
                                      error ? ": " : "", error ? strerror(error) : "");
}

/* ---- values ---- */

static int
bind_one(sqlite3_stmt *statement, int at, const struct sql_value *value)
{
    const char *text = value->len ? value->text : ""; /* NULL would be no value at all */
    switch (value->kind) {
    case SQL_NUMBER:
        return sqlite3_bind_int64(statement, at, value->number);
    case SQL_TEXT:
        return sqlite3_bind_text64(statement, at, text, value->len, SQLITE_STATIC,
                                   SQLITE_UTF8);
    case SQL_BYTES:
        return sqlite3_bind_blob64(statement, at, text, value->len, SQLITE_STATIC);
    default:
        return sqlite3_bind_null(statement, at);
    }
}

/* A statement may leave out those parameters that only other databases need. */
static int
bind(sqlite3_stmt *statement, const struct sql_value *params, size_t n)
{
    size_t wanted = (size_t)sqlite3_bind_parameter_count(statement);
    int rc = SQLITE_OK;
    for (size_t i = 0; !rc && i < n && i < wanted; i++)
        rc = bind_one(statement, (int)i + 1, &params[i]);
    return rc;
}

static struct sql_value
column(sqlite3_stmt *statement, int at)
{
    const void *bytes;
    switch (sqlite3_column_type(statement, at)) {
    case SQLITE_INTEGER:
        return sql_number(sqlite3_column_int64(statement, at));
    case SQLITE_TEXT:
        bytes = sqlite3_column_text(statement, at);
        return sql_text(bytes, (size_t)sqlite3_column_bytes(statement, at));
    case SQLITE_BLOB:
        bytes = sqlite3_column_blob(statement, at);
        return sql_bytes(bytes, (size_t)sqlite3_column_bytes(statement, at));
    default:
        return (struct sql_value){ .kind = SQL_NULL };
    }
}

static int
keep_row(sqlite3_stmt *statement, struct sql_result *out)
{
    struct sql_value values[SQL_COLUMNS_MAX];
    int columns = sqlite3_column_count(statement);
    for (int i = 0; i < columns; i++)
        values[i] = column(statement, i);
    return dibs__sql_result_row(out, values, (size_t)columns);
}

/* ---- one try ---- */

static int
prepare(struct call *call)
{
    if (*call->kept)
        return SQLITE_OK;
    return sqlite3_prepare_v3(call->conn->handle->db, call->text, -1,
                              SQLITE_PREPARE_PERSISTENT, call->kept, NULL);
}

/* It is run to its end: that is where it commits, rows or not. */
static int
step(struct call *call)
{
    sqlite3_stmt *statement = *call->kept;
    int is_short = 0, is_write = !sqlite3_stmt_readonly(statement);
    call->conn->told = 0;
    int rc = bind(statement, call->params, call->n);
    if (!rc) {
        while ((rc = sqlite3_step(statement)) == SQLITE_ROW)
            is_short |= call->out && keep_row(statement, call->out) != DIBS_OK;
    }
    int code = DIBS_OK;
    if (rc != SQLITE_DONE)
        code = failed(call->conn, rc, is_write, call->err);
    else if (is_short)
        code = call->conn->lite->sql.host->fail(
            call->err, is_write ? DIBS_EUNKNOWN : DIBS_ENOMEM, "out of memory");
    else if (call->out && is_write) {
        call->out->changed = (uint64_t)sqlite3_changes(call->conn->handle->db);
        call->out->last_id = (uint64_t)call->conn->told;
    }
    (void)sqlite3_reset(statement);
    (void)sqlite3_clear_bindings(statement);
    return code;
}

/* Without this we would go on in a file that is not there any more, and others in a new one. */
static int
check_place(struct lite_conn *conn, dibs_error *err)
{
    dibs_time now = conn->lite->sql.host->now();
    int is_moved = 0;
    if (now - conn->checked < CHECK_EVERY)
        return DIBS_OK;
    conn->checked = now;
    (void)sqlite3_file_control(conn->handle->db, "main", SQLITE_FCNTL_HAS_MOVED,
                               &is_moved);
    if (!is_moved)
        return DIBS_OK;
    conn->is_broken = 1;
    return conn->lite->sql.host->fail(err, DIBS_EUNAVAIL,
                                      "the file was deleted or replaced");
}

static int
prepare_and_step(struct call *call)
{
    int rc = prepare(call);
    return rc ? failed(call->conn, rc, 0, call->err) : step(call);
}

static int
try_once(struct call *call)
{
    dibs__sqlite_enter();
    int code = check_place(call->conn, call->err);
    if (!code)
        code = prepare_and_step(call);
    dibs__sqlite_leave();
    return code;
}

/* ---- until the deadline ---- */

static int
still_locked(const dibs_host *host, dibs_error *err)
{
    return host->fail(err, DIBS_EUNAVAIL, "another process keeps the file locked");
}

static int
try_until(struct call *call, dibs_time deadline)
{
    const dibs_host *host = call->conn->lite->sql.host;
    for (dibs_time began = 0;;) {
        int code = try_once(call);
        if (code != LITE_LOCKED)
            return code;
        if (!began)
            began = host->now();
        if (dibs__sqlite_turn_wait(host, began, deadline))
            return still_locked(host, call->err);
        if (call->out)
            dibs__sql_result_free(call->out);
    }
}

/* Who only looks waits for nobody. Whether it does is known once it is prepared. */
static int
run_until(struct call *call, dibs_time deadline)
{
    struct sqlite *lite = call->conn->lite;
    if (*call->kept && sqlite3_stmt_readonly(*call->kept))
        return try_until(call, deadline);
    if (dibs__sqlite_turn_begin(&lite->turns, lite->sql.host, deadline))
        return still_locked(lite->sql.host, call->err);
    int code = try_until(call, deadline);
    dibs__sqlite_turn_end(&lite->turns, lite->sql.host);
    return code;
}

int
dibs__sqlite_query(struct lite_conn *conn, sqlite3_stmt **kept, const char *text,
                   const struct sql_value *params, size_t n, struct sql_result *out,
                   dibs_time deadline, dibs_error *err)
{
    sqlite3_stmt *own = NULL;
    struct call call = { conn, kept ? kept : &own, text, params, n, out, err };
    int rc = run_until(&call, deadline);
    if (own) {
        dibs__sqlite_enter();
        (void)sqlite3_finalize(own);
        dibs__sqlite_leave();
    }
    return rc;
}

static int
drive_run(void *db, void *own, enum sql_statement which, const struct sql_value *params,
          size_t n, struct sql_result *out, dibs_time deadline, dibs_error *err)
{
    struct lite_conn *conn = own;
    struct call call = {
        conn, &conn->statements[which], dibs__sqlite_texts[which], params, n, out, err
    };
    (void)db;
    return run_until(&call, deadline);
}

static int
drive_exec(void *db, void *own, const char *text, dibs_time deadline, dibs_error *err)
{
    (void)db;
    return dibs__sqlite_query(own, NULL, text, NULL, 0, NULL, deadline, err);
}

int
dibs__sqlite_make_tables(struct lite_conn *conn, dibs_time deadline, dibs_error *err)
{
    int rc = DIBS_OK;
    for (const char *const *text = dibs__sqlite_makes; !rc && *text; text++)
        rc = dibs__sqlite_query(conn, NULL, *text, NULL, 0, NULL, deadline, err);
    return rc;
}

/* ---- many at once ---- */

/* one transaction: the disk is waited for once */
static int
begin(struct lite_conn *conn)
{
    return sqlite3_exec(conn->handle->db, "BEGIN IMMEDIATE", NULL, NULL, NULL);
}

static void
say_all(int *codes, size_t n, int code)
{
    for (size_t i = 0; i < n; i++)
        codes[i] = code;
}

static void
step_all(const struct call *first, size_t each, size_t n, int *codes, uint64_t *changed)
{
    struct sql_result one;
    struct call call = *first;
    dibs__sql_result_init(&one, call.conn->lite->sql.host);
    call.out = &one;
    for (size_t i = 0; i < n; i++, call.params += each) {
        codes[i] = prepare_and_step(&call);
        changed[i] = one.changed;
        dibs__sql_result_free(&one);
    }
}

/* LITE_LOCKED, or something else that is in `codes` as well */
static int
try_all(struct call *call, size_t each, size_t n, int *codes, uint64_t *changed)
{
    struct lite_conn *conn = call->conn;
    int code = check_place(conn, call->err);
    int rc = code ? SQLITE_OK : begin(conn);
    if (rc)
        code = failed(conn, rc, 0, call->err);
    say_all(codes, n, code);
    if (code)
        return code;
    step_all(call, each, n, codes, changed);
    rc = sqlite3_exec(conn->handle->db, "COMMIT", NULL, NULL, NULL);
    if (rc) {
        say_all(codes, n, failed(conn, rc, 1, call->err));
        (void)sqlite3_exec(conn->handle->db, "ROLLBACK", NULL, NULL, NULL);
        conn->is_broken = 1;
    }
    return DIBS_OK;
}

static int
try_all_until(struct call *call, size_t each, size_t n, int *codes, uint64_t *changed,
              dibs_time deadline)
{
    const dibs_host *host = call->conn->lite->sql.host;
    for (dibs_time began = host->now();;) {
        dibs__sqlite_enter();
        int code = try_all(call, each, n, codes, changed);
        dibs__sqlite_leave();
        if (code != LITE_LOCKED || dibs__sqlite_turn_wait(host, began, deadline))
            return code;
    }
}

static void
drive_run_many(void *db, void *own, enum sql_statement which,
               const struct sql_value *params, size_t each, size_t n, int *codes,
               uint64_t *changed, dibs_time deadline, dibs_error *err)
{
    struct sqlite *lite = db;
    struct lite_conn *conn = own;
    struct call call = {
        conn, &conn->statements[which], dibs__sqlite_texts[which], params, each, NULL, err
    };
    int code = LITE_LOCKED;
    if (!dibs__sqlite_turn_begin(&lite->turns, lite->sql.host, deadline)) {
        code = try_all_until(&call, each, n, codes, changed, deadline);
        dibs__sqlite_turn_end(&lite->turns, lite->sql.host);
    }
    if (code == LITE_LOCKED)
        say_all(codes, n, still_locked(lite->sql.host, err));
}

/* ---- connections ---- */

static int
open_handle(struct lite_conn *conn, dibs_error *err)
{
    const dibs_host *host = conn->lite->sql.host;
    int code = DIBS_OK;
    dibs__sqlite_enter();
    int rc = dibs__sqlite_handle_open(&conn->handle, conn->lite->path);
    if (!conn->handle || !conn->handle->db)
        code = host->fail(err, DIBS_ENOMEM, "out of memory");
    else if (rc)
        code = failed(conn, rc, 0, err);
    else if (sqlite3_db_readonly(conn->handle->db, "main") == 1)
        code = host->fail(err, DIBS_EDENIED, "the file may only be read");
    dibs__sqlite_leave();
    return code == LITE_LOCKED ? still_locked(host, err) : code;
}

/* The log lets those who look not wait for those who write. */
static int
set_journal(struct lite_conn *conn, dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = conn->lite->sql.host;
    struct sql_result result;
    dibs__sql_result_init(&result, host);
    int rc = dibs__sqlite_query(conn, NULL, "PRAGMA journal_mode = WAL", NULL, 0, &result,
                                deadline, err);
    const struct sql_value *mode = dibs__sql_at(&result, 0, 0);
    if (!rc && (mode->kind != SQL_TEXT || strcmp(mode->text, "wal") != 0))
        rc = host->fail(err, DIBS_EUNSUPPORTED,
                        "SQLite cannot keep a write-ahead log for this file");
    dibs__sql_result_free(&result);
    return rc;
}

/* what a lock that is taken says of itself: see SQL_TAKE's last_id */
static void
tell_function(sqlite3_context *context, int count, sqlite3_value **values)
{
    struct lite_conn *conn = sqlite3_user_data(context);
    sqlite3_int64 token = sqlite3_value_int64(values[0]);
    (void)count;
    conn->told = token * 4 + sqlite3_value_int64(values[1]);
    sqlite3_result_int64(context, token);
}

static int
make_functions(struct lite_conn *conn, dibs_error *err)
{
    if (sqlite3_create_function_v2(conn->handle->db, "dibs_tell", 2,
                                   SQLITE_UTF8 | SQLITE_DIRECTONLY, conn, tell_function,
                                   NULL, NULL, NULL))
        return conn->lite->sql.host->fail(err, DIBS_ENOMEM, "out of memory");
    return DIBS_OK;
}

static int
set_up(struct lite_conn *conn, dibs_time deadline, dibs_error *err)
{
    static const char *const synchronous[] = { "PRAGMA synchronous = OFF",
                                               "PRAGMA synchronous = NORMAL",
                                               "PRAGMA synchronous = FULL" };
    int rc = open_handle(conn, err);
    if (!rc)
        rc = make_functions(conn, err);
    if (!rc)
        rc = set_journal(conn, deadline, err);
    if (!rc)
        rc = dibs__sqlite_query(conn, NULL, synchronous[conn->lite->synchronous], NULL, 0,
                                NULL, deadline, err);
    return rc ? rc : dibs__sqlite_clock_start(conn, deadline, err);
}

int
dibs__sqlite_connect(struct sqlite *lite, struct lite_conn *conn, dibs_time deadline,
                     dibs_error *err)
{
    conn->lite = lite;
    int rc = set_up(conn, deadline, err);
    if (rc)
        dibs__sqlite_disconnect(conn, 0);
    return rc;
}

/* What a parent opened stays as it is in a child: see handle.c. */
void
dibs__sqlite_disconnect(struct lite_conn *conn, int forked)
{
    if (forked || !conn->handle)
        return;
    dibs__sqlite_enter();
    dibs__sqlite_handle_close(conn->handle);
    dibs__sqlite_leave();
    conn->handle = NULL;
}

static int
drive_connect(void *db, void *own, dibs_time deadline, dibs_error *err)
{
    return dibs__sqlite_connect(db, own, deadline, err);
}

static void
drive_disconnect(void *db, void *own, int forked)
{
    (void)db;
    dibs__sqlite_disconnect(own, forked);
}

static int
drive_broken(void *own)
{
    const struct lite_conn *conn = own;
    return conn->is_broken;
}

const sql_drive dibs__sqlite_drive = {
    .database = "SQLite",
    .texts = dibs__sqlite_texts,
    .makes = dibs__sqlite_makes,
    .conn_size = sizeof(struct lite_conn),
    .connect = drive_connect,
    .disconnect = drive_disconnect,
    .run = drive_run,
    .run_many = drive_run_many,
    .exec = drive_exec,
    .broken = drive_broken,
};
