/* SPDX-License-Identifier: MIT */
/*
 * A run, from the first look to the verdict. The process that calls it strikes at servers and
 * tells of the progress; crew.c, in a process of its own, has the clients.
 */
#include <stdio.h>
#include <string.h>

#include "parts.h"

#define TICK_US 10000
#define PROGRESS_NS (100 * MS_NS)
/* opening has ten seconds, and may have to resolve a name besides */
#define LOOK_MS 40000
/* the crew waits for its clients, and then ends them */
#define CREW_MS 60000

/* What the process that strikes keeps in mind. */
struct driver {
    struct scene *scene;
    pid_t crew;
    uint64_t random;
    int64_t begun, next_strike, next_progress;
};

/* ---- while it runs ---- */

static int64_t
strike_every_ms(const struct torture_plan *plan)
{
    int64_t asked_ms = plan->fault->every_ms;
    return asked_ms > 0 ? asked_ms : 5 * (int64_t)plan->lease_ms;
}

static void
plan_strike(struct driver *driver)
{
    int64_t every_ms = strike_every_ms(driver->scene->plan);
    driver->next_strike =
        history_now() +
        random_between(&driver->random, every_ms / 2, every_ms * 3 / 2) * MS_NS;
}

/* shorter than leases, about as long, and longer */
static int64_t
strike_ms(struct driver *driver)
{
    int64_t lease_ms = driver->scene->plan->lease_ms;
    const int64_t lengths[] = { lease_ms / 8, lease_ms / 2, lease_ms * 3 / 2 };
    return lengths[random_below(&driver->random, sizeof lengths / sizeof *lengths)];
}

/* noted when it is over, because only then it is known to have been one */
static void
strike(struct driver *driver)
{
    const struct torture_fault *fault = driver->scene->plan->fault;
    char what[40] = "";
    int64_t for_ms = strike_ms(driver);
    uint64_t random = random_next(&driver->random);
    int64_t from = history_now();
    int done = fault->strike(fault->arg, random, for_ms, what) == 0;
    int64_t until = history_now();
    plan_strike(driver);
    if (!done)
        return;
    driver->scene->strikes++;
    struct incident *incident =
        history_incident(driver->scene->history, INCIDENT_SERVER, what);
    if (!incident)
        return;
    atomic_store(&incident->from, from);
    atomic_store(&incident->until, until);
}

/* 1 if whoever looks on wants it to end */
static int
report(struct driver *driver, int64_t now)
{
    const struct torture_plan *plan = driver->scene->plan;
    if (!plan->progress || now < driver->next_progress)
        return 0;
    driver->next_progress = now + PROGRESS_NS;
    return plan->progress(plan->progress_arg, (now - driver->begun) / MS_NS,
                          driver->scene->history) != 0;
}

static void
drive(struct driver *driver)
{
    const struct scene *scene = driver->scene;
    const struct torture_plan *plan = scene->plan;
    int strikes = plan->fault && plan->fault->strike;
    if (strikes)
        plan_strike(driver);
    for (;;) {
        int64_t now = history_now();
        if (now - driver->begun >= plan->run_ms * MS_NS || report(driver, now) ||
            atomic_load(&scene->stage->code) != DIBS_OK)
            return;
        if (strikes && now >= driver->next_strike)
            strike(driver);
        nap(TICK_US);
    }
}

static void
note_pressure(const struct driver *driver, int64_t before)
{
    int64_t took_us = (history_now() - driver->begun) / 1000;
    int64_t pressed = pressure_us() - before;
    if (before < 0 || pressed < 0 || took_us <= 0)
        return;
    driver->scene->history->busy =
        pressed < took_us ? (int)(pressed * 100 / took_us) : 100;
}

/* ---- from beginning to end ---- */

/* asks in a process of its own */
static int
look(struct scene *scene, int (*ask)(const struct scene *, void *), int64_t limit_ms)
{
    pid_t pid = scene_fork(scene, ask, NULL);
    if (pid < 0)
        stage_fail(scene->stage, DIBS_ENOMEM, "no more processes can be had");
    else if (process_await(pid, limit_ms) != 0)
        stage_fail(scene->stage, DIBS_EUNAVAIL, "the engine does not answer");
    return atomic_load(&scene->stage->code);
}

