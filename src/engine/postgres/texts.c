/* SPDX-License-Identifier: MIT */
/*
 * The statements of the layout `lease`, of cells and of `row` (sql.h says what each does), and
 * the tables. The classic layouts have theirs in classic_texts.c.
 */
#include "postgres.h"

/* The clock when it is asked, not when the transaction began: also again after the row had
 * to be waited for. */
#define NOW "(date_part('epoch', clock_timestamp()) * 1000000)::bigint"

/* see sql.h */
#define NEW_VERSION "version = greatest(version + 1, " NOW ")"

#define LOCK_COLUMNS "version, token, until, previous, state, " NOW

/* lines "CHANNEL PAYLOAD" */
#define TELL                                                                             \
    "(SELECT count(pg_notify(split_part(line, ' ', 1), "                                 \
    "substr(line, strpos(line, ' ') + 1))) "                                             \
    "FROM unnest(string_to_array(?9, E'\\n')) AS line WHERE line <> '')"

const char *const dibs__pg_texts[SQL_STATEMENTS] = {
    [SQL_TAKE] = "INSERT INTO dibs_locks AS l "
                 "(name, version, token, until, previous, state) "
                 "VALUES (?1, " NOW ", " NOW ", " NOW " + ?3, 0, ?2) "
                 "ON CONFLICT (name) DO UPDATE SET state = excluded.state, "
                 "until = " NOW " + ?3, version = greatest(l.version + 1, " NOW "), "
                 "token = greatest(l.token + 1, " NOW ") "
                 "WHERE l.state = '' RETURNING token, previous",
    [SQL_RETAKE] = "UPDATE dibs_locks SET state = ?2, until = " NOW " + ?3, " NEW_VERSION
                   ", token = greatest(token + 1, " NOW ") "
                   "WHERE name = ?1 AND state = '' RETURNING token, previous",
    [SQL_GIVE] = "UPDATE dibs_locks SET state = '', previous = 0, " NEW_VERSION
                 " WHERE name = ?1 AND state = ?2 AND until > " NOW,
    [SQL_KEEP] = "UPDATE dibs_locks SET until = " NOW " + ?3, " NEW_VERSION
                 " WHERE name = ?1 AND left(state, length(?2)) = ?2 AND until > " NOW,
    [SQL_READ] = "SELECT " LOCK_COLUMNS " FROM dibs_locks WHERE name = ?1",
    [SQL_JOIN] = "UPDATE dibs_locks SET state = state || ?3 "
                 "WHERE name = ?1 AND (version = ?2 OR (?2::bigint = 0 AND state <> ''))",
    [SQL_ENTER] = "UPDATE dibs_locks SET state = state || ?2 "
                  "WHERE name = ?1 AND state <> '' RETURNING " LOCK_COLUMNS,
    [SQL_EDIT] = "UPDATE dibs_locks SET state = replace(state, ?2, ?3), " NEW_VERSION
                 " WHERE name = ?1 AND strpos(state, ?2) > 0 "
                 "AND ?4::bigint > " NOW,
    [SQL_SWAP] = "UPDATE dibs_locks SET version = ?10, token = ?5, until = ?6, "
                 "previous = ?7, state = ?8 || substr(state, ?3::int + 1) "
                 "WHERE name = ?1 AND version = ?2 "
                 "AND (?4::bigint = 0 OR length(state) = ?3::bigint) RETURNING " TELL,
    [SQL_MAKE] = "INSERT INTO dibs_locks "
                 "(name, version, token, until, previous, state) "
                 "VALUES (?1, " NOW ", 0, " NOW ", 0, '') ON CONFLICT (name) DO NOTHING",
    /* whoever takes one just now keeps it */
    [SQL_SWEEP] = "DELETE FROM dibs_locks WHERE name IN (SELECT name FROM dibs_locks "
                  "WHERE state = '' AND until < " NOW " - ?1 LIMIT ?2 "
                  "FOR UPDATE SKIP LOCKED)",
    [SQL_LIST] = "SELECT name, " LOCK_COLUMNS " FROM dibs_locks "
                 "WHERE name > ?1 AND state <> '' ORDER BY name LIMIT ?2",
    [SQL_CELL_READ] = "SELECT version, value FROM dibs_cells "
                      "WHERE space = ?1::int AND name = ?2",
    /* a row that is not there is made only for who expects none */
    [SQL_CELL_SWAP] = "INSERT INTO dibs_cells AS c (space, name, version, value) "
                      "SELECT ?1::int, ?2, " NOW ", ?3 WHERE ?4::bigint = 0 OR EXISTS "
                      "(SELECT FROM dibs_cells WHERE space = ?1::int AND name = ?2) "
                      "ON CONFLICT (space, name) DO UPDATE SET value = excluded.value, "
                      "version = greatest(c.version + 1, " NOW ") "
                      "WHERE CASE WHEN ?4::bigint = 0 THEN c.value IS NULL "
                      "ELSE c.value IS NOT NULL AND c.version = ?4::bigint END "
                      "RETURNING version",
    [SQL_TOKEN] = "SELECT nextval('dibs_tokens')",
    [SQL_ROW_ADD] = "INSERT INTO dibs_rows (name) VALUES (?1) ON CONFLICT DO NOTHING",
};

/* Room in the pages lets a row be changed in its place, so that there is little for vacuum
 * to do. */
const char *const dibs__pg_makes[] = {
    "CREATE TABLE IF NOT EXISTS dibs_locks (name bytea PRIMARY KEY, "
    "version bigint NOT NULL, token bigint NOT NULL, until bigint NOT NULL, "
    "previous bigint NOT NULL, state text NOT NULL) WITH (fillfactor = 50)",
    PG_MAKE_CELLS, NULL
};
