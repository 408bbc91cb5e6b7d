/* SPDX-License-Identifier: MIT */
/*
 * Cells: a row each, changed by compare-and-swap on its version. A version is never smaller
 * than the database's clock, so that none is used twice, also if a row was taken away.
 */
#include "sql/sql.h"

#include <string.h>

/* What run says, in the codes that cells have: a lock that another statement holds on the
 * row, and a key that another has just written, are both worth another try. */
static int
cell_code(const struct sql *sql, int rc, dibs_error *err)
{
    if (rc != SQL_BUSY && rc != SQL_DUPLICATE)
        return rc;
    return sql->host->fail(err, DIBS_EUNAVAIL, "another changes the same row");
}

static int
is_cell(const struct sql_value *version, const struct sql_value *value)
{
    return version->kind == SQL_NUMBER && version->number > 0 &&
           (value->kind == SQL_BYTES || value->kind == SQL_TEXT) &&
           value->len <= DIBS_CELL_MAX;
}

static int
read_row(const struct sql *sql, const struct sql_result *result, dibs_cell *out,
         dibs_error *err)
{
    const struct sql_value *version = dibs__sql_at(result, 0, 0);
    const struct sql_value *value = dibs__sql_at(result, 0, 1);
    if (result->rows == 0 || value->kind == SQL_NULL)
        return DIBS_ENOTFOUND;
    if (!is_cell(version, value))
        return sql->host->fail(err, DIBS_ECORRUPT, "its row is not what a cell has");
    out->version = (uint64_t)version->number;
    out->len = value->len;
    memcpy(out->value, value->text, value->len);
    return DIBS_OK;
}

int
dibs__sql_cell_read(void *state, const dibs_cell_key *key, dibs_cell *out,
                    dibs_time deadline, dibs_error *err)
{
    struct sql *sql = state;
    struct sql_result result;
    const struct sql_value params[] = { sql_number(key->space),
                                        sql_bytes(key->name, key->name_len) };
    dibs__sql_result_init(&result, sql->host);
    int rc = dibs__sql_ask(sql->pool, SQL_CELL_READ, params, 2, &result, deadline, err);
    if (!rc)
        rc = read_row(sql, &result, out, err);
    dibs__sql_result_free(&result);
    /* whether a question arrived does not matter */
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : cell_code(sql, rc, err);
}

/* the new version, as a row or as the id that the statement left; 0: nothing was changed */
static uint64_t
stored_version(const struct sql_result *result)
{
    const struct sql_value *version = dibs__sql_at(result, 0, 0);
    if (result->rows)
        return version->kind == SQL_NUMBER ? (uint64_t)version->number : 0;
    return result->changed ? result->last_id : 0;
}

int
dibs__sql_cell_swap(void *state, const dibs_cell_key *key, uint64_t version,
                    const void *value, size_t len, uint64_t *new_version,
                    dibs_time deadline, dibs_error *err)
{
    struct sql *sql = state;
    struct sql_result result;
    const struct sql_value params[] = { sql_number(key->space),
                                        sql_bytes(key->name, key->name_len),
                                        sql_bytes(value, len),
                                        sql_number((int64_t)version) };
    if (version > INT64_MAX) /* no database has such a version */
        return DIBS_ECONFLICT;
    dibs__sql_result_init(&result, sql->host);
    int rc = dibs__sql_ask(sql->pool, SQL_CELL_SWAP, params, 4, &result, deadline, err);
    uint64_t stored = rc ? 0 : stored_version(&result);
    dibs__sql_result_free(&result);
    if (!rc && !stored)
        rc = DIBS_ECONFLICT;
    if (!rc)
        *new_version = stored;
    return cell_code(sql, rc, err);
}
