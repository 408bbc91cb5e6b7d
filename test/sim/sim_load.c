/* SPDX-License-Identifier: MIT */
/*
 * The simulated processes: a few threads each, which take and give back locks
 * (sim_lock.c) while the world kills, pauses and cuts off some of them.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim_app.h"

#define OPEN_URL "sim:/sim"
#define RUN_MAX (120000 * DIBS_MS)

struct sim_names sim_names;

static struct app apps[SIM_PROCESSES];
static int app_count;

/* ---- threads and processes ---- */

static void
close_client(struct app *app)
{
    dibs_time invoked = sim_now();

    app->closing = 1;
    sim_check_closing(app->process);
    dibs_close(app->client);
    sim_record(OP_CLOSED, app->process, -1, -1, 0);
    if (!app->abandons)
        sim_server_closed(app->process, invoked);
    app->closed = 1;
}

static int
may_close_under(const struct thread *thread)
{
    return thread->parked ||
           (thread->acquiring && sim_first_slept(thread->number) != DIBS_NEVER);
}

/* Closing ends the waits of other threads. It must not come between their other calls;
 * that is for every program to see to, so this one waits until they all wait. */
static void
close_under_others(struct thread *self)
{
    struct app *app = self->app;

    app->closing = 1;
    for (int i = 0; i < THREADS_MAX; i++) {
        const struct thread *other = &app->thread[i];

        if (other == self || !other->app || may_close_under(other))
            continue;
        sim_sleep(DIBS_MS);
        i = -1; /* look at all of them again */
    }
    close_client(app);
}

static void
thread_main(void *arg)
{
    struct thread *thread = arg;
    struct app *app = thread->app;
    int64_t rounds = some(2, 8);

    thread->number = sim_fiber();
    for (int64_t i = 0; i < rounds && !sim_violated() && !app->closing; i++)
        sim_one_round(thread);
    thread->parked = 1;
    if (!app->closing && chance(5))
        close_under_others(thread);
    if (--app->threads == 0 && !app->closing)
        close_client(app);
}

static void
process_main(void *arg)
{
    struct app *app = arg;
    dibs_options options = DIBS_OPTIONS_INIT;
    dibs_error err;
    int rc;

    options.lease_ms = LEASE_MAX_MS;
    options.handover_max = chance(30) ? 1 : 0;
    /* all in one go: only opening touches what simulated processes share, and a process
     * must not die with that locked */
    sim_enter(app->process);
    rc = dibs_open(&app->client, OPEN_URL, &options, &err);
    sim_leave();
    if (rc) {
        fprintf(stderr, "dibs_sim: cannot open: %s\n", err.text);
        exit(2);
    }
    sim_record(OP_OPEN, app->process, -1, -1, 0);
    app->threads = (int)some(1, THREADS_MAX);
    for (int i = 0; i < app->threads; i++)
        app->thread[i].app = app;
    for (int i = 0, threads = app->threads; i < threads; i++)
        sim_spawn(app->process, thread_main, &app->thread[i]);
}

/* ---- what the world does to them ---- */

struct blow {
    int process;
    enum { DEATH, PAUSE, CUT } kind;
    dibs_time at, length;
};
static struct blow blows[3 * SIM_PROCESSES];

static void
strike(void *arg)
{
    const struct blow *blow = arg;

    sim_sleep(blow->at);
    if (sim_is_dead(blow->process) || !sim_live_fibers(blow->process))
        return;
    if (blow->kind == DEATH) {
        sim_check_dead(blow->process);
        sim_kill(blow->process);
    } else if (blow->kind == PAUSE) {
        sim_record(OP_PAUSE, blow->process, -1, -1, (uint64_t)(blow->length / DIBS_MS));
        sim_pause(blow->process, sim_now() + blow->length);
    } else {
        sim_network.cut_from[blow->process] = sim_now();
        sim_network.cut_until[blow->process] = sim_now() + blow->length;
    }
}

static void
plan_blow(struct blow *blow, int process, int kind, int percent)
{
    if (!chance(percent))
        return;
    blow->process = process;
    blow->kind = (unsigned)kind;
    blow->at = some(5, 1500) * DIBS_MS;
    blow->length = some(1, 3 * LEASE_MAX_MS) * DIBS_MS;
    sim_spawn(SIM_SERVER, strike, blow);
}

/* A third of all runs have a good network and no pauses: there the rules are
 * strictest. */
static void
plan_faults(void)
{
    int deaths = chance(50), faulty = chance(66);
    int cuts = faulty && chance(50), pauses = faulty && chance(50);

    sim_network.is_faulty = faulty;
    sim_network.delay_max =
        some(1, faulty && chance(30) ? 40000 : 2000) * (DIBS_MS / 1000);
    sim_network.drop_percent = faulty && chance(60) ? (int)some(1, 20) : 0;
    sim_network.late_percent = chance(50) ? 30 : 0;
    for (int i = 1; i <= app_count; i++) {
        plan_blow(&blows[3 * i], i, DEATH, deaths ? 30 : 0);
        plan_blow(&blows[3 * i + 1], i, PAUSE, pauses ? 50 : 0);
        plan_blow(&blows[3 * i + 2], i, CUT, cuts ? 50 : 0);
    }
}

static void
check_memory(void)
{
    for (int i = 1; i <= app_count; i++)
        if (sim_is_dead(i))
            return;
    sim_engine_reset();
    if (sim_mem_blocks())
        sim_violation(K9, "%zu blocks of memory are left", sim_mem_blocks());
    if (sim_descriptors_left())
        sim_violation(K9, "a descriptor is left open");
}

void
sim_load_run(void)
{
    app_count = (int)some(2, 6);
    sim_names.count = (int)some(1, SIM_NAMES);
    for (int i = 0; i < SIM_NAMES; i++)
        sim_names.is_semaphore[i] = chance(20);
    plan_faults();
    for (int i = 1; i <= app_count; i++) {
        apps[i] = (struct app){ .process = i };
        sim_set_clock_rate(i, (int)some(-1000, 1000));
        sim_spawn(i, process_main, &apps[i]);
    }
    if (!sim_wait_for_all(sim_now() + RUN_MAX)) {
        sim_check_stuck();
        return;
    }
    if (sim_violated())
        return;
    sim_sleep(2 * LEASE_MAX_MS * DIBS_MS);
    sim_server_nothing_left();
    check_memory();
}
