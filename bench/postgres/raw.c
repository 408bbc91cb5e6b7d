/* SPDX-License-Identifier: MIT */
/* Locks by hand with libpq: a lease in a table, and advisory locks. */
#include <stdio.h>
#include <stdlib.h>

#include "postgres.h"

#define NOW "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"

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

static void
prepare(PGconn *pg, const char *name, const char *text)
{
    PQclear(postgres_check(pg, PQprepare(pg, name, text, 0, NULL)));
}

void *
raw_open(const void *s)
{
    PGconn *pg = postgres_connect(s, "bench");

    PQclear(postgres_check(
        pg, PQexec(pg, "CREATE TABLE IF NOT EXISTS floor (name bytea PRIMARY KEY, owner "
                       "text NOT NULL, until bigint NOT NULL)")));
    prepare(pg, "take",
            "INSERT INTO floor AS f (name, owner, until) VALUES ($1, $2, " NOW
            " + 30000000) ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, until "
            "= excluded.until WHERE f.until < " NOW);
    prepare(pg, "give", "DELETE FROM floor WHERE name = $1 AND owner = $2");
    prepare(pg, "advisory", "SELECT pg_advisory_lock($1)");
    prepare(pg, "unadvisory", "SELECT pg_advisory_unlock($1)");
    return pg;
}

void
raw_close(void *pg)
{
    PQfinish(pg);
}

static void
change_one(PGconn *pg, const char *statement)
{
    static const char *const values[] = { "bench/floor",
                                          "0123456789abcdef0123456789abcdef:1" };
    PGresult *result =
        postgres_check(pg, PQexecPrepared(pg, statement, 2, values, NULL, NULL, 0));

    if (atoi(PQcmdTuples(result)) != 1)
        bench_die("'%s' changes nothing", statement);
    PQclear(result);
}

void
raw_lock(void *pg)
{
    change_one(pg, "take");
}

void
raw_unlock(void *pg)
{
    change_one(pg, "give");
}

static void
call(PGconn *pg, const char *statement)
{
    static const char *const values[] = { "4711" };

    PQclear(postgres_check(pg, PQexecPrepared(pg, statement, 1, values, NULL, NULL, 0)));
}

void
raw_native_lock(void *pg)
{
    call(pg, "advisory");
}

void
raw_native_unlock(void *pg)
{
    call(pg, "unadvisory");
}
