/* SPDX-License-Identifier: MIT */
/*
 * The statements of the classic layouts, and their tables; sql.h says what each does, and
 * with which parameters.
 *
 * In ON DUPLICATE KEY UPDATE columns change one after the other, and what follows sees what
 * was changed: so the owner comes first, and all else depends on whether that is us. What
 * RETURNING has is evaluated when the row is ours, and so are tokens.
 */
#include "classic.h"

/* the clock as it is when the row is locked; sessions are in UTC (greet.c) */
#define NOW "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', SYSDATE(6))"
#define MICROS(column) "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', " column ")"

/* a holder has the 255 numbers after it too, for its own process */
#define TOKEN "256 * NEXTVAL(dibs_tokens)"

#define OWNER_COLUMN                                                                     \
    "    owner VARCHAR(1664) CHARACTER SET ascii COLLATE ascii_bin NOT NULL"

/* ---- unique ---- */

const char *const dibs__mysql_unique_texts[SQL_STATEMENTS] = {
    [SQL_HOLD_TAKE] = "INSERT INTO dibs_unique (name, owner, count, until)"
                      " VALUES (?1, ?2, 1, " NOW " + ?3)"
                      " ON DUPLICATE KEY UPDATE"
                      " owner = IF(until <= " NOW ", ?2, owner),"
                      " count = IF(owner = ?2, 1, count),"
                      " until = IF(owner = ?2, GREATEST(until, " NOW " + ?3), until)"
                      " RETURNING IF(owner = ?2, " TOKEN ", 0)",
    [SQL_HOLD_KEEP] = "UPDATE dibs_unique SET until = " NOW " + ?3"
                      " WHERE name = ?1 AND owner = ?2 AND until > " NOW,
    [SQL_HOLD_GIVE] = "DELETE FROM dibs_unique WHERE name = ?1 AND owner = ?2",
    [SQL_HOLD_READ] = "SELECT owner, until, " NOW " FROM dibs_unique"
                      " WHERE name = ?1 AND until > " NOW,
    [SQL_HOLD_LIST] = "SELECT name, owner, until, " NOW " FROM dibs_unique"
                      " WHERE name > ?1 AND until > " NOW " ORDER BY name LIMIT ?3",
    [SQL_HOLD_BREAK] = "DELETE FROM dibs_unique WHERE name = ?1 AND until > " NOW,
    [SQL_HOLD_SWEEP] = "DELETE FROM dibs_unique WHERE until < " NOW " - ?3 LIMIT 1000",
};

const char *const dibs__mysql_unique_makes[] = {
    "CREATE TABLE IF NOT EXISTS dibs_unique (\n"
    "    name VARBINARY(512) NOT NULL PRIMARY KEY,\n" OWNER_COLUMN ",\n"
    "    count INT NOT NULL DEFAULT 1,\n"
    "    until BIGINT NOT NULL\n"
    ") ENGINE = InnoDB",
    MY_MAKE_TOKENS, MY_MAKE_CELLS, NULL
};

/* ---- status ---- */

#define IS_HELD "status <> 'free' AND until > " NOW

/* a lock that is free has no owner here until we are it */
const char *const dibs__mysql_status_texts[SQL_STATEMENTS] = {
    [SQL_HOLD_TAKE] = "INSERT INTO dibs_status (name, status, owner, until, token)"
                      " VALUES (?1, 'held', ?2, " NOW " + ?3, " TOKEN ")"
                      " ON DUPLICATE KEY UPDATE"
                      " owner = IF(" IS_HELD ", owner, ?2),"
                      " status = IF(owner = ?2, 'held', status),"
                      " token = IF(owner = ?2, " TOKEN ", token),"
                      " until = IF(owner = ?2, GREATEST(until, " NOW " + ?3), until)"
                      " RETURNING IF(owner = ?2, token, 0)",
    [SQL_HOLD_KEEP] = "UPDATE dibs_status SET until = " NOW " + ?3"
                      " WHERE name = ?1 AND owner = ?2 AND " IS_HELD,
    [SQL_HOLD_GIVE] = "UPDATE dibs_status SET status = 'free', until = " NOW
                      " WHERE name = ?1 AND owner = ?2 AND status <> 'free'",
    [SQL_HOLD_READ] = "SELECT owner, until, " NOW ", token FROM dibs_status"
                      " WHERE name = ?1 AND " IS_HELD,
    [SQL_HOLD_LIST] = "SELECT name, owner, until, " NOW ", token FROM dibs_status"
                      " WHERE name > ?1 AND " IS_HELD " ORDER BY name LIMIT ?3",
    [SQL_HOLD_BREAK] = "UPDATE dibs_status SET status = 'free', until = " NOW
                       " WHERE name = ?1 AND " IS_HELD,
};

