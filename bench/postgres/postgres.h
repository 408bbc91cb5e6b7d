/* SPDX-License-Identifier: MIT */
/* What the files of the benchmark of postgres: share. ../sql.h has the parts. */
#ifndef DIBS_BENCH_POSTGRES_H
#define DIBS_BENCH_POSTGRES_H

#include <libpq-fe.h>

#include "../sql.h"

/* They die of what goes wrong. postgres_check returns the result. */
PGconn *postgres_connect(const server *s, const char *database);
PGresult *postgres_check(PGconn *pg, PGresult *result);
void postgres_do(const server *s, const char *database, const char *text);

#endif /* DIBS_BENCH_POSTGRES_H */
