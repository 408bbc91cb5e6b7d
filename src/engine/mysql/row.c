/* SPDX-License-Identifier: MIT */
/*
 * The layout `row`: SELECT .. FOR UPDATE in a transaction that stays open. sql/row.h says what
 * it is, bound.h how its connections are kept.
 *
 * InnoDB locks what a statement looks at on its way to the rows: without a unique index that
 * is the whole table. So other tables than ours are looked at when they are opened.
 */
#include "bound.h"

#include <stdio.h>
#include <string.h>

#include "classic.h"
#include "sql/row.h"

#define TEXT_SIZE 320
/* a row may have to be put there, and may be deleted just then */
#define TRIES 3

struct row_layout {
    struct my_bound bound;
    struct sql_row row;
    int is_ascii; /* other names may not be in the column's character set */
    char texts[2][TEXT_SIZE];
};

static const struct row_layout *
layout_of(const struct my_bound *bound)
{
    return (const struct row_layout *)bound;
}

/* ---- names ---- */

static int
is_ascii(const char *name, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if ((unsigned char)name[i] >= 0x80)
            return 0;
    }
    return 1;
}

static int
write_name(const struct my_bound *bound, struct my_wire *wire, const dibs_claim *claim,
           dibs_error *err)
{
    const struct row_layout *layout = layout_of(bound);
    int is_text = layout->is_ascii
                      ? is_ascii(claim->name, claim->name_len)
                      : dibs__classic_chars(claim->name, claim->name_len) >= 0;
    if (!layout->row.is_ours && !is_text)
        return bound->wires.host->fail(err, DIBS_EINVAL,
                                       "a name in that column is text in %s",
                                       layout->is_ascii ? "ASCII" : "UTF-8");
    memcpy(wire->name, claim->name, claim->name_len);
    wire->name_len = claim->name_len;
    return DIBS_OK;
}

/* ---- what is said ---- */

static size_t
wait_for(const struct my_bound *bound, const struct my_wire *wire,
         struct sql_value out[2])
{
    out[0] = layout_of(bound)->row.is_ours ? sql_bytes(wire->name, wire->name_len)
                                           : sql_text(wire->name, wire->name_len);
    return 1;
}

/* Nothing was written, so that it does not matter how the transaction ends. */
static int
give(struct my_bound *bound, struct my_wire *wire, dibs_time deadline, dibs_error *err)
{
    (void)bound;
    return dibs__my_link_exec(&wire->link, "ROLLBACK", deadline, err);
}

/* What is not there may have been locked as well, as a gap. */
static int
make_row(struct my_bound *bound, struct my_wire *wire, const dibs_claim *claim,
         dibs_time deadline, dibs_error *err)
{
    int rc = give(bound, wire, deadline, err);
    return rc ? rc
              : dibs__row_missing(&layout_of(bound)->row, bound->mysql->sql.pool,
                                  claim->name, claim->name_len, deadline, err);
}

static int
ask(struct my_bound *bound, struct my_wire *wire, const dibs_claim *claim,
    dibs_time deadline, dibs_error *err)
{
    struct sql_value params[2];
    int rc = DIBS_OK;
    size_t n = wait_for(bound, wire, params);
    for (int tries = 0; !rc && tries < TRIES; tries++) {
        rc = dibs__my_bound_run(bound, wire, WIRE_TRY, params, n, &wire->answer, deadline,
                                err);
        if (!rc && wire->answer > 0)
            return DIBS_OK;
        if (!rc)
            rc = make_row(bound, wire, claim, deadline, err);
    }
    wire->answer = 0;
    if (rc)
        return rc == SQL_BUSY ? DIBS_OK : rc;
    return bound->wires.host->fail(err, DIBS_EUNAVAIL,
                                   "the row is deleted again and again");
}

/* Tokens count in steps of the room between two: see BOUND_TOKEN_ROOM. */
static int
draw_token(struct my_bound *bound, struct my_wire *wire, dibs_time deadline,
           dibs_error *err)
{
    uint64_t token = 0;
    int rc = dibs__row_token(bound->mysql->sql.pool, &token, deadline, err);
    wire->answer = (int64_t)token;
    return rc;
}

