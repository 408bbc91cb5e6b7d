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

/* What a statement is given: texts, or bytes with lengths, which outlive the hand. */
enum { TEXT, BINARY, PARAMS_MOST = 3 };

typedef struct params {
    int count, format;
    const char *values[PARAMS_MOST];
    int lengths[PARAMS_MOST];
} params;

/* A hand of libpq: a connection, and what its statements are given. */
typedef struct hand {
    PGconn *pg;
    params params[HAND_STATEMENTS];
} hand;

hand *postgres_hand(PGconn *pg);
void postgres_prepare(hand *h, int which, const char *text, params given);

#endif /* DIBS_BENCH_POSTGRES_H */
