/* SPDX-License-Identifier: MIT */
/*
 * `dibs torture [URL]`: processes that are killed and paused use a few locks of an engine,
 * and what they saw is checked against what dibs promises. Read next: torture/torture.h.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "cmd.h"
#include "common.h"
#include "json.h"
#include "opt.h"
#include "table.h"
#include "torture.h"
#include "util/duration.h"

#define EXIT_BROKEN 70
#define BAR_WIDTH 30
/* whatever else this machine does, it is not what is on trial */
#define SLOW 4

static volatile sig_atomic_t interrupted; /* the signal that ends the run early */

static void
interrupt(int number)
{
    interrupted = number;
}

/* the first ends the run, which is then checked; a second one ends all at once */
static void
catch_signals(void)
{
    struct sigaction action = { .sa_handler = interrupt, .sa_flags = (int)SA_RESETHAND };
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    /* if our parent ignores SIGCHLD so do we, and then children cannot be waited for */
    (void)signal(SIGCHLD, SIG_DFL);
}

/* ---- before and meanwhile ---- */

static uint64_t
any_seed(void)
{
    uint32_t seed = 0;
    if (getrandom(&seed, sizeof seed, 0) != (ssize_t)sizeof seed)
        seed = (uint32_t)now_ms();
    return seed;
}

static const char *
url_of(const struct options *options, const char *operand)
{
    const char *environment = getenv("DIBS_URL");
    if (operand)
        return operand;
    if (options->url)
        return options->url;
    return environment && *environment ? environment : "local:";
}

static void
plan_from(struct torture_plan *plan, const struct options *options, const char *operand)
{
    torture_plan_init(plan, url_of(options, operand));
    plan->seed = options->has_seed ? options->seed : any_seed();
    plan->slow = SLOW;
    if (options->time_ms > 0)
        plan->run_ms = options->time_ms;
    if (options->clients > 0)
        plan->clients = options->clients;
    if (options->threads > 0)
        plan->threads = options->threads;
    if (options->names > 0)
        plan->names = options->names;
    if (options->ttl_ms > 0)
        plan->lease_ms = options->ttl_ms;
}

static void
announce(const struct options *options, const struct torture_plan *plan)
{
    char time[32];
    dibs__duration_print(time, sizeof time, plan->run_ms);
    say(options,
        "for %s, %u processes of %u threads use %u locks, whose names begin with "
        "dibs-torture/, and are killed and paused; nobody else's are touched",
        time, plan->clients, plan->threads, plan->names);
}

/* called by torture_run; `arg` is the plan, or NULL if nobody is there to see it */
static int
progress(void *arg, int64_t done_ms, const struct history *history)
{
    const struct torture_plan *plan = arg;
    static const char full[] = "##############################";
    if (plan) {
        int done = (int)(done_ms * BAR_WIDTH / plan->run_ms);
        fprintf(stderr, "\r[%-*.*s] %lld of %lld s, %zu turns ", BAR_WIDTH, done, full,
                (long long)done_ms / 1000, (long long)plan->run_ms / 1000,
                atomic_load(&history->turn_count));
    }
    return interrupted;
}

static void
progress_clear(void)
{
    fprintf(stderr, "\r%79s\r", "");
}

/* ---- the verdict ---- */

static void
time_print(char *out, size_t size, int64_t ns)
{
    snprintf(out, size, "%.*f ms", ns < 10000000 ? 2 : 0, (double)ns / 1e6);
}

static void
print_rules(struct table *table, const struct verdict *verdict)
{
    for (int rule = 1; rule <= RULE_COUNT; rule++) {
        if (verdict->looked[rule] == 0 && verdict->violated[rule] == 0)
            continue;
        table_add(table, "K%d", rule);
        table_add(table, "%s", rule_text(rule));
        table_add(table, "%llu", (unsigned long long)verdict->looked[rule]);
        table_add(table, "%llu", (unsigned long long)verdict->violated[rule]);
    }
}

static void
print_times(const struct verdict *verdict)
{
    char p50[32], p99[32], slack[32];
    time_print(p50, sizeof p50, verdict->handover_p50_ns);
    time_print(p99, sizeof p99, verdict->handover_p99_ns);
    time_print(slack, sizeof slack, verdict->slack_min_ns);
    if (verdict->handover_max_ns > 0)
        printf("from a release to the next grant: %s (median), %s (99 of 100)\n", p50,
               p99);
    if (verdict->slack_min_ns != INT64_MAX)
        printf("told of a loss before the next grant: by %s at least\n", slack);
}

/* a URL with a password in it is not shown */
static void
print_command(const struct torture_plan *plan)
{
    char time[32], lease[32];
    dibs__duration_print(time, sizeof time, plan->run_ms);
    dibs__duration_print(lease, sizeof lease, plan->lease_ms);
    printf(
        "again: dibs torture --seed %llu --time %s --clients %u --threads %u --names %u "
        "--ttl %s %s\n",
        (unsigned long long)plan->seed, time, plan->clients, plan->threads, plan->names,
        lease, strchr(plan->url, '@') ? "URL" : plan->url);
}

