/* SPDX-License-Identifier: MIT */
/* What a statement gave: rows of values, with copies of their texts. */
#include "sql/sql.h"

#include <string.h>

#define FIRST_ROOM 2 /* rows: most statements give one */

void
dibs__sql_result_init(struct sql_result *result, const dibs_host *host)
{
    *result = (struct sql_result){ .host = host };
}

void
dibs__sql_result_free(struct sql_result *result)
{
    for (size_t i = 0; i < result->rows * result->columns; i++)
        result->host->free((void *)result->values[i].text);
    result->host->free(result->values);
    dibs__sql_result_init(result, result->host);
}

static int
make_room(struct sql_result *result, size_t columns)
{
    size_t used = result->rows * columns;
    if (used + columns <= result->room)
        return DIBS_OK;
    size_t room = result->room ? result->room * 2 : FIRST_ROOM * columns;
    struct sql_value *values = result->host->alloc(room * sizeof *values);
    if (!values)
        return DIBS_ENOMEM;
    if (used)
        memcpy(values, result->values, used * sizeof *values);
    result->host->free(result->values);
    result->values = values;
    result->room = room;
    return DIBS_OK;
}

static int
copy_text(struct sql_value *value, const dibs_host *host)
{
    const char *text = value->text;
    value->text = NULL;
    if (value->kind != SQL_TEXT && value->kind != SQL_BYTES)
        return DIBS_OK;
    char *copy = host->alloc(value->len + 1);
    if (copy && value->len)
        memcpy(copy, text, value->len);
    value->text = copy;
    return copy ? DIBS_OK : DIBS_ENOMEM;
}

int
dibs__sql_result_row(struct sql_result *result, const struct sql_value *values,
                     size_t columns)
{
    int rc = make_room(result, columns);
    if (rc)
        return rc;
    struct sql_value *row = result->values + result->rows * columns;
    size_t done = 0;
    while (!rc && done < columns) {
        row[done] = values[done];
        rc = copy_text(&row[done++], result->host);
    }
    while (rc && done > 0)
        result->host->free((void *)row[--done].text);
    if (rc)
        return rc;
    result->columns = columns;
    result->rows++;
    return DIBS_OK;
}

const struct sql_value *
dibs__sql_at(const struct sql_result *result, size_t row, size_t column)
{
    static const struct sql_value nothing = { .kind = SQL_NULL };
    if (row >= result->rows || column >= result->columns)
        return &nothing;
    return &result->values[row * result->columns + column];
}
