/* SPDX-License-Identifier: MIT */
/*
 * The plots of the README and of docs/speed.md, as SVG written by hand. There is a second
 * set of colours for dark backgrounds, and no background of our own.
 *
 * plot_ratios: a bar per comparison, how many times their speed dibs has, log scale.
 * plot_curves: cost against how many names are held, and against how many threads wait.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"

/* every colour is said twice: some viewers know no CSS variables */
static const char style[] =
    "<style>\n"
    "  text { font: 13px system-ui, sans-serif } text.dim { font-size: 12px }\n"
    "  .title { font-weight: 600 } .line { stroke-width: 2 } .grid { stroke-width: 1 }\n"
    "  .one { stroke-width: 1.5; stroke-dasharray: 4 3 }\n"
    "  text { fill: #1f2328 } .dim { fill: #59636e }\n"
    "  .grid { stroke: #d1d9e0 } .one { stroke: #59636e }\n"
    "  .blue { fill: #0969da } .line.blue { fill: none; stroke: #0969da }\n"
    "  .orange { fill: #bc4c00 } .line.orange { fill: none; stroke: #bc4c00 }\n"
    "  .green { fill: #1a7f37 } .line.green { fill: none; stroke: #1a7f37 }\n"
    "  .grey { fill: #59636e } .line.grey { fill: none; stroke: #59636e }\n"
    "  .bar { fill: #0969da } .bar.slower { fill: #cf222e }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #f0f6fc } .dim { fill: #9198a1 }\n"
    "    .grid { stroke: #3d444d } .one { stroke: #9198a1 }\n"
    "    .blue { fill: #4493f8 } .line.blue { fill: none; stroke: #4493f8 }\n"
    "    .orange { fill: #db6d28 } .line.orange { fill: none; stroke: #db6d28 }\n"
    "    .green { fill: #3fb950 } .line.green { fill: none; stroke: #3fb950 }\n"
    "    .grey { fill: #9198a1 } .line.grey { fill: none; stroke: #9198a1 }\n"
    "    .bar { fill: #4493f8 } .bar.slower { fill: #f85149 }\n"
    "  }\n"
    "</style>\n";

static FILE *
begin(const char *path, int width, int height, const char *title)
{
    FILE *file = fopen(path, "w");

    if (file == NULL)
        return NULL;
    fprintf(file,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" "
            "viewBox=\"0 0 %d %d\" role=\"img\">\n<title>%s</title>\n%s",
            width, height, width, height, title, style);
    return file;
}

static int
end(FILE *file)
{
    fputs("</svg>\n", file);
    return fclose(file) == 0 ? 0 : -1;
}

static void
text(FILE *file, double x, double y, const char *anchor, const char *class,
     const char *words)
{
    fprintf(file,
            "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\" class=\"%s\">%s</text>\n", x,
            y, anchor, class, words);
}

/* human writes 1234567 as "1.23 M", and nanoseconds, microseconds and seconds likewise.
 */
static void
human(char *out, size_t size, double value, const char *unit)
{
    double ns = strcmp(unit, "us") == 0 ? value * 1000 : value;
    int is_time = strcmp(unit, "ns") == 0 || strcmp(unit, "us") == 0;

    if (is_time && ns >= 1e6)
        snprintf(out, size, "%.2f ms", ns / 1e6);
    else if (is_time && ns >= 1e4)
        snprintf(out, size, "%.0f µs", ns / 1e3);
    else if (is_time && ns >= 1e3)
        snprintf(out, size, "%.1f µs", ns / 1e3);
    else if (is_time)
        snprintf(out, size, "%.0f ns", ns);
    else if (value >= 1e6)
        snprintf(out, size, "%.1f M%s", value / 1e6, unit);
    else if (value >= 1e4)
        snprintf(out, size, "%.0f k%s", value / 1e3, unit);
    else
        snprintf(out, size, "%.0f %s", value, unit);
}

/* -------------------------------------------------------------------- ratios ---- */

enum { BARS_LEFT = 262, BARS_WIDTH = 300, BARS_TOP = 48, BAR_STEP = 30, BAR_HEIGHT = 16 };

