/* SPDX-License-Identifier: MIT */
/* Processes that fight for a lock: see crowd.h. */
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "crowd.h"

enum { NOBODY = -1, QUIT = -1, GIVE_UP_MS = 40000, TIMES_MAX = 32768 };

struct crowd {
    crowd_lock locks[CROWD_LOCKS_MAX];
    int lock_count, processes, place;
    pid_t children[CROWD_MAX];
    _Atomic uint32_t round; /* futex: a change starts a round, or ends all */
    _Atomic int wanted;     /* the lock of this round, or QUIT */
    _Atomic int stop;
    _Atomic int running;
    _Atomic int owner;       /* who is inside, or NOBODY */
    _Atomic uint32_t grants; /* futex: who let go waits for it to change */
    _Atomic int hold_ms, is_greedy;
    /* written by the one that is inside */
    int last;      /* who was inside before */
    double let_go; /* when; 0: not in this round */
    double times[TIMES_MAX];
    uint32_t time_count;
};

static void
futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    struct timespec most = { 0, 50000000 };

    syscall(SYS_futex, word, FUTEX_WAIT, value, &most, NULL, 0);
}

static void
futex_wake(_Atomic uint32_t *word, int count)
{
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static int
stopped(crowd *c)
{
    return atomic_load_explicit(&c->stop, memory_order_relaxed);
}

/* keep_time writes down how long this hand-over took */
static void
keep_time(crowd *c)
{
    if (c->let_go > 0 && c->time_count < TIMES_MAX)
        c->times[c->time_count++] = bench_now_ns() - c->let_go;
}

/* inside is what a process does while it has the lock; returns which grant this was. */
static uint32_t
inside(crowd *c, int me)
{
    int hold_ms = atomic_load_explicit(&c->hold_ms, memory_order_relaxed);
    uint32_t grant;

    if (atomic_exchange(&c->owner, me) != NOBODY)
        bench_die("two processes had the lock at once");
    if (c->last != me) {
        keep_time(c);
        atomic_fetch_add(&c->grants, 1);
        futex_wake(&c->grants, 1);
    }
    c->last = me;
    grant = atomic_load(&c->grants);
    if (hold_ms > 0 && !stopped(c))
        bench_nap_ms(hold_ms);
    c->let_go = bench_now_ns();
    atomic_store(&c->owner, NOBODY);
    return grant;
}

static void
after(crowd *c, uint32_t grant)
{
    while (!stopped(c) && atomic_load(&c->grants) == grant)
        futex_wait(&c->grants, grant);
}

static void
fight(crowd *c, int me, const crowd_lock *lock, void *state)
{
    while (!stopped(c)) {
        uint32_t grant;

        lock->lock(state);
        grant = inside(c, me);
        lock->unlock(state);
        if (!atomic_load_explicit(&c->is_greedy, memory_order_relaxed))
            after(c, grant);
    }
}

static void
process(void *arg, int me)
{
    crowd *c = arg;
    void *states[CROWD_LOCKS_MAX];
    uint32_t round = 0;

    place_client(c->place);
    for (int i = 0; i < c->lock_count; i++)
        states[i] = c->locks[i].open(c->locks[i].arg);
    atomic_fetch_sub(&c->running, 1);
    for (;;) {
        int wanted;

        while (atomic_load(&c->round) == round)
            futex_wait(&c->round, round);
        round++;
        wanted = atomic_load(&c->wanted);
        if (wanted == QUIT)
            break;
        fight(c, me, &c->locks[wanted], states[wanted]);
        atomic_fetch_sub(&c->running, 1);
    }
    for (int i = 0; i < c->lock_count; i++)
        c->locks[i].close(states[i]);
}

static void
wait_until_idle(crowd *c)
{
    for (int waited_ms = 0; atomic_load(&c->running) > 0; waited_ms++) {
        if (waited_ms > GIVE_UP_MS)
            bench_die("a process did not come back from its lock");
        bench_nap_ms(1);
    }
}

crowd *
crowd_start(const crowd_lock *locks, int count, int processes, int place)
{
    crowd *c = bench_shared(sizeof *c);

    for (int i = 0; i < count; i++)
        c->locks[i] = locks[i];
    c->lock_count = count;
    c->processes = processes;
    c->place = place;
    atomic_store(&c->owner, NOBODY);
    atomic_store(&c->running, processes);
    for (int i = 0; i < processes; i++)
        c->children[i] = bench_fork(process, c, i);
    wait_until_idle(c);
    return c;
}

void
crowd_begin(crowd *c, int which)
{
    atomic_store(&c->wanted, which);
    atomic_store(&c->stop, 0);
    atomic_store(&c->running, c->processes);
    c->last = NOBODY;
    c->let_go = 0;
    c->time_count = 0;
    atomic_fetch_add(&c->round, 1);
    futex_wake(&c->round, c->processes);
}

double
crowd_grants(crowd *c)
{
    return atomic_load(&c->grants);
}

void
crowd_end(crowd *c)
{
    atomic_store(&c->stop, 1);
    futex_wake(&c->grants, c->processes);
    wait_until_idle(c);
}

void
crowd_stop(crowd *c)
{
    crowd_begin(c, QUIT);
    for (int i = 0; i < c->processes; i++)
        bench_join(c->children[i]);
    munmap(c, sizeof *c);
}

void
crowd_hold(crowd *c, int ms)
{
    atomic_store(&c->hold_ms, ms);
}

void
crowd_greedy(crowd *c, int is_greedy)
{
    atomic_store(&c->is_greedy, is_greedy);
}

void
crowd_times(crowd *c, series *out)
{
    for (uint32_t i = 0; i < c->time_count; i++)
        series_add(out, c->times[i]);
}

/* ---- dibs ---- */

typedef struct contender {
    dibs *client;
    dibs_hold *hold;
} contender;

static void *
open_dibs(const void *url)
{
    contender *me = calloc(1, sizeof *me);

    if (me == NULL)
        bench_die("out of memory");
    me->client = bench_open(url);
    return me;
}

static void
lock_dibs(void *state)
{
    contender *me = state;
    dibs_error err;

    bench_check(dibs_lock(&me->hold, me->client, "bench/handover", &err), &err);
}

static void
unlock_dibs(void *state)
{
    contender *me = state;
    dibs_error err;

    bench_check(dibs_unlock(me->hold, &err), &err);
}

static void
close_dibs(void *state)
{
    contender *me = state;

    dibs_close(me->client);
    free(me);
}

crowd_lock
crowd_dibs(const char *url)
{
    return (crowd_lock){ open_dibs, lock_dibs, unlock_dibs, close_dibs, url };
}
