/* SPDX-License-Identifier: MIT */
/*
 * What the engines postgres, mysql and sqlite share: locks in the tables of a database.
 *
 * An engine brings a drive: how to connect, how to run one statement, and its statements as
 * text. Everything else is here, and knows no database. In the order in which to read:
 *
 * pool.c lends connections and runs statements on them; statement.c numbers their
 * parameters as each database wants it. tables.c makes the tables; risk.c warns of servers
 * that may forget them. The layout `lease` is the default of all three: line.h, line.c and
 * line_text.c say who has a lock and who is next, as pure functions and as text; lease*.c are
 * the engine's slots on top of it; recall.c is what is remembered of lines, waiters.c who
 * waits here, and is told. look.c is list, inspect and break, cell.c the cells, sweep.c takes
 * away old rows. The classic layouts, for fleets that use them, are unique.c, status.c,
 * shedlock.c and spring.c, with classic.h as what they have in common, and row.h.
 */
#ifndef DIBS_SQL_H
#define DIBS_SQL_H

#include <pthread.h>

#include <dibs/engine.h>

/* ---- values ---- */

enum sql_kind { SQL_NULL, SQL_NUMBER, SQL_TEXT, SQL_BYTES };

/* Text is UTF-8 without NUL and not NUL-terminated; what is read lives as long as the result
 * it is in. */
struct sql_value {
    enum sql_kind kind;
    int64_t number;
    const char *text; /* also bytes */
    size_t len;
};

static inline struct sql_value
sql_number(int64_t number)
{
    return (struct sql_value){ .kind = SQL_NUMBER, .number = number };
}

static inline struct sql_value
sql_text(const char *text, size_t len)
{
    return (struct sql_value){ .kind = SQL_TEXT, .text = text, .len = len };
}

static inline struct sql_value
sql_bytes(const void *bytes, size_t len)
{
    return (struct sql_value){ .kind = SQL_BYTES, .text = bytes, .len = len };
}

/* ---- statements ---- */

/* Every statement commits by itself, and is one round trip. Parameters are written ?1 ?2 ..;
 * a dialect may leave one out or use it twice (statement.c translates). A time is
 * microseconds of the database's clock since 1970, as a number; {now} below means that clock
 * as it is when the row is locked, not when the statement began, where the database can. */
