/* SPDX-License-Identifier: MIT */
/* A lock by hand with SQLite: a lease in a table, in a file that is as safe as dibs' own. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "sqlite_bench.h"

enum { TAKE, GIVE, STATEMENTS };

static const char *const texts[STATEMENTS] = {
    [TAKE] = "INSERT INTO floor (name, owner, until) VALUES ('bench/floor', "
             "'0123456789abcdef0123456789abcdef:1', ?1 + 30000000) ON CONFLICT (name) DO "
             "UPDATE SET owner = excluded.owner, until = excluded.until "
             "WHERE until < ?1",
    [GIVE] = "DELETE FROM floor WHERE name = 'bench/floor' AND owner = "
             "'0123456789abcdef0123456789abcdef:1'",
};

typedef struct raw {
    sqlite3 *file;
    sqlite3_stmt *statements[STATEMENTS];
} raw;

static void
check(raw *r, int code)
{
    if (code != SQLITE_OK)
        bench_die("SQLite says: %s", sqlite3_errmsg(r->file));
}

void *
raw_open(const void *s)
{
    raw *r = calloc(1, sizeof *r);
    char path[420];

    if (r == NULL)
        bench_die("out of memory");
    sqlite_floor(path, sizeof path, s);
    check(r, sqlite3_open(path, &r->file));
    check(r,
          sqlite3_exec(r->file,
                       "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
                       "CREATE TABLE IF NOT EXISTS floor (name BLOB PRIMARY KEY, owner "
                       "TEXT NOT NULL, until INTEGER NOT NULL) WITHOUT ROWID",
                       NULL, NULL, NULL));
    for (int i = 0; i < STATEMENTS; i++)
        check(r, sqlite3_prepare_v3(r->file, texts[i], -1, SQLITE_PREPARE_PERSISTENT,
                                    &r->statements[i], NULL));
    return r;
}

void
raw_close(void *arg)
{
    raw *r = arg;

    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(r->statements[i]);
    sqlite3_close(r->file);
    free(r);
}

static void
change_one(raw *r, int which)
{
    sqlite3_stmt *statement = r->statements[which];

    if (which == TAKE)
        check(r,
              sqlite3_bind_int64(statement, 1, (sqlite3_int64)(bench_now_ns() / 1000)));
    if (sqlite3_step(statement) != SQLITE_DONE || sqlite3_changes(r->file) != 1)
        bench_die("a statement changes nothing: %s", sqlite3_errmsg(r->file));
    check(r, sqlite3_reset(statement));
}

void
raw_lock(void *r)
{
    change_one(r, TAKE);
}

void
raw_unlock(void *r)
{
    change_one(r, GIVE);
}