static int
run_crew(struct scene *scene)
{
    struct driver driver = { .scene = scene, .begun = history_now() };
    int64_t pressed = pressure_us();
    driver.random = random_from(scene->plan->seed, UINT64_MAX, 1, 0);
    driver.crew = scene_fork(scene, crew_live, NULL);
    if (driver.crew < 0) {
        stage_fail(scene->stage, DIBS_ENOMEM, "no more processes can be had");
        return DIBS_ENOMEM;
    }
    drive(&driver);
    note_pressure(&driver, pressed);
    atomic_store(&scene->stage->is_over, 1);
    if (process_await(driver.crew, CREW_MS * scene->plan->slow) != 0)
        stage_fail(scene->stage, DIBS_ECORRUPT, "the processes of the run do not end");
    return atomic_load(&scene->stage->code);
}

/* what only the processes of the run know */
static void
complete(struct verdict *out, const struct scene *scene)
{
    const struct stage *stage = scene->stage;
    out->kills = atomic_load(&stage->kills);
    out->pauses = atomic_load(&stage->pauses);
    out->freezes = atomic_load(&stage->freezes);
    (void)snprintf(out->no_freezer, sizeof out->no_freezer, "%s", stage->no_freezer);
    out->strikes = scene->strikes;
    (void)snprintf(out->engine, sizeof out->engine, "%s", stage->engine);
    (void)snprintf(out->url, sizeof out->url, "%s", stage->url);
    out->looked[9] = stage->has_looked ? scene->plan->names : 0;
    out->violated[9] = stage->has_looked ? stage->left : 0;
    if (out->violated[9] > 0)
        (void)snprintf(out->first[9], sizeof out->first[9], "%s is still in use",
                       stage->left_name);
    if (atomic_load(&stage->stuck) > 0 && out->violated[10]++ == 0)
        (void)snprintf(out->first[10], sizeof out->first[10],
                       "a process did not end when the run was over");
}

static int
check_plan(const struct torture_plan *plan, char why[256])
{
    if (plan->clients >= 1 && plan->clients <= TORTURE_CLIENTS && plan->threads >= 1 &&
        plan->threads <= TORTURE_THREADS && plan->names >= 1 &&
        plan->names <= HISTORY_NAMES && plan->lease_ms >= 1 && plan->slow >= 1)
        return DIBS_OK;
    (void)snprintf(why, 256,
                   "a run has 1 to %d processes, 1 to %d threads in each, 1 to %d names",
                   TORTURE_CLIENTS, TORTURE_THREADS, HISTORY_NAMES);
    return DIBS_EINVAL;
}

/* Who knows what is done to the servers also knows how long they may take. Else it is what
 * the engine takes to end what a dead process had. */
static void
allow_for_engine(struct scene *scene, struct torture_plan *plan,
                 struct torture_fault *none)
{
    if (plan->fault)
        return;
    none->heal_ms = outlives_ms(scene->stage->engine, plan->lease_ms);
    plan->fault = none;
}

static int
run(struct scene *scene, struct torture_plan *plan, struct verdict *out)
{
    struct torture_fault none = { NULL, NULL, 0, 0 };
    int code = look(scene, look_before, LOOK_MS);
    allow_for_engine(scene, plan, &none);
    int64_t after_ms = LOOK_MS + plan->lease_ms + plan->fault->heal_ms;
    if (code == DIBS_OK)
        code = run_crew(scene);
    if (code == DIBS_OK)
        code = look(scene, look_after, after_ms + LOOK_MS * (plan->slow - 1));
    if (code != DIBS_OK)
        return code;
    torture_check(plan, scene->stage->caps, scene->history, out);
    complete(out, scene);
    return DIBS_OK;
}

int
torture_run(const struct torture_plan *plan, struct verdict *out, char why[256])
{
    struct scene scene;
    struct torture_plan own = *plan;
    int code = check_plan(plan, why);
    if (code != DIBS_OK)
        return code;
    memset(out, 0, sizeof *out);
    if (scene_open(&scene, &own) == 0) {
        code = run(&scene, &own, out);
        (void)snprintf(why, 256, "%s", scene.stage->why);
    } else {
        code = DIBS_ENOMEM;
        (void)snprintf(why, 256, "no memory for what the run is to remember");
    }
    scene_close(&scene);
    return code;
}
