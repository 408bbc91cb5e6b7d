/* SPDX-License-Identifier: MIT */
/*
 * The measuring part of `dibs bench`. Everything is measured in turns of 60 ms, so that a
 * change of weather, here or at the server, hits all alike; what to read is the ratio.
 *
 * Hand-overs need a partner: a second thread, and a second process, which was forked
 * before anything was opened. A partner sleeps in its corner until it is told to fight
 * for the name; who is granted the lock after the other one counts a hand-over. We are
 * pinned to one CPU and the partners to another, or the figures would show the
 * scheduler's mood.
 *
 * In this order: small tools, what both sides do, the rounds, set up and take down.
 */
#include "bench_rounds.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SLICE_NS 60e6
#define PATIENCE_MS 30000 /* no partner is waited for longer than this */
#define BATCH 16          /* operations between two looks at the clock */

enum order { ORDER_FIGHT, ORDER_PONG, ORDER_QUIT };
enum ball { BALL_HERE, BALL_THERE, BALL_OUT };

/* Where a partner sleeps and what it shares with us, also across processes. */
struct corner {
    _Atomic uint32_t bell; /* futex: rises with every order */
    _Atomic int order;
    _Atomic int busy; /* the partner is at it */
    _Atomic int stop;
    _Atomic int last; /* who had the lock last: 0 we, 1 the partner */
    _Atomic uint64_t handovers;
    _Atomic uint32_t ball; /* futex of the ping-pong */
    _Atomic int code;      /* why the partner failed */
    dibs_error err;
};

struct bench {
    dibs *client;
    const char *url;
    char name[64], unused[64];
    int flock_fd;
    pid_t child;
    pthread_t thread;
    int has_thread;
    struct corner *threads, *processes;
};

static volatile sig_atomic_t interrupted;

void
bench_interrupt(int signal)
{
    interrupted = signal;
}

static double
now_ns(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int
fail(dibs_error *err, int code, const char *text)
{
    err->code = code;
    snprintf(err->text, sizeof err->text, "%s", text);
    return code;
}

/* Failing to pin costs precision, nothing else. */
static void
pin(int index)
{
    cpu_set_t allowed, one;
    int left;

    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0)
        return;
    left = index % CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && left-- == 0) {
            CPU_ZERO(&one);
            CPU_SET(cpu, &one);
            (void)sched_setaffinity(0, sizeof one, &one);
            return;
        }
}

static void
futex_wait(_Atomic uint32_t *word, uint32_t seen)
{
    struct timespec second = { 1, 0 };

    (void)syscall(SYS_futex, word, FUTEX_WAIT, seen, &second, NULL, 0);
}

static void
futex_wake(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0);
}

/* ------------------------------------------------------------- both sides ---- */

/* fight takes the lock again and again until it is told to stop or `until` has come. */
static int
fight(struct corner *corner, int me, dibs *client, const char *name, double until,
      dibs_error *err)
{
    while (!atomic_load(&corner->stop) && now_ns() < until && !interrupted) {
        dibs_hold *hold;
        int code = dibs_timedlock(&hold, client, name, PATIENCE_MS, err);

        if (code != DIBS_OK)
            return code;
        if (atomic_exchange(&corner->last, me) != me)
            atomic_fetch_add(&corner->handovers, 1);
        code = dibs_unlock(hold, err);
        if (code != DIBS_OK)
            return code;
    }
    return DIBS_OK;
}

static void
pong(struct corner *corner)
{
    for (;;) {
        uint32_t ball = atomic_load(&corner->ball);

        if (ball == BALL_OUT)
            return;
        if (ball == BALL_THERE) {
            atomic_store(&corner->ball, BALL_HERE);
            futex_wake(&corner->ball);
        } else {
            futex_wait(&corner->ball, BALL_HERE);
        }
    }
}

/* partner_loop is the life of a partner: sleep, do as told, sleep. */
static void
partner_loop(struct corner *corner, dibs *client, const char *name)
{
    uint32_t seen = 0;

    for (;;) {
        while (atomic_load(&corner->bell) == seen)
            futex_wait(&corner->bell, seen);
        seen++;
        if (atomic_load(&corner->order) == ORDER_QUIT)
            return;
        if (atomic_load(&corner->order) == ORDER_PONG)
            pong(corner);
        else
            atomic_store(&corner->code,
                         fight(corner, 1, client, name, now_ns() + 1e18, &corner->err));
        atomic_store(&corner->busy, 0);
    }
}

static void
send_order(struct corner *corner, int order)
{
    atomic_store(&corner->stop, 0);
    atomic_store(&corner->busy, 1);
    atomic_store(&corner->last, 0);
    atomic_store(&corner->handovers, 0);
    atomic_store(&corner->ball, BALL_HERE);
    atomic_store(&corner->order, order);
    atomic_fetch_add(&corner->bell, 1);
    futex_wake(&corner->bell);
}