enum sql_statement {
    /* ---- lease: table dibs_locks(name, version, token, until, previous, state) ---- */
    /* "A new version" is one that a row never had. It is version + 1 or, where a server may
     * take over that has not heard of all changes, the larger of that and {now}; that of a new
     * row is {now}. So none comes twice, and who knows a line at its version knows the line. */
    /* take what is free: ?1 name ?2 record ?3 lease in us. If there is no row, or its state
     * is '': state = ?2, until = {now} + ?3, a new version, token = the larger of token + 1 and {now}; previous stays (a new row: 0).
     * Taken: one row (token, previous), or changed >= 1 and last_id = token * 4 + previous. */
    SQL_TAKE,
    /* the same, for a row that was there a while ago: changing is cheaper than inserting where
     * that is in the way. Not taken if there is none. */
    SQL_RETAKE,
    /* give back what nobody waits for: ?1 name ?2 record. If state = ?2 and until > {now}:
     * state = '', previous = 0, a new version; until stays. changed: 1 or 0. */
    SQL_GIVE,
    /* lengthen: ?1 name ?2 record ?3 lease in us. If state begins with ?2 and until > {now}:
     * until = {now} + ?3, a new version. changed: 1 or 0. */
    SQL_KEEP,
    /* ?1 name. One row (version, token, until, previous, state, {now}), or none. */
    SQL_READ,
    /* ?1 name ?2 version (0: any, if state is not '') ?3 the text to add. If version = ?2:
     * state = state || ?3, and nothing else, so that those who come do not disturb others.
     * changed: 1 or 0. */
    SQL_JOIN,
    /* ?1 name ?2 the text to add: the same at any version, if state is not ''. One row like
     * those of SQL_READ, as it is then; none: state is '' (or the row with state '' all the
     * same). For databases that can do both at once (sql.enters). */
    SQL_ENTER,
    /* change one record: ?1 name ?2 the record ?3 its new text ?4 when its time is over. If
     * ?2 is in state and ?4 > {now}: ?3 in its place, a new version. changed: 1 or 0. */
    SQL_EDIT,
    /* change: ?1 name ?2 version ?3 bytes of state that are known ?4 1: there must be no more
     * ?5 token ?6 until ?7 previous ?8 new text of what was known ?9 whom to tell: lines
     * "CHANNEL PAYLOAD\n", for databases that can tell ?10 the new version. If version = ?2
     * and (?4 = 0 or state has just ?3 bytes): version, token, until, previous, and state = ?8
     * || what follows the known bytes. changed: 1 or 0. */
    SQL_SWAP,
    /* a row that is not there yet: ?1 name, with version {now}, token 0, until {now},
     * previous 0 and state ''. Does nothing if it is there. */
    SQL_MAKE,
    /* ?1 age in us ?2 most rows: deletes rows with state '' and until < {now} - ?1 */
    SQL_SWEEP,
    /* ?1 name after which to go on ('' at first) ?2 most rows: (name, version, token, until,
     * previous, state, {now}) of rows whose state is not '', by name */
    SQL_LIST,
    /* ---- cells: table dibs_cells(space, name, version, value); value NULL: deleted ---- */
    /* ?1 space ?2 name: one row (version, value) or none */
    SQL_CELL_READ,
    /* ?1 space ?2 name ?3 value ?4 version (0: it must not be there, or be deleted): if it is
     * so, value = ?3 and version = the larger of version + 1 and {now}. One row (version), or
     * changed >= 1 and last_id = version. Value NULL deletes. */
    SQL_CELL_SWAP,
    /* ---- the classic layouts: classic.h. Each has its own texts for these. Parameters are
     * the same for all: ?1 key ?2 owner ?3 lease in us ?4 region ?5 ttl in us; a text leaves
     * out what it has no use for ---- */
    /* take: if it is free, over, or ?2's own: it is ?2's until {now} + ?3 (its own: never
     * earlier than before). Taken: one row (token), where the token was drawn after the row
     * was ours; else no row, or one of 0. */
    SQL_HOLD_TAKE,
    /* lengthen or shorten: if it is ?2's and not over, until = {now} + ?3. changed. */
    SQL_HOLD_KEEP,
    /* give back: if it is ?2's. changed. */
    SQL_HOLD_GIVE,
    /* who has it: one row (owner, until in us, {now} in us), or none */
    SQL_HOLD_READ,
    /* ?1 key after which to go on ?3 most rows ?4 region ?5 ttl: rows (key, owner, until,
     * {now}) of what is held, by key */
    SQL_HOLD_LIST,
    /* end what is held. changed. */
    SQL_HOLD_BREAK,
    /* ?3 age in us: deletes rows that were over that long ago. NULL: rows stay. */
    SQL_HOLD_SWEEP,
    /* does the table have the columns? SQL_NO_TABLE: no. NULL: it is ours. */
    SQL_HOLD_PROBE,
    /* the same for tables of older versions, in the same order; NULL: there are none */
    SQL_OLD_TAKE,
    SQL_OLD_KEEP,
    SQL_OLD_GIVE,
    SQL_OLD_READ,
    SQL_OLD_LIST,
    SQL_OLD_BREAK,
    SQL_OLD_SWEEP,
    SQL_OLD_PROBE,
    /* ---- row: row.h ---- */
    /* the next token, of a transaction of its own: one row (token) */
    SQL_TOKEN,
    /* ?1 name: its row in dibs_rows, if it has none */
    SQL_ROW_ADD,
    SQL_STATEMENTS
};
#define SQL_PARAMS_MAX 12

/* A text with ?N for a database that wants $N ('$') or only ? ('?': then order[i] tells which
 * parameter, from 1, the i-th mark stands for, and *count how many marks there are). Quoted
 * text is left alone. `out` has room for strlen(text) + 64. */
void dibs__sql_marks(char *out, const char *text, char style, uint8_t order[32],
                     size_t *count);

/* What a statement gave. The drive fills it in with dibs__sql_result_row, which copies. */
#define SQL_COLUMNS_MAX 12
struct sql_result {
    const dibs_host *host;
    uint64_t changed; /* rows that were inserted, updated or deleted */
    uint64_t last_id; /* see SQL_TAKE */
    size_t rows, columns;
    struct sql_value *values; /* rows * columns */
    size_t room;
};
void dibs__sql_result_init(struct sql_result *result, const dibs_host *host);
int dibs__sql_result_row(struct sql_result *result, const struct sql_value *values,
                         size_t columns); /* DIBS_OK, ENOMEM */
