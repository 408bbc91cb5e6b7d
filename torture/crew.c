/* SPDX-License-Identifier: MIT */
/*
 * The process that has the clients of a run as its children: it starts them, kills and pauses
 * them at the times that the plan gives, and replaces those it has killed. It is a process of
 * its own so that this goes on while servers are being hurt. It also notices when the whole
 * machine stands still.
 *
 * Half of the pauses are by SIGSTOP, half by the freezer, where there is one: all threads of a
 * frozen client stand still, and no signal says so. Which it is to be is drawn in any case, so
 * that a seed does the rest alike everywhere.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "freeze.h"
#include "parts.h"

#define TICK_US 10000
#define LATE_MS 40
/* how long clients may take to go when the run is over: the longest of their calls */
#define GO_MS 30000

/* Where there is a client, or will be again. */
struct place {
    pid_t pid; /* 0: it was killed */
    uint32_t number, life;
    int64_t resume_at, replace_at;
    struct incident *pause; /* not NULL: it is paused */
    int is_frozen;          /* by the freezer, in the group of its number */
};

struct crew {
    const struct scene *scene;
    struct place places[TORTURE_CLIENTS];
    uint32_t count;
    uint64_t random;
    int64_t next_kill, next_pause;
    int can_freeze;
    struct freezer freezer;
};

static int
live_there(const struct scene *scene, void *arg)
{
    const struct place *place = arg;
    return client_live(scene, place->number, place->life);
}

static void
start(struct crew *crew, struct place *place)
{
    place->pid = scene_fork(crew->scene, live_there, place);
    if (place->pid > 0)
        return;
    place->pid = 0;
    stage_fail(crew->scene->stage, DIBS_ENOMEM, "no more processes can be had");
}

/* ---- hurting them ---- */

/* a time from now, about that far away: half as far at least, one and a half at most */
static int64_t
about(struct crew *crew, int64_t every_ms)
{
    return history_now() +
           random_between(&crew->random, every_ms / 2, every_ms * 3 / 2) * MS_NS;
}

/* somebody who is there; NULL if it hits a place where nobody is */
static struct place *
victim(struct crew *crew)
{
    struct place *place = &crew->places[random_below(&crew->random, crew->count)];
    return place->pid > 0 ? place : NULL;
}

static struct incident *
note(struct crew *crew, const struct place *place, int kind, const char *what)
{
    struct incident *incident = history_incident(crew->scene->history, kind, what);
    if (incident) {
        incident->client = place->number;
        incident->life = place->life;
    }
    return incident;
}

static void
end_incident(struct incident *incident)
{
    if (incident)
        atomic_store(&incident->until, history_now());
}

/* lets it go on, or die of what it was sent meanwhile */
static void
thaw(struct crew *crew, struct place *place)
{
    if (place->is_frozen)
        freezer_thaw(&crew->freezer, place->number);
    place->is_frozen = 0;
}

static void
resume(struct crew *crew, struct place *place)
{
    if (place->is_frozen)
        thaw(crew, place);
    else
        (void)kill(place->pid, SIGCONT);
    end_incident(place->pause);
    place->pause = NULL;
}

/* the way into the group takes a while, in which it still runs: that is no part of a pause */
static int
prepare_freeze(struct crew *crew, const struct place *place)
{
    int drawn = random_below(&crew->random, 2) == 1;
    return drawn && crew->can_freeze &&
           freezer_take(&crew->freezer, place->number, place->pid) == 0;
}

static void
stop(struct crew *crew, struct place *place, int by_freezer)
{
    place->is_frozen = by_freezer && freezer_freeze(&crew->freezer, place->number) == 0;
    if (!place->is_frozen)
        (void)kill(place->pid, SIGSTOP);
    else
        atomic_fetch_add(&crew->scene->stage->freezes, 1);
    atomic_fetch_add(&crew->scene->stage->pauses, 1);
}

static void
pause_one(struct crew *crew)
{
    int64_t lease_ms = crew->scene->plan->lease_ms;
    struct place *place = victim(crew);
    crew->next_pause = about(crew, crew->scene->plan->pause_every_ms);
    if (!place || place->pause)
        return;
    place->pause = note(crew, place, INCIDENT_PAUSE, "paused");
    if (!place->pause)
        return;
    int by_freezer = prepare_freeze(crew, place);
    atomic_store(&place->pause->from, history_now());
    stop(crew, place, by_freezer);
    place->resume_at =
        history_now() +
        (random_below(&crew->random, 2) ? lease_ms / 2 : 2 * lease_ms) * MS_NS;
}

