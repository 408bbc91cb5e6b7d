/* SPDX-License-Identifier: MIT */
/* dibs ls: the locks in use, one row (or one JSON object) each, sorted by name. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd.h"
#include "common.h"
#include "table.h"
#include "util/duration.h"

/* One row. The library's report lives only as long as its call, so what is needed of it is
 * kept as text. */
struct row {
    char *name, *mode, *holder, *age, *note;
    size_t holders, waiters;
};

struct listing {
    const struct options *options;
    struct row *rows;
    size_t count, room;
};

static char *
mode_text(const dibs_report *report)
{
    char text[32];
    snprintf(text, sizeof text, "%u slots", report->limit);
    return strdup(report->mode == DIBS_PERMITS ? text : mode_name(report->mode));
}

static void
fill_row(struct row *row, const dibs_report *report)
{
    const dibs_party *holder = report->holder_count ? report->holders : NULL;
    char name[NAME_PRINT_MAX], text[512] = "", age[32] = "";
    if (holder && holder->since_ms > 0) {
        int64_t ms = wall_ms() - holder->since_ms;
        dibs__duration_print(age, sizeof age, ms > 0 ? ms : 0);
    }
    if (holder) {
        dibs_party who = *holder;
        who.since_ms = 0; /* has a column of its own */
        party_print(text, sizeof text, &who);
    }
    row->name = strdup(name_print(name, report->name, report->name_len));
    row->mode = mode_text(report);
    row->holder = strdup(text);
    row->age = strdup(age);
    row->note = strdup(holder ? holder->note : "");
    row->holders = report->holder_count;
    row->waiters = report->waiter_count;
}

static void
free_row(struct row *row)
{
    free(row->name);
    free(row->mode);
    free(row->holder);
    free(row->age);
    free(row->note);
}

static int
add_report(const dibs_report *report, void *arg)
{
    struct listing *listing = arg;
    if (listing->options->json) {
        struct json json;
        json_begin(&json);
        report_json(&json, report);
        return json_end(&json, stdout) != 0;
    }
    if (listing->count == listing->room) {
        size_t room = listing->room ? 2 * listing->room : 64;
        struct row *grown = realloc(listing->rows, room * sizeof *grown);
        if (!grown)
            return DIBS_ENOMEM;
        listing->rows = grown;
        listing->room = room;
    }
    struct row *row = &listing->rows[listing->count++];
    fill_row(row, report);
    bool complete = row->name && row->mode && row->holder && row->age && row->note;
    return complete ? 0 : DIBS_ENOMEM;
}

static int
by_name(const void *a, const void *b)
{
    return strcmp(((const struct row *)a)->name, ((const struct row *)b)->name);
}

static int
print_rows(struct listing *listing)
{
    static const char *const heads[] = { "NAME",   "MODE", ">HELD", ">WAITING",
                                         "HOLDER", ">FOR", "NOTE" };
    struct table table;
    if (listing->count == 0) {
        say(listing->options, "no locks are in use");
        return 0;
    }
    qsort(listing->rows, listing->count, sizeof *listing->rows, by_name);
    table_init(&table, 7, heads);
    for (size_t i = 0; i < listing->count; i++) {
        const struct row *row = &listing->rows[i];
        table_add(&table, "%s", row->name);
        table_add(&table, "%s", row->mode);
        table_add(&table, "%zu", row->holders);
        table_add(&table, "%zu", row->waiters);
        table_add(&table, "%s", row->holder);
        table_add(&table, "%s", row->age);
        table_add(&table, "%s", row->note);
    }
    if (table_print(&table, stdout) != 0)
        return say_out_of_memory(listing->options);
    return 0;
}

int
cmd_ls(int argc, char **argv)
{
    struct options options;
    struct listing listing = { .options = &options };
    dibs_error err = { 0 };
    dibs *client = NULL;
    int first = 0, end = opt_parse(&options, &first, argc, argv);
    if (end < 0)
        end = opt_operands(options.verb, argc - first, 0, 1);
    if (end >= 0)
        return end;
    const char *glob = argc > first ? argv[first] : NULL;
    err.code = client_open(&client, &options, NULL, &err);
    if (err.code == DIBS_OK)
        err.code = dibs_list(client, glob, add_report, &listing, &err);
    dibs_close(client);
    if (err.code < 0)
        end = say_error(&options, &err);
    else
        end = options.json ? 0 : print_rows(&listing);
    for (size_t i = 0; i < listing.count; i++)
        free_row(&listing.rows[i]);
    free(listing.rows);
    return end;
}
