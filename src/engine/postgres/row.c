/* SPDX-License-Identifier: MIT */
/*
 * The layout `row`: SELECT .. FOR UPDATE in a transaction that stays open. sql/row.h says what
 * it is, bound.h how its connections are kept.
 *
 * PostgreSQL locks the rows that a statement returns, however it finds them. The index has
 * to be there nevertheless: it sees to it that they are one.
 */
#include "bound.h"

#include <stdio.h>
#include <string.h>

#include "sql/row.h"

/* a row may have to be put there, and may be deleted just then */
#define TRIES 3

struct row_layout {
    struct bound bound;
    struct sql_row row;
};

static const struct sql_row *
row_of(const struct bound *bound)
{
    return &((const struct row_layout *)bound)->row;
}

/* ---- names ---- */

static void
print_hex(char out[KEY_TEXT_MAX], const char *name, size_t len)
{
    char *at = out + snprintf(out, KEY_TEXT_MAX, "'\\x");
    for (size_t i = 0; i < len; i++)
        at += snprintf(at, 3, "%02x", (unsigned char)name[i]);
    memcpy(at, "'", 2);
}

/* In a table of others it is text, which PostgreSQL reads as what the column is. */
static int
write_key(struct bound *bound, struct stake *stake, const char *name, size_t len,
          dibs_error *err)
{
    if (row_of(bound)->is_ours) {
        print_hex(stake->key_text, name, len);
        return DIBS_OK;
    }
    char *quoted = PQescapeLiteral(stake->conn.pg, name, len);
    if (!quoted)
        return bound->host->fail(err, DIBS_EINVAL,
                                 "this name is no text in the encoding of the database");
    (void)snprintf(stake->key_text, KEY_TEXT_MAX, "%s", quoted);
    PQfreemem(quoted);
    return DIBS_OK;
}

/* ---- taking ---- */

static void
print_lock(const struct bound *bound, char out[XACT_TEXT_MAX], const struct stake *stake,
           const char *how)
{
    const struct sql_row *row = row_of(bound);
    (void)snprintf(out, XACT_TEXT_MAX, "SELECT 1 FROM %s WHERE %s = %s FOR UPDATE%s",
                   row->table, row->column, stake->key_text, how);
}

/* what is to be there before it can be locked; the transaction ends in any case */
static int
make_ready(struct bound *bound, struct stake *stake, const dibs_claim *claim, int rc,
           dibs_time deadline, dibs_error *err)
{
    sql_pool *pool = bound->pg->sql.pool;
    int cleared = dibs__xact_give(bound, stake, deadline, err);
    if (cleared)
        return cleared;
    if (rc == SQL_NO_TABLE)
        return dibs__sql_make(pool, deadline, err);
    return dibs__row_missing(row_of(bound), pool, claim->name, claim->name_len, deadline,
                             err);
}

static int
ask_row(struct bound *bound, struct stake *stake, const dibs_claim *claim,
        dibs_time deadline, dibs_error *err)
{
    char text[XACT_TEXT_MAX];
    int rc = DIBS_OK;
    print_lock(bound, text, stake, " NOWAIT");
    for (int tries = 0; !rc && tries < TRIES; tries++) {
        int64_t is_ours = 0;
        rc = dibs__xact_ask(bound, stake, text, claim->lease_ms, &is_ours, deadline, err);
        if (!rc && is_ours == 1)
            return dibs__row_token(bound->pg->sql.pool, &stake->token, deadline, err);
        if (!rc || rc == SQL_NO_TABLE)
            rc = make_ready(bound, stake, claim, rc, deadline, err);
    }
    return rc ? rc
              : bound->host->fail(err, DIBS_EUNAVAIL,
                                  "the table, or the row, is deleted again and again");
}

static int
wait_row(struct bound *bound, struct stake *stake, dibs_time deadline, dibs_error *err)
{
    char text[XACT_TEXT_MAX];
    print_lock(bound, text, stake, "");
    return dibs__xact_send(bound, stake, text, deadline, err);
}

static const struct bound_form form = {
    .is_xact = 1,
    .key = write_key,
    .ask = ask_row,
    .wait = wait_row,
    .give = dibs__xact_give,
    .clear = XACT_CLEAR,
};

/* ---- opening ---- */

/* 0: there is no such column; 1: it has no unique index that is only its own; 2: it has */
#define LOOK                                                                             \
    "SELECT CASE WHEN a.attnum IS NULL THEN 0 WHEN EXISTS (SELECT FROM pg_index i "      \
    "WHERE i.indrelid = a.attrelid AND i.indisunique AND i.indisvalid "                  \
    "AND i.indnkeyatts = 1 AND i.indkey[0] = a.attnum AND i.indpred IS NULL) "           \
    "THEN 2 ELSE 1 END FROM (SELECT to_regclass('%s') AS t) AS it "                      \
    "LEFT JOIN pg_attribute a ON a.attrelid = it.t AND a.attname = lower('%s') "         \
    "AND NOT a.attisdropped"

static int
begin(struct bound *bound, const dibs_url_parts *url, dibs_time deadline, dibs_error *err)
{
    struct sql_row *row = &((struct row_layout *)bound)->row;
    char text[sizeof LOOK + TEXT_MAX];
    int64_t found = 0;
    bound->form = &form;
    bound->wait_most_ms = ROW_WAIT_S * 1000;
    int rc = dibs__row_read(row, bound->host, url, err);
    if (rc)
        return rc;
    (void)snprintf(text, sizeof text, LOOK, row->table, row->column);
    rc = dibs__bound_ask_elsewhere(bound, text, &found, deadline, err);
    if (rc)
        return dibs__bound_code(rc, err);
    struct row_facts facts = { .is_there = found > 0, .has_index = found > 1 };
    return dibs__row_check(row, &facts, bound->host, err);
}

#define MAKE_ROWS "CREATE TABLE IF NOT EXISTS dibs_rows (name bytea PRIMARY KEY)"

static const char *const makes[] = { MAKE_ROWS, PG_MAKE_TOKENS, PG_MAKE_CELLS, NULL };
/* for rows of other tables */
static const char *const few_makes[] = { PG_MAKE_TOKENS, PG_MAKE_CELLS, NULL };

static int
row_open(void *state, dibs_session *session, const dibs_url_parts *url,
         dibs_time deadline, dibs_error *err)
{
    struct postgres *pg = state;
    pg->drive.makes = session->host->param(url, "table") ? few_makes : makes;
    return dibs__bound_open(pg, session, url, sizeof(struct row_layout), begin, deadline,
                            err);
}

static const char *const params[] = { PG_PARAMS, ROW_PARAMS, NULL };

const dibs_engine dibs__pg_row = {
    BOUND_SLOTS,        .abi = DIBS_ENGINE_ABI,
    .name = "postgres", .schemes = dibs__pg_schemes,
    .layout = "row",    .layouts = dibs__pg_layouts,
    .params = params,   .caps = ROW_CAPS,
    .open = row_open,   .schema = makes,
};
