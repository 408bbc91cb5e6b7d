/* SPDX-License-Identifier: MIT */
/* What dibs itself sends, by hand with libpq: its lease, and its advisory locks. */
#include <endian.h>

#include "engine/postgres/postgres.h"
#include "postgres.h"

static uint64_t its_lease, its_key;

static void
make(PGconn *pg)
{
    for (const char *const *text = dibs__pg_makes; *text != NULL; text++)
        PQclear(postgres_check(pg, PQexec(pg, *text)));
    PQclear(postgres_check(pg, PQexec(pg, PG_MAKE_TOKENS)));
}

/* name, record, and for how long */
static void
prepare_lease(hand *h)
{
    params take = { 3,
                    BINARY,
                    { ITS_NAME, ITS_RECORD, (const char *)&its_lease },
                    { sizeof ITS_NAME - 1, sizeof ITS_RECORD - 1, sizeof its_lease } };
    params give = take;

    its_lease = htobe64(ITS_LEASE_US);
    give.count = 2;
    postgres_prepare(h, HAND_FIRST, dibs__pg_texts[SQL_TAKE], take);
    postgres_prepare(h, HAND_TAKE, dibs__pg_texts[SQL_RETAKE], take);
    postgres_prepare(h, HAND_GIVE, dibs__pg_texts[SQL_GIVE], give);
}

static void
prepare_native(hand *h)
{
    const params key = { 1, BINARY, { (const char *)&its_key }, { sizeof its_key } };

    its_key = htobe64(4712);
    postgres_prepare(
        h, HAND_NATIVE_TAKE,
        "SELECT CASE WHEN pg_try_advisory_lock(?1) THEN nextval('dibs_tokens') END", key);
    postgres_prepare(h, HAND_NATIVE_GIVE, "SELECT pg_advisory_unlock(?1)", key);
}

void *
its_open(const void *s)
{
    PGconn *pg = postgres_connect(s, "bench");
    hand *h = postgres_hand(pg);

    make(pg);
    prepare_lease(h);
    prepare_native(h);
    hand_warm_up(h);
    return h;
}
