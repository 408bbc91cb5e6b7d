/* SPDX-License-Identifier: MIT */
/* What the layout `row` is on every database: see row.h. */
#include "sql/row.h"

#include <string.h>

#include "sql/classic.h"

/* ---- which rows ---- */

int
dibs__row_read(struct sql_row *out, const dibs_host *host, const dibs_url_parts *url,
               dibs_error *err)
{
    const char *table = host->param(url, "table"), *column = host->param(url, "column");
    if (!table != !column)
        return host->fail(err, DIBS_ECONFIG, "table= and column= belong together");
    out->is_ours = !table;
    out->table = table ? table : "dibs_rows";
    out->column = column ? column : "name";
    if (dibs__classic_is_table(out->table) && dibs__classic_is_table(out->column) &&
        !strchr(out->column, '.'))
        return DIBS_OK;
    return host->fail(err, DIBS_ECONFIG,
                      "table= wants NAME or SCHEMA.NAME, column= wants NAME, of letters, "
                      "digits and underscores");
}

int
dibs__row_check(const struct sql_row *row, const struct row_facts *facts,
                const dibs_host *host, dibs_error *err)
{
    if (!facts->is_there && row->is_ours) /* it will be made */
        return DIBS_OK;
    if (!facts->is_there)
        return host->fail(err, DIBS_ECONFIG, "there is no table %s with a column %s",
                          row->table, row->column);
    if (facts->why)
        return host->fail(err, DIBS_ECONFIG, "the table %s %s", row->table, facts->why);
    if (!facts->has_index)
        return host->fail(err, DIBS_ECONFIG,
                          "%s.%s has no unique index of its own, so that more than one "
                          "row would be locked: CREATE UNIQUE INDEX dibs_row ON %s (%s)",
                          row->table, row->column, row->table, row->column);
    return DIBS_OK;
}

/* ---- statements of their own ---- */

int
dibs__row_missing(const struct sql_row *row, sql_pool *pool, const char *name, size_t len,
                  dibs_time deadline, dibs_error *err)
{
    const struct sql_value params[] = { sql_bytes(name, len) };
    if (!row->is_ours)
        return dibs__sql_host_of(pool)->fail(
            err, DIBS_EINVAL, "the table %s has no row of that name", row->table);
    int rc = dibs__sql_ask(pool, SQL_ROW_ADD, params, 1, NULL, deadline, err);
    /* another puts it there at this moment */
    if (rc == SQL_DUPLICATE || rc == SQL_BUSY)
        return DIBS_OK;
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

int
dibs__row_token(sql_pool *pool, uint64_t *out, dibs_time deadline, dibs_error *err)
{
    struct sql_result result;
    dibs__sql_result_init(&result, dibs__sql_host_of(pool));
    int rc = dibs__sql_ask(pool, SQL_TOKEN, NULL, 0, &result, deadline, err);
    if (!rc)
        *out = (uint64_t)dibs__sql_at(&result, 0, 0)->number;
    dibs__sql_result_free(&result);
    return rc == DIBS_EUNKNOWN || rc >= SQL_DUPLICATE ? DIBS_EUNAVAIL : rc;
}
