/* SPDX-License-Identifier: MIT */
/* Statements by hand with libpq: see postgres.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres.h"
#include "sql/sql.h"

static const char *const names[HAND_STATEMENTS] = {
    [HAND_FIRST] = "first",
    [HAND_TAKE] = "take",
    [HAND_GIVE] = "give",
    [HAND_NATIVE_TAKE] = "native",
    [HAND_NATIVE_GIVE] = "unnative",
};

PGconn *
postgres_connect(const server *s, const char *database)
{
    char target[192];
    PGconn *pg;

    snprintf(target, sizeof target,
             "host=127.0.0.1 port=%d user=postgres dbname=%s "
             "options='-c client_min_messages=warning'",
             s->port, database);
    pg = PQconnectdb(target);
    if (PQstatus(pg) != CONNECTION_OK)
        bench_die("cannot connect: %s", PQerrorMessage(pg));
    return pg;
}

PGresult *
postgres_check(PGconn *pg, PGresult *result)
{
    ExecStatusType status = PQresultStatus(result);

    if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
        bench_die("the server says: %s", PQerrorMessage(pg));
    return result;
}

hand *
postgres_hand(PGconn *pg)
{
    hand *h = calloc(1, sizeof *h);

    if (h == NULL)
        bench_die("out of memory");
    h->pg = pg;
    return h;
}

/* parameters as dibs numbers them */
void
postgres_prepare(hand *h, int which, const char *text, params given)
{
    char numbered[2048];

    if (strlen(text) + 64 > sizeof numbered)
        bench_die("'%s' is too long", names[which]);
    dibs__sql_marks(numbered, text, '$', NULL, NULL);
    PQclear(postgres_check(h->pg, PQprepare(h->pg, names[which], numbered, 0, NULL)));
    h->params[which] = given;
}

static PGresult *
execute(hand *h, int which)
{
    static const int formats[PARAMS_MOST] = { BINARY, BINARY, BINARY };
    const params *given = &h->params[which];

    return postgres_check(h->pg, PQexecPrepared(h->pg, names[which], given->count,
                                                given->values, given->lengths,
                                                given->format == BINARY ? formats : NULL,
                                                given->format));
}

void
hand_close(void *arg)
{
    hand *h = arg;

    PQfinish(h->pg);
    free(h);
}

int
hand_change(void *h, int which)
{
    PGresult *result = execute(h, which);
    int changed = atoi(PQcmdTuples(result));

    PQclear(result);
    return changed;
}

void
hand_call(void *h, int which)
{
    PGresult *result = execute(h, which);

    if (PQntuples(result) != 1 || PQgetisnull(result, 0, 0))
        bench_die("'%s' does nothing", names[which]);
    PQclear(result);
}