static void
kill_one(struct crew *crew)
{
    struct place *place = victim(crew);
    crew->next_kill = about(crew, crew->scene->plan->kill_every_ms);
    struct incident *incident = place ? note(crew, place, INCIDENT_KILL, "killed") : NULL;
    if (!incident)
        return;
    (void)kill(place->pid, SIGKILL);
    thaw(crew, place);
    (void)waitpid(place->pid, NULL, 0);
    end_incident(incident);
    end_incident(place->pause);
    place->pause = NULL;
    place->pid = 0;
    place->life++;
    place->replace_at =
        history_now() +
        random_between(&crew->random, 0, crew->scene->plan->lease_ms / 2) * MS_NS;
    atomic_fetch_add(&crew->scene->stage->kills, 1);
}

/* ---- looking after them ---- */

/* nobody but us may end a client: else it is dibs that did */
static void
complain(struct crew *crew, int status)
{
    stage_fail(crew->scene->stage, DIBS_ECORRUPT,
               "a process of the run ended by itself, %s %d",
               WIFSIGNALED(status) ? "by signal" : "with status",
               WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static void
look_at(struct crew *crew, struct place *place)
{
    int status = 0;
    int64_t now = history_now();
    if (place->pid == 0) {
        if (now >= place->replace_at)
            start(crew, place);
    } else if (waitpid(place->pid, &status, WNOHANG) == place->pid) {
        place->pid = 0;
        place->replace_at = INT64_MAX;
        if (status != 0 || !scene_is_over(crew->scene))
            complain(crew, status);
    } else if (place->pause && now >= place->resume_at) {
        resume(crew, place);
    }
}

static void
hurt(struct crew *crew)
{
    const struct torture_plan *plan = crew->scene->plan;
    int64_t now = history_now();
    if (plan->kill_every_ms > 0 && now >= crew->next_kill)
        kill_one(crew);
    if (plan->pause_every_ms > 0 && now >= crew->next_pause)
        pause_one(crew);
}

/* sleeps for a tick, and notes if that took far too long */
static void
tick(struct crew *crew)
{
    int64_t before = history_now();
    nap(TICK_US);
    int64_t now = history_now();
    if (now - before <= LATE_MS * crew->scene->plan->slow * MS_NS)
        return;
    struct incident *late =
        history_incident(crew->scene->history, INCIDENT_LATE, "the machine stood still");
    if (!late)
        return;
    atomic_store(&late->from, before);
    atomic_store(&late->until, now);
}

/* ---- the end ---- */

static void
await_end(struct crew *crew, pid_t pid, int64_t until)
{
    int64_t left_ms = (until - history_now()) / MS_NS;
    int status = process_await(pid, left_ms > 0 ? left_ms : 0);
    if (status < 0)
        atomic_fetch_add(&crew->scene->stage->stuck, 1);
    else if (status > 0)
        complain(crew, status);
}

static void
see_out(struct crew *crew)
{
    int64_t until = history_now() + GO_MS * crew->scene->plan->slow * MS_NS;
    for (uint32_t i = 0; i < crew->count; i++) {
        if (crew->places[i].pause)
            resume(crew, &crew->places[i]);
    }
    for (uint32_t i = 0; i < crew->count; i++) {
        if (crew->places[i].pid > 0)
            await_end(crew, crew->places[i].pid, until);
    }
}

/* ---- from beginning to end ---- */

static void
begin(struct crew *crew)
{
    const struct torture_plan *plan = crew->scene->plan;
    struct stage *stage = crew->scene->stage;
    if (plan->pause_every_ms > 0)
        crew->can_freeze = freezer_open(&crew->freezer, 0, stage->no_freezer) == 0;
    if (crew->can_freeze)
        stage->no_freezer[0] = '\0';
    crew->next_kill = about(crew, plan->kill_every_ms);
    crew->next_pause = about(crew, plan->pause_every_ms);
    for (uint32_t i = 0; i < crew->count; i++) {
        crew->places[i].number = i;
        start(crew, &crew->places[i]);
    }
}

int
crew_live(const struct scene *scene, void *unused)
{
    static struct crew crew;
    (void)unused;
    crew.scene = scene;
    crew.count = scene->plan->clients;
    crew.random = random_from(scene->plan->seed, UINT64_MAX, 0, 0);
    begin(&crew);
    while (!scene_is_over(scene)) {
        tick(&crew);
        for (uint32_t i = 0; i < crew.count; i++) {
            look_at(&crew, &crew.places[i]);
        }
        hurt(&crew);
    }
    see_out(&crew);
    if (crew.can_freeze)
        freezer_close(&crew.freezer);
    return 0;
}
