/* SPDX-License-Identifier: MIT */
/*
 * The statements of the classic layouts, and their tables; sql.h says what each does, and
 * with which parameters.
 *
 * Where a token is drawn: what RETURNING and DO UPDATE have is evaluated when the row is
 * ours. What is inserted is evaluated before, so a token may stand there only if rows stay:
 * then who inserts one is the first ever.
 *
 * Who takes a lock looks first whether another has it, in the same statement: else each of
 * those who wait and look would write to the row, to lock it.
 */
#include "classic.h"

/* the clock when it is asked, also again after the row had to be waited for */
#define NOW "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
#define UTC "(clock_timestamp() AT TIME ZONE 'UTC')"
#define US " * interval '1 microsecond'"

#define TOKEN "nextval('dibs_tokens')"

/* ---- unique ---- */

const char *const dibs__pg_unique_texts[SQL_STATEMENTS] = {
    [SQL_HOLD_TAKE] =
        "INSERT INTO dibs_unique AS l (name, owner, count, until) "
        "SELECT ?1, ?2, 1, " NOW " + ?3 WHERE NOT EXISTS (SELECT "
        "FROM dibs_unique WHERE name = ?1 AND owner <> ?2 AND until > " NOW ") "
        "ON CONFLICT (name) DO UPDATE SET owner = excluded.owner, "
        "count = 1, until = greatest(l.until, " NOW " + ?3) "
        "WHERE l.until <= " NOW " OR l.owner = excluded.owner "
        "RETURNING " TOKEN,
    [SQL_HOLD_KEEP] = "UPDATE dibs_unique SET until = " NOW " + ?3 "
                      "WHERE name = ?1 AND owner = ?2 AND until > " NOW,
    [SQL_HOLD_GIVE] = "DELETE FROM dibs_unique WHERE name = ?1 AND owner = ?2",
    [SQL_HOLD_READ] = "SELECT owner, until, " NOW " FROM dibs_unique "
                      "WHERE name = ?1 AND until > " NOW,
    [SQL_HOLD_LIST] = "SELECT name, owner, until, " NOW " FROM dibs_unique "
                      "WHERE name > ?1 AND until > " NOW " ORDER BY name LIMIT ?3",
    [SQL_HOLD_BREAK] = "DELETE FROM dibs_unique WHERE name = ?1 AND until > " NOW,
    /* whoever takes one just now keeps it */
    [SQL_HOLD_SWEEP] = "DELETE FROM dibs_unique WHERE name IN (SELECT name "
                       "FROM dibs_unique WHERE until < " NOW " - ?3 LIMIT 1000 "
                       "FOR UPDATE SKIP LOCKED)",
};

const char *const dibs__pg_unique_makes[] = {
    "CREATE TABLE IF NOT EXISTS dibs_unique (name bytea PRIMARY KEY, "
    "owner text NOT NULL, count integer NOT NULL DEFAULT 1, until bigint NOT NULL)",
    PG_MAKE_TOKENS, PG_MAKE_CELLS, NULL
};

/* ---- status ---- */

const char *const dibs__pg_status_texts[SQL_STATEMENTS] = {
    [SQL_HOLD_TAKE] = "INSERT INTO dibs_status AS l (name, status, owner, until, token) "
                      "SELECT ?1, 'held', ?2, " NOW " + ?3, " TOKEN
                      " WHERE NOT EXISTS (SELECT FROM dibs_status WHERE name = ?1 "
                      "AND status <> 'free' AND owner <> ?2 AND until > " NOW ") "
                      "ON CONFLICT (name) DO UPDATE SET status = 'held', "
                      "owner = excluded.owner, token = " TOKEN ", "
                      "until = greatest(l.until, " NOW " + ?3) "
                      "WHERE l.status = 'free' OR l.until <= " NOW
                      " OR l.owner = excluded.owner RETURNING token",
    [SQL_HOLD_KEEP] = "UPDATE dibs_status SET until = " NOW " + ?3 WHERE name = ?1 "
                      "AND status <> 'free' AND owner = ?2 AND until > " NOW,
    [SQL_HOLD_GIVE] = "UPDATE dibs_status SET status = 'free', until = " NOW
                      " WHERE name = ?1 AND status <> 'free' AND owner = ?2",
    [SQL_HOLD_READ] = "SELECT owner, until, " NOW ", token FROM dibs_status "
                      "WHERE name = ?1 AND status <> 'free' AND until > " NOW,
    [SQL_HOLD_LIST] =
        "SELECT name, owner, until, " NOW ", token FROM dibs_status "
        "WHERE name > ?1 AND status <> 'free' AND until > " NOW " ORDER BY name LIMIT ?3",
    [SQL_HOLD_BREAK] = "UPDATE dibs_status SET status = 'free', until = " NOW
                       " WHERE name = ?1 AND status <> 'free' AND until > " NOW,
};

