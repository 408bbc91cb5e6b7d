/* SPDX-License-Identifier: MIT */
/*
 * The classic layouts: one row per lock in a table that other programs use too, or could.
 *
 *   unique    insert a row with a unique key, delete it        unique.c
 *   status    a column says whether it is free                 status.c
 *   shedlock  the table of ShedLock                            shedlock.c
 *   spring    the table of Spring's JdbcLockRegistry           spring.c
 *
 * All four are a row with an owner and a time at which it is over, so they share one frame:
 * classic.c takes, keeps and gives back by SQL_HOLD_TAKE and its sisters, classic_look.c looks
 * and breaks. What differs is a form, how a name becomes a key and a claim an owner, and the
 * texts of the statements, which each database has of its own (classic_texts.c there).
 *
 * What they lack: they are exclusive, and know neither who waits nor how the hold before
 * ended. Nobody is told when one is given back: who waits tries, at longer and longer
 * intervals (?poll=). All times are the database's.
 *
 * A token is drawn from a sequence, by the statement that takes the lock, after the row is
 * ours: so it is larger than those of all who had it before.
 */
#ifndef DIBS_SQL_CLASSIC_H
#define DIBS_SQL_CLASSIC_H

#include "sql/sql.h"

#define CLASSIC_CAPS                                                                     \
    (DIBS_CAP_LEASE | DIBS_CAP_TOKEN | DIBS_CAP_CELL | DIBS_CAP_INSPECT |                \
     DIBS_CAP_BREAK | DIBS_CAP_LINGER)

/* what a client of such a layout takes from the URL; and what those with a table of others */
#define CLASSIC_PARAMS "poll"
#define SHEDLOCK_PARAMS CLASSIC_PARAMS, "table"
#define SPRING_PARAMS CLASSIC_PARAMS, "table", "region", "ttl"

#define CLASSIC_TEXT_MAX 1664
struct classic_text {
    size_t len;
    char text[CLASSIC_TEXT_MAX];
};

struct classic;

/* How a layout writes things down. key fails with EINVAL if the name cannot be written so.
 * table: NULL, or the word in its texts that ?table= stands for. */
struct classic_form {
    const char *layout, *table;
    enum sql_kind key_kind;
    int (*key)(const struct classic *classic, struct classic_text *out, const char *name,
               size_t len, dibs_error *err);
    void (*owner)(const struct classic *classic, struct classic_text *out,
                  const dibs_claim *claim);
};
extern const struct classic_form dibs__classic_unique, dibs__classic_status,
    dibs__classic_shedlock, dibs__classic_spring;

struct classic {
    struct sql *sql;
    const dibs_host *host;
    const dibs_session *session;
    const struct classic_form *form;
    enum sql_statement first; /* SQL_HOLD_TAKE, or SQL_OLD_TAKE */
    const char *region;       /* spring only, "" elsewhere */
    int64_t ttl_us;           /* the same, 0 */
    _Atomic dibs_time sweep_at;
    /* for the drive: the database's statements and those of the layout, and its tables, with
     * the name of the table in them */
    const char *const *texts, *const *makes;
    void *room;
};

/* ---- opening ---- */

/* The layouts as an engine has them: the statements of its database, and of each layout what
 * is its own. open gives the texts and makes to the drive, and opens the rest; close is what
 * undoes it. The state begins with struct sql, of which the classic is the layout then. */
struct classic_kind {
    const struct classic_form *form;
    const char *const *texts, *const *makes;
};
struct classic_engine {
    const char *const *texts;
    const struct classic_kind *kinds;
    int (*open)(void *state, const struct classic *classic, dibs_session *session,
                const dibs_url_parts *url, dibs_time deadline, dibs_error *err);
    void (*close)(void *state, int forked);
};
int dibs__classic_open(void *state, const struct classic_engine *engine,
                       dibs_session *session, const dibs_url_parts *url,
                       dibs_time deadline, dibs_error *err);
void dibs__classic_close(void *state, const struct classic_engine *engine, int forked);

/* ---- what is shared with the forms and classic_look.c ---- */

/* how many characters of UTF-8 that is; -1: it is none */
int dibs__classic_chars(const char *text, size_t len);
/* A name, or SCHEMA.NAME, that needs no quotes. */
int dibs__classic_is_table(const char *name);
/* the texts with another table's name: classic_table.c */
int dibs__classic_texts(struct classic *classic, const char *const *base,
                        const char *const *own, const char *const *makes,
                        const dibs_url_parts *url, dibs_error *err);

/* An owner of ours is "ID APP HOST PID NOTE", as records of the layout lease have it, and no
 * longer than `most`: then the note is missing, and the end of the rest. */
void dibs__classic_person(const struct classic *classic, struct classic_text *out,
                          const dibs_claim *claim, size_t most);
/* the same, for tables of our own, whose column takes all of it */
void dibs__classic_own_owner(const struct classic *classic, struct classic_text *out,
                             const dibs_claim *claim);
/* the name itself, for columns of bytes */
int dibs__classic_plain_key(const struct classic *classic, struct classic_text *out,
                            const char *name, size_t len, dibs_error *err);

/* The parameters of a statement; the texts must live as long. */
#define CLASSIC_VALUES 5
void dibs__classic_values(const struct classic *classic,
                          struct sql_value out[CLASSIC_VALUES],
                          const struct classic_text *key,
                          const struct classic_text *owner, int64_t number);
/* run: TAKE.. of this table, with tables made if there are none; `out` may be NULL. */
int dibs__classic_run(const struct classic *classic, enum sql_statement which,
                      const struct sql_value values[CLASSIC_VALUES],
                      struct sql_result *out, dibs_time deadline, dibs_error *err);

/* Who has a lock. `row` is (owner, until, now), from that column on. */
struct classic_seen {
    struct sql_value owner;
    int64_t left_us;
};
int dibs__classic_seen(const struct classic *classic, struct classic_seen *out,
                       const struct sql_result *result, size_t row, size_t column,
                       dibs_error *err);

/* ---- the slots; the state begins with struct sql ---- */

int dibs__classic_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                          dibs_error *err);
void dibs__classic_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                         dibs_time deadline, dibs_error *err);
int dibs__classic_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                          dibs_time deadline, dibs_error *err);
int dibs__classic_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err);
int dibs__classic_inspect(void *state, const char *name, size_t name_len,
                          uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                          dibs_error *err);
int dibs__classic_evict(void *state, const char *name, size_t name_len,
                        uint64_t name_hash, size_t *broken, dibs_time deadline,
                        dibs_error *err);

/* the slots of a table, for all databases */
#define CLASSIC_SLOTS                                                                    \
    .attempt = dibs__classic_attempt, .renew = dibs__classic_renew,                      \
    .release = dibs__classic_release, .list = dibs__classic_list,                        \
    .inspect = dibs__classic_inspect, .evict = dibs__classic_evict,                      \
    .cell_read = dibs__sql_cell_read, .cell_swap = dibs__sql_cell_swap

#endif /* DIBS_SQL_CLASSIC_H */