/* a limit of the database on transactions that are idle is not to end ours */
static const struct my_bound_form form = {
    .is_xact = 1,
    .settings = "SET SESSION autocommit = 0, idle_transaction_timeout = 0, "
                "idle_write_transaction_timeout = 0, "
                "idle_readonly_transaction_timeout = 0",
    .name = write_name,
    .ask = ask,
    .wait_for = wait_for,
    .token = draw_token,
    .give = give,
};

/* ---- looking at the table ---- */

/* is it of InnoDB; has the column a unique index of its own? No row: there is none. */
#define LOOK                                                                             \
    "SELECT IFNULL(t.ENGINE = 'InnoDB', 0), EXISTS (SELECT 1 FROM "                      \
    "information_schema.STATISTICS s WHERE s.TABLE_SCHEMA = t.TABLE_SCHEMA AND "         \
    "s.TABLE_NAME = t.TABLE_NAME AND s.COLUMN_NAME = c.COLUMN_NAME AND "                 \
    "s.NON_UNIQUE = 0 AND s.SUB_PART IS NULL AND NOT EXISTS (SELECT 1 FROM "             \
    "information_schema.STATISTICS o WHERE o.TABLE_SCHEMA = t.TABLE_SCHEMA AND "         \
    "o.TABLE_NAME = t.TABLE_NAME AND o.INDEX_NAME = s.INDEX_NAME AND "                   \
    "o.SEQ_IN_INDEX > 1)) FROM information_schema.TABLES t JOIN "                        \
    "information_schema.COLUMNS c USING (TABLE_SCHEMA, TABLE_NAME) WHERE "               \
    "t.TABLE_SCHEMA = %s%.*s%s AND t.TABLE_NAME = '%s' AND c.COLUMN_NAME = '%s'"

static void
print_look(char *out, size_t size, const struct sql_row *row)
{
    const char *dot = strchr(row->table, '.');
    if (dot)
        (void)snprintf(out, size, LOOK, "'", (int)(dot - row->table), row->table, "'",
                       dot + 1, row->column);
    else
        (void)snprintf(out, size, LOOK, "DATABASE()", 0, "", "", row->table, row->column);
}

static int
look(struct my_link *link, const struct sql_row *row, struct row_facts *out,
     dibs_time deadline, dibs_error *err)
{
    char text[sizeof LOOK + TEXT_SIZE];
    MYSQL_RES *found = NULL;
    print_look(text, sizeof text, row);
    int rc = dibs__my_link_ask(link, text, &found, deadline, err);
    if (rc)
        return rc;
    MYSQL_ROW values = mysql_fetch_row(found);
    out->is_there = values != NULL;
    out->has_index = values && strcmp(values[1], "1") == 0;
    if (values && strcmp(values[0], "1") != 0)
        out->why = "is not of InnoDB, which alone locks rows";
    mysql_free_result(found);
    return DIBS_OK;
}

/* Is one row looked at to find such a name? The plan knows: "const", or no row at all (NULL)
 * if there is none of that name. */
static int
explain(struct my_link *link, const struct sql_row *row, const char *name, int *is_one,
        dibs_time deadline, dibs_error *err)
{
    const unsigned type = 3; /* of the columns of a plan */
    char text[TEXT_SIZE];
    MYSQL_RES *plan = NULL;
    (void)snprintf(text, sizeof text, "EXPLAIN SELECT 1 FROM %s WHERE %s = '%s'",
                   row->table, row->column, name);
    int rc = dibs__my_link_ask(link, text, &plan, deadline, err);
    if (rc)
        return rc;
    MYSQL_ROW values = mysql_fetch_row(plan);
    *is_one = values && (!values[type] || strcmp(values[type], "const") == 0);
    mysql_free_result(plan);
    return DIBS_OK;
}

/* Would any name do? One that is not in the column's character set is an error, or makes the
 * server look at all rows. */
static int
is_any_good(struct my_link *link, const struct sql_row *row, dibs_time deadline)
{
    static const char grin[] = "\xF0\x9F\x98\x80";
    int is_one = 0;
    return explain(link, row, grin, &is_one, deadline, NULL) == DIBS_OK && is_one;
}

