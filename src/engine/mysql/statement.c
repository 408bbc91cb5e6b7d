/* SPDX-License-Identifier: MIT */
/*
 * A statement, prepared on one connection: binding its parameters, executing it, and reading
 * what it gave.
 */
#include "my.h"

#include <string.h>

#define MARKS_MAX 32
/* longer texts are fetched once more */
#define TEXT_ROOM 512

struct column {
    enum sql_kind kind;
    int64_t number;
    unsigned long len;
    my_bool is_null, is_cut;
    char text[TEXT_ROOM];
};

struct my_statement {
    MYSQL_STMT *stmt;
    int is_ready;
    uint8_t order[MARKS_MAX]; /* which parameter each mark stands for, from 1 */
    size_t marks;
    size_t column_count;
    struct column *columns;
};

/* ---- preparing ---- */

struct preparing {
    MYSQL_STMT *stmt;
    const char *text;
};

static int
step_prepare(struct my_link *link, void *of, int ready)
{
    const struct preparing *what = of;
    if (ready >= 0)
        return mysql_stmt_prepare_cont(&link->said, what->stmt, ready);
    return mysql_stmt_prepare_start(&link->said, what->stmt, what->text,
                                    strlen(what->text));
}

static enum sql_kind
kind_of(const MYSQL_FIELD *field)
{
    const unsigned binary = 63;
    if (IS_NUM(field->type) || field->type == MYSQL_TYPE_NULL)
        return SQL_NUMBER;
    return field->charsetnr == binary ? SQL_BYTES : SQL_TEXT;
}

/* makes room for a row */
static int
describe(const dibs_host *host, struct my_statement *made)
{
    size_t count = mysql_stmt_field_count(made->stmt);
    MYSQL_RES *fields = count ? mysql_stmt_result_metadata(made->stmt) : NULL;
    if (count == 0)
        return DIBS_OK;
    struct column *columns = host->alloc(count * sizeof *columns);
    for (size_t i = 0; columns && fields && i < count; i++)
        columns[i].kind = kind_of(mysql_fetch_field_direct(fields, (unsigned)i));
    int rc = columns && fields && count <= SQL_COLUMNS_MAX ? DIBS_OK : DIBS_ENOMEM;
    if (fields)
        mysql_free_result(fields);
    host->free(made->columns);
    made->columns = columns;
    made->column_count = count;
    return rc;
}

static void
bind_columns(struct my_statement *made)
{
    MYSQL_BIND binds[SQL_COLUMNS_MAX];
    memset(binds, 0, sizeof binds);
    for (size_t i = 0; i < made->column_count; i++) {
        struct column *column = &made->columns[i];
        int is_number = column->kind == SQL_NUMBER;
        binds[i].buffer_type = is_number ? MYSQL_TYPE_LONGLONG : MYSQL_TYPE_BLOB;
        binds[i].buffer = is_number ? (void *)&column->number : column->text;
        binds[i].buffer_length = is_number ? sizeof column->number : TEXT_ROOM;
        binds[i].length = &column->len;
        binds[i].is_null = &column->is_null;
        binds[i].error = &column->is_cut;
    }
    (void)mysql_stmt_bind_result(made->stmt, binds);
}

static int
say_trouble(struct my_link *link, MYSQL_STMT *stmt, int sent, dibs_error *err)
{
    unsigned number = mysql_stmt_errno(stmt);
    link->is_broken |= dibs__my_is_fatal(number);
    return dibs__my_trouble(link, number, mysql_stmt_error(stmt), sent, err);
}

/* Nothing was done if preparing fails, whatever the reason. */
static int
prepare(struct my_link *link, struct my_statement *made, const char *text,
        dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = link->login->host;
    struct preparing what = { .stmt = made->stmt, .text = text };
    if (dibs__my_link_do(link, step_prepare, &what, deadline))
        return host->fail(err, DIBS_EUNAVAIL, "the server did not answer in time");
    if (link->said)
        return say_trouble(link, made->stmt, 0, err);
    if (describe(host, made))
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    bind_columns(made);
    made->is_ready = 1;
    return DIBS_OK;
}

