/* SPDX-License-Identifier: MIT */
/*
 * The engine sqlite: locks in a file of SQLite, among the processes of one machine. What it
 * does is src/sql; here is what SQLite is like. In the order in which to read:
 *
 * sqlite.c is the engine's table. place.c finds the file and refuses what cannot work.
 * handle.c opens and closes it, and says what a fork is to do with it. drive.c runs
 * statements, texts.c has them, turn.c says who may write. clock.c is the time that all
 * processes agree on. watch.c sees when something was changed.
 */
#ifndef DIBS_ENGINE_SQLITE_H
#define DIBS_ENGINE_SQLITE_H

#include <limits.h>
#include <sqlite3.h>

#include "sql/sql.h"

/* ---- handle.c ---- */

/* An open file, in the list of all of this process. */
struct handle {
    sqlite3 *db;
    unsigned generation; /* of forks: what a parent opened is not ours */
    struct handle *next;
};

/* Between enter and leave SQLite may be called; a fork waits meanwhile. Not to be nested, and
 * nobody sleeps there. */
void dibs__sqlite_enter(void);
void dibs__sqlite_leave(void);

/* handle_open says what sqlite3_open_v2 does; the handle is there unless memory is short.
 * Both are called between enter and leave. */
int dibs__sqlite_handle_open(struct handle **out, const char *path);
void dibs__sqlite_handle_close(struct handle *handle);

/* ---- a connection ---- */

struct lite_conn {
    struct sqlite *lite;
    struct handle *handle;
    sqlite3_stmt *statements[SQL_STATEMENTS];
    int64_t told;      /* by dibs_tell(), in the statement that was run last */
    int64_t ahead_us;  /* of our clock before boot time: see clock.c */
    dibs_time checked; /* when the file was last seen to be in its place */
    int is_broken;
};

/* ---- turn.c ---- */

/* Threads of one client that want to write. */
struct lite_turns {
    pthread_mutex_t mutex; /* for all below; nobody sleeps with it */
    int is_taken;          /* somebody has the turn */
    struct lite_place *line;
    dibs_time
        streak_from; /* there was always another in line since then; 0: there is none */
    dibs_time gap_until; /* nobody writes before */
};

/* turn_begin waits for the turn: 0, or -1: the deadline has passed. */
void dibs__sqlite_turns_init(struct lite_turns *turns);
void dibs__sqlite_turns_end(struct lite_turns *turns, int forked);
int dibs__sqlite_turn_begin(struct lite_turns *turns, const dibs_host *host,
                            dibs_time deadline);
void dibs__sqlite_turn_end(struct lite_turns *turns, const dibs_host *host);

/* turn_wait pauses because another process has the file locked, and has had it since `began`.
 * 0, or -1: there is no time for another try. */
int dibs__sqlite_turn_wait(const dibs_host *host, dibs_time began, dibs_time deadline);

/* ---- watch.c ---- */

/* The thread that looks whether anything was changed, while somebody waits. */
struct lite_watch {
    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t cond;
    pthread_t thread;
    int has_thread, is_ending;
    dibs_time wanted; /* until when somebody wants to know */
};

struct sqlite {
    struct sql sql; /* first: the slots of src/sql take it for their own */
    char path[PATH_MAX];
    int synchronous;  /* as SQLite numbers it: 0 off, 1 normal, 2 full */
    char boot[64];    /* which boot of the machine this is */
    int64_t shift_us; /* of boot time, in this time namespace */
    struct lite_turns turns;
    struct lite_watch watch;
};

void dibs__sqlite_watch_init(struct sqlite *lite);
void dibs__sqlite_watch_end(struct sqlite *lite, int forked);
int dibs__sqlite_watch(void *state, dibs_claim *claim, dibs_time deadline,
                       dibs_error *err);

/* ---- place.c ---- */

/* The file that a URL names, as an absolute path. */
int dibs__sqlite_place(struct sqlite *lite, const dibs_url_parts *url, dibs_error *err);

/* ---- drive.c and texts.c ---- */

extern const sql_drive dibs__sqlite_drive;
extern const char *const dibs__sqlite_texts[SQL_STATEMENTS];
extern const char *const dibs__sqlite_makes[];

/* For the watch and the clock: a connection, and a statement that is not in the list. *kept
 * is the statement as it was prepared, to be used again; whoever closes the connection
 * frees it. */
int dibs__sqlite_connect(struct sqlite *lite, struct lite_conn *conn, dibs_time deadline,
                         dibs_error *err);
void dibs__sqlite_disconnect(struct lite_conn *conn, int forked);
int dibs__sqlite_query(struct lite_conn *conn, sqlite3_stmt **kept, const char *text,
                       const struct sql_value *params, size_t n, struct sql_result *out,
                       dibs_time deadline, dibs_error *err);
int dibs__sqlite_make_tables(struct lite_conn *conn, dibs_time deadline, dibs_error *err);

/* ---- clock.c ---- */

/* clock_open finds out which boot this is; clock_start sets the clock of a connection, which
 * statements call dibs_now(). */
int dibs__sqlite_clock_open(struct sqlite *lite, dibs_error *err);
int dibs__sqlite_clock_start(struct lite_conn *conn, dibs_time deadline, dibs_error *err);

#endif /* DIBS_ENGINE_SQLITE_H */