/* stop_partner waits until the partner is back in its corner. */
static int
stop_partner(struct corner *corner, dibs_error *err)
{
    atomic_store(&corner->stop, 1);
    for (int ms = 0; atomic_load(&corner->busy); ms++) {
        struct timespec nap = { 0, 1000000 };

        if (ms > PATIENCE_MS)
            return fail(err, DIBS_ETIMEDOUT, "the other side of the benchmark is stuck");
        nanosleep(&nap, NULL);
    }
    if (atomic_load(&corner->code) != DIBS_OK)
        *err = corner->err;
    return atomic_load(&corner->code);
}

/* -------------------------------------------------------------- the rounds ---- */

static int
ask(struct bench *bench, dibs_error *err)
{
    dibs_report *report;
    dibs_cell cell;
    int code;

    if (dibs_caps(bench->client) & DIBS_CAP_INSPECT) {
        code = dibs_inspect(&report, bench->client, bench->unused, err);
        if (code == DIBS_OK)
            dibs_report_free(report);
        return code;
    }
    code = dibs_cell_read(&cell, bench->client, bench->unused, err);
    return code == DIBS_ENOTFOUND ? DIBS_OK : code;
}

static int
lock_and_unlock(struct bench *bench, dibs_error *err)
{
    dibs_hold *hold;
    int code = dibs_timedlock(&hold, bench->client, bench->name, PATIENCE_MS, err);

    return code == DIBS_OK ? dibs_unlock(hold, err) : code;
}

static int
flock_and_unlock(struct bench *bench, dibs_error *err)
{
    if (flock(bench->flock_fd, LOCK_EX) == 0 && flock(bench->flock_fd, LOCK_UN) == 0)
        return DIBS_OK;
    return fail(err, DIBS_EUNAVAIL, strerror(errno));
}

/* repeat does one thing over and over for a slice of time. */
static int
repeat(double *ns, struct bench *bench, int (*once)(struct bench *, dibs_error *),
       dibs_error *err)
{
    double start = now_ns(), passed = 0;
    int done = 0;

    for (; passed < SLICE_NS && !interrupted; passed = now_ns() - start)
        for (int i = 0; i < BATCH; i++, done++) {
            int code = once(bench, err);

            if (code != DIBS_OK)
                return code;
        }
    *ns = done > 0 ? passed / done : 0;
    return DIBS_OK;
}

static int
ping_pong(double *ns, struct corner *corner, dibs_error *err)
{
    double start = now_ns();
    int done = 0;

    send_order(corner, ORDER_PONG);
    while (now_ns() - start < SLICE_NS && !interrupted) {
        atomic_store(&corner->ball, BALL_THERE);
        futex_wake(&corner->ball);
        /* a partner that died does not answer; stop_partner says so */
        for (int tries = 0; atomic_load(&corner->ball) == BALL_THERE && tries < 5;
             tries++)
            futex_wait(&corner->ball, BALL_THERE);
        done++;
    }
    *ns = (now_ns() - start) / (done > 0 ? done : 1);
    atomic_store(&corner->ball, BALL_OUT);
    futex_wake(&corner->ball);
    return stop_partner(corner, err);
}

/* hand_over fights the partner. Unlucky rounds on engines that are not fair may have no
 * hand-over at all; such a round counts as one. */
static int
hand_over(double *ns, struct bench *bench, struct corner *corner, dibs_error *err)
{
    double start = now_ns();
    uint64_t count;
    int code, partners;

    send_order(corner, ORDER_FIGHT);
    code = fight(corner, 0, bench->client, bench->name, start + SLICE_NS, err);
    count = atomic_load(&corner->handovers);
    *ns = (now_ns() - start) / (double)(count > 0 ? count : 1);
    partners = stop_partner(corner, code == DIBS_OK ? err : &corner->err);
    return code != DIBS_OK ? code : partners;
}

static int
one_round(double *ns, struct bench *bench, int kind, dibs_error *err)
{
    switch (kind) {
    case BENCH_FLOCK:
        return repeat(ns, bench, flock_and_unlock, err);
    case BENCH_PING_PONG:
        return ping_pong(ns, bench->processes, err);
    case BENCH_ROUND_TRIP:
        return repeat(ns, bench, ask, err);
    case BENCH_PAIR:
        return repeat(ns, bench, lock_and_unlock, err);
    case BENCH_THREADS:
        return hand_over(ns, bench, bench->threads, err);
    default:
        return hand_over(ns, bench, bench->processes, err);
    }
}

