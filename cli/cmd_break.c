/* SPDX-License-Identifier: MIT */
/* dibs break: take NAME away from its holders. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "common.h"

static bool
is_yes(const char *answer)
{
    return strcmp(answer, "y\n") == 0 || strcmp(answer, "yes\n") == 0;
}

/* asks the person at the terminal; -1 to go on, or the exit code */
static int
confirm(const struct options *options, dibs *client, const char *name)
{
    char shown[NAME_PRINT_MAX], holders[600] = "", answer[16] = "";
    dibs_report *report = NULL;
    if (options->yes)
        return -1;
    name_print(shown, name, strlen(name));
    if (!isatty(STDIN_FILENO))
        return opt_usage_error(options->verb,
                               "to break '%s' without being asked, say --yes", shown);
    if (dibs_inspect(&report, client, name, NULL) == DIBS_OK)
        holders_print(holders, sizeof holders, report);
    dibs_report_free(report);
    fprintf(stderr,
            "'%s' is %s.\nTake it away? Its holders may be in the middle of it. [y/N] ",
            shown, holders);
    if (fgets(answer, sizeof answer, stdin) && is_yes(answer))
        return -1;
    say(options, "left alone");
    return 1;
}

static int
take_away(const struct options *options, dibs *client, const char *name)
{
    char shown[NAME_PRINT_MAX];
    dibs_error err = { 0 };
    size_t broken = 0;
    err.code = dibs_break(&broken, client, name, options->reason, &err);
    if (err.code != DIBS_OK)
        return say_error(options, &err);
    if (options->json) {
        struct json json;
        json_begin(&json);
        json_bytes(&json, "name", name, strlen(name));
        json_uint(&json, "broken", broken);
        (void)json_end(&json, stdout);
    } else if (!options->quiet) {
        printf("'%s': %zu hold%s ended\n", name_print(shown, name, strlen(name)), broken,
               broken == 1 ? "" : "s");
    }
    return 0;
}

int
cmd_break(int argc, char **argv)
{
    struct options options;
    dibs_error err = { 0 };
    dibs *client = NULL;
    const char *name = NULL;
    int end = opt_parse_name(&options, &name, argc, argv);
    if (end >= 0)
        return end;
    err.code = client_open(&client, &options, NULL, &err);
    if (err.code != DIBS_OK)
        return say_error(&options, &err);
    end = confirm(&options, client, name);
    if (end < 0)
        end = take_away(&options, client, name);
    dibs_close(client);
    return end;
}
