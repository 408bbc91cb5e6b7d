/* SPDX-License-Identifier: MIT */
/* What the files of the benchmark of sqlite: share. ../sql.h has the parts. */
#ifndef DIBS_BENCH_SQLITE_H
#define DIBS_BENCH_SQLITE_H

#include "../sql.h"

/* sqlite_floor writes where the file of the locks by hand is. */
void sqlite_floor(char *out, size_t size, const server *s);

#endif /* DIBS_BENCH_SQLITE_H */