/* times_theirs turns a ratio into "how many times their speed". */
static double
times_theirs(const comparison *c, double ratio)
{
    return c->smaller_is_better ? 1 / ratio : ratio;
}

/* The scale runs from 1/2 to at least 8 times, in powers of two. */
static double
bar_x(double times, double top)
{
    double at = (log2(times) + 1) / (log2(top) + 1);

    return BARS_LEFT + BARS_WIDTH * (at < 0 ? 0 : at);
}

static void
draw_bar(FILE *file, const comparison *c, int row, double top)
{
    const figure *ratio = report_find(c->ratio);
    const figure *ours = report_find(c->ours);
    const figure *theirs = report_find(c->theirs);
    double times = times_theirs(c, ratio->median);
    double y = BARS_TOP + row * BAR_STEP;
    double one = bar_x(1, top), at = bar_x(times, top);
    char words[96], us[32], them[32];

    text(file, BARS_LEFT - 12, y + 13, "end", "", c->label);
    fprintf(file,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"2\" "
            "class=\"bar%s\"/>\n",
            at < one ? at : one, y, fabs(at - one) < 1 ? 1 : fabs(at - one), BAR_HEIGHT,
            times < 0.995 ? " slower" : "");
    snprintf(words, sizeof words, times < 10 ? "%.2f×" : "%.0f×", times);
    text(file, (at > one ? at : one) + 6, y + 13, "start", "title", words);
    human(us, sizeof us, ours->median, ours->unit);
    human(them, sizeof them, theirs->median, theirs->unit);
    snprintf(words, sizeof words, "%s against %s", us, them);
    text(file, BARS_LEFT + BARS_WIDTH + 68, y + 13, "start", "dim", words);
}

static void
draw_scale(FILE *file, int rows, double top)
{
    double bottom = BARS_TOP + rows * BAR_STEP;

    for (double times = 0.5; times <= top; times *= 2) {
        double x = bar_x(times, top);
        char words[16];

        if (top > 64 && times != 1 && fmod(log2(times), 2) != 0)
            continue; /* every second line is enough */
        fprintf(file,
                "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%.1f\" class=\"%s\"/>\n", x,
                BARS_TOP - 8, x, bottom, times == 1 ? "one" : "grid");
        snprintf(words, sizeof words, times < 1 ? "½×" : "%.0f×", times);
        text(file, x, bottom + 16, "middle", "dim", words);
    }
}

int
plot_ratios(const char *path, const char *title, const char *heading,
            const comparison *rows, int count)
{
    double top = 8;
    FILE *file;

    for (int i = 0; i < count; i++) {
        const figure *ratio = report_find(rows[i].ratio);

        if (ratio == NULL)
            return 0;
        while (top < times_theirs(&rows[i], ratio->median) * 1.2)
            top *= 2;
    }
    file = begin(path, 800, BARS_TOP + count * BAR_STEP + 30, title);
    if (file == NULL)
        return -1;
    text(file, 8, 22, "start", "title", heading);
    draw_scale(file, count, top);
    for (int i = 0; i < count; i++)
        draw_bar(file, &rows[i], i, top);
    return end(file);
}

/* -------------------------------------------------------------------- curves ---- */

enum {
    CHART_WIDTH = 300,
    CHART_HEIGHT = 210,
    CHART_TOP = 52,
    POINTS_MAX = 8,
    CURVES = 4
};

typedef struct curve {
    const char *prefix; /* figures PREFIX.1, PREFIX.10, ... */
    const char *label, *colour;
} curve;

typedef struct chart {
    const char *title, *x_label;
    double left;
    curve curves[CURVES];
    int x_decades;
    int y_low, y_high; /* decades of nanoseconds, 10^y */
} chart;

static const figure *
point(const curve *c, int decade)
{
    char id[80];

    snprintf(id, sizeof id, "%s.%.0f", c->prefix, pow(10, decade));
    return report_find(id);
}

static double
chart_x(const chart *p, int decade)
{
    return p->left + CHART_WIDTH * (double)decade / p->x_decades;
}

static double
chart_y(const chart *p, double ns)
{
    double at = (log10(ns) - p->y_low) / (p->y_high - p->y_low);

    return CHART_TOP + CHART_HEIGHT * (1 - at);
}

