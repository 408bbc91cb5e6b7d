/* SPDX-License-Identifier: MIT */
/*
 * Does a hand-over cost more when many wait? One thread has the lock and 1 to 10,000 wait
 * for it; whoever gets it gives it on to the next and queues up again ("queued", see
 * handover.c: it lets go when all others wait again). Reported is the time per grant, and
 * what a pair of an unrelated name costs while they all wait. All threads share one CPU,
 * so that every grant is one switch of threads and not, by luck, sometimes a wake-up of
 * an idle CPU.
 *
 * Beside it the same with flock(2), every thread with a description of its own, and with
 * a bare chain of futexes, in which each thread wakes the next. The chain is the floor,
 * and it rises by itself: with 10,000 threads whoever is woken finds its stack, and what
 * the kernel knows of it, in no cache any more. So the bar is on dibs as a multiple of
 * the chain.
 *
 * In this order: the contestants, a round, a length of queue, all lengths; and at the end
 * what an unrelated name costs meanwhile.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"

enum { WAITING_MAX = 10000, STACK_SIZE = 64 * 1024, GIVE_UP_MS = 60000 };
enum contestant { DIBS, FLOCK, CHAIN, CONTESTANTS };

static const char NAME[] = "bench/waiters";

/* What the threads share in one round. */
typedef struct queue {
    dibs *client;
    int waiting; /* how many wait while one has it */
    int contestant;
    int target; /* grants in all */
    char path[512];
    _Atomic int asking;    /* threads that have asked and not been granted */
    _Atomic int granted;   /* grants so far */
    _Atomic uint32_t home; /* futex: 1 when all may end */
    _Atomic double end_ns; /* when the last grant was; 0 before */
    _Atomic int joined;    /* gives the threads their places in the chain */
    _Atomic uint32_t turns[WAITING_MAX + 1]; /* the chain: futexes, 1 = your turn */
} queue;

static void
futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void
futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

/* serve is what a thread does with the lock. It says how many were served with this one.
 */
static int
serve(queue *q)
{
    int served = atomic_fetch_add(&q->granted, 1) + 1;

    atomic_fetch_sub(&q->asking, 1);
    if (served == q->target)
        atomic_store(&q->end_ns, bench_now_ns());
    while (served < q->target && atomic_load(&q->asking) < q->waiting)
        sched_yield();
    return served;
}

/* go_on lets another one go first and says whether there is more to do. */
static int
go_on(queue *q, int served)
{
    while (served < q->target && atomic_load(&q->granted) == served)
        sched_yield();
    return atomic_load(&q->granted) < q->target;
}

static void
queue_for_dibs(queue *q)
{
    dibs_error err;
    dibs_hold *hold;
    int served;

    do {
        atomic_fetch_add(&q->asking, 1);
        bench_check(dibs_lock(&hold, q->client, NAME, &err), &err);
        served = serve(q);
        bench_check(dibs_unlock(hold, &err), &err);
    } while (go_on(q, served));
}

static void
queue_for_flock(queue *q, int fd)
{
    int served;

    do {
        atomic_fetch_add(&q->asking, 1);
        if (flock(fd, LOCK_EX) != 0)
            bench_die("flock: %s", strerror(errno));
        served = serve(q);
        if (flock(fd, LOCK_UN) != 0)
            bench_die("flock: %s", strerror(errno));
    } while (go_on(q, served));
}

static void
pass_on(queue *q, int to)
{
    atomic_store(&q->turns[to], 1);
    futex_wake(&q->turns[to], 1);
}

static void
queue_for_turn(queue *q)
{
    int me = atomic_fetch_add(&q->joined, 1);
    int next = (me + 1) % (q->waiting + 1);
    int served;

    do {
        atomic_fetch_add(&q->asking, 1);
        while (atomic_load(&q->turns[me]) == 0)
            futex_wait(&q->turns[me], 0);
        atomic_store(&q->turns[me], 0);
        served = serve(q);
        pass_on(q, next);
    } while (go_on(q, served));
}

static void *
thread(void *arg)
{
    queue *q = arg;
    int fd = q->contestant == FLOCK ? open(q->path, O_RDWR | O_CLOEXEC) : -1;

    if (q->contestant == FLOCK && fd < 0)
        bench_die("cannot open %s: %s", q->path, strerror(errno));
    if (q->contestant == DIBS)
        queue_for_dibs(q);
    else if (q->contestant == FLOCK)
        queue_for_flock(q, fd);
    else
        queue_for_turn(q);
    /* closing files and ending threads are no part of a hand-over: that waits */
    while (atomic_load(&q->home) == 0)
        futex_wait(&q->home, 0);
    if (fd >= 0)
        close(fd);
    return NULL;
}

