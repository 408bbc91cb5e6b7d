/* SPDX-License-Identifier: MIT */
/*
 * A panel of processes, one per size (1, 10, 100, ...), that do the same small round in
 * turn. Measuring one size after the other would compare the machine with itself a minute
 * later; this way a busy minute hits all sizes alike. Every process has a table of its
 * own and prepares its size once; all are pinned to the same CPU and sleep but for their
 * round.
 */
#include <errno.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { SIZES_MAX = 6, COSTS_MAX = 4, GIVE_UP_S = 120, QUIT = -1 };

/* What one process shares with us. */
typedef struct seat {
    int size;
    const panel *panel;
    _Atomic uint32_t asked, answered; /* futexes: rise by one for each round */
    int which;                        /* the cost to measure, or QUIT */
    double value;
} seat;

static void
wait_for(_Atomic uint32_t *word, uint32_t target)
{
    double start = bench_now_ns();
    struct timespec second = { 1, 0 };

    for (uint32_t now; (now = atomic_load(word)) != target;) {
        syscall(SYS_futex, word, FUTEX_WAIT, now, &second, NULL, 0);
        if (bench_now_ns() - start > GIVE_UP_S * 1e9)
            bench_die("a process of the panel does not answer");
    }
}

static void
step(_Atomic uint32_t *word)
{
    atomic_fetch_add(word, 1);
    syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void
member(void *arg, int index)
{
    seat *s = arg;
    char folder[512], url[600];
    void *state;

    (void)index;
    bench_pin(bench_cpus() - 1);
    snprintf(folder, sizeof folder, "%s/%s-%d", bench.dir, s->panel->name, s->size);
    if (mkdir(folder, 0700) != 0)
        bench_die("cannot make %s: %s", folder, strerror(errno));
    snprintf(url, sizeof url, "local:%s", folder);
    state = s->panel->prepare(url, s->size);
    step(&s->answered);
    for (uint32_t round = 1;; round++) {
        wait_for(&s->asked, round);
        if (s->which == QUIT)
            break;
        s->value = s->panel->measure(state, s->which);
        step(&s->answered);
    }
    s->panel->finish(state);
}

/* ask has one process do one round. `*rounds` counts them. */
static double
ask(seat *s, int which, uint32_t *rounds)
{
    s->which = which;
    step(&s->asked);
    if (which == QUIT)
        return 0;
    wait_for(&s->answered, ++*rounds + 1);
    return s->value;
}

/* one_run lets all processes do their rounds in turn and adds the run's medians. */
static void
one_run(seat *seats, int count, const panel *p, uint32_t *rounds,
        series runs[][COSTS_MAX])
{
    series values[SIZES_MAX][COSTS_MAX];

    memset(values, 0, sizeof values);
    for (int round = 0; round < bench_count(30, 2); round++)
        for (int which = 0; which < p->costs; which++)
            for (int i = 0; i < count; i++)
                series_add(&values[i][which], ask(&seats[i], which, &rounds[i]));
    for (int i = 0; i < count; i++)
        for (int which = 0; which < p->costs; which++) {
            series_add(&runs[i][which], series_median(&values[i][which]));
            series_free(&values[i][which]);
        }
}

/* conclude reports one cost at all sizes, and how it grew from run to run. */
static void
conclude(const seat *seats, int count, const panel *p, int which,
         series runs[][COSTS_MAX])
{
    series growth = { NULL, 0, 0 };
    char id[64], label[96];

    for (int run = 0; run < bench.runs; run++) {
        series sizes = { NULL, 0, 0 };

        for (int i = 0; i < count; i++)
            series_add(&sizes, runs[i][which].values[run]);
        series_add(&growth, series_max(&sizes) / series_min(&sizes));
        series_free(&sizes);
    }
    for (int i = 0; i < count; i++) {
        snprintf(id, sizeof id, "%s.%s.%d", p->name, p->cost_ids[which], seats[i].size);
        snprintf(label, sizeof label, "%d %s: %s", seats[i].size, p->unit,
                 p->cost_labels[which]);
        report_figure(id, label, "ns", &runs[i][which]);
        series_free(&runs[i][which]);
    }
    snprintf(id, sizeof id, "%s.%s.ratio", p->name, p->cost_ids[which]);
    snprintf(label, sizeof label, "largest / smallest: %s", p->cost_labels[which]);
    if (which == 0)
        report_bar(id, label, "x", &growth, BAR_AT_MOST, FLAT);
    else
        report_figure(id, label, "x", &growth);
    series_free(&growth);
}

void
panel_run(const panel *p, int most)
{
    seat *seats = bench_shared(SIZES_MAX * sizeof *seats);
    series runs[SIZES_MAX][COSTS_MAX];
    uint32_t rounds[SIZES_MAX] = { 0 };
    pid_t children[SIZES_MAX];
    int count = 0;

    memset(runs, 0, sizeof runs);
    bench_pin(0);
    for (int size = 1; size <= most && count < SIZES_MAX; size *= 10, count++) {
        seats[count].size = size;
        seats[count].panel = p;
        children[count] = bench_fork(member, &seats[count], count);
        wait_for(&seats[count].answered, 1);
    }
    for (int run = 0; run < bench.runs; run++)
        one_run(seats, count, p, rounds, runs);
    for (int i = 0; i < count; i++) {
        ask(&seats[i], QUIT, &rounds[i]);
        bench_join(children[i]);
    }
    for (int which = 0; which < p->costs; which++)
        conclude(seats, count, p, which, runs);
}
