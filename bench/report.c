/* SPDX-License-Identifier: MIT */
/*
 * Figures as people read them (a table), as programs read them (JSON), and kept for the
 * plots. A benchmark is not a test: a missed bar is reported, and the exit code stays 0.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "bench.h"

enum { FIGURES_MAX = 256 };

static figure figures[FIGURES_MAX];
static size_t figure_count;

void
report_section(const char *title, const char *how)
{
    printf("\n%s\n  %s\n", title, how);
    fflush(stdout);
}

void
report_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("  ", stdout);
    vprintf(format, args);
    fputc('\n', stdout);
    va_end(args);
    fflush(stdout);
}

static figure *
keep(const char *id, const char *label, const char *unit, const series *runs)
{
    figure *f;

    if (figure_count == FIGURES_MAX)
        bench_die("more than %d figures", FIGURES_MAX);
    f = &figures[figure_count++];
    snprintf(f->id, sizeof f->id, "%s", id);
    snprintf(f->label, sizeof f->label, "%s", label);
    snprintf(f->unit, sizeof f->unit, "%s", unit);
    f->median = series_median(runs);
    f->min = series_min(runs);
    f->max = series_max(runs);
    return f;
}

/* print_value writes about three digits that count, and never an exponent */
static void
print_value(char *out, size_t size, double value)
{
    double magnitude = value < 0 ? -value : value;
    int digits = magnitude >= 100 ? 0 : magnitude >= 10 ? 1 : 2;

    snprintf(out, size, "%.*f", digits, value);
}

static void
print_figure(const figure *f)
{
    char median[32], min[32], max[32], spread[80];

    print_value(median, sizeof median, f->median);
    print_value(min, sizeof min, f->min);
    print_value(max, sizeof max, f->max);
    snprintf(spread, sizeof spread, "[%s..%s]", min, max);
    printf("    %-52s %10s %-6s %-22s", f->label, median, f->unit, spread);
    if (f->has_bar) {
        print_value(max, sizeof max, f->bar);
        printf(" bar %s %s  %s", f->kind == BAR_AT_MOST ? "<=" : ">=", max,
               f->pass ? "PASS" : "MISS");
    }
    fputc('\n', stdout);
    fflush(stdout);
}

void
report_figure(const char *id, const char *label, const char *unit, const series *runs)
{
    print_figure(keep(id, label, unit, runs));
}

void
report_bar(const char *id, const char *label, const char *unit, const series *runs,
           int kind, double bar)
{
    figure *f = keep(id, label, unit, runs);
    /* as it is printed: 0.9996 times as fast is as fast */
    double shown = (double)(int64_t)(f->median * 100 + 0.5) / 100;

    f->has_bar = 1;
    f->kind = kind;
    f->bar = bar;
    f->pass = kind == BAR_AT_MOST ? shown <= bar : shown >= bar;
    print_figure(f);
}

const figure *
report_find(const char *id)
{
    for (size_t i = 0; i < figure_count; i++)
        if (strcmp(figures[i].id, id) == 0)
            return &figures[i];
    return NULL;
}

const figure *
report_all(size_t *count)
{
    *count = figure_count;
    return figures;
}

int
report_misses(void)
{
    int misses = 0;

    for (size_t i = 0; i < figure_count; i++)
        misses += figures[i].has_bar && !figures[i].pass;
    return misses;
}

static void
write_figure(FILE *file, const figure *f, const char *separator)
{
    fprintf(file, "    {\"id\": \"%s\", \"label\": \"%s\", \"unit\": \"%s\", ", f->id,
            f->label, f->unit);
    fprintf(file, "\"median\": %.4f, \"min\": %.4f, \"max\": %.4f", f->median, f->min,
            f->max);
    if (f->has_bar)
        fprintf(file, ", \"bar\": %.4f, \"bar_kind\": \"%s\", \"pass\": %s", f->bar,
                f->kind == BAR_AT_MOST ? "at most" : "at least",
                f->pass ? "true" : "false");
    fprintf(file, "}%s\n", separator);
}

int
report_write_json(const char *path)
{
    FILE *file = fopen(path, "w");
    struct utsname system;

    if (file == NULL)
        return -1;
    uname(&system);
    fprintf(file, "{\n  \"dibs\": \"%s\", \"kernel\": \"%s\", \"machine\": \"%s\",\n",
            dibs_version(), system.release, system.machine);
    fprintf(file, "  \"cpus\": %d, \"runs\": %d,\n  \"figures\": [\n", bench_cpus(),
            bench.runs);
    for (size_t i = 0; i < figure_count; i++)
        write_figure(file, &figures[i], i + 1 < figure_count ? "," : "");
    fprintf(file, "  ]\n}\n");
    return fclose(file) == 0 ? 0 : -1;
}