const char *const dibs__mysql_status_makes[] = {
    "CREATE TABLE IF NOT EXISTS dibs_status (\n"
    "    name VARBINARY(512) NOT NULL PRIMARY KEY,\n"
    "    status VARCHAR(32) NOT NULL DEFAULT 'free',\n" OWNER_COLUMN " DEFAULT '',\n"
    "    until BIGINT NOT NULL DEFAULT 0,\n"
    "    token BIGINT NOT NULL DEFAULT 0\n"
    ") ENGINE = InnoDB",
    MY_MAKE_TOKENS, MY_MAKE_CELLS, NULL
};

/* ---- shedlock ---- */

/* ShedLock writes UTC into columns that are kept in another time zone, that of its session;
 * and reads them back in the same. So its session's has to be ours: the server's. */
#define AS_SHEDLOCK "SET STATEMENT time_zone = @@global.time_zone FOR "
#define UTC "UTC_TIMESTAMP(3)"
#define SHED_NOW MICROS("UTC_TIMESTAMP(6)")
#define UNTIL UTC " + INTERVAL ?3 MICROSECOND"

const char *const dibs__mysql_shedlock_texts[SQL_STATEMENTS] = {
    [SQL_HOLD_TAKE] = AS_SHEDLOCK
    "INSERT INTO shedlock (name, lock_until, locked_at, locked_by)"
    " VALUES (?1, " UNTIL ", " UTC ", ?2)"
    " ON DUPLICATE KEY UPDATE"
    " locked_by = IF(lock_until <= " UTC ", ?2, locked_by),"
    " locked_at = IF(locked_by = ?2, " UTC ", locked_at),"
    " lock_until = IF(locked_by = ?2, GREATEST(lock_until, " UNTIL "), lock_until)"
    " RETURNING IF(locked_by = ?2, " TOKEN ", 0)",
    [SQL_HOLD_KEEP] = AS_SHEDLOCK "UPDATE shedlock SET lock_until = " UNTIL
                                  " WHERE name = ?1 AND locked_by = ?2"
                                  " AND lock_until > " UTC,
    [SQL_HOLD_GIVE] = AS_SHEDLOCK "UPDATE shedlock SET lock_until = " UTC
                                  " WHERE name = ?1 AND locked_by = ?2"
                                  " AND lock_until > " UTC,
    [SQL_HOLD_READ] = AS_SHEDLOCK "SELECT locked_by, " MICROS(
        "lock_until") ", " SHED_NOW
                      " FROM shedlock WHERE name = ?1 AND lock_until > " UTC,
    [SQL_HOLD_LIST] = AS_SHEDLOCK "SELECT name, locked_by, " MICROS(
        "lock_until") ", " SHED_NOW " FROM shedlock WHERE name > ?1 AND lock_until > " UTC
                      " ORDER BY name LIMIT ?3",
    [SQL_HOLD_BREAK] = AS_SHEDLOCK "UPDATE shedlock SET lock_until = " UTC
                                   " WHERE name = ?1 AND lock_until > " UTC,
};

const char *const dibs__mysql_shedlock_makes[] = {
    "CREATE TABLE IF NOT EXISTS shedlock (\n"
    "    name VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL,\n"
    "    lock_until TIMESTAMP(3) NOT NULL,\n"
    "    locked_at TIMESTAMP(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3),\n"
    "    locked_by VARCHAR(255) NOT NULL,\n"
    "    PRIMARY KEY (name)\n"
    ") ENGINE = InnoDB",
    MY_MAKE_TOKENS, MY_MAKE_CELLS, NULL
};

/* ---- spring ---- */

#define OUR_LOCK "LOCK_KEY = ?1 AND REGION = ?4"
#define CLOCK "SYSDATE(6)"
#define AFTER CLOCK " + INTERVAL ?3 MICROSECOND"
#define IS_OVER "EXPIRED_AFTER < " CLOCK
#define OLD_DATE CLOCK " + INTERVAL ?3 - ?5 MICROSECOND"
#define OLD_IS_OVER "CREATED_DATE < " CLOCK " - INTERVAL ?5 MICROSECOND"

