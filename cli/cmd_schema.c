/* SPDX-License-Identifier: MIT */
/* dibs schema: the tables that an engine makes, as SQL. */
#include <stdio.h>

#include "cmd.h"
#include "common.h"

static int
print_json(const char *const *statements)
{
    int rc = 0;
    for (; !rc && *statements; statements++) {
        struct json json;
        json_begin(&json);
        json_text(&json, "statement", *statements);
        rc = json_end(&json, stdout);
    }
    return rc;
}

static void
print_sql(const char *const *statements)
{
    for (; *statements; statements++)
        printf("%s;\n", *statements);
}

int
cmd_schema(int argc, char **argv)
{
    struct options options;
    dibs_error err = { 0 };
    const char *const *statements;
    int first = 0, end = opt_parse(&options, &first, argc, argv);
    if (end < 0)
        end = opt_operands(options.verb, argc - first, 0, 1);
    if (end >= 0)
        return end;
    if (dibs_schema(&statements, first < argc ? argv[first] : options.url, &err))
        return say_error(&options, &err);
    if (!options.json)
        print_sql(statements);
    else if (print_json(statements) != 0)
        return say_out_of_memory(&options);
    return 0;
}
