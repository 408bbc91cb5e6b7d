/* SPDX-License-Identifier: MIT */
/*
 * The simulator's machine: random numbers, clocks, fibers and who runs next, processes.
 * Fibers run on one real thread, time is a variable that jumps to the next event when
 * everybody sleeps, and the seed makes every choice. sim_sys.c puts core/sys.h on top.
 *
 * Fibers use ucontext. AddressSanitizer must be told of each switch (the __sanitizer
 * calls); ThreadSanitizer makes no sense here, there being one thread.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#include "core/mem.h"
#include "sim.h"
#include "sim_fiber.h"

#if defined(__SANITIZE_ADDRESS__)
#define SIM_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_ASAN 1
#endif
#endif
#ifdef SIM_ASAN
#include <sanitizer/common_interface_defs.h>
static const void *world_stack;
static size_t world_stack_bytes;
#endif

#define FIBERS_MAX 512
#define STACK_BYTES ((size_t)192 * 1024)
/* a run with more steps than this goes round in circles */
#define STEPS_MAX 3000000
/* one fiber is held up for up to this long, now and then */
#define HICCUP_MAX (2 * DIBS_MS)

enum fiber_state { FREE, RUNNABLE, BLOCKED, ENDED };

struct fiber {
    enum fiber_state state;
    int process;
    uint64_t number;
    const void *waits_on;  /* a bell, a mutex, a fiber; NULL: just time */
    dibs_time wake_at;     /* true time */
    dibs_time first_slept; /* on a bell, since sim_watch_sleep */
    int detached;          /* nobody will join it, or somebody has */
    void *(*run)(void *);
    void *arg;
    ucontext_t context;
    char *stack;
    void *fake_stack; /* AddressSanitizer's */
};

struct process {
    int dead;
    int rate_ppm;         /* its clock runs that much too fast */
    dibs_time clock_back; /* and is behind by this */
    dibs_time paused_until, last_pause_end;
};

static struct fiber fibers[FIBERS_MAX]; /* [0] is the world: main's own stack */
static size_t fiber_count;
static struct fiber *current;
static struct process processes[SIM_PROCESSES];
static uint64_t streams[STREAM_COUNT];
static dibs_time now;
static uint64_t last_number;
static uint64_t steps;
static int stuck; /* everybody sleeps for ever, or the steps are used up */
static int uninterrupted;
static int seen_as = -1; /* whose clock is read; -1: the running fiber's */

/* ---- random numbers (splitmix64) ---- */

static uint64_t
mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

uint64_t
sim_random(enum sim_stream stream)
{
    return mix(streams[stream] += UINT64_C(0x9e3779b97f4a7c15));
}

int64_t
sim_between(enum sim_stream stream, int64_t low, int64_t high)
{
    return low + (int64_t)(sim_random(stream) % (uint64_t)(high - low + 1));
}

int
sim_chance(enum sim_stream stream, int percent)
{
    return (int)(sim_random(stream) % 100) < percent;
}

/* ---- clocks ---- */

dibs_time
sim_now(void)
{
    return now;
}

static dibs_time
time_of(const struct process *process)
{
    return now + now / 1000000 * process->rate_ppm - process->clock_back;
}

dibs_time
sim_local_time(void)
{
    return time_of(&processes[seen_as < 0 ? current->process : seen_as]);
}

void
sim_advance(dibs_time by)
{
    now += by;
}

/* sim_true_time returns when the running process's clock will show `local`, a little late
 * rather than early. */
dibs_time
sim_true_time(dibs_time local)
{
    const struct process *process = &processes[current->process];
    dibs_time left = local - time_of(process);

    if (local == DIBS_NEVER)
        return DIBS_NEVER;
    return left <= 0 ? now : now + left - left / 1000000 * process->rate_ppm + 1000;
}

void
sim_set_clock_rate(int process, int ppm)
{
    processes[process].rate_ppm = ppm;
}

void
sim_turn_clock_back(int process, dibs_time by)
{
    processes[process].clock_back += by;
}

/* ---- choosing who runs ---- */