void dibs__sql_result_free(struct sql_result *result);
const struct sql_value *dibs__sql_at(const struct sql_result *result, size_t row,
                                     size_t column);

/* ---- the drive ---- */

/* What run says besides DIBS_OK: EUNAVAIL, surely nothing was done (it was not sent, or the
 * server said that it rolled it back: deadlock, serialization, read-only, shutting down);
 * EUNKNOWN, the connection was lost or the deadline came after it was sent: the connection is
 * not used again; EDENIED; ECORRUPT; ENOMEM; ETIMEDOUT only from connect. And these: */
enum sql_code {
    SQL_DUPLICATE = 1000, /* a unique key was there already */
    SQL_NO_TABLE,         /* there is no such table (or sequence, or column) */
    SQL_AGAIN, /* rolled back by the server: deadlock or serialization. The pool
                           * runs the statement again, within the deadline */
    SQL_BUSY   /* NOWAIT, or a lock time-out: another has the row */
};

typedef struct sql_drive {
    const char *database;     /* "PostgreSQL", for messages */
    const char *const *texts; /* SQL_STATEMENTS of them; NULL: it has no such layout */
    const char *const
        *makes; /* the tables, as statements, NULL-terminated: see tables.c */
    /* can it tell another client (SQL_SWAP's ?9)? */
    int tells;
    /* connect opens one more connection; `conn` is the drive's own, zeroed. Sets nothing on
     * failure that disconnect would have to free. */
    size_t conn_size;
    int (*connect)(void *db, void *conn, dibs_time deadline, dibs_error *err);
    void (*disconnect)(void *db, void *conn, int forked);
    /* run: prepares the statement on that connection at its first use */
    int (*run)(void *db, void *conn, enum sql_statement which,
               const struct sql_value *params, size_t n, struct sql_result *out,
               dibs_time deadline, dibs_error *err);
    /* run_many, may be NULL: the same statement n times with its own parameters, in as few
     * round trips as can be; codes[i] and changed[i] for each. */
    void (*run_many)(void *db, void *conn, enum sql_statement which,
                     const struct sql_value *params, size_t each, size_t n, int *codes,
                     uint64_t *changed, dibs_time deadline, dibs_error *err);
    /* exec: a text that returns nothing, for tables and settings */
    int (*exec)(void *db, void *conn, const char *text, dibs_time deadline,
                dibs_error *err);
    /* broken: the connection is of no more use (after EUNKNOWN, or the server closed it) */
    int (*broken)(void *conn);
} sql_drive;

/* ---- pool.c ---- */

/* Connections are lent, the one that was given back last first, so that few stay warm. A
 * thread that finds none free opens one, up to the most; then it waits. */
struct sql_conn {
    struct sql_conn *next;
    uint64_t number; /* 1, 2, ..: no two of a pool are the same */
    void *own;       /* the drive's */
};
typedef struct sql_pool sql_pool;

sql_pool *dibs__sql_pool_new(dibs_session *session, const sql_drive *drive, void *db,
                             unsigned most);
void dibs__sql_pool_free(sql_pool *pool, int forked);
/* borrow: DIBS_OK, or what connect says. giveback closes it if it is broken. */
int dibs__sql_borrow(sql_pool *pool, struct sql_conn **out, dibs_time deadline,
                     dibs_error *err);
void dibs__sql_giveback(sql_pool *pool, struct sql_conn *conn);
/* run on any connection, again after SQL_AGAIN. A connection that turns out to have been
 * closed while it was idle, before anything was sent, is replaced by a new one once.
 * run_many falls back on single statements. */
int dibs__sql_run(sql_pool *pool, enum sql_statement which,
                  const struct sql_value *params, size_t n, struct sql_result *out,
                  dibs_time deadline, dibs_error *err);
void dibs__sql_run_many(sql_pool *pool, enum sql_statement which,
                        const struct sql_value *params, size_t each, size_t n, int *codes,
                        uint64_t *changed, dibs_time deadline, dibs_error *err);
/* run_on: on that connection, which the caller has borrowed */
int dibs__sql_run_on(sql_pool *pool, struct sql_conn *conn, enum sql_statement which,
                     const struct sql_value *params, size_t n, struct sql_result *out,
                     dibs_time deadline, dibs_error *err);
/* exec_on: a text that returns nothing, on that connection. drive_of, host_of: whose pool it
 * is. */
int dibs__sql_exec_on(sql_pool *pool, struct sql_conn *conn, const char *text,
                      dibs_time deadline, dibs_error *err);
