/* SPDX-License-Identifier: MIT */
/* dibs fence: admit or refuse a fencing token. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cmd.h"
#include "common.h"

static bool
parse_token(uint64_t *out, const char *text)
{
    char *end = NULL;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno && *out > 0;
}

int
cmd_fence(int argc, char **argv)
{
    struct options options;
    dibs_error err = { 0 };
    dibs *client = NULL;
    uint64_t token;
    int first = 0, end = opt_parse(&options, &first, argc, argv);
    if (end < 0)
        end = opt_operands(options.verb, argc - first, 2, 2);
    if (end >= 0)
        return end;
    if (!parse_token(&token, argv[first + 1]))
        return opt_usage_error(options.verb, "'%s' is no token", argv[first + 1]);
    err.code = client_open(&client, &options, NULL, &err);
    if (err.code == DIBS_OK)
        err.code = dibs_fence(client, argv[first], token, &err);
    dibs_close(client);
    if (options.json && (err.code == DIBS_OK || err.code == DIBS_ESTALE)) {
        struct json json;
        json_begin(&json);
        json_bool(&json, "admitted", err.code == DIBS_OK);
        json_uint(&json, "token", token);
        (void)json_end(&json, stdout);
        return dibs_exit_code(err.code);
    }
    return err.code == DIBS_OK ? 0 : say_error(&options, &err);
}