/* Room in the pages lets a row be changed in its place. */
const char *const dibs__pg_status_makes[] = {
    "CREATE TABLE IF NOT EXISTS dibs_status (name bytea PRIMARY KEY, "
    "status text NOT NULL DEFAULT 'free', owner text NOT NULL DEFAULT '', "
    "until bigint NOT NULL DEFAULT 0, token bigint NOT NULL DEFAULT 0) "
    "WITH (fillfactor = 50)",
    PG_MAKE_TOKENS, PG_MAKE_CELLS, NULL
};

/* ---- shedlock ---- */

#define SHED_UNTIL UTC " + ?3" US
#define SHED_MICROS "(extract(epoch FROM lock_until) * 1000000)::bigint"

const char *const dibs__pg_shedlock_texts[SQL_STATEMENTS] = {
    [SQL_HOLD_TAKE] = "INSERT INTO shedlock AS l "
                      "(name, lock_until, locked_at, locked_by) "
                      "SELECT ?1, " SHED_UNTIL ", " UTC ", ?2 WHERE NOT EXISTS "
                      "(SELECT FROM shedlock WHERE name = ?1 AND locked_by <> ?2 "
                      "AND lock_until > " UTC ") "
                      "ON CONFLICT (name) DO UPDATE SET "
                      "lock_until = greatest(l.lock_until, " SHED_UNTIL "), "
                      "locked_at = " UTC ", locked_by = excluded.locked_by "
                      "WHERE l.lock_until <= " UTC
                      " OR l.locked_by = excluded.locked_by RETURNING " TOKEN,
    [SQL_HOLD_KEEP] = "UPDATE shedlock SET lock_until = " SHED_UNTIL
                      " WHERE name = ?1 AND locked_by = ?2 AND lock_until > " UTC,
    [SQL_HOLD_GIVE] = "UPDATE shedlock SET lock_until = " UTC
                      " WHERE name = ?1 AND locked_by = ?2 AND lock_until > " UTC,
    [SQL_HOLD_READ] = "SELECT locked_by, " SHED_MICROS ", " NOW
                      " FROM shedlock WHERE name = ?1 AND lock_until > " UTC,
    [SQL_HOLD_LIST] =
        "SELECT name, locked_by, " SHED_MICROS ", " NOW
        " FROM shedlock WHERE name > ?1 AND lock_until > " UTC " ORDER BY name LIMIT ?3",
    [SQL_HOLD_BREAK] =
        "UPDATE shedlock SET lock_until = " UTC " WHERE name = ?1 AND lock_until > " UTC,
};

const char *const dibs__pg_shedlock_makes[] = {
    "CREATE TABLE IF NOT EXISTS shedlock (name VARCHAR(64) NOT NULL, "
    "lock_until TIMESTAMP NOT NULL, locked_at TIMESTAMP NOT NULL, "
    "locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
    PG_MAKE_TOKENS, PG_MAKE_CELLS, NULL
};

/* ---- spring ---- */

#define THIS_LOCK "LOCK_KEY = ?1::bpchar AND REGION = ?4"
#define OTHERS THIS_LOCK " AND CLIENT_ID <> ?2::bpchar"
#define OURS THIS_LOCK " AND CLIENT_ID = ?2::bpchar"

#define AFTER UTC " + ?3" US
#define IS_OVER "EXPIRED_AFTER < " UTC
#define AFTER_MICROS "(extract(epoch FROM EXPIRED_AFTER) * 1000000)::bigint"

#define OLD_DATE UTC " + (?3 - ?5)" US
#define OLD_IS_OVER "CREATED_DATE < " UTC " - ?5" US
#define OLD_MICROS "(extract(epoch FROM CREATED_DATE) * 1000000)::bigint + ?5"