const sql_drive *dibs__sql_drive_of(const sql_pool *pool);
const dibs_host *dibs__sql_host_of(const sql_pool *pool);
/* make runs the drive's `makes` (tables.c), when something said SQL_NO_TABLE: two clients may
 * do so at once. Refused by the database: EDENIED, and what to do: `dibs schema URL`. ask is
 * run, which makes the tables if they are not there. */
int dibs__sql_make(sql_pool *pool, dibs_time deadline, dibs_error *err);
int dibs__sql_ask(sql_pool *pool, enum sql_statement which,
                  const struct sql_value *params, size_t n, struct sql_result *out,
                  dibs_time deadline, dibs_error *err);

/* ---- risk.c ---- */

/* What may make a server forget: when, and by which setting, for dibs_notice. */
struct sql_risk {
    const char *when, *why;
};
/* warn sets the notice; NULL: there is no risk. `is_bound`: locks end with connections. note
 * adds something to it. */
void dibs__sql_warn(dibs_session *session, const struct sql_risk *risk, int is_bound);
void dibs__sql_note(dibs_session *session, const char *text);

/* ---- the layout lease ---- */

struct sql_lease;

/* The state of every engine here begins with this; `open` of the engine fills in drive and
 * db, and calls sql_open. */
struct sql {
    dibs_session *session;
    const dibs_host *host;
    const sql_drive *drive;
    void *db; /* the drive's */
    sql_pool *pool;
    struct sql_lease *lease; /* the layout lease: who waits, what is known */
    void *layout;            /* what another layout keeps */
    uint32_t waiter_ms;      /* a waiter is taken for dead after so long (?waiter=) */
    uint32_t poll_ms;        /* how often the first in line looks if nobody tells it */
    unsigned connections;    /* most in the pool (?connections=, 8) */
    /* SQL_ENTER may be used: there is one, and what was sent and given up is ended before
     * anything else is asked */
    int enters;
};
int dibs__sql_open(struct sql *sql, const dibs_url_parts *url, dibs_error *err);
void dibs__sql_close(struct sql *sql, int forked);

/* told: the database says PAYLOAD to this client, on the channel "dibs_" + session id (see
 * SQL_SWAP). unheard: messages may have been lost (a connection is new): all who wait ask
 * again. changed: something changed, it is not known what (SQLite): all who wait look. */
void dibs__sql_told(struct sql *sql, const char *payload, size_t len);
void dibs__sql_unheard(struct sql *sql);
void dibs__sql_changed(struct sql *sql);
/* before: for an engine that wakes by itself, the id ("SESSION:SERIAL") of the one who stood
 * before a claim in line when it last asked; "": it does not wait, or is the first */
const char *dibs__sql_before(const dibs_claim *claim);

/* the slots; an engine that can be told puts its own `watch` in the table, which begins to
 * listen and then calls dibs__sql_lease_watch */
int dibs__sql_lease_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                            dibs_error *err);
int dibs__sql_lease_watch(void *state, dibs_claim *claim, dibs_time deadline,
                          dibs_error *err);
void dibs__sql_lease_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                           dibs_time deadline, dibs_error *err);
int dibs__sql_lease_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                            dibs_time deadline, dibs_error *err);
int dibs__sql_lease_downgrade(void *state, dibs_claim *claim, dibs_time deadline,
                              dibs_error *err);
int dibs__sql_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err);
int dibs__sql_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                      dibs_sink *sink, dibs_time deadline, dibs_error *err);
int dibs__sql_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                    size_t *broken, dibs_time deadline, dibs_error *err);
int dibs__sql_cell_read(void *state, const dibs_cell_key *key, dibs_cell *out,
                        dibs_time deadline, dibs_error *err);
int dibs__sql_cell_swap(void *state, const dibs_cell_key *key, uint64_t version,
                        const void *value, size_t len, uint64_t *new_version,
                        dibs_time deadline, dibs_error *err);

#define SQL_LEASE_CAPS                                                                   \
    (DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_PERMITS |               \
     DIBS_CAP_TOKEN | DIBS_CAP_CELL | DIBS_CAP_INSPECT | DIBS_CAP_BREAK |                \
     DIBS_CAP_WAKE | DIBS_CAP_DETAIL | DIBS_CAP_OBSERVE | DIBS_CAP_PREVIOUS |            \
     DIBS_CAP_LINGER)

#endif /* DIBS_SQL_H */
