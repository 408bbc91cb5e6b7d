/* SPDX-License-Identifier: MIT */
/*
 * The statements of the lease layout, and its tables.
 *
 * SYSDATE is the clock as it is when a row is locked; NOW would be the time at which the
 * statement began, before it waited. The session's time zone is UTC (greet.c), so that no
 * other one and no summer time touches it, and TIMESTAMPDIFF does not end in 2038.
 *
 * In SET and ON DUPLICATE KEY UPDATE columns change one after the other, and what follows
 * sees what was changed: a condition stands before what it depends on.
 */
#include "my.h"

#define NOW "TIMESTAMPDIFF(MICROSECOND, TIMESTAMP'1970-01-01 00:00:00', SYSDATE(6))"

/* see sql.h */
#define NEW_VERSION "version = GREATEST(version + 1, " NOW ")"

const char *const dibs__mysql_texts[SQL_STATEMENTS] = {
    /* changed: 1 inserted, 2 taken, 0 not. LAST_INSERT_ID(x) tells x with the reply. Its
     * times are from before it waited for the row, which only makes the lease shorter. */
    [SQL_TAKE] =
        "INSERT INTO dibs_locks (token, name, version, until, previous, state)"
        " VALUES (LAST_INSERT_ID(" NOW " * 4) DIV 4, ?1, token, token + ?3, 0, ?2)"
        " ON DUPLICATE KEY UPDATE"
        " version = IF(state = '', GREATEST(version + 1, VALUES(version)), version),"
        " until = IF(state = '', VALUES(until), until),"
        " token = IF(state = '', GREATEST(token + 1, VALUES(token)), token),"
        " previous = previous + 0 * LAST_INSERT_ID(token * 4 + previous),"
        " state = IF(state = '', VALUES(state), state)",
    [SQL_RETAKE] =
        "UPDATE dibs_locks SET " NEW_VERSION ", until = " NOW " + ?3,"
        " token = GREATEST(token + 1, " NOW "),"
        " previous = previous + 0 * LAST_INSERT_ID(token * 4 + previous), state = ?2"
        " WHERE name = ?1 AND state = ''",
    [SQL_GIVE] = "UPDATE dibs_locks SET state = '', previous = 0, " NEW_VERSION
                 " WHERE name = ?1 AND state = ?2 AND until > " NOW,
    [SQL_KEEP] = "UPDATE dibs_locks SET until = " NOW " + ?3, " NEW_VERSION
                 " WHERE name = ?1 AND LEFT(state, CHAR_LENGTH(?2)) = ?2"
                 " AND until > " NOW,
    [SQL_READ] = "SELECT version, token, until, previous, state, " NOW
                 " FROM dibs_locks WHERE name = ?1",
    [SQL_JOIN] = "UPDATE dibs_locks SET state = CONCAT(state, ?3)"
                 " WHERE name = ?1 AND (version = ?2 OR (?2 = 0 AND state <> ''))",
    /* MariaDB's: only what inserts can return what it did */
    [SQL_ENTER] = "INSERT INTO dibs_locks (name, version, token, until, previous, state)"
                  " VALUES (?1, " NOW ", 0, " NOW ", 0, '')"
                  " ON DUPLICATE KEY UPDATE state = IF(state = '', '', CONCAT(state, ?2))"
                  " RETURNING version, token, until, previous, state, " NOW,
    [SQL_EDIT] = "UPDATE dibs_locks SET state = REPLACE(state, ?2, ?3), " NEW_VERSION
                 " WHERE name = ?1 AND LOCATE(?2, state) > 0"
                 " AND ?4 > " NOW,
    [SQL_SWAP] = "UPDATE dibs_locks SET version = ?10, token = ?5, until = ?6,"
                 " previous = ?7, state = CONCAT(?8, CONVERT("
                 "SUBSTRING(CAST(state AS BINARY), ?3 + 1) USING utf8mb4))"
                 " WHERE name = ?1 AND version = ?2 AND (?4 = 0 OR LENGTH(state) = ?3)",
    [SQL_MAKE] = "INSERT INTO dibs_locks (name, version, token, until, previous, state)"
                 " VALUES (?1, " NOW ", 0, " NOW ", 0, '')"
                 " ON DUPLICATE KEY UPDATE version = version",
    [SQL_SWEEP] = "DELETE FROM dibs_locks WHERE state = '' AND until < " NOW " - ?1"
                  " LIMIT ?2",
    [SQL_LIST] = "SELECT name, version, token, until, previous, state, " NOW
                 " FROM dibs_locks WHERE name > ?1 AND state <> ''"
                 " ORDER BY name LIMIT ?2",
    [SQL_CELL_READ] = "SELECT version, value FROM dibs_cells"
                      " WHERE space = ?1 AND name = ?2",
    /* The version is written before the value if there must be none, else after it. */
    [SQL_CELL_SWAP] =
        "INSERT INTO dibs_cells (version, space, name, value)"
        " SELECT LAST_INSERT_ID(" NOW "), ?1, ?2, ?3 FROM DUAL WHERE ?4 = 0 OR EXISTS"
        " (SELECT 1 FROM dibs_cells AS old WHERE old.space = ?1 AND old.name = ?2)"
        " ON DUPLICATE KEY UPDATE"
        " dibs_cells.version = IF(?4 = 0 AND dibs_cells.value IS NULL,"
        " GREATEST(dibs_cells.version + 1, " NOW "), dibs_cells.version),"
        " dibs_cells.value = IF(IF(?4 = 0, dibs_cells.value IS NULL,"
        " dibs_cells.version = ?4), ?3, dibs_cells.value),"
        " dibs_cells.version = LAST_INSERT_ID(IF(dibs_cells.version = ?4,"
        " GREATEST(dibs_cells.version + 1, " NOW "), dibs_cells.version))",
    [SQL_TOKEN] = "SELECT NEXTVAL(dibs_tokens)",
    /* a row that is there, and locked, is not waited for */
    [SQL_ROW_ADD] = "INSERT INTO dibs_rows (name) SELECT ?1 FROM DUAL WHERE NOT EXISTS"
                    " (SELECT 1 FROM dibs_rows AS old WHERE old.name = ?1)",
};

/* ---- the tables ---- */

const char *const dibs__mysql_makes[] = {
    "CREATE TABLE IF NOT EXISTS dibs_locks (\n"
    "    name VARBINARY(512) NOT NULL PRIMARY KEY,\n"
    "    version BIGINT NOT NULL,\n"
    "    token BIGINT NOT NULL,\n"
    "    until BIGINT NOT NULL,\n"
    "    previous TINYINT NOT NULL,\n"
    "    state MEDIUMTEXT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL\n"
    ") ENGINE = InnoDB",
    MY_MAKE_CELLS, NULL
};

const char *const dibs__my_sequence_makes[] = { MY_MAKE_TOKENS, MY_MAKE_CELLS, NULL };

const char *const dibs__my_row_makes[] = { "CREATE TABLE IF NOT EXISTS dibs_token (\n"
                                           "    id TINYINT NOT NULL PRIMARY KEY,\n"
                                           "    token BIGINT NOT NULL\n"
                                           ") ENGINE = InnoDB",
                                           MY_MAKE_CELLS, NULL };