/* asleep says whether all threads wait. The threads share our CPU, so one that has said
 * it asks runs on until it sleeps; dibs can be asked, and is. */
static int
asleep(queue *q)
{
    dibs_error err;
    dibs_report *report;
    int waiting;

    if (atomic_load(&q->asking) < q->waiting + 1)
        return 0;
    if (q->contestant != DIBS) {
        bench_nap_ms(5);
        return 1;
    }
    bench_check(dibs_inspect(&report, q->client, NAME, &err), &err);
    waiting = (int)report->waiter_count;
    dibs_report_free(report);
    return waiting == q->waiting + 1;
}

static void
wait_until(int (*done)(queue *q), queue *q, const char *what)
{
    double start = bench_now_ns();

    while (!done(q)) {
        if (bench_now_ns() - start > GIVE_UP_MS * 1e6)
            bench_die("with %d waiting they %s", q->waiting, what);
        bench_nap_ms(1);
    }
}

static int
all_granted(queue *q)
{
    return atomic_load(&q->end_ns) > 0;
}

static void
start_threads(pthread_t *threads, queue *q)
{
    pthread_attr_t attr;

    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_SIZE);
    for (int i = 0; i <= q->waiting; i++) {
        int failed = pthread_create(&threads[i], &attr, thread, q);

        if (failed != 0)
            bench_die("cannot start thread %d: %s", i, strerror(failed));
    }
    pthread_attr_destroy(&attr);
}

static void
end_threads(pthread_t *threads, queue *q)
{
    atomic_store(&q->home, 1);
    futex_wake(&q->home, INT32_MAX);
    for (int i = 0; i <= q->waiting; i++)
        pthread_join(threads[i], NULL);
}

/* one_round fills the queue and lets it go round. It returns the time per grant. */
static double
one_round(queue *q, pthread_t *threads)
{
    dibs_error err;
    dibs_hold *hold = NULL;
    int fd = open(q->path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    double start;

    atomic_store(&q->asking, 0);
    atomic_store(&q->granted, 0);
    atomic_store(&q->home, 0);
    atomic_store(&q->end_ns, 0);
    atomic_store(&q->joined, 0);
    memset(q->turns, 0, sizeof q->turns);
    if (fd < 0 || flock(fd, LOCK_EX) != 0)
        bench_die("flock: %s", strerror(errno));
    if (q->contestant == DIBS)
        bench_check(dibs_lock(&hold, q->client, NAME, &err), &err);
    start_threads(threads, q);
    wait_until(asleep, q, "never all slept");

    start = bench_now_ns();
    if (q->contestant == DIBS)
        bench_check(dibs_unlock(hold, &err), &err);
    else if (q->contestant == FLOCK)
        flock(fd, LOCK_UN);
    else
        pass_on(q, 0);
    wait_until(all_granted, q, "came to a stand");
    end_threads(threads, q);
    close(fd);
    return (atomic_load(&q->end_ns) - start) / q->target;
}

/* What was measured at one length of queue, and at all. */
typedef struct result {
    series grants[CONTESTANTS];
    series relative; /* dibs as a multiple of the chain */
} result;

static void
one_run(queue *q, pthread_t *threads, result *r)
{
    series times[CONTESTANTS] = { { NULL, 0, 0 } };

    for (int i = 0; i < bench_count(5, 1) * CONTESTANTS; i++) {
        q->contestant = i % CONTESTANTS;
        /* with 10,000 waiting this one takes ten seconds: once is enough */
        if (q->contestant == FLOCK && q->waiting >= 10000 && i >= CONTESTANTS)
            continue;
        series_add(&times[q->contestant], one_round(q, threads));
    }
    series_add(&r->relative, series_median(&times[DIBS]) / series_median(&times[CHAIN]));
    for (int who = 0; who < CONTESTANTS; who++) {
        series_add(&r->grants[who], series_median(&times[who]));
        series_free(&times[who]);
    }
}

/* conclude reports a figure of one length and keeps its median for the growth. */
static void
conclude(const queue *q, const char *what, const char *label, const char *unit,
         series *runs, series *medians)
{
    char id[64], text[96];

    snprintf(id, sizeof id, "waiters.%s.%d", what, q->waiting);
    snprintf(text, sizeof text, "%d waiting: %s", q->waiting, label);
    report_figure(id, text, unit, runs);
    series_add(medians, series_median(runs));
    series_free(runs);
}

/* one_size measures one length of queue, contestants in turn. */
static void
one_size(queue *q, pthread_t *threads, result *all)
{
    result r;

    memset(&r, 0, sizeof r);
    q->target = q->waiting + bench_count(5000, 20);
    for (int run = 0; run < bench.runs; run++)
        one_run(q, threads, &r);
    conclude(q, "dibs", "grant by dibs", "ns", &r.grants[DIBS], &all->grants[DIBS]);
    conclude(q, "flock", "grant by flock(2)", "ns", &r.grants[FLOCK],
             &all->grants[FLOCK]);
    conclude(q, "futex", "chain of futexes (floor)", "ns", &r.grants[CHAIN],
             &all->grants[CHAIN]);
    conclude(q, "relative", "dibs / chain", "x", &r.relative, &all->relative);
}

static void
report_growth(const char *id, const char *label, series *medians, int has_bar)
{
    series ratio = { NULL, 0, 0 };

    series_add(&ratio, series_max(medians) / series_min(medians));
    if (has_bar)
        report_bar(id, label, "x", &ratio, BAR_AT_MOST, FLAT);
    else
        report_figure(id, label, "x", &ratio);
    series_free(&ratio);
    series_free(medians);
}

/* 10,000 descriptors for flock(2) */
static void
raise_limits(void)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
        limit.rlim_cur = limit.rlim_max;
        (void)setrlimit(RLIMIT_NOFILE, &limit);
    }
}

