/* SPDX-License-Identifier: MIT */
/* dibs schema: the tables of an engine on a database, where there is one. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* the module of an engine on a database, or the case is skipped */
static void
need_sqlite(void)
{
    struct proc list;
    CHECK_SAME(DIBS(&list, "engines", "--json"), 0);
    const char *at = strstr(list.out, "\"engine\":\"sqlite\"");
    CHECK(at != NULL);
    if (strncmp(strstr(at, "status\":") + 8, "\"installed\"", 11) == 0)
        return;
    puts("there is no module of the engine sqlite");
    exit(EXIT_SKIPPED);
}

CASE(prints_statements)
{
    struct proc schema;
    need_sqlite();
    CHECK_SAME(DIBS(&schema, "schema", "sqlite:/nowhere/at/all"), 0);
    CHECK_HAS(schema.out, "CREATE TABLE IF NOT EXISTS dibs_locks (");
    CHECK_HAS(schema.out, "WITHOUT ROWID;\n");
    CHECK_TEXT(schema.err, "");
    CHECK_SAME(DIBS(&schema, "schema", "--url", "sqlite:x"), 0);
    CHECK_HAS(schema.out, "dibs_cells");
    CHECK_SAME(DIBS(&schema, "schema", "--json", "sqlite:x"), 0);
    check_json(schema.out);
    CHECK_HAS(schema.out, "{\"statement\":\"CREATE TABLE IF NOT EXISTS dibs_locks (\\n");
}

CASE(refusals)
{
    struct proc schema;
    CHECK_SAME(DIBS(&schema, "schema"), 78); /* the tests' own engine */
    CHECK_HAS(schema.err, "has no tables");
    CHECK_TEXT(schema.out, "");
    CHECK_SAME(DIBS(&schema, "schema", "nonesuch:"), 78);
    CHECK_SAME(DIBS(&schema, "schema", "a:", "b:"), 64);
}

MAIN(ENTRY(prints_statements), ENTRY(refusals))
