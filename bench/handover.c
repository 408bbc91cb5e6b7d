/* SPDX-License-Identifier: MIT */
/*
 * Hand-overs: 2 or 16 processes that all want one name, all the time. What counts is a
 * grant to another process than the one before; a process that lets go and takes the lock
 * again before anybody else woke up has handed over nothing.
 *
 * Two manners. Greedy: let go at once and ask again at once. This is what programs do,
 * and with flock(2) the one that lets go mostly gets it again. Queued: let go only when
 * all others have asked, and ask again only after another one was granted the lock. Then
 * every grant is a hand-over to one who waited, for flock(2) as well, and what is
 * compared is the bare cost of that.
 *
 * Both contestants run in the same harness: the same processes, told by a shared page
 * which lock to fight for in this round, count there while they have it. The page also
 * proves exclusion (nobody else is inside) and shows who overtook: if waiters are served
 * first come first served, at most n-1 grants can go to others between asking and being
 * granted (or more, if a process is interrupted just before it joins the queue). order.c
 * looks at the order of a queue exactly.
 *
 * Two placements, because a wake-up across CPUs costs a multiple of one on the same CPU:
 * S, all processes on one CPU; X, spread over the CPUs in turn.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

enum { PROCESSES_MAX = 16, NOBODY = -1 };
enum contestant { DIBS, FLOCK, CONTESTANTS, QUIT = CONTESTANTS };

/* What the processes share. Plain counters are changed by the lock's holder only. */
typedef struct page {
    int processes, spread, queued;
    _Atomic uint32_t round; /* futex: a change starts a round, or ends all */
    _Atomic int wanted;     /* enum contestant of this round */
    _Atomic int stop;
    _Atomic int running; /* processes still in the round */
    _Atomic int asking;  /* queued: how many have asked and not been granted */
    _Atomic int owner;   /* who is inside, or NOBODY */
    _Atomic int last;    /* who was inside before */
    _Atomic uint64_t grants, handovers, overtaken;
} page;

static const char *const contestant_names[CONTESTANTS] = { "dibs", "flock" };

static uint64_t
read_count(_Atomic uint64_t *count)
{
    return atomic_load_explicit(count, memory_order_relaxed);
}

/* add needs no atomic addition: the lock that is measured protects the counters */
static void
add(_Atomic uint64_t *count, int more)
{
    atomic_store_explicit(count, read_count(count) + (uint64_t)more,
                          memory_order_relaxed);
}

static int
stopped(page *p)
{
    return atomic_load_explicit(&p->stop, memory_order_relaxed);
}

/* before is what a process does before it asks; it says how many grants there were. */
static uint64_t
before(page *p)
{
    if (p->queued)
        atomic_fetch_add(&p->asking, 1);
    return read_count(&p->grants);
}

/* inside is what a process does while it has the lock. */
static void
inside(page *p, int me, uint64_t asked)
{
    uint64_t passed = read_count(&p->grants) - asked;

    if (atomic_exchange_explicit(&p->owner, me, memory_order_relaxed) != NOBODY)
        bench_die("two processes had the lock at once");
    add(&p->grants, 1);
    add(&p->handovers,
        atomic_exchange_explicit(&p->last, me, memory_order_relaxed) != me);
    add(&p->overtaken, passed > (uint64_t)p->processes - 1);
    if (p->queued) {
        atomic_fetch_sub(&p->asking, 1);
        while (atomic_load(&p->asking) < p->processes - 1 && !stopped(p))
            sched_yield();
    }
    atomic_store_explicit(&p->owner, NOBODY, memory_order_relaxed);
}

/* after is what a process does when it has let go. */
static void
after(page *p, int me)
{
    while (p->queued && atomic_load_explicit(&p->last, memory_order_relaxed) == me &&
           !stopped(p))
        sched_yield();
}

static void
fight_dibs(page *p, int me, dibs *client)
{
    dibs_error err;
    dibs_hold *hold;

    while (!stopped(p)) {
        uint64_t asked = before(p);

        bench_check(dibs_lock(&hold, client, "bench/handover", &err), &err);
        inside(p, me, asked);
        bench_check(dibs_unlock(hold, &err), &err);
        after(p, me);
    }
}

static void
fight_flock(page *p, int me, int fd)
{
    while (!stopped(p)) {
        uint64_t asked = before(p);

        if (flock(fd, LOCK_EX) != 0)
            bench_die("flock: %s", strerror(errno));
        inside(p, me, asked);
        if (flock(fd, LOCK_UN) != 0)
            bench_die("flock: %s", strerror(errno));
        after(p, me);
    }
}

static void
process(void *arg, int me)
{
    page *p = arg;
    uint32_t round = 0;
    dibs *client = bench_open(bench.url);
    char path[512];
    int fd;

    bench_scratch(path, sizeof path, "handover");
    fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        bench_die("cannot open %s: %s", path, strerror(errno));
    bench_pin(p->spread ? me : 0);
    for (;;) {
        while (atomic_load(&p->round) == round)
            syscall(SYS_futex, &p->round, FUTEX_WAIT, round, NULL, NULL, 0);
        round++;
        if (atomic_load(&p->wanted) == QUIT)
            break;
        if (atomic_load(&p->wanted) == DIBS)
            fight_dibs(p, me, client);
        else
            fight_flock(p, me, fd);
        atomic_fetch_sub(&p->running, 1);
    }
    close(fd);
    dibs_close(client);
}

