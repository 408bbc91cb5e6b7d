/* SPDX-License-Identifier: MIT */
/* dibs show: who holds NAME, and who waits, in the order in which they will be served. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "common.h"
#include "table.h"
#include "util/duration.h"

static void
add_duration(struct table *table, int64_t ms)
{
    char text[32] = "";
    if (ms >= 0)
        dibs__duration_print(text, sizeof text, ms);
    table_add(table, "%s", text);
}

/* 0 stands for unknown, or none */
static void
add_number(struct table *table, uint64_t number)
{
    char text[32] = "";
    if (number > 0)
        snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    table_add(table, "%s", text);
}

static void
add_party(struct table *table, const char *place, const dibs_party *party)
{
    int64_t age_ms = wall_ms() - party->since_ms;
    table_add(table, "%s", place);
    if (party->mode == DIBS_PERMITS)
        table_add(table, "%u slot%s", party->permits, party->permits == 1 ? "" : "s");
    else
        table_add(table, "%s", mode_name(party->mode));
    table_add(table, "%s", party->app);
    table_add(table, "%s", party->host);
    add_number(table, party->pid > 0 ? (uint64_t)party->pid : 0);
    add_duration(table, party->since_ms <= 0 ? -1 : age_ms > 0 ? age_ms : 0);
    add_duration(table, party->lease_left_ms);
    add_number(table, party->token);
    table_add(table, "%s", party->note);
}

static int
print_report(const struct options *options, const dibs_report *report)
{
    static const char *const heads[] = { "PLACE", "MODE",        "APP",    "HOST", ">PID",
                                         ">FOR",  ">LEASE LEFT", ">TOKEN", "NOTE" };
    char name[NAME_PRINT_MAX], place[32];
    struct table table;
    name_print(name, report->name, report->name_len);
    if (report->holder_count + report->waiter_count == 0) {
        printf("'%s' is free: nobody holds it, nobody waits\n", name);
        return 0;
    }
    printf("'%s': %zu holding", name, report->holder_count);
    if (report->mode == DIBS_PERMITS)
        printf(", %u slots", report->limit);
    printf(", %zu waiting\n", report->waiter_count);
    table_init(&table, 9, heads);
    for (size_t i = 0; i < report->holder_count; i++)
        add_party(&table, "holds", &report->holders[i]);
    for (size_t i = 0; i < report->waiter_count; i++) {
        snprintf(place, sizeof place, "%zu", i + 1);
        add_party(&table, place, &report->waiters[i]);
    }
    return table_print(&table, stdout) == 0 ? 0 : say_out_of_memory(options);
}

int
cmd_show(int argc, char **argv)
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
    } else if (options.json) {
        struct json json;
        json_begin(&json);
        report_json(&json, report);
        end = json_end(&json, stdout) == 0 ? 0 : 1;
    } else {
        end = print_report(&options, report);
    }
    dibs_report_free(report);
    dibs_close(client);
    return end;
}
