/* SPDX-License-Identifier: MIT */
/*
 * A process of the run: opens a client, starts its threads, and looks after them until the
 * run is over. Meanwhile it notices when it does not get to run: what its threads do late
 * then is not the fault of what is tortured.
 */
#include <pthread.h>
#include <stdio.h>

#include "parts.h"

#define WATCH_EVERY_US 5000
#define STARVED_MS 25

static void *
work(void *arg)
{
    struct worker *worker = arg;
    while (!scene_is_over(worker->scene)) {
        turn_take(worker);
    }
    if (worker->moves.leave)
        worker->moves.leave(worker);
    return NULL;
}

/* a server may be down: then try until the run is over */
static dibs *
open_client(const struct scene *scene, uint32_t place)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    options.open_wait_ms = 3000;
    options.app = "dibs torture";
    while (!scene_is_over(scene)) {
        dibs *client = NULL;
        dibs_error err = { .code = DIBS_OK };
        if (dibs_open(&client, scene->plan->url, &options, &err) == DIBS_OK)
            return client;
        history_say(scene->history, place, err.text);
        nap(50 * 1000);
    }
    return NULL;
}

static void
note_starved(const struct worker *worker, int64_t from, int64_t until)
{
    struct incident *incident =
        history_incident(worker->scene->history, INCIDENT_PAUSE, "starved");
    if (!incident)
        return;
    incident->client = worker->place;
    incident->life = worker->life;
    atomic_store(&incident->from, from);
    atomic_store(&incident->until, until);
}

static void
watch(const struct worker *worker)
{
    int64_t limit =
        (WATCH_EVERY_US / 1000 + STARVED_MS * worker->scene->plan->slow) * MS_NS;
    int64_t before = history_now();
    while (!scene_is_over(worker->scene)) {
        nap(WATCH_EVERY_US);
        int64_t now = history_now();
        if (now - before > limit)
            note_starved(worker, before, now);
        before = history_now();
    }
}

static void
worker_init(struct worker *worker, const struct worker *like, uint32_t number)
{
    const struct torture_plan *plan = like->scene->plan;
    *worker = *like;
    worker->number = number;
    worker->random = random_from(plan->seed, like->place, like->life, number);
}

/* with fewer threads than asked for, if the machine has no more */
static void
run_threads(const struct worker *like)
{
    static struct worker workers[TORTURE_THREADS];
    pthread_t threads[TORTURE_THREADS];
    uint32_t wanted = like->scene->plan->threads, count = 0;
    for (; count < wanted && count < TORTURE_THREADS; count++) {
        worker_init(&workers[count], like, count);
        if (pthread_create(&threads[count], NULL, work, &workers[count]) != 0)
            break;
    }
    watch(like);
    dibs_cancel(like->cancel);
    while (count > 0) {
        (void)pthread_join(threads[--count], NULL);
    }
}

int
client_live(const struct scene *scene, uint32_t place, uint32_t life)
{
    struct worker like = { .scene = scene, .place = place, .life = life };
    like.moves = mutant_moves(scene->plan->mutant);
    like.client = open_client(scene, place);
    if (!like.client)
        return 0;
    history_say(scene->history, place, dibs_url(like.client));
    history_say(scene->history, place, dibs_notice(like.client));
    if (dibs_canceller_new(&like.cancel, NULL) != DIBS_OK)
        return 1;
    run_threads(&like);
    dibs_close(like.client);
    dibs_canceller_free(like.cancel);
    return 0;
}
