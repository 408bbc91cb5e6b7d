/* SPDX-License-Identifier: MIT */
/*
 * core/sys.h for the simulator, on the fibers of sim_fiber.c: each call of the seam is a
 * place where the seed may decide to run somebody else.
 */
#include "core/sys.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sim.h"
#include "sim_fiber.h"

/* ---- clocks and randomness ---- */

/* a thread may be held up between reading the clock and acting on it */
dibs_time
dibs__now(void)
{
    dibs_time shown = sim_local_time();

    sim_preempt();
    return shown;
}

int64_t
dibs__wall_ms(void)
{
    return INT64_C(1700000000000) + sim_now() / DIBS_MS;
}

void
dibs__clock_advance(int64_t ms)
{
    sim_advance(ms * DIBS_MS);
}

uint64_t
dibs__random(void)
{
    return sim_random(STREAM_CORE);
}

/* ---- mutexes: the owner's number stands in the first word ---- */

static int *
owner_of(dibs__mutex *mutex)
{
    return &mutex->__data.__lock;
}

void
dibs__mutex_init(dibs__mutex *mutex)
{
    *owner_of(mutex) = 0;
}

void
dibs__mutex_done(dibs__mutex *mutex)
{
    if (*owner_of(mutex))
        abort();
}

void
dibs__mutex_lock(dibs__mutex *mutex)
{
    sim_preempt();
    while (*owner_of(mutex))
        sim_block(mutex, DIBS_NEVER);
    *owner_of(mutex) = (int)sim_fiber();
}

void
dibs__mutex_unlock(dibs__mutex *mutex)
{
    if (*owner_of(mutex) != (int)sim_fiber())
        abort();
    *owner_of(mutex) = 0;
    sim_wake_all(mutex);
    sim_preempt();
}

/* ---- bells ---- */

/* A library with a lost wake-up: rings count, but now and then no sleeper notices. */
static int
ring_goes_unheard(void)
{
    return sim_run.mutant == K10 && sim_chance(STREAM_SCHEDULE, 30);
}

/* A library whose timers start too late (at a disconnect, say) tells of a loss too
 * late. */
static dibs_time
oversleep(dibs_time deadline)
{
    if (sim_run.mutant != K4 || deadline == DIBS_NEVER)
        return deadline;
    return deadline + 300 * DIBS_MS;
}

int
dibs__bell_wait(dibs_bell *bell, uint32_t seen, dibs_time deadline)
{
    sim_preempt();
    /* as with a futex, nothing comes between the look at the bell and the sleep */
    while ((atomic_load(bell) & ~1u) == seen) {
        if (sim_local_time() >= deadline)
            return 0;
        sim_note_sleep();
        sim_block(bell, sim_true_time(oversleep(deadline)));
    }
    return 1;
}

int
dibs__bell_strike(dibs_bell *bell)
{
    atomic_store(bell, (atomic_load(bell) + 2u) & ~1u);
    sim_preempt();
    return 1;
}

void
dibs__bell_wake(dibs_bell *bell)
{
    if (!ring_goes_unheard())
        sim_wake_all(bell);
    sim_preempt();
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
    if (dibs__now() < when)
        sim_block(NULL, sim_true_time(when));
}

/* ---- threads ---- */

int
dibs__thread_start(dibs__thread *out, const char *name, void *(*run)(void *), void *arg,
                   int detached)
{
    size_t place = sim_fiber_start(sim_process(), run, arg, detached);

    (void)name;
    if (out)
        out->id = (pthread_t)place;
    sim_preempt();
    return 0;
}

void
dibs__thread_join(dibs__thread *thread)
{
    sim_fiber_join((size_t)thread->id);
}

uint64_t
dibs__thread_number(void)
{
    return sim_fiber();
}

uint32_t
dibs__fork_mark(void)
{
    return 1;
}

int
dibs__forked(uint32_t mark)
{
    return mark != 1;
}

/* ---- descriptors: a killed process leaves its own behind ---- */

static int descriptors[4096];
static size_t descriptor_count;

/* takes the place of libc's, and remembers */
int
eventfd(unsigned count, int flags)
{
    int fd = (int)syscall(SYS_eventfd2, count, flags);

    if (descriptor_count < sizeof(descriptors) / sizeof(*descriptors))
        descriptors[descriptor_count++] = fd;
    return fd;
}

int
sim_descriptors_left(void)
{
    for (size_t i = 0; i < descriptor_count; i++)
        if (fcntl(descriptors[i], F_GETFD) >= 0)
            return 1;
    return 0;
}

static void
close_descriptors(void)
{
    while (descriptor_count > 0)
        (void)close(descriptors[--descriptor_count]);
}

/* ---- a new run ---- */

void
sim_sys_reset(uint64_t seed)
{
    close_descriptors();
    sim_fiber_reset(seed);
}