static void
print_verdict(const struct verdict *verdict)
{
    if (verdict->violated[0] > 0)
        printf("it could not be checked: %s\n", verdict->first[0]);
    for (int rule = 1; rule <= RULE_COUNT; rule++) {
        if (verdict->violated[rule] > 0)
            printf("K%d was broken: %s\n", rule, verdict->first[rule]);
    }
    if (!torture_is_clean(verdict))
        printf("a promise was broken\n");
    else
        printf("all promises were kept%s\n",
               interrupted ? ", until it was ended early" : "");
}

static int
print_text(const struct torture_plan *plan, const struct verdict *verdict)
{
    static const char *const heads[] = { "RULE", "WHAT", ">LOOKED", ">BROKEN" };
    struct table table;
    printf("%s, engine %s: %llu acquired, %llu refused, %llu lost; %llu killed, %llu "
           "paused (%llu frozen)\n",
           verdict->url, verdict->engine, (unsigned long long)verdict->acquired,
           (unsigned long long)verdict->refused, (unsigned long long)verdict->lost,
           (unsigned long long)verdict->kills, (unsigned long long)verdict->pauses,
           (unsigned long long)verdict->freezes);
    if (verdict->no_freezer[0] != '\0')
        printf("nobody could be frozen: %s\n", verdict->no_freezer);
    table_init(&table, 4, heads);
    print_rules(&table, verdict);
    if (table_print(&table, stdout) != 0)
        return -1;
    print_times(verdict);
    print_command(plan);
    print_verdict(verdict);
    return 0;
}

static void
json_rules(struct json *json, const struct verdict *verdict)
{
    json_open(json, "rules", '[');
    for (int rule = 1; rule <= RULE_COUNT; rule++) {
        char name[8];
        snprintf(name, sizeof name, "K%d", rule);
        json_open(json, NULL, '{');
        json_text(json, "rule", name);
        json_text(json, "text", rule_text(rule));
        json_uint(json, "looked", verdict->looked[rule]);
        json_uint(json, "broken", verdict->violated[rule]);
        if (verdict->violated[rule] > 0)
            json_text(json, "first", verdict->first[rule]);
        json_close(json, '}');
    }
    json_close(json, ']');
}

static int
print_json(const struct torture_plan *plan, const struct verdict *verdict)
{
    struct json json;
    json_begin(&json);
    json_text(&json, "url", verdict->url);
    json_text(&json, "engine", verdict->engine);
    json_uint(&json, "seed", plan->seed);
    json_int(&json, "time_ms", plan->run_ms);
    json_int(&json, "clients", plan->clients);
    json_int(&json, "threads", plan->threads);
    json_int(&json, "names", plan->names);
    json_int(&json, "lease_ms", plan->lease_ms);
    json_uint(&json, "acquired", verdict->acquired);
    json_uint(&json, "refused", verdict->refused);
    json_uint(&json, "lost", verdict->lost);
    json_uint(&json, "killed", verdict->kills);
    json_uint(&json, "paused", verdict->pauses);
    json_uint(&json, "frozen", verdict->freezes);
    json_int(&json, "busy_percent", verdict->busy);
    json_int(&json, "handover_p50_ns", verdict->handover_p50_ns);
    json_int(&json, "handover_p99_ns", verdict->handover_p99_ns);
    if (verdict->slack_min_ns != INT64_MAX)
        json_int(&json, "slack_min_ns", verdict->slack_min_ns);
    else
        json_null(&json, "slack_min_ns");
    json_rules(&json, verdict);
    json_bool(&json, "ended_early", interrupted != 0);
    json_bool(&json, "clean", torture_is_clean(verdict));
    return json_end(&json, stdout);
}

/* a run that was cut short has proven little: it is no success */
static int
exit_code(const struct verdict *verdict)
{
    if (!torture_is_clean(verdict))
        return EXIT_BROKEN;
    return interrupted ? EXIT_SIGNAL + interrupted : 0;
}

int
cmd_torture(int argc, char **argv)
{
    static struct verdict verdict;
    struct options options;
    struct torture_plan plan;
    dibs_error err = { .code = DIBS_OK };
    int first, on_terminal = isatty(STDERR_FILENO);
    int ended = opt_parse(&options, &first, argc, argv);

    if (ended < 0)
        ended = opt_operands(options.verb, argc - first, 0, 1);
    if (ended >= 0)
        return ended;
    on_terminal = on_terminal && !options.quiet && !options.json;
    plan_from(&plan, &options, first < argc ? argv[first] : NULL);
    plan.progress = progress;
    plan.progress_arg = on_terminal ? &plan : NULL;
    announce(&options, &plan);
    catch_signals();
    err.code = torture_run(&plan, &verdict, err.text);
    if (on_terminal)
        progress_clear();
    if (err.code != DIBS_OK)
        return say_error(&options, &err);
    if ((options.json ? print_json : print_text)(&plan, &verdict) != 0)
        return say_out_of_memory(&options);
    return exit_code(&verdict);
}
