/* SPDX-License-Identifier: MIT */
/* What dibs itself runs, by hand: its lease, in a file like dibs' own. The functions that it
 * brings along do here what they do there. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/sqlite/sqlite.h"
#include "sqlite_bench.h"

enum { FIRST, TAKE, GIVE, STATEMENTS };

typedef struct its {
    sqlite3 *file;
    sqlite3_stmt *statements[STATEMENTS];
    sqlite3_int64 told;
} its;

static void
check(its *i, int code)
{
    if (code != SQLITE_OK)
        bench_die("SQLite says: %s", sqlite3_errmsg(i->file));
}

static void
now_function(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count, (void)values;
    sqlite3_result_int64(context, (sqlite3_int64)(bench_now_ns() / 1000));
}

static void
tell_function(sqlite3_context *context, int count, sqlite3_value **values)
{
    its *i = sqlite3_user_data(context);
    sqlite3_int64 token = sqlite3_value_int64(values[0]);

    (void)count;
    i->told = token * 4 + sqlite3_value_int64(values[1]);
    sqlite3_result_int64(context, token);
}

static void
prepare(its *i, int which, const char *text)
{
    sqlite3_stmt **made = &i->statements[which];

    check(i,
          sqlite3_prepare_v3(i->file, text, -1, SQLITE_PREPARE_PERSISTENT, made, NULL));
    check(i, sqlite3_bind_blob(*made, 1, ITS_NAME, sizeof ITS_NAME - 1, SQLITE_STATIC));
    check(i,
          sqlite3_bind_text(*made, 2, ITS_RECORD, sizeof ITS_RECORD - 1, SQLITE_STATIC));
    if (which != GIVE)
        check(i, sqlite3_bind_int64(*made, 3, ITS_LEASE_US));
}

static int
change(its *i, int which)
{
    sqlite3_stmt *statement = i->statements[which];
    int code;

    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        ;
    if (code != SQLITE_DONE)
        bench_die("SQLite says: %s", sqlite3_errmsg(i->file));
    check(i, sqlite3_reset(statement));
    return sqlite3_changes(i->file);
}

static void
change_one(its *i, int which)
{
    if (change(i, which) != 1)
        bench_die("a statement of dibs changes nothing");
}

static void
make(its *i)
{
    check(i, sqlite3_exec(i->file, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL",
                          NULL, NULL, NULL));
    for (const char *const *text = dibs__sqlite_makes; *text != NULL; text++)
        check(i, sqlite3_exec(i->file, *text, NULL, NULL, NULL));
    check(i, sqlite3_create_function(i->file, "dibs_now", 0, SQLITE_UTF8, i, now_function,
                                     NULL, NULL));
    check(i, sqlite3_create_function(i->file, "dibs_tell", 2, SQLITE_UTF8, i,
                                     tell_function, NULL, NULL));
}

void *
its_open(const void *s)
{
    its *i = calloc(1, sizeof *i);
    char path[440];

    if (i == NULL)
        bench_die("out of memory");
    sqlite_floor(path, sizeof path - 8, s);
    snprintf(path + strlen(path), 8, ".its");
    check(i, sqlite3_open(path, &i->file));
    make(i);
    prepare(i, FIRST, dibs__sqlite_texts[SQL_TAKE]);
    prepare(i, TAKE, dibs__sqlite_texts[SQL_RETAKE]);
    prepare(i, GIVE, dibs__sqlite_texts[SQL_GIVE]);
    if (change(i, FIRST) == 1)
        change_one(i, GIVE);
    return i;
}

void
its_close(void *arg)
{
    its *i = arg;

    for (int which = 0; which < STATEMENTS; which++)
        sqlite3_finalize(i->statements[which]);
    sqlite3_close(i->file);
    free(i);
}

void
its_lock(void *i)
{
    change_one(i, TAKE);
}

void
its_unlock(void *i)
{
    change_one(i, GIVE);
}
