/* SPDX-License-Identifier: MIT */
/*
 * The parts that are the same on every engine whose server keeps a log: the command, hand-over
 * between threads of one process, and what 10,000 kept holds take, in the process and in the
 * server, over a whole turn of the keeper.
 */
#include <stdio.h>
#include <stdlib.h>

#include "inside.h"
#include "keep.h"
#include "logs.h"
#include "serve.h"

/* ---- the command ---- */

static struct {
    const char *layout, *address_variable;
    const command *others;
    int count;
    double bar;
} run;

static void
measure_run(const server *s, int place)
{
    command commands[TURNS_MAX] = {
        { "dibs", "dibs run x -- true", { bench.dibs_path, "run", "x", "--", "true" } },
    };
    log_title title = logs_title("run", s, place);
    char text[128];
    int count = 1;

    for (int i = 0; i < run.count; i++)
        commands[count++] = run.others[i];
    commands[count++] = (command){ "true", "true (floor)", { "true" } };
    server_url(text, sizeof text, s, run.layout);
    setenv("DIBS_URL", text, 1);
    snprintf(text, sizeof text, "127.0.0.1:%d", s->port);
    setenv(run.address_variable, text, 1);
    commands_compare(commands, count, bench_count(40, 2), title.id, title.words, run.bar);
}

void
logs_run(const char *layout, const command *others, int count,
         const char *address_variable, double bar)
{
    run.layout = layout;
    run.address_variable = address_variable;
    run.others = others;
    run.count = count;
    run.bar = bar;
    report_section("the command", "spawned and waited for in turn");
    for_each_log(measure_run);
}

/* ---- threads of one process ---- */

static struct {
    const char *layout;
    double bar;
} inside;

static void
measure_inside(const server *s, int place)
{
    log_title title = logs_title("inside", s, place);
    char url[128];

    server_url(url, sizeof url, s, inside.layout);
    inside_run(url, title.id, title.words, inside.bar);
}

void
logs_inside(const char *layout, double bar)
{
    inside.layout = layout;
    inside.bar = bar;
    report_section("16 threads of one process, one name",
                   "hand-over inside the process against none; rounds of 150 ms in turn");
    for_each_log(measure_inside);
}

/* ---- kept holds ---- */

enum { HOLDS = 10000, CLIENT = 0, SERVER, REQUESTS, FIGURES };

static const struct {
    const char *id, *label, *unit;
} figures[FIGURES] = {
    { "client", "the client", "%" },
    { "server", "the server", "%" },
    { "requests", "requests", "/s" },
};

static void
one_turn(const keep *k, const server *s, series *runs)
{
    double cpu = serve_cpu(s->pid), requests = server_count(s).requests, seconds;

    series_add(&runs[CLIENT], keep_turn(k, &seconds));
    series_add(&runs[SERVER], 100 * (serve_cpu(s->pid) - cpu) / seconds);
    series_add(&runs[REQUESTS], (server_count(s).requests - requests) / seconds);
}

static void
report_kept(const server *s, int count, const char *id, const char *what,
            const char *unit, series *runs)
{
    char full[64], label[96];

    snprintf(full, sizeof full, "holds.%s.%s", s->name, id);
    snprintf(label, sizeof label, "%s, %d kept holds: %s", s->name, count, what);
    report_figure(full, label, unit, runs);
    series_free(runs);
}

static void
one_log(const server *s, const char *layout, const char *what,
        double (*count_what)(const server *s))
{
    series runs[FIGURES] = { { NULL, 0, 0 } }, whats = { NULL, 0, 0 };
    /* others may have left some */
    double before = what != NULL ? count_what(s) : 0;
    char url[128];
    keep k;

    server_url(url, sizeof url, s, layout);
    keep_start(&k, url, bench_count(HOLDS, 200));
    for (int i = 0; i < bench.runs; i++)
        one_turn(&k, s, runs);
    if (what != NULL)
        series_add(&whats, count_what(s) - before);
    for (int i = 0; i < FIGURES; i++)
        report_kept(s, k.count, figures[i].id, figures[i].label, figures[i].unit,
                    &runs[i]);
    if (what != NULL)
        report_kept(s, k.count, what, what, "", &whats);
    keep_stop(&k);
}

void
logs_holds(const char *layout, const char *what, double (*count_what)(const server *s))
{
    report_section("what it takes to keep 10,000 holds",
                   "share of a CPU over a turn of the keeper, 10 s; lease 30 s; X");
    place_client(PLACE_X);
    for (int log = 0; log < LOGS; log++)
        one_log(server_get(log), layout, what, count_what);
}