static int
learn(struct my_link *link, struct row_layout *layout, struct row_facts *facts,
      dibs_time deadline, dibs_error *err)
{
    int is_one = 1;
    int rc = look(link, &layout->row, facts, deadline, err);
    if (rc || !facts->is_there)
        return rc;
    rc = explain(link, &layout->row, "dibs", &is_one, deadline, err);
    facts->has_index &= is_one;
    layout->is_ascii = !is_any_good(link, &layout->row, deadline);
    /* in names of tables, capital letters may matter */
    if (rc == SQL_NO_TABLE)
        facts->is_there = 0;
    return rc == SQL_NO_TABLE ? DIBS_OK : rc;
}

static int
check(struct row_layout *layout, dibs_time deadline, dibs_error *err)
{
    struct mysql *mysql = layout->bound.mysql;
    struct row_facts facts = { 0 };
    struct sql_conn *conn = NULL;
    int rc = dibs__sql_borrow(mysql->sql.pool, &conn, deadline, err);
    if (rc)
        return rc;
    rc = learn(conn->own, layout, &facts, deadline, err);
    dibs__sql_giveback(mysql->sql.pool, conn);
    if (rc)
        return rc == DIBS_EUNKNOWN || rc >= SQL_DUPLICATE ? DIBS_EUNAVAIL : rc;
    return dibs__row_check(&layout->row, &facts, mysql->sql.host, err);
}

/* ---- opening ---- */

#define MAKE_ROWS                                                                        \
    "CREATE TABLE IF NOT EXISTS dibs_rows (\n"                                           \
    "    name VARBINARY(512) NOT NULL PRIMARY KEY\n"                                     \
    ") ENGINE = InnoDB"

static const char *const makes[] = { MAKE_ROWS, MY_MAKE_TOKENS, MY_MAKE_CELLS, NULL };

static void
set_texts(struct row_layout *layout)
{
    struct my_wires *wires = &layout->bound.wires;
    const struct sql_row *row = &layout->row;
    const char *format = "SELECT 1 FROM %s WHERE %s = ?1 FOR UPDATE%s";
    (void)snprintf(layout->texts[0], TEXT_SIZE, format, row->table, row->column,
                   " NOWAIT");
    int len = snprintf(layout->texts[1], TEXT_SIZE, format, row->table, row->column, "");
    (void)snprintf(layout->texts[1] + len, TEXT_SIZE - (size_t)len, " WAIT %d",
                   ROW_WAIT_S);
    wires->texts[WIRE_TRY] = layout->texts[0];
    wires->texts[WIRE_GET] = layout->texts[1];
    layout->bound.form = &form;
    /* what is in a table of others is theirs to make */
    layout->bound.mysql->drive.makes = row->is_ours ? makes : dibs__my_sequence_makes;
}

static int
begin(struct row_layout *layout, const dibs_url_parts *url, dibs_time deadline,
      dibs_error *err)
{
    int rc = dibs__mysql_needs_mariadb(layout->bound.mysql, err);
    if (!rc)
        rc = dibs__row_read(&layout->row, layout->bound.wires.host, url, err);
    if (rc)
        return rc;
    set_texts(layout);
    return check(layout, deadline, err);
}

static int
row_open(void *state, dibs_session *session, const dibs_url_parts *url,
         dibs_time deadline, dibs_error *err)
{
    struct mysql *mysql = state;
    int rc = dibs__mysql_open(mysql, session, url, deadline, err);
    if (rc)
        return rc;
    rc = dibs__my_bound_open(mysql, sizeof(struct row_layout), err);
    if (!rc)
        rc = begin((struct row_layout *)mysql->bound, url, deadline, err);
    if (rc)
        dibs__mysql_close(mysql, 0);
    return rc;
}

static const char *const params[] = { MYSQL_PARAMS, ROW_PARAMS, NULL };

const dibs_engine dibs__mysql_row = {
    MY_BOUND,         .layout = "row",  .params = params,
    .caps = ROW_CAPS, .open = row_open, .schema = makes,
};
