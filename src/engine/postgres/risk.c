/* SPDX-License-Identifier: MIT */
/*
 * Settings with which a PostgreSQL may forget what it has said. They are those of our own
 * session: a role, a database and the URL may have settings of their own.
 */
#include "bound.h"

#include <string.h>

#define MACHINE "its machine fails"

static const struct {
    int column;
    struct sql_risk risk;
} risks[] = {
    { 1, { MACHINE, "fsync is off" } },
    { 2, { "it crashes", "synchronous_commit is off" } },
    { 3,
      { MACHINE, "full_page_writes is off, and the file system may write half a page" } },
};

static int
is_off(const PGresult *found, int column)
{
    return PQntuples(found) == 1 && strcmp(PQgetvalue(found, 0, column), "off") == 0;
}

void
dibs__pg_warn(struct postgres *pg, const PGresult *found)
{
    const size_t count = sizeof risks / sizeof *risks;
    size_t i = 0;
    while (i < count && !is_off(found, risks[i].column))
        i++;
    dibs__sql_warn(pg->session, i < count ? &risks[i].risk : NULL,
                   pg->session->engine->attempt == dibs__bound_attempt);
}