static void
measure_grants(void)
{
    int most = bench_count(WAITING_MAX, 100);
    pthread_t *threads = calloc((size_t)most + 1, sizeof *threads);
    queue *q = calloc(1, sizeof *q);
    result all;

    if (threads == NULL || q == NULL)
        bench_die("out of memory");
    memset(&all, 0, sizeof all);
    bench_pin(bench_cpus() - 1);
    q->client = bench_open(bench.url);
    bench_scratch(q->path, sizeof q->path, "waiters");
    for (q->waiting = 1; q->waiting <= most; q->waiting *= 10)
        one_size(q, threads, &all);
    report_growth("waiters.dibs.ratio", "largest / smallest: grant by dibs",
                  &all.grants[DIBS], 0);
    report_growth("waiters.flock.ratio", "largest / smallest: grant by flock(2)",
                  &all.grants[FLOCK], 0);
    report_growth("waiters.futex.ratio", "largest / smallest: chain of futexes",
                  &all.grants[CHAIN], 0);
    report_growth("waiters.relative.ratio", "largest / smallest: dibs / chain",
                  &all.relative, 1);
    dibs_close(q->client);
    free(q);
    free(threads);
}

/* ------------------------------------------------- an unrelated name meanwhile ---- */

/* A process whose threads all wait for a lock that it holds. */
typedef struct crowd {
    queue q;
    pthread_t *threads;
    dibs_hold *hold;
} crowd;

static void *
prepare(const char *url, int size)
{
    crowd *c = calloc(1, sizeof *c);
    dibs_error err;

    if (c == NULL || (c->threads = calloc((size_t)size, sizeof *c->threads)) == NULL)
        bench_die("out of memory");
    c->q.client = bench_open(url);
    c->q.waiting = size - 1;
    c->q.contestant = DIBS;
    bench_check(dibs_lock(&c->hold, c->q.client, NAME, &err), &err);
    start_threads(c->threads, &c->q);
    wait_until(asleep, &c->q, "never all slept");
    return c;
}

static double
measure(void *state, int which)
{
    crowd *c = state;
    int count = bench_count(1000, 20);
    double start = bench_now_ns();
    dibs_error err;
    dibs_hold *hold;

    (void)which;
    for (int i = 0; i < count; i++) {
        bench_check(dibs_lock(&hold, c->q.client, "bench/unrelated", &err), &err);
        bench_check(dibs_unlock(hold, &err), &err);
    }
    return (bench_now_ns() - start) / count;
}

static void
finish(void *state)
{
    crowd *c = state;

    dibs_unlock(c->hold, NULL);
    end_threads(c->threads, &c->q);
    dibs_close(c->q.client);
    free(c->threads);
    free(c);
}

void
bench_waiters(void)
{
    static const char *const ids[] = { "unrelated" };
    static const char *const labels[] = { "pair of an unrelated name" };
    const panel p = { "waiters", "waiting", 1, ids, labels, prepare, measure, finish };

    report_section("cost of a grant while many threads wait",
                   "one process, one CPU; whoever had the lock queues up again");
    raise_limits();
    measure_grants();
    panel_run(&p, bench_count(WAITING_MAX, 100));
}