/* A statement that was not prepared stays, for the next try or until the connection ends. */
static int
make(struct my_link *link, struct my_statement **slot, dibs_error *err)
{
    const dibs_host *host = link->login->host;
    struct my_statement *made = host->alloc(sizeof *made);
    if (made)
        made->stmt = mysql_stmt_init(link->mysql);
    if (made && made->stmt) {
        *slot = made;
        return DIBS_OK;
    }
    host->free(made);
    return host->fail(err, DIBS_ENOMEM, "out of memory");
}

int
dibs__my_prepare(struct my_link *link, struct my_statement **slot, const char *text,
                 dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = link->login->host;
    if (*slot && (*slot)->is_ready)
        return DIBS_OK;
    int rc = *slot ? DIBS_OK : make(link, slot, err);
    if (rc)
        return rc;
    char *plain = host->alloc(strlen(text) + 64);
    if (!plain)
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    dibs__sql_marks(plain, text, '?', (*slot)->order, &(*slot)->marks);
    rc = prepare(link, *slot, plain, deadline, err);
    host->free(plain);
    return rc;
}

void
dibs__my_statement_free(const dibs_host *host, struct my_statement *statement)
{
    if (!statement)
        return;
    (void)mysql_stmt_close(statement->stmt);
    host->free(statement->columns);
    host->free(statement);
}

/* ---- executing ---- */

static void
bind_value(MYSQL_BIND *bind, const struct sql_value *value)
{
    static const enum enum_field_types types[] = { [SQL_NULL] = MYSQL_TYPE_NULL,
                                                   [SQL_NUMBER] = MYSQL_TYPE_LONGLONG,
                                                   [SQL_TEXT] = MYSQL_TYPE_STRING,
                                                   [SQL_BYTES] = MYSQL_TYPE_BLOB };
    int is_number = value->kind == SQL_NUMBER;
    bind->buffer_type = types[value->kind];
    bind->buffer = is_number ? (void *)&value->number : (void *)value->text;
    bind->buffer_length = is_number ? sizeof value->number : value->len;
}

/* The parameters must stay where they are until the statement is done. */
int
dibs__my_bind(struct my_link *link, struct my_statement *statement,
              const struct sql_value *params, size_t n, dibs_error *err)
{
    MYSQL_BIND binds[MARKS_MAX];
    memset(binds, 0, sizeof binds);
    for (size_t i = 0; i < statement->marks; i++) {
        size_t number = statement->order[i];
        if (number == 0 || number > n)
            return link->login->host->fail(err, DIBS_EINVAL,
                                           "the statement wants %zu parameters", number);
        bind_value(&binds[i], &params[number - 1]);
    }
    /* libmariadb reads as many as the server said there are */
    if (mysql_stmt_param_count(statement->stmt) != statement->marks)
        return link->login->host->fail(err, DIBS_ECORRUPT,
                                       "the server wants other parameters");
    if (mysql_stmt_bind_param(statement->stmt, binds))
        return say_trouble(link, statement->stmt, 0, err);
    return DIBS_OK;
}

int
dibs__my_step_execute(struct my_link *link, void *of, int ready)
{
    struct my_statement *statement = of;
    return ready < 0 ? mysql_stmt_execute_start(&link->said, statement->stmt)
                     : mysql_stmt_execute_cont(&link->said, statement->stmt, ready);
}

static int
step_store(struct my_link *link, void *of, int ready)
{
    struct my_statement *statement = of;
    return ready < 0 ? mysql_stmt_store_result_start(&link->said, statement->stmt)
                     : mysql_stmt_store_result_cont(&link->said, statement->stmt, ready);
}

/* ---- rows ---- */

