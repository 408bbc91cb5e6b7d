/* SPDX-License-Identifier: MIT */
/*
 * The operating system, as core sees it, on Linux. See sys.h for why this is a file of its
 * own: the simulator replaces it.
 */
#include "core/sys.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "util/uncancelled.h"

#define NS_PER_S ((dibs_time)1000000000)
#define STACK_BYTES ((size_t)256 * 1024)
/* how finely sleeps are cut while mock:'s virtual clock is in use */
#define VIRTUAL_SLICE DIBS_MS

/* ---- clocks ---- */

static _Atomic int64_t clock_skew;
static _Atomic int clock_is_virtual;

static dibs_time
read_clock(clockid_t clock)
{
    struct timespec ts;
    clock_gettime(clock, &ts);
    return (dibs_time)ts.tv_sec * NS_PER_S + ts.tv_nsec;
}

dibs_time
dibs__now(void)
{
    return read_clock(CLOCK_BOOTTIME) +
           atomic_load_explicit(&clock_skew, memory_order_relaxed);
}

void
dibs__clock_advance(int64_t ms)
{
    atomic_store(&clock_is_virtual, 1);
    atomic_fetch_add(&clock_skew, ms * DIBS_MS);
}

int64_t
dibs__wall_ms(void)
{
    return read_clock(CLOCK_REALTIME) / DIBS_MS;
}

/* ---- randomness ---- */

uint64_t
dibs__random(void)
{
    UNCANCELLED;
    uint64_t bits;
    size_t have = 0;
    while (have < sizeof bits) {
        ssize_t got = getrandom((char *)&bits + have, sizeof bits - have, 0);
        if (got > 0)
            have += (size_t)got;
        else if (errno != EINTR)
            abort(); /* a kernel without randomness cannot make unique owners */
    }
    return bits;
}

/* ---- mutexes ---- */

void
dibs__mutex_init(dibs__mutex *mutex)
{
    pthread_mutex_init(mutex, NULL);
}

void
dibs__mutex_done(dibs__mutex *mutex)
{
    pthread_mutex_destroy(mutex);
}

void
dibs__mutex_lock(dibs__mutex *mutex)
{
    pthread_mutex_lock(mutex);
}

void
dibs__mutex_unlock(dibs__mutex *mutex)
{
    pthread_mutex_unlock(mutex);
}

/* ---- bells ---- */

/* The futex is not a private one: a bell may stand in memory that processes share. The time
 * is relative, and the caller looks at the clock again after each wake-up. */
static void
futex_sleep(dibs_bell *bell, uint32_t value, dibs_time how_long)
{
    struct timespec limit = { (time_t)(how_long / NS_PER_S),
                              (long)(how_long % NS_PER_S) };
    (void)syscall(SYS_futex, bell, FUTEX_WAIT, value,
                  how_long == DIBS_NEVER ? NULL : &limit, NULL, 0);
}

int
dibs__bell_wait(dibs_bell *bell, uint32_t seen, dibs_time deadline)
{
    for (;;) {
        uint32_t value = atomic_load_explicit(bell, memory_order_acquire);
        if ((value & ~1u) != seen)
            return 1;
        dibs_time left = DIBS_NEVER;
        if (deadline != DIBS_NEVER) {
            left = deadline - dibs__now();
            if (left <= 0)
                return 0;
        }
        if (atomic_load_explicit(&clock_is_virtual, memory_order_relaxed) &&
            left > VIRTUAL_SLICE)
            left = VIRTUAL_SLICE;
        if (!(value & 1u) && !atomic_compare_exchange_strong(bell, &value, value | 1u))
            continue;
        futex_sleep(bell, value | 1u, left);
    }
}

int
dibs__bell_strike(dibs_bell *bell)
{
    uint32_t value = atomic_load_explicit(bell, memory_order_relaxed);
    while (!atomic_compare_exchange_weak(bell, &value, (value + 2u) & ~1u))
        continue;
    return (int)(value & 1u);
}

void
dibs__bell_wake(dibs_bell *bell)
{
    (void)syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

void
dibs__bell_ring(dibs_bell *bell)
{
    if (dibs__bell_strike(bell))
        dibs__bell_wake(bell);
}

void
dibs__sleep_until(dibs_time when)
{
    dibs_bell never_rung = 0;
    (void)dibs__bell_wait(&never_rung, 0, when);
}

/* ---- threads ---- */

int
dibs__thread_start(dibs__thread *out, const char *name, void *(*run)(void *), void *arg,
                   int detached)
{
    pthread_attr_t attr;
    sigset_t all, before;
    int rc = pthread_attr_init(&attr);
    if (rc)
        return rc;
    (void)pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (detached)
        (void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    /* signals belong to the program: threads of the library take none */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t id;
    rc = pthread_create(&id, &attr, run, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    if (rc)
        return rc;
    if (!detached)
        (void)pthread_setname_np(id, name);
    if (out)
        out->id = id;
    return 0;
}

void
dibs__thread_join(dibs__thread *thread)
{
    pthread_join(thread->id, NULL);
}

uint64_t
dibs__thread_number(void)
{
    static _Atomic uint64_t last;
    static _Thread_local __attribute__((tls_model("initial-exec"))) uint64_t mine;
    if (!mine)
        mine = atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1;
    return mine;
}

/* ---- fork ---- */

/* A word that the kernel zeroes in every child, however it was made (MADV_WIPEONFORK works
 * for a bare clone() too, where atfork handlers do not run). */
static _Atomic uint32_t fallback_word;
static _Atomic uint32_t *fork_word = &fallback_word;
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;
static _Atomic uint32_t last_mark;

static void
wipe_fallback(void)
{
    atomic_store(&fallback_word, 0);
}

static void
fork_prepare(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    void *memory =
        mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED && madvise(memory, page, MADV_WIPEONFORK) == 0) {
        fork_word = memory;
        return;
    }
    if (memory != MAP_FAILED)
        munmap(memory, page);
    (void)pthread_atfork(NULL, NULL, wipe_fallback);
}

uint32_t
dibs__fork_mark(void)
{
    pthread_once(&fork_once, fork_prepare);
    uint32_t mark = atomic_load(fork_word);
    if (mark)
        return mark;
    uint32_t fresh = atomic_fetch_add(&last_mark, 1) + 1;
    if (atomic_compare_exchange_strong(fork_word, &mark, fresh))
        return fresh;
    return mark;
}

int
dibs__forked(uint32_t mark)
{
    return atomic_load_explicit(fork_word, memory_order_relaxed) != mark;
}
