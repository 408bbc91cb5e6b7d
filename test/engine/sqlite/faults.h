/* SPDX-License-Identifier: MIT */
/*
 * What tests of the sqlite engine share: a folder with a file in it, and SQLite itself to
 * look into the file and to stand in its way.
 *
 * places.c: where a file may be. busy.c: others at the file. clock.c: the time. forks.c:
 * children. crowd.c: many processes, and sudden deaths.
 */
#ifndef TEST_SQLITE_FAULTS_H
#define TEST_SQLITE_FAULTS_H

#include <sqlite3.h>

#include "user.h"

#define NAME "faults"

extern const fault_stage sqlite_stage;

/* The folder of this case, and the file in it that tests use. */
const char *folder(void);
const char *file_path(void);
const char *file_url(void);

/* sql opens the file, runs one statement, closes it, and returns the first number that came
 * out, or 0. */
int64_t sql(const char *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* check_whole fails unless SQLite finds nothing wrong with the file, and no lock is in use. */
void check_whole(void);

#endif /* TEST_SQLITE_FAULTS_H */