const char *const dibs__pg_spring_texts[SQL_STATEMENTS] = {
    [SQL_HOLD_TAKE] =
        "INSERT INTO INT_LOCK AS l "
        "(LOCK_KEY, REGION, CLIENT_ID, CREATED_DATE, EXPIRED_AFTER) "
        "SELECT ?1, ?4, ?2, " UTC ", " AFTER " WHERE NOT EXISTS "
        "(SELECT FROM INT_LOCK WHERE " OTHERS " AND NOT " IS_OVER ") "
        "ON CONFLICT (LOCK_KEY, REGION) DO UPDATE SET "
        "CLIENT_ID = excluded.CLIENT_ID, CREATED_DATE = " UTC ", "
        "EXPIRED_AFTER = greatest(l.EXPIRED_AFTER, " AFTER ") "
        "WHERE l.CLIENT_ID = excluded.CLIENT_ID OR l." IS_OVER " RETURNING " TOKEN,
    [SQL_HOLD_KEEP] =
        "UPDATE INT_LOCK SET EXPIRED_AFTER = " AFTER " WHERE " OURS " AND NOT " IS_OVER,
    [SQL_HOLD_GIVE] = "DELETE FROM INT_LOCK WHERE " OURS,
    [SQL_HOLD_READ] = "SELECT CLIENT_ID::text, " AFTER_MICROS ", " NOW
                      " FROM INT_LOCK WHERE " THIS_LOCK " AND NOT " IS_OVER,
    [SQL_HOLD_LIST] = "SELECT LOCK_KEY::text, CLIENT_ID::text, " AFTER_MICROS ", " NOW
                      " FROM INT_LOCK WHERE LOCK_KEY > ?1::bpchar AND REGION = ?4 "
                      "AND NOT " IS_OVER " ORDER BY LOCK_KEY LIMIT ?3",
    [SQL_HOLD_BREAK] = "DELETE FROM INT_LOCK WHERE " THIS_LOCK " AND NOT " IS_OVER,
    [SQL_HOLD_PROBE] = "SELECT EXPIRED_AFTER FROM INT_LOCK LIMIT 0",
    [SQL_OLD_TAKE] =
        "INSERT INTO INT_LOCK AS l (LOCK_KEY, REGION, CLIENT_ID, CREATED_DATE) "
        "SELECT ?1, ?4, ?2, " OLD_DATE " WHERE NOT EXISTS "
        "(SELECT FROM INT_LOCK WHERE " OTHERS " AND NOT " OLD_IS_OVER ") "
        "ON CONFLICT (LOCK_KEY, REGION) DO UPDATE SET "
        "CLIENT_ID = excluded.CLIENT_ID, "
        "CREATED_DATE = greatest(l.CREATED_DATE, " OLD_DATE ") "
        "WHERE l.CLIENT_ID = excluded.CLIENT_ID OR l." OLD_IS_OVER " RETURNING " TOKEN,
    [SQL_OLD_KEEP] = "UPDATE INT_LOCK SET CREATED_DATE = " OLD_DATE " WHERE " OURS
                     " AND NOT " OLD_IS_OVER,
    [SQL_OLD_GIVE] = "DELETE FROM INT_LOCK WHERE " OURS,
    [SQL_OLD_READ] = "SELECT CLIENT_ID::text, " OLD_MICROS ", " NOW
                     " FROM INT_LOCK WHERE " THIS_LOCK " AND NOT " OLD_IS_OVER,
    [SQL_OLD_LIST] = "SELECT LOCK_KEY::text, CLIENT_ID::text, " OLD_MICROS ", " NOW
                     " FROM INT_LOCK WHERE LOCK_KEY > ?1::bpchar AND REGION = ?4 "
                     "AND NOT " OLD_IS_OVER " ORDER BY LOCK_KEY LIMIT ?3",
    [SQL_OLD_BREAK] = "DELETE FROM INT_LOCK WHERE " THIS_LOCK " AND NOT " OLD_IS_OVER,
    [SQL_OLD_PROBE] = "SELECT CREATED_DATE FROM INT_LOCK LIMIT 0",
};

const char *const dibs__pg_spring_makes[] = {
    "CREATE TABLE IF NOT EXISTS INT_LOCK (LOCK_KEY CHAR(36) NOT NULL, "
    "REGION VARCHAR(100) NOT NULL, CLIENT_ID CHAR(36), "
    "CREATED_DATE TIMESTAMP NOT NULL, EXPIRED_AFTER TIMESTAMP NOT NULL, "
    "CONSTRAINT INT_LOCK_PK PRIMARY KEY (LOCK_KEY, REGION))",
    PG_MAKE_TOKENS, PG_MAKE_CELLS, NULL
};
