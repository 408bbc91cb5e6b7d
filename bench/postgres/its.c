/* SPDX-License-Identifier: MIT */
/* What dibs itself sends, by hand with libpq: its lease, and its advisory locks. */
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/postgres/postgres.h"
#include "postgres.h"

enum { BINARY = 1, PARAMS_MOST = 3 };

/* with the tables that they are about, and as dibs numbers their parameters */
static void
prepare(PGconn *pg, const char *name, const char *text)
{
    char numbered[2048];

    if (strlen(text) + 64 > sizeof numbered)
        bench_die("'%s' is too long", name);
    dibs__sql_marks(numbered, text, '$', NULL, NULL);
    PQclear(postgres_check(pg, PQprepare(pg, name, numbered, 0, NULL)));
}

static PGresult *
execute(PGconn *pg, const char *name, const char *const *values, const int *lengths,
        int count)
{
    static const int formats[PARAMS_MOST] = { BINARY, BINARY, BINARY };

    return postgres_check(
        pg, PQexecPrepared(pg, name, count, values, lengths, formats, BINARY));
}

/* the lease's: name, record, and for how long */
static int
change(PGconn *pg, const char *name, int count)
{
    const uint64_t lease = htobe64(ITS_LEASE_US);
    const char *const values[] = { ITS_NAME, ITS_RECORD, (const char *)&lease };
    const int lengths[] = { sizeof ITS_NAME - 1, sizeof ITS_RECORD - 1, sizeof lease };
    PGresult *result = execute(pg, name, values, lengths, count);
    int changed = atoi(PQcmdTuples(result));

    PQclear(result);
    return changed;
}

static void
change_one(PGconn *pg, const char *name, int count)
{
    if (change(pg, name, count) != 1)
        bench_die("'%s' changes nothing", name);
}

static void
make(PGconn *pg)
{
    for (const char *const *text = dibs__pg_makes; *text != NULL; text++)
        PQclear(postgres_check(pg, PQexec(pg, *text)));
    PQclear(postgres_check(pg, PQexec(pg, PG_MAKE_TOKENS)));
}

void *
its_open(const void *s)
{
    PGconn *pg = postgres_connect(s, "bench");

    make(pg);
    prepare(pg, "first", dibs__pg_texts[SQL_TAKE]);
    prepare(pg, "take", dibs__pg_texts[SQL_RETAKE]);
    prepare(pg, "give", dibs__pg_texts[SQL_GIVE]);
    prepare(pg, "native",
            "SELECT CASE WHEN pg_try_advisory_lock($1) THEN nextval('dibs_tokens') END");
    prepare(pg, "unnative", "SELECT pg_advisory_unlock($1)");
    if (change(pg, "first", 3) == 1)
        change_one(pg, "give", 2);
    return pg;
}

void
its_close(void *pg)
{
    PQfinish(pg);
}

void
its_lock(void *pg)
{
    change_one(pg, "take", 3);
}

void
its_unlock(void *pg)
{
    change_one(pg, "give", 2);
}

static void
call(PGconn *pg, const char *name)
{
    const uint64_t key = htobe64(4712);
    const char *const values[] = { (const char *)&key };
    const int lengths[] = { sizeof key };
    PGresult *result = execute(pg, name, values, lengths, 1);

    if (PQntuples(result) != 1 || PQgetisnull(result, 0, 0))
        bench_die("'%s' does nothing", name);
    PQclear(result);
}

void
its_native_lock(void *pg)
{
    call(pg, "native");
}

void
its_native_unlock(void *pg)
{
    call(pg, "unnative");
}