const char *const dibs__mysql_spring_texts[SQL_STATEMENTS] = {
    [SQL_HOLD_TAKE] =
        "INSERT INTO INT_LOCK (LOCK_KEY, REGION, CLIENT_ID, CREATED_DATE, EXPIRED_AFTER)"
        " VALUES (?1, ?4, ?2, " CLOCK ", " AFTER ")"
        " ON DUPLICATE KEY UPDATE"
        " CLIENT_ID = IF(" IS_OVER ", ?2, CLIENT_ID),"
        " CREATED_DATE = IF(CLIENT_ID = ?2, " CLOCK ", CREATED_DATE),"
        " EXPIRED_AFTER = IF(CLIENT_ID = ?2, GREATEST(EXPIRED_AFTER, " AFTER "),"
        " EXPIRED_AFTER)"
        " RETURNING IF(CLIENT_ID = ?2, " TOKEN ", 0)",
    [SQL_HOLD_KEEP] = "UPDATE INT_LOCK SET EXPIRED_AFTER = " AFTER " WHERE " OUR_LOCK
                      " AND CLIENT_ID = ?2 AND NOT " IS_OVER,
    [SQL_HOLD_GIVE] = "DELETE FROM INT_LOCK WHERE " OUR_LOCK " AND CLIENT_ID = ?2",
    [SQL_HOLD_READ] = "SELECT CLIENT_ID, " MICROS(
        "EXPIRED_AFTER") ", " NOW " FROM INT_LOCK WHERE " OUR_LOCK " AND NOT " IS_OVER,
    [SQL_HOLD_LIST] = "SELECT LOCK_KEY, CLIENT_ID, " MICROS(
        "EXPIRED_AFTER") ", " NOW " FROM INT_LOCK"
                         " WHERE LOCK_KEY > ?1 AND REGION = ?4 AND NOT " IS_OVER
                         " ORDER BY LOCK_KEY LIMIT ?3",
    [SQL_HOLD_BREAK] = "DELETE FROM INT_LOCK WHERE " OUR_LOCK " AND NOT " IS_OVER,
    [SQL_HOLD_PROBE] = "SELECT EXPIRED_AFTER FROM INT_LOCK LIMIT 0",
    [SQL_OLD_TAKE] =
        "INSERT INTO INT_LOCK (LOCK_KEY, REGION, CLIENT_ID, CREATED_DATE)"
        " VALUES (?1, ?4, ?2, " OLD_DATE ")"
        " ON DUPLICATE KEY UPDATE"
        " CLIENT_ID = IF(" OLD_IS_OVER ", ?2, CLIENT_ID),"
        " CREATED_DATE = IF(CLIENT_ID = ?2, GREATEST(CREATED_DATE, " OLD_DATE "),"
        " CREATED_DATE)"
        " RETURNING IF(CLIENT_ID = ?2, " TOKEN ", 0)",
    [SQL_OLD_KEEP] = "UPDATE INT_LOCK SET CREATED_DATE = " OLD_DATE " WHERE " OUR_LOCK
                     " AND CLIENT_ID = ?2 AND NOT " OLD_IS_OVER,
    [SQL_OLD_GIVE] = "DELETE FROM INT_LOCK WHERE " OUR_LOCK " AND CLIENT_ID = ?2",
    [SQL_OLD_READ] =
        "SELECT CLIENT_ID, " MICROS("CREATED_DATE") " + ?5, " NOW
                                                    " FROM INT_LOCK WHERE " OUR_LOCK
                                                    " AND NOT " OLD_IS_OVER,
    [SQL_OLD_LIST] = "SELECT LOCK_KEY, CLIENT_ID, " MICROS(
        "CREATED_DATE") " + ?5, " NOW " FROM INT_LOCK WHERE LOCK_KEY > ?1 AND REGION = "
                        "?4 AND NOT " OLD_IS_OVER " ORDER BY LOCK_KEY LIMIT ?3",
    [SQL_OLD_BREAK] = "DELETE FROM INT_LOCK WHERE " OUR_LOCK " AND NOT " OLD_IS_OVER,
    [SQL_OLD_PROBE] = "SELECT CREATED_DATE FROM INT_LOCK LIMIT 0",
};

const char *const dibs__mysql_spring_makes[] = {
    "CREATE TABLE IF NOT EXISTS INT_LOCK (\n"
    "    LOCK_KEY CHAR(36) NOT NULL,\n"
    "    REGION VARCHAR(100) NOT NULL,\n"
    "    CLIENT_ID CHAR(36),\n"
    "    CREATED_DATE DATETIME(6) NOT NULL,\n"
    "    EXPIRED_AFTER DATETIME(6) NOT NULL,\n"
    "    CONSTRAINT INT_LOCK_PK PRIMARY KEY (LOCK_KEY, REGION)\n"
    ") ENGINE = InnoDB",
    MY_MAKE_TOKENS, MY_MAKE_CELLS, NULL
};
