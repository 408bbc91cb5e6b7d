/* SPDX-License-Identifier: MIT */
/*
 * The one seam between core and the operating system: clocks, randomness, mutexes, bells
 * (futexes), threads and fork detection. Core blocks, starts threads and reads clocks in
 * no other way. sys.c implements it for Linux; test/sim links core with an implementation
 * of its own, in which threads are coroutines and time is a variable.
 */
#ifndef DIBS_CORE_SYS_H
#define DIBS_CORE_SYS_H

#include <pthread.h>

#include <dibs/engine.h>

/* dibs__now returns boot time in nanoseconds, plus what mock: clients have added. */
dibs_time dibs__now(void);

/* dibs__wall_ms returns the wall clock; for people's eyes only, never compared. */
int64_t dibs__wall_ms(void);

/* dibs__random returns 64 bits nobody can guess. */
uint64_t dibs__random(void);

typedef pthread_mutex_t dibs__mutex;
#define DIBS__MUTEX_INIT PTHREAD_MUTEX_INITIALIZER
void dibs__mutex_init(dibs__mutex *mutex);
void dibs__mutex_done(dibs__mutex *mutex);
void dibs__mutex_lock(dibs__mutex *mutex);
void dibs__mutex_unlock(dibs__mutex *mutex);

/* dibs__bell_wait sleeps until the bell is no longer at `seen` (1) or the deadline has
 * passed (0). Interrupted and spurious wake-ups stay inside. */
int dibs__bell_wait(dibs_bell *bell, uint32_t seen, dibs_time deadline);
/* dibs__bell_ring is a strike, after which nobody stays asleep, and, if that returned 1, a
 * wake. In between the bell's memory may be gone: the wake needs its address only, and who
 * sleeps at that address by then is woken for nothing. Apart, so that the sleeper is not
 * woken while it has to wait for a mutex of ours. */
int dibs__bell_strike(dibs_bell *bell);
void dibs__bell_wake(dibs_bell *bell);
void dibs__bell_ring(dibs_bell *bell);
void dibs__sleep_until(dibs_time when);

/* Threads of the library: all signals blocked, a small stack, a name for debuggers.
 * dibs__thread_start returns 0 or an errno. A detached thread is not joined. */
typedef struct dibs__thread {
    pthread_t id;
} dibs__thread;
int dibs__thread_start(dibs__thread *out, const char *name, void *(*run)(void *),
                       void *arg, int detached);
void dibs__thread_join(dibs__thread *thread);

/* dibs__thread_number identifies the calling thread; never reused within a process. */
uint64_t dibs__thread_number(void);

/* dibs__fork_mark returns a mark of this process; dibs__forked says whether the process is
 * another one now, i.e. a fork of the one that took the mark. One load, signal-safe. */
uint32_t dibs__fork_mark(void);
int dibs__forked(uint32_t mark);

/* dibs__clock_advance moves dibs__now forward for the whole process: mock:'s virtual clock.
 * From then on sleeps are cut into slices, so that they notice. */
void dibs__clock_advance(int64_t ms);

#endif /* DIBS_CORE_SYS_H */