static int
may_run(const struct fiber *fiber)
{
    const struct process *process = &processes[fiber->process];

    return fiber->state == RUNNABLE && !process->dead && process->paused_until <= now;
}

/* next_event returns when somebody could run next, nobody being able to now. */
static dibs_time
next_event(void)
{
    dibs_time first = DIBS_NEVER;

    for (size_t i = 0; i < fiber_count; i++) {
        const struct fiber *fiber = &fibers[i];
        dibs_time pause = processes[fiber->process].paused_until, at = DIBS_NEVER;

        if (processes[fiber->process].dead)
            continue;
        if (fiber->state == RUNNABLE)
            at = now;
        else if (fiber->state == BLOCKED)
            at = fiber->wake_at;
        if (at < pause)
            at = pause;
        if (at < first)
            first = at;
    }
    return first;
}

static void
wake_by_time(void)
{
    for (size_t i = 0; i < fiber_count; i++)
        if (fibers[i].state == BLOCKED && fibers[i].wake_at <= now)
            fibers[i].state = RUNNABLE;
}

static struct fiber *
choose(void)
{
    for (;;) {
        struct fiber *able[FIBERS_MAX];
        size_t count = 0;
        dibs_time event;

        wake_by_time();
        for (size_t i = 0; i < fiber_count; i++)
            if (may_run(&fibers[i]))
                able[count++] = &fibers[i];
        if (++steps > STEPS_MAX || sim_violated())
            break; /* back to the world, to report */
        if (count)
            return able[sim_random(STREAM_SCHEDULE) % count];
        event = next_event();
        if (event == DIBS_NEVER)
            break;
        now = event > now ? event : now + 1;
    }
    stuck = 1;
    fibers[0].state = RUNNABLE;
    return &fibers[0];
}

static void
switch_to(struct fiber *next)
{
    struct fiber *self = current;

    if (next == self)
        return;
    current = next;
#ifdef SIM_ASAN
    __sanitizer_start_switch_fiber(self->state == ENDED ? NULL : &self->fake_stack,
                                   next->stack ? next->stack : world_stack,
                                   next->stack ? STACK_BYTES : world_stack_bytes);
#endif
    swapcontext(&self->context, &next->context);
#ifdef SIM_ASAN
    __sanitizer_finish_switch_fiber(self->fake_stack, NULL, NULL);
#endif
}

void
sim_preempt(void)
{
    uint64_t dice;

    if (uninterrupted)
        return;
    dice = sim_random(STREAM_SCHEDULE);
    now += 100 + (dice & 0xfff);
    dice >>= 12;
    if (dice % 512 == 0) {
        current->state = BLOCKED;
        current->waits_on = NULL;
        current->wake_at = now + (dibs_time)(dice >> 16) % HICCUP_MAX;
    } else if (dice % 8 != 0) {
        return;
    }
    switch_to(choose());
}

void
sim_block(const void *on, dibs_time until)
{
    current->state = BLOCKED;
    current->waits_on = on;
    current->wake_at = until;
    switch_to(choose());
}

void
sim_wake_all(const void *on)
{
    for (size_t i = 0; i < fiber_count; i++)
        if (fibers[i].state == BLOCKED && fibers[i].waits_on == on)
            fibers[i].state = RUNNABLE;
}

/* ---- fibers ---- */

static void
fiber_main(void)
{
#ifdef SIM_ASAN
    const void *from;
    size_t from_bytes;

    __sanitizer_finish_switch_fiber(NULL, &from, &from_bytes);
    if (!world_stack) { /* the first fiber of all is started by the world */
        world_stack = from;
        world_stack_bytes = from_bytes;
    }
#endif
    current->run(current->arg);
    current->state = ENDED;
    sim_wake_all(current);
    sim_wake_all(&fiber_count);
    switch_to(choose());
    abort(); /* an ended fiber is never chosen */
}

static char *
stack_new(void)
{
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (stack == MAP_FAILED)
        abort();
    return stack;
}

/* a place of one that has ended and that nobody will join, or a new one */
static struct fiber *
find_place(void)
{
    for (size_t i = 1; i < fiber_count; i++)
        if (fibers[i].state == ENDED && fibers[i].detached)
            return &fibers[i];
    if (fiber_count == FIBERS_MAX)
        abort();
    return &fibers[fiber_count++];
}