/* the whole of a text that was cut: *out is to be freed */
static int
fetch_long(struct my_statement *statement, size_t index, char **out,
           const dibs_host *host)
{
    struct column *column = &statement->columns[index];
    unsigned long len = 0;
    MYSQL_BIND bind = { .buffer_type = MYSQL_TYPE_BLOB, .buffer_length = column->len };
    *out = host->alloc(column->len + 1);
    bind.buffer = *out;
    bind.length = &len;
    if (!*out || mysql_stmt_fetch_column(statement->stmt, &bind, (unsigned)index, 0))
        return DIBS_ENOMEM;
    return DIBS_OK;
}

static void
read_column(struct sql_value *out, const struct column *column, const char *text)
{
    if (column->is_null)
        *out = (struct sql_value){ .kind = SQL_NULL };
    else if (column->kind == SQL_NUMBER)
        *out = sql_number(column->number);
    else
        *out = (struct sql_value){ .kind = column->kind,
                                   .text = text ? text : column->text,
                                   .len = column->len };
}

/* copies the row that was fetched into the result */
static int
keep_row(struct my_statement *statement, struct sql_result *out, const dibs_host *host)
{
    struct sql_value values[SQL_COLUMNS_MAX];
    char *texts[SQL_COLUMNS_MAX] = { NULL };
    int rc = DIBS_OK;
    for (size_t i = 0; !rc && i < statement->column_count; i++) {
        const struct column *column = &statement->columns[i];
        if (!column->is_null && column->kind != SQL_NUMBER && column->len > TEXT_ROOM)
            rc = fetch_long(statement, i, &texts[i], host);
        read_column(&values[i], column, texts[i]);
    }
    if (!rc)
        rc = dibs__sql_result_row(out, values, statement->column_count);
    for (size_t i = 0; i < statement->column_count; i++)
        host->free(texts[i]);
    return rc;
}

static int
keep_rows(struct my_link *link, struct my_statement *statement, struct sql_result *out,
          dibs_error *err)
{
    const dibs_host *host = link->login->host;
    int rc = DIBS_OK, fetched = 0;
    while (!rc) {
        fetched = mysql_stmt_fetch(statement->stmt);
        if (fetched != 0 && fetched != MYSQL_DATA_TRUNCATED)
            break;
        rc = keep_row(statement, out, host);
    }
    if (rc)
        rc = host->fail(err, rc, "out of memory");
    else if (fetched != MYSQL_NO_DATA)
        rc = say_trouble(link, statement->stmt, 1, err);
    (void)mysql_stmt_free_result(statement->stmt);
    return rc;
}

int
dibs__my_rows(struct my_link *link, struct my_statement *statement,
              struct sql_result *out, dibs_time deadline, dibs_error *err)
{
    if (link->said)
        return say_trouble(link, statement->stmt, 1, err);
    /* what INSERT .. RETURNING gives is known only now */
    if (mysql_stmt_field_count(statement->stmt) != statement->column_count) {
        if (describe(link->login->host, statement))
            return dibs__my_too_late(link, err);
        bind_columns(statement);
    }
    if (statement->column_count == 0) {
        out->changed = mysql_stmt_affected_rows(statement->stmt);
        out->last_id = mysql_stmt_insert_id(statement->stmt);
        return DIBS_OK;
    }
    if (dibs__my_link_do(link, step_store, statement, deadline))
        return dibs__my_too_late(link, err);
    if (link->said)
        return say_trouble(link, statement->stmt, 1, err);
    return keep_rows(link, statement, out, err);
}

int
dibs__my_execute(struct my_link *link, struct my_statement *statement,
                 const struct sql_value *params, size_t n, struct sql_result *out,
                 dibs_time deadline, dibs_error *err)
{
    int rc = dibs__my_bind(link, statement, params, n, err);
    if (rc)
        return rc;
    if (dibs__my_link_do(link, dibs__my_step_execute, statement, deadline))
        return dibs__my_too_late(link, err);
    return dibs__my_rows(link, statement, out, deadline, err);
}
