/* SPDX-License-Identifier: MIT */
/* Statements by hand with SQLite: see sqlite_bench.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sqlite_bench.h"

void
sqlite_check(hand *h, int code)
{
    if (code != SQLITE_OK)
        bench_die("SQLite says: %s", sqlite3_errmsg(h->file));
}

void
sqlite_do(hand *h, const char *text)
{
    sqlite_check(h, sqlite3_exec(h->file, text, NULL, NULL, NULL));
}

hand *
sqlite_hand(const server *s, const char *ending)
{
    hand *h = calloc(1, sizeof *h);
    char path[440];

    if (h == NULL)
        bench_die("out of memory");
    sqlite_floor(path, sizeof path - 8, s);
    snprintf(path + strlen(path), 8, "%s", ending);
    sqlite_check(h, sqlite3_open(path, &h->file));
    sqlite_do(h, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL");
    return h;
}

sqlite3_stmt *
sqlite_prepare(hand *h, int which, const char *text)
{
    sqlite_check(h, sqlite3_prepare_v3(h->file, text, -1, SQLITE_PREPARE_PERSISTENT,
                                       &h->statements[which], NULL));
    return h->statements[which];
}

void
hand_close(void *arg)
{
    hand *h = arg;

    for (int which = 0; which < HAND_STATEMENTS; which++)
        sqlite3_finalize(h->statements[which]);
    sqlite3_close(h->file);
    free(h);
}

int
hand_change(void *arg, int which)
{
    hand *h = arg;
    sqlite3_stmt *statement = h->statements[which];
    int code;

    if (h->takes_time && which == HAND_TAKE)
        sqlite_check(
            h, sqlite3_bind_int64(statement, 1, (sqlite3_int64)(bench_now_ns() / 1000)));
    while ((code = sqlite3_step(statement)) == SQLITE_ROW)
        ;
    if (code != SQLITE_DONE)
        bench_die("SQLite says: %s", sqlite3_errmsg(h->file));
    sqlite_check(h, sqlite3_reset(statement));
    return sqlite3_changes(h->file);
}