static void
make_context(struct fiber *fiber)
{
    if (!fiber->stack)
        fiber->stack = stack_new();
    getcontext(&fiber->context);
    fiber->context.uc_stack.ss_sp = fiber->stack;
    fiber->context.uc_stack.ss_size = STACK_BYTES;
    makecontext(&fiber->context, fiber_main, 0);
}

size_t
sim_fiber_start(int process, void *(*run)(void *), void *arg, int detached)
{
    struct fiber *fiber = find_place();

    fiber->state = RUNNABLE;
    fiber->process = process;
    fiber->number = ++last_number;
    fiber->detached = detached;
    fiber->run = run;
    fiber->arg = arg;
    make_context(fiber);
    return (size_t)(fiber - fibers);
}

void
sim_fiber_join(size_t place)
{
    while (fibers[place].state != ENDED)
        sim_block(&fibers[place], DIBS_NEVER);
    fibers[place].detached = 1;
}

void
sim_fiber_reset(uint64_t seed)
{
    for (size_t i = 1; i < fiber_count; i++)
        fibers[i].state = FREE;
    fiber_count = 1;
    current = &fibers[0];
    current->state = RUNNABLE;
    memset(processes, 0, sizeof(processes));
    for (int i = 0; i < STREAM_COUNT; i++)
        streams[i] = mix(seed * STREAM_COUNT + (uint64_t)i);
    now = 1000 * DIBS_MS;
    last_number = steps = 0;
    stuck = uninterrupted = 0;
    seen_as = -1;
}

struct starter {
    void (*run)(void *);
    void *arg;
};

static void *
run_starter(void *arg)
{
    struct starter starter = *(struct starter *)arg;

    dibs__free(arg);
    starter.run(starter.arg);
    return NULL;
}

void
sim_spawn(int process, void (*run)(void *), void *arg)
{
    struct starter *starter = dibs__alloc(sizeof(*starter));

    starter->run = run;
    starter->arg = arg;
    (void)sim_fiber_start(process, run_starter, starter, 1);
}

int
sim_process(void)
{
    return current->process;
}

void
sim_kill(int process)
{
    processes[process].dead = 1;
    sim_wake_all(&fiber_count);
    if (current->process == process)
        switch_to(choose());
}

int
sim_is_dead(int process)
{
    return processes[process].dead;
}

void
sim_pause(int process, dibs_time until)
{
    processes[process].paused_until = processes[process].last_pause_end = until;
    if (current->process == process)
        switch_to(choose());
}

int
sim_was_paused(int process, dibs_time since)
{
    return processes[process].last_pause_end > since;
}

size_t
sim_live_fibers(int process)
{
    size_t count = 0;

    for (size_t i = 1; i < fiber_count; i++)
        count += fibers[i].process == process &&
                 (fibers[i].state == RUNNABLE || fibers[i].state == BLOCKED);
    return count;
}

int
sim_wait_for_all(dibs_time deadline)
{
    for (;;) {
        size_t live = 0;

        for (int i = 1; i < SIM_PROCESSES; i++)
            live += processes[i].dead ? 0 : sim_live_fibers(i);
        if (!live || stuck || now >= deadline)
            return !live;
        sim_block(&fiber_count, deadline);
    }
}

void
sim_sleep(dibs_time how_long)
{
    sim_block(NULL, now + how_long);
}

uint64_t
sim_fiber(void)
{
    return current->number;
}

void
sim_watch_sleep(void)
{
    current->first_slept = DIBS_NEVER;
}

void
sim_note_sleep(void)
{
    if (current->first_slept == DIBS_NEVER)
        current->first_slept = now;
}

dibs_time
sim_first_slept(uint64_t fiber)
{
    for (size_t i = 1; i < fiber_count; i++)
        if (fibers[i].number == fiber)
            return fibers[i].first_slept;
    return DIBS_NEVER;
}

void
sim_enter(int as_process)
{
    uninterrupted++;
    seen_as = as_process;
}

void
sim_leave(void)
{
    uninterrupted--;
    seen_as = -1;
}
