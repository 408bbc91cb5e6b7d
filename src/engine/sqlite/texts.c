/* SPDX-License-Identifier: MIT */
/*
 * The statements, as SQLite wants them. dibs_now() is our clock (clock.c). It is read when the
 * file is locked for writing, because a statement that writes locks it first. dibs_tell(token,
 * previous) is the token, which we are told by that (drive.c).
 *
 * Lengths of `state` are in bytes, and SQLite counts characters of texts: hence the casts.
 * A part of no bytes at all is NULL.
 */
#include "sqlite.h"

const char *const dibs__sqlite_makes[] = {
    "CREATE TABLE IF NOT EXISTS dibs_locks (\n"
    "  name BLOB NOT NULL PRIMARY KEY,\n"
    "  version INTEGER NOT NULL,\n"
    "  token INTEGER NOT NULL,\n"
    "  until INTEGER NOT NULL,\n"
    "  previous INTEGER NOT NULL,\n"
    "  state TEXT NOT NULL\n"
    ") WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS dibs_cells (\n"
    "  space INTEGER NOT NULL,\n"
    "  name BLOB NOT NULL,\n"
    "  version INTEGER NOT NULL,\n"
    "  value BLOB,\n"
    "  PRIMARY KEY (space, name)\n"
    ") WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS dibs_clock (\n"
    "  id INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),\n"
    "  boot TEXT NOT NULL,\n"
    "  ahead INTEGER NOT NULL,\n"
    "  seen INTEGER NOT NULL\n"
    ")",
    NULL,
};

const char *const dibs__sqlite_texts[SQL_STATEMENTS] = {
    [SQL_TAKE] = "INSERT INTO dibs_locks (name, version, token, until, previous, state) "
                 "VALUES (?1, dibs_now(), dibs_now(), dibs_now() + ?3, 0, ?2) "
                 "ON CONFLICT (name) DO UPDATE SET version = version + 1, "
                 "token = max(token + 1, dibs_now()), until = dibs_now() + ?3, "
                 "state = ?2 WHERE state = '' RETURNING token, previous",
    /* RETURNING makes a table of its own; what we are told as it passes by is cheaper */
    [SQL_RETAKE] = "UPDATE dibs_locks SET version = version + 1, "
                   "token = dibs_tell(max(token + 1, dibs_now()), previous), "
                   "until = dibs_now() + ?3, state = ?2 WHERE name = ?1 AND state = ''",
    [SQL_GIVE] = "UPDATE dibs_locks SET version = version + 1, previous = 0, state = '' "
                 "WHERE name = ?1 AND state = ?2 AND until > dibs_now()",
    [SQL_KEEP] = "UPDATE dibs_locks SET version = version + 1, until = dibs_now() + ?3 "
                 "WHERE name = ?1 AND substr(state, 1, length(?2)) = ?2 "
                 "AND until > dibs_now()",
    [SQL_READ] = "SELECT version, token, until, previous, state, dibs_now() "
                 "FROM dibs_locks WHERE name = ?1",
    [SQL_JOIN] = "UPDATE dibs_locks SET state = state || ?3 "
                 "WHERE name = ?1 AND (version = ?2 OR (?2 = 0 AND state <> ''))",
    [SQL_ENTER] = "UPDATE dibs_locks SET state = state || ?2 "
                  "WHERE name = ?1 AND state <> '' "
                  "RETURNING version, token, until, previous, state, dibs_now()",
    [SQL_EDIT] = "UPDATE dibs_locks SET state = replace(state, ?2, ?3), "
                 "version = version + 1 WHERE name = ?1 AND instr(state, ?2) > 0 "
                 "AND ?4 > dibs_now()",
    [SQL_SWAP] =
        "UPDATE dibs_locks SET version = ?10, token = ?5, until = ?6, "
        "previous = ?7, "
        "state = ?8 || coalesce(CAST(substr(CAST(state AS BLOB), ?3 + 1) AS TEXT), '') "
        "WHERE name = ?1 AND version = ?2 "
        "AND (?4 = 0 OR length(CAST(state AS BLOB)) = ?3)",
    [SQL_MAKE] = "INSERT INTO dibs_locks (name, version, token, until, previous, state) "
                 "VALUES (?1, dibs_now(), 0, dibs_now(), 0, '') "
                 "ON CONFLICT (name) DO NOTHING",
    [SQL_SWEEP] = "DELETE FROM dibs_locks WHERE name IN (SELECT name FROM dibs_locks "
                  "WHERE state = '' AND until < dibs_now() - ?1 LIMIT ?2)",
    [SQL_LIST] = "SELECT name, version, token, until, previous, state, dibs_now() "
                 "FROM dibs_locks WHERE name > ?1 AND state <> '' "
                 "ORDER BY name LIMIT ?2",
    [SQL_CELL_READ] = "SELECT version, value FROM dibs_cells "
                      "WHERE space = ?1 AND name = ?2",
    [SQL_CELL_SWAP] =
        "INSERT INTO dibs_cells (space, name, version, value) "
        "SELECT ?1, ?2, dibs_now(), ?3 WHERE ?4 = 0 OR EXISTS (SELECT 1 FROM dibs_cells "
        "WHERE space = ?1 AND name = ?2 AND version = ?4 AND value IS NOT NULL) "
        "ON CONFLICT (space, name) DO UPDATE SET value = ?3, "
        "version = max(version + 1, dibs_now()) WHERE ?4 <> 0 OR value IS NULL "
        "RETURNING version",
};
