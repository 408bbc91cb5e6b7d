/* SPDX-License-Identifier: MIT */
/*
 * Contestants that take turns in small rounds: what each gave in each of them, and the
 * ratios inside the rounds, which are what counts.
 */
#include <stdlib.h>

#include "bench.h"

void
turns_add(turns *t, int who, double value)
{
    series_add(&t->values[who], value);
}

void
turns_free(turns *t)
{
    for (int who = 0; who < TURNS_MAX; who++)
        series_free(&t->values[who]);
}

static size_t
runs_of(const turns *t, int who)
{
    return t->values[who].count / (size_t)t->rounds;
}

void
turns_medians(series *out, const turns *t, int who)
{
    for (size_t run = 0; run < runs_of(t, who); run++) {
        const double *values = t->values[who].values + run * (size_t)t->rounds;
        series rounds = { NULL, 0, 0 };

        for (int i = 0; i < t->rounds; i++)
            series_add(&rounds, values[i]);
        series_fold(out, &rounds);
    }
}

void
turns_ratios(series *out, const turns *t, int who, int over)
{
    for (size_t run = 0; run < runs_of(t, who); run++) {
        size_t first = run * (size_t)t->rounds;
        series rounds = { NULL, 0, 0 };

        for (size_t i = first; i < first + (size_t)t->rounds; i++)
            series_add(&rounds, t->values[who].values[i] / t->values[over].values[i]);
        series_fold(out, &rounds);
    }
}

double
turns_typical(const turns *t, int who)
{
    series runs = { NULL, 0, 0 };
    double median;

    turns_medians(&runs, t, who);
    median = series_median(&runs);
    series_free(&runs);
    return median;
}

static void
report_runs(series *runs, const char *id, const char *label, const char *unit, int kind,
            double bar)
{
    if (bar > 0)
        report_bar(id, label, unit, runs, kind, bar);
    else
        report_figure(id, label, unit, runs);
    series_free(runs);
}

void
turns_figure(const turns *t, int who, const char *id, const char *label, const char *unit,
             int kind, double bar)
{
    series runs = { NULL, 0, 0 };

    turns_medians(&runs, t, who);
    report_runs(&runs, id, label, unit, kind, bar);
}

void
turns_ratio(const turns *t, int who, int over, const char *id, const char *label,
            int kind, double bar)
{
    series runs = { NULL, 0, 0 };

    turns_ratios(&runs, t, who, over);
    report_runs(&runs, id, label, "x", kind, bar);
}
