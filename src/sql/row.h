/* SPDX-License-Identifier: MIT */
/*
 * The layout `row`: a lock is a row, locked by SELECT .. FOR UPDATE in a transaction that
 * stays open as long as the hold. So it ends with its connection, and no other transaction
 * can change that row meanwhile. The row is one of the table dibs_rows, which is put there
 * at its first use and stays; or one of a table that the URL names, and then it must be there.
 *
 * How a transaction is kept open, and waited with, is the engine's: bound.h there.
 */
#ifndef DIBS_SQL_ROW_H
#define DIBS_SQL_ROW_H

#include "sql/sql.h"

#define ROW_PARAMS "table", "column"
/* so long a statement waits for a row before it is asked anew: one whose client is gone is
 * not always noticed earlier */
#define ROW_WAIT_S 60

/* LEASE: the server ends a transaction that it does not hear of. */
#define ROW_CAPS (DIBS_CAP_LEASE | DIBS_CAP_TOKEN | DIBS_CAP_WAKE | DIBS_CAP_CELL)

/* Which rows: names that need no quotes. */
struct sql_row {
    const char *table, *column;
    int is_ours; /* dibs_rows, as we make it */
};
int dibs__row_read(struct sql_row *out, const dibs_host *host, const dibs_url_parts *url,
                   dibs_error *err);

/* What is known of the table when it is opened. Other tables than ours are refused if they
 * are not there, or if not exactly one row is found, by an index, for a name: then more
 * would be locked than that one. `why` says what else may be wrong with it, or is NULL. */
struct row_facts {
    int is_there, has_index;
    const char *why;
};
int dibs__row_check(const struct sql_row *row, const struct row_facts *facts,
                    const dibs_host *host, dibs_error *err);

/* There is no row of that name: puts one there if the table is ours, or says so (EINVAL). */
int dibs__row_missing(const struct sql_row *row, sql_pool *pool, const char *name,
                      size_t len, dibs_time deadline, dibs_error *err);

/* The next token, of a transaction of its own: what an open one took from a sequence may
 * come again after a crash of the server. */
int dibs__row_token(sql_pool *pool, uint64_t *out, dibs_time deadline, dibs_error *err);

#endif /* DIBS_SQL_ROW_H */
