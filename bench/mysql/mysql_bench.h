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

typedef struct hand hand;

/* mysql_hand makes a hand without statements. mysql_prepare adds one, whose ?N stand for the
 * N-th of the parameters. */
hand *mysql_hand(MYSQL *mysql);
void mysql_prepare(hand *h, int which, const char *text, const MYSQL_BIND *params);

/* Parameters: they outlive the hand. */
#define TEXT_BIND(text)                                                                  \
    {                                                                                    \
        .buffer_type = MYSQL_TYPE_STRING, .buffer = (text),                              \
        .buffer_length = sizeof(text) - 1                                                \
    }
#define NUMBER_BIND(number)                                                              \
    {                                                                                    \
        .buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &(number),                         \
        .buffer_length = sizeof(number)                                                  \
    }

#endif /* DIBS_BENCH_MYSQL_H */
