/* SPDX-License-Identifier: MIT */
/* What the files of the benchmark of sqlite: share. ../sql.h has the parts. */
#ifndef DIBS_BENCH_SQLITE_H
#define DIBS_BENCH_SQLITE_H

#include <sqlite3.h>

#include "../sql.h"

/* A hand of SQLite: a file, and statements that were prepared. */
typedef struct hand {
    sqlite3 *file;
    sqlite3_stmt *statements[HAND_STATEMENTS]; /* NULL: it has no such one */
    int takes_time;                            /* the first parameter of HAND_TAKE */
    sqlite3_int64 told;                        /* the last by dibs_tell() */
} hand;

/* sqlite_hand opens a file as safe as dibs' own, named by the folder of the server and an
 * ending. They die of what goes wrong. */
hand *sqlite_hand(const server *s, const char *ending);
void sqlite_check(hand *h, int code);
void sqlite_do(hand *h, const char *text);
sqlite3_stmt *sqlite_prepare(hand *h, int which, const char *text);

/* sqlite_floor writes where the file of the locks by hand is. */
void sqlite_floor(char *out, size_t size, const server *s);

#endif /* DIBS_BENCH_SQLITE_H */