static void
start_round(page *p, int wanted)
{
    atomic_store(&p->wanted, wanted);
    atomic_store(&p->stop, 0);
    atomic_store(&p->running, p->processes);
    atomic_store(&p->asking, 0);
    atomic_store(&p->owner, NOBODY);
    atomic_store(&p->last, NOBODY);
    atomic_store(&p->grants, 0);
    atomic_store(&p->handovers, 0);
    atomic_store(&p->overtaken, 0);
    atomic_fetch_add(&p->round, 1);
    syscall(SYS_futex, &p->round, FUTEX_WAKE, p->processes, NULL, NULL, 0);
}

static void
end_round(page *p)
{
    atomic_store(&p->stop, 1);
    for (int waited_ms = 0; atomic_load(&p->running) > 0; waited_ms++) {
        if (waited_ms > 20000)
            bench_die("a process did not come back from its lock");
        bench_nap_ms(1);
    }
}

/* What a run gathers per contestant. */
typedef struct tally {
    series handovers, grants, overtaken;
} tally;

/* one_round lets them fight; what counts lies between two readings, both in full swing.
 */
static void
one_round(page *p, int who, tally *t)
{
    uint64_t handovers, grants, overtaken;
    double start, seconds;

    start_round(p, who);
    bench_nap_ms(bench_count(20, 2));
    handovers = read_count(&p->handovers);
    grants = read_count(&p->grants);
    overtaken = read_count(&p->overtaken);
    start = bench_now_ns();
    bench_nap_ms(bench_count(100, 10));
    seconds = (bench_now_ns() - start) / 1e9;
    handovers = read_count(&p->handovers) - handovers;
    grants = read_count(&p->grants) - grants;
    overtaken = read_count(&p->overtaken) - overtaken;
    end_round(p);
    series_add(&t->handovers, (double)handovers / seconds);
    series_add(&t->grants, (double)grants / seconds);
    series_add(&t->overtaken,
               grants == 0 ? 0 : 100.0 * (double)overtaken / (double)grants);
}

static void
one_run(page *p, tally *runs, series *ratios)
{
    tally rounds[CONTESTANTS];
    series ratio = { NULL, 0, 0 };

    memset(rounds, 0, sizeof rounds);
    for (int i = 0; i < bench_count(6, 1); i++) {
        for (int who = 0; who < CONTESTANTS; who++)
            one_round(p, who, &rounds[who]);
        /* a round in which flock never handed over has no ratio; 1/s keeps it finite */
        double theirs = rounds[FLOCK].handovers.values[i];
        series_add(&ratio, rounds[DIBS].handovers.values[i] / (theirs < 1 ? 1 : theirs));
    }
    for (int who = 0; who < CONTESTANTS; who++) {
        series_fold(&runs[who].handovers, &rounds[who].handovers);
        series_fold(&runs[who].grants, &rounds[who].grants);
        series_fold(&runs[who].overtaken, &rounds[who].overtaken);
    }
    series_fold(ratios, &ratio);
}

static void
report_tally(const char *place, int who, tally *t)
{
    const char *name = contestant_names[who];
    char id[64], label[96];

    snprintf(id, sizeof id, "handover.%s.%s", place, name);
    snprintf(label, sizeof label, "%s, %s: hand-overs", place, name);
    report_figure(id, label, "/s", &t->handovers);
    snprintf(id, sizeof id, "handover.%s.%s.grants", place, name);
    snprintf(label, sizeof label, "%s, %s: grants, to itself too", place, name);
    report_figure(id, label, "/s", &t->grants);
    snprintf(id, sizeof id, "handover.%s.%s.overtaken", place, name);
    snprintf(label, sizeof label, "%s, %s: hand-overs out of turn", place, name);
    report_figure(id, label, "%", &t->overtaken);
    series_free(&t->handovers);
    series_free(&t->grants);
    series_free(&t->overtaken);
}

static void
one_setting(int processes, int spread, int queued)
{
    page *p = bench_shared(sizeof *p);
    tally runs[CONTESTANTS];
    series ratios = { NULL, 0, 0 };
    pid_t children[PROCESSES_MAX];
    char place[16], id[64], label[96];

    memset(runs, 0, sizeof runs);
    p->processes = processes;
    p->spread = spread;
    p->queued = queued;
    for (int i = 0; i < processes; i++)
        children[i] = bench_fork(process, p, i);
    for (int run = 0; run < bench.runs; run++)
        one_run(p, runs, &ratios);
    start_round(p, QUIT);
    for (int i = 0; i < processes; i++)
        bench_join(children[i]);

    snprintf(place, sizeof place, "%d%c-%s", processes, spread ? 'X' : 'S',
             queued ? "queued" : "greedy");
    for (int who = 0; who < CONTESTANTS; who++)
        report_tally(place, who, &runs[who]);
    snprintf(id, sizeof id, "handover.%s.ratio", place);
    snprintf(label, sizeof label, "%s, dibs / flock: hand-overs", place);
    report_bar(id, label, "x", &ratios, BAR_AT_LEAST, 1.0);
    series_free(&ratios);
}

void
bench_handover(void)
{
    report_section(
        "hand-overs between processes, one name",
        "S: all on one CPU; X: spread over the CPUs; rounds of 100 ms in turn");
    bench_pin(bench_cpus() - 1);
    for (int setting = 0; setting < 8; setting++)
        one_setting(setting & 1 ? PROCESSES_MAX : 2, setting & 2, setting & 4);
}