static int
applies(const struct bench *bench, int kind)
{
    const char *engine = dibs_engine_name(bench->client);
    uint32_t caps = dibs_caps(bench->client);

    switch (kind) {
    case BENCH_FLOCK:
        return strcmp(engine, "local") == 0 && bench->flock_fd >= 0;
    case BENCH_PING_PONG:
        return strcmp(engine, "local") == 0;
    case BENCH_ROUND_TRIP:
        return (caps & (DIBS_CAP_INSPECT | DIBS_CAP_CELL)) != 0;
    case BENCH_PROCESSES:
        return strcmp(engine, "mock") != 0; /* which is different in every process */
    default:
        return 1;
    }
}

static int
all_rounds(struct bench_result *result, struct bench *bench, int rounds,
           void (*progress)(int round, int rounds), dibs_error *err)
{
    for (int round = 0; round < rounds; round++) {
        if (progress != NULL)
            progress(round, rounds);
        for (int kind = 0; kind < BENCH_KINDS; kind++) {
            struct bench_figure *figure = &result->figures[kind];
            int code;

            if (!applies(bench, kind))
                continue;
            code = one_round(&figure->ns[figure->rounds], bench, kind, err);
            if (interrupted) {
                err->engine_code = interrupted;
                return fail(err, DIBS_ECANCELED, "interrupted");
            }
            if (code != DIBS_OK)
                return code;
            figure->rounds++;
        }
    }
    return DIBS_OK;
}

/* ------------------------------------------------------- set up, take down ---- */

static void *
thread_partner(void *arg)
{
    struct bench *bench = arg;

    pin(1);
    partner_loop(bench->threads, bench->client, bench->name);
    return NULL;
}

/* process_partner opens a client of its own and ends with us, whatever happens. */
static void
process_partner(struct bench *bench, pid_t parent)
{
    struct corner *corner = bench->processes;
    dibs *client;
    int code;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
    (void)signal(SIGINT, SIG_IGN); /* the parent tells us when to end */
    pin(1);
    code = dibs_open(&client, bench->url, NULL, &corner->err);
    atomic_store(&corner->code, code);
    atomic_store(&corner->busy, 0);
    if (code == DIBS_OK) {
        partner_loop(corner, client, bench->name);
        dibs_close(client);
    }
    _exit(0);
}

static int
set_up(struct bench *bench, dibs_error *err)
{
    struct corner *corners = mmap(NULL, 2 * sizeof *corners, PROT_READ | PROT_WRITE,
                                  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid();
    int code;

    if (corners == MAP_FAILED)
        return fail(err, DIBS_ENOMEM, "no shared memory");
    bench->threads = &corners[0];
    bench->processes = &corners[1];
    snprintf(bench->name, sizeof bench->name, "dibs-bench/%d", (int)parent);
    snprintf(bench->unused, sizeof bench->unused, "dibs-bench/%d/unused", (int)parent);
    bench->flock_fd = memfd_create("dibs-bench", MFD_CLOEXEC);

    atomic_store(&bench->processes->busy, 1);
    bench->child = fork();
    if (bench->child == 0)
        process_partner(bench, parent);
    if (bench->child < 0)
        return fail(err, DIBS_ENOMEM, "cannot start the other process");
    code = dibs_open(&bench->client, bench->url, NULL, err);
    if (code == DIBS_OK)
        code = stop_partner(bench->processes, err);
    if (code != DIBS_OK)
        return code;
    if (pthread_create(&bench->thread, NULL, thread_partner, bench) != 0)
        return fail(err, DIBS_ENOMEM, "cannot start the other thread");
    bench->has_thread = 1;
    pin(0);
    return DIBS_OK;
}

static void
take_down(struct bench *bench)
{
    if (bench->child > 0) {
        send_order(bench->processes, ORDER_QUIT);
        (void)waitpid(bench->child, NULL, 0);
    }
    if (bench->has_thread) {
        send_order(bench->threads, ORDER_QUIT);
        (void)pthread_join(bench->thread, NULL);
    }
    if (bench->flock_fd >= 0)
        close(bench->flock_fd);
    dibs_close(bench->client);
    if (bench->threads != NULL)
        (void)munmap(bench->threads, 2 * sizeof *bench->threads);
}

int
bench_rounds(struct bench_result *result, const char *url, int rounds,
             void (*progress)(int round, int rounds), dibs_error *err)
{
    struct bench bench = { .url = url, .flock_fd = -1 };
    int code = set_up(&bench, err);

    memset(result, 0, sizeof *result);
    if (code == DIBS_OK) {
        snprintf(result->url, sizeof result->url, "%s", dibs_url(bench.client));
        snprintf(result->engine, sizeof result->engine, "%s",
                 dibs_engine_name(bench.client));
        code = all_rounds(result, &bench, rounds, progress, err);
    }
    take_down(&bench);
    return code;
}
