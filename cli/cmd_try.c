/* SPDX-License-Identifier: MIT */
/* dibs try: is NAME free? Looks only, so that asking disturbs nobody. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "common.h"

/* whether somebody who came now could have it at once; those who wait come first */
static bool
is_free(const dibs_report *report, const struct options *options)
{
    uint64_t permits = 0;
    bool shared = true;
    if (report->holder_count == 0 || report->waiter_count > 0)
        return report->waiter_count == 0;
    for (size_t i = 0; i < report->holder_count; i++) {
        permits += report->holders[i].permits;
        shared = shared && report->holders[i].mode == DIBS_SHARED;
    }
    if (options->mode == DIBS_PERMITS)
        return report->mode == DIBS_PERMITS && permits < options->slots;
    return options->mode == DIBS_SHARED && shared;
}

static void
print_answer(const dibs_report *report, const struct options *options, bool is_it)
{
    char name[NAME_PRINT_MAX], holders[600];
    if (options->json) {
        struct json json;
        json_begin(&json);
        json_bool(&json, "free", is_it);
        report_json(&json, report);
        (void)json_end(&json, stdout);
        return;
    }
    holders_print(holders, sizeof holders, report);
    name_print(name, report->name, report->name_len);
    if (is_it)
        printf("'%s' is free\n", name);
    else if (report->waiter_count > 0)
        printf("'%s' is busy: %s, %zu waiting\n", name, holders, report->waiter_count);
    else
        printf("'%s' is busy: %s\n", name, holders);
}

int
cmd_try(int argc, char **argv)
{
    struct options options;
    dibs_error err = { 0 };
    dibs *client = NULL;
    dibs_report *report = NULL;
    const char *name = NULL;
    int end = opt_parse_name(&options, &name, argc, argv);
    if (end >= 0)
        return end;
    err.code = client_open(&client, &options, NULL, &err);
    if (err.code == DIBS_OK)
        err.code = dibs_inspect(&report, client, name, &err);
    if (err.code != DIBS_OK) {
        end = say_error(&options, &err);
    } else {
        bool is_it = is_free(report, &options);
        if (!options.quiet)
            print_answer(report, &options, is_it);
        end = is_it ? 0 : unless_busy(&options, DIBS_EBUSY, dibs_exit_code(DIBS_EBUSY));
    }
    dibs_report_free(report);
    dibs_close(client);
    return end;
}
