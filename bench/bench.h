/* SPDX-License-Identifier: MIT */
/*
 * What the benchmarks share: how a figure is kept and reported, and small tools (clock,
 * pinning, a folder of its own, processes that meet at a starting line). docs/speed.md
 * says what is measured and why in this way. Read next: pair.c, the simplest benchmark.
 *
 * The rules that all of them follow:
 *  - contestants take turns in small rounds, so that a change of weather on the machine
 *    (another build, the host) hits them alike; what counts is the ratio inside a round
 *  - every process is pinned; an unpinned figure shows where the scheduler put it
 *  - three runs: the median is reported, with the smallest and the largest beside it
 */
#ifndef DIBS_BENCH_H
#define DIBS_BENCH_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <dibs.h>

/* ------------------------------------------------------------------- options ---- */

typedef struct bench_options {
    int smoke;             /* tiny counts: does it still work? */
    int runs;              /* how often each figure is measured */
    const char *dibs_path; /* the command, for `dibs run` */
    const char *peers;     /* folder of scripts/get-peers, or NULL */
    const char *dir;       /* a folder of our own, removed at the end */
    char url[256];         /* local: on that folder */
} bench_options;

extern bench_options bench;

/* By how much a cost may grow, from the smallest to the largest size, and still be flat.
 */
#define FLAT 1.5

/* bench_count returns `full`, or `tiny` in a smoke run. */
int bench_count(int full, int tiny);

/* ------------------------------------------------------------------ programs ---- */

typedef struct bench_part {
    const char *name;
    void (*run)(void);
} bench_part;

/* A row of a plot: it names figures by their ids. */
typedef struct comparison {
    const char *label, *ratio, *ours, *theirs;
    int smaller_is_better;
} comparison;

/* A benchmark program is its parts, and what it draws of them: speed-NAME.svg, which speaks
 * of the store and of its rival, if there is one only. An empty row ends each table.
 * plot_more draws what else there is, if anything: 0, or -1 with errno. */
typedef struct bench_program {
    const char *name, *store, *rival;
    const bench_part *parts;
    const comparison *comparisons;
    int (*plot_more)(const char *dir);
} bench_program;

/* Every program has one, in its main.c; frame.c has main(). */
extern const bench_program program;

/* -------------------------------------------------------------------- series ---- */

/* The values of one figure, one per run (or per round inside a run). */
typedef struct series {
    double *values;
    size_t count, room;
} series;

void series_add(series *s, double value);
void series_free(series *s);
double series_median(const series *s);
double series_min(const series *s);
double series_max(const series *s);
/* series_quantile: 0.5 is the median, 1 the largest. Between two values it lies in the
 * middle. */
double series_quantile(const series *s, double q);
/* series_fold adds the median of the rounds to the runs, and frees the rounds. */
void series_fold(series *runs, series *rounds);

/* -------------------------------------------------------------------- report ---- */

enum bar_kind { BAR_AT_MOST, BAR_AT_LEAST };

/* A figure, as it is printed, written as JSON and looked up by the plots. */
typedef struct figure {
    char id[64];
    char label[96];
    char unit[16];
    double median, min, max;
    int has_bar;
    int kind; /* enum bar_kind */
    double bar;
    int pass;
} figure;

void report_section(const char *title, const char *how);
void report_note(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* report_figure keeps and prints what the runs gave. report_bar does so for a figure that
 * has to reach something, and says PASS or MISS by the median. */
void report_figure(const char *id, const char *label, const char *unit,
                   const series *runs);
void report_bar(const char *id, const char *label, const char *unit, const series *runs,
                int kind, double bar);
const figure *report_find(const char *id);
const figure *report_all(size_t *count);
int report_write_json(const char *path);
int report_misses(void);

/* --------------------------------------------------------------------- plots ---- */

/* Both return 0, or -1 if the file cannot be written. A plot whose figures were not
 * measured is not written. */
int plot_ratios(const char *path, const char *title, const char *heading,
                const comparison *rows, int count);
int plot_curves(const char *path);

/* --------------------------------------------------------------------- tools ---- */

void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* bench_check dies with the text of `err` if `code` is not DIBS_OK. */
void bench_check(int code, const dibs_error *err);
double bench_now_ns(void);
double bench_cpu_ns(void);       /* of this process, all threads */
int bench_cpus(void);            /* how many CPUs we may use */
void bench_pin(int index);       /* to the index-th of them, modulo their number */
void *bench_shared(size_t size); /* zeroed, shared with children */
/* bench_fork starts body(arg, index) in a child that is killed should we die. */
pid_t bench_fork(void (*body)(void *arg, int index), void *arg, int index);
void bench_join(pid_t child);
dibs *bench_open(const char *url);
void bench_nap_ms(int ms);
/* bench_scratch writes the path of a file in our folder. */
void bench_scratch(char *out, size_t size, const char *file);
/* bench_disk returns a folder of our own on a disk; made at first use, in the process that
 * runs the parts, and removed at the end. */
const char *bench_disk(void);

/* ---------------------------------------------------------------- placements ---- */

/* For engines with a server. The servers are on the first CPU, always. In X the clients
 * are on the second, as if they were another machine: every message wakes an idle CPU. In S
 * they are beside the servers, which shows what the software costs. */
enum place { PLACE_X, PLACE_S, PLACES };
extern const char *const place_names[PLACES];

/* place_client pins the calling process, and the threads it starts from now on. */
void place_client(int place);

/* --------------------------------------------------------------------- turns ---- */

/* What contestants that take turns gave: a value for each round of each run. */
enum { TURNS_MAX = 16 };

typedef struct turns {
    int rounds; /* of a run */
    series values[TURNS_MAX];
} turns;

void turns_add(turns *t, int who, double value);
void turns_free(turns *t);
/* turns_medians adds a value for each run to *out; turns_ratios does so with the median of
 * the ratios inside the rounds. turns_typical is the median of the runs. */
void turns_medians(series *out, const turns *t, int who);
void turns_ratios(series *out, const turns *t, int who, int over);
double turns_typical(const turns *t, int who);
/* turns_figure and turns_ratio report them; a bar of 0 is none. */
void turns_figure(const turns *t, int who, const char *id, const char *label,
                  const char *unit, int kind, double bar);
void turns_ratio(const turns *t, int who, int over, const char *id, const char *label,
                 int kind, double bar);

/* -------------------------------------------------------------------- panels ---- */

/* The same cost at sizes 1, 10, 100, ..., each in a process of its own: see panel.c. The
 * first cost has to be flat; the others are for comparison. */
typedef struct panel {
    const char *name, *unit; /* of the figures; of a size: "held" */
    int costs;
    const char *const *cost_ids, *const *cost_labels;
    void *(*prepare)(const char *url, int size);
    double (*measure)(void *state, int which); /* nanoseconds per operation */
    void (*finish)(void *state);
} panel;

void panel_run(const panel *p, int most);

/* ------------------------------------------------------- benchmarks of local: ---- */

void bench_pair(void);
void bench_handover(void);
void bench_order(void);
void bench_spawn(void);
void bench_holds(void);
void bench_names(void);
void bench_waiters(void);

#endif /* DIBS_BENCH_H */