/* fit chooses the decades of the y axis; it returns 0 if there is nothing to draw. */
static int
fit(chart *p)
{
    double low = 1e12, high = 0;

    for (int c = 0; c < CURVES && p->curves[c].prefix != NULL; c++)
        for (int decade = 0; decade < POINTS_MAX; decade++) {
            const figure *f = point(&p->curves[c], decade);

            if (f == NULL)
                continue;
            low = f->median < low ? f->median : low;
            high = f->median > high ? f->median : high;
            p->x_decades = decade > p->x_decades ? decade : p->x_decades;
        }
    p->y_low = (int)floor(log10(low));
    p->y_high = (int)ceil(log10(high));
    p->y_high += p->y_high == p->y_low;
    return high > 0 && p->x_decades > 0;
}

static void
draw_axes(FILE *file, const chart *p)
{
    char words[32];

    text(file, p->left, 22, "start", "title", p->title);
    for (int y = p->y_low; y <= p->y_high; y++) {
        double at = chart_y(p, pow(10, y));

        fprintf(
            file,
            "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" class=\"grid\"/>\n",
            p->left, at, p->left + CHART_WIDTH, at);
        human(words, sizeof words, pow(10, y), "ns");
        text(file, p->left - 8, at + 4, "end", "dim", words);
    }
    for (int x = 0; x <= p->x_decades; x++) {
        human(words, sizeof words, pow(10, x), "");
        text(file, chart_x(p, x), CHART_TOP + CHART_HEIGHT + 18, "middle", "dim", words);
    }
    text(file, p->left + CHART_WIDTH / 2.0, CHART_TOP + CHART_HEIGHT + 38, "middle",
         "dim", p->x_label);
}

static void
draw_curve(FILE *file, const chart *p, const curve *c, int row)
{
    double legend = CHART_TOP + CHART_HEIGHT + 60 + row * 18;

    fprintf(file, "<polyline class=\"line %s\" points=\"", c->colour);
    for (int decade = 0; decade <= p->x_decades; decade++) {
        const figure *f = point(c, decade);

        if (f != NULL)
            fprintf(file, "%.1f,%.1f ", chart_x(p, decade), chart_y(p, f->median));
    }
    fputs("\"/>\n", file);
    for (int decade = 0; decade <= p->x_decades; decade++) {
        const figure *f = point(c, decade);

        if (f != NULL)
            fprintf(file, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" class=\"%s\"/>\n",
                    chart_x(p, decade), chart_y(p, f->median), c->colour);
    }
    fprintf(file, "<rect x=\"%.1f\" y=\"%.1f\" width=\"14\" height=\"4\" rx=\"2\" ",
            p->left, legend - 6);
    fprintf(file, "class=\"%s\"/>\n", c->colour);
    text(file, p->left + 20, legend, "start", "dim", c->label);
}

int
plot_curves(const char *path)
{
    chart charts[2] = {
        { .title = "Cost while many names are held",
          .x_label = "names held by the process",
          .left = 64,
          .curves = { { "names.unrelated", "lock + unlock of another name", "blue" },
                      { "names.retake", "unlock + lock of a random one of them",
                        "green" },
                      { "names.mutex", "floor: a random robust mutex", "grey" } } },
        { .title = "Cost of a grant while many threads wait",
          .x_label = "threads waiting for one name",
          .left = 460,
          .curves = { { "waiters.dibs", "a grant by dibs", "blue" },
                      { "waiters.flock", "a grant by flock(2)", "orange" },
                      { "waiters.futex", "floor: a chain of futexes", "grey" },
                      { "waiters.unrelated", "lock + unlock of another name",
                        "green" } } },
    };
    FILE *file;

    if (!fit(&charts[0]) || !fit(&charts[1]))
        return 0;
    file = begin(path, 800, CHART_TOP + CHART_HEIGHT + 130,
                 "cost per operation as names and waiters grow");
    if (file == NULL)
        return -1;
    for (int i = 0; i < 2; i++) {
        draw_axes(file, &charts[i]);
        for (int c = 0; c < CURVES && charts[i].curves[c].prefix != NULL; c++)
            draw_curve(file, &charts[i], &charts[i].curves[c], c);
    }
    return end(file);
}
