/* SPDX-License-Identifier: MIT */
/* What the files of the benchmark of mysql: share. ../sql.h has the parts. */
#ifndef DIBS_BENCH_MYSQL_H
#define DIBS_BENCH_MYSQL_H

#include <mysql.h>

#include "../sql.h"

/* They die of what goes wrong; mysql_try returns NULL instead. */
MYSQL *mysql_try(const server *s, const char *database);
MYSQL *mysql_link(const server *s, const char *database);
void mysql_do(MYSQL *mysql, const char *text);

#endif /* DIBS_BENCH_MYSQL_H */
