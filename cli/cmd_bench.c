/* SPDX-License-Identifier: MIT */
/*
 * `dibs bench [URL]`: how fast an engine is from here, as multiples of its own round
 * trip, which is the least that any lock on it can cost. A few seconds; leaves nothing
 * behind. Read next: bench_rounds.c, which measures. bench/ has the benchmarks with bars.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench_rounds.h"
#include "cmd.h"
#include "common.h"
#include "json.h"
#include "opt.h"
#include "table.h"

enum { ROUNDS = 11 };

static const struct {
    const char *id, *label;
} kinds[BENCH_KINDS] = {
    [BENCH_FLOCK] = { "flock", "flock(2) pair (floor)" },
    [BENCH_PING_PONG] = { "ping_pong", "futex there and back, 2 processes (floor)" },
    [BENCH_ROUND_TRIP] = { "round_trip", "the engine's round trip" },
    [BENCH_PAIR] = { "pair", "lock + unlock, uncontended" },
    [BENCH_THREADS] = { "threads", "hand-over, 2 threads" },
    [BENCH_PROCESSES] = { "processes", "hand-over, 2 processes" },
};

/* What the rounds amount to. */
struct summary {
    double median, min, max;
};

static int
compare_doubles(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static struct summary
summarize(const struct bench_figure *figure)
{
    double sorted[BENCH_ROUNDS_MAX];
    int n = figure->rounds;
    memcpy(sorted, figure->ns, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, compare_doubles);
    return (struct summary){ sorted[n / 2], sorted[0], sorted[n - 1] };
}

static void
time_print(char *out, size_t size, double ns)
{
    if (ns < 1e3)
        snprintf(out, size, "%.0f ns", ns);
    else if (ns < 1e6)
        snprintf(out, size, "%.*f µs", ns < 1e4 ? 2 : 1, ns / 1e3);
    else
        snprintf(out, size, "%.*f ms", ns < 1e7 ? 2 : 1, ns / 1e6);
}

static int64_t
rounded(double value)
{
    return (int64_t)(value + 0.5);
}

static void
progress(int round, int rounds)
{
    fprintf(stderr, "\rmeasuring, round %d of %d ", round + 1, rounds);
}

static void
progress_clear(void)
{
    fprintf(stderr, "\r%40s\r", "");
}

static void
add_row(struct table *table, const struct bench_result *result, int kind)
{
    const struct bench_figure *trip = &result->figures[BENCH_ROUND_TRIP];
    struct summary s = summarize(&result->figures[kind]);
    char median[32], min[32], max[32];

    time_print(median, sizeof median, s.median);
    time_print(min, sizeof min, s.min);
    time_print(max, sizeof max, s.max);
    table_add(table, "%s", kinds[kind].label);
    table_add(table, "%s", median);
    table_add(table, "%s .. %s", min, max);
    table_add(table, "%.0f", 1e9 / s.median);
    if (trip->rounds > 0)
        table_add(table, "%.2f", s.median / summarize(trip).median);
    else
        table_add(table, "%s", "");
}

static int
print_table(const struct bench_result *result)
{
    static const char *const heads[] = { "WHAT", ">TIME", ">SPREAD", ">PER SECOND",
                                         ">ROUND TRIPS" };
    struct table table;

    printf(
        "%s, engine %s; median of %d rounds, we on one CPU, the other side on another\n",
        result->url, result->engine, ROUNDS);
    table_init(&table, 5, heads);
    for (int kind = 0; kind < BENCH_KINDS; kind++)
        if (result->figures[kind].rounds > 0)
            add_row(&table, result, kind);
    return table_print(&table, stdout);
}

static int
print_json(const struct bench_result *result)
{
    struct json json;

    json_begin(&json);
    json_text(&json, "url", result->url);
    json_text(&json, "engine", result->engine);
    json_int(&json, "rounds", ROUNDS);
    for (int kind = 0; kind < BENCH_KINDS; kind++) {
        struct summary s;

        if (result->figures[kind].rounds == 0)
            continue;
        s = summarize(&result->figures[kind]);
        json_open(&json, kinds[kind].id, '{');
        json_int(&json, "ns", rounded(s.median));
        json_int(&json, "min_ns", rounded(s.min));
        json_int(&json, "max_ns", rounded(s.max));
        json_int(&json, "per_second", rounded(1e9 / s.median));
        json_close(&json, '}');
    }
    return json_end(&json, stdout);
}

int
cmd_bench(int argc, char **argv)
{
    struct options options;
    struct bench_result result;
    dibs_error err = { .code = DIBS_OK };
    int first, code;
    int on_terminal = isatty(STDERR_FILENO);
    int ended = opt_parse(&options, &first, argc, argv);

    if (ended < 0)
        ended = opt_operands(options.verb, argc - first, 0, 1);
    if (ended >= 0)
        return ended;
    (void)signal(SIGINT, bench_interrupt);
    (void)signal(SIGTERM, bench_interrupt);
    code = bench_rounds(&result, first < argc ? argv[first] : options.url, ROUNDS,
                        on_terminal ? progress : NULL, &err);
    if (on_terminal)
        progress_clear();
    if (code == DIBS_ECANCELED)
        return EXIT_SIGNAL + err.engine_code;
    if (code != DIBS_OK)
        return say_error(&options, &err);
    if ((options.json ? print_json(&result) : print_table(&result)) != 0)
        return say_out_of_memory(&options);
    return 0;
}
