/* SPDX-License-Identifier: MIT */
/*
 * One turn of a thread: it asks for a lock, looks closely whether it has it, writes to the
 * register in between, gives it back; and notes when it did what. What a turn notes is for
 * the checker to judge: nothing is judged here.
 */
#include <stdio.h>

#include "parts.h"

#define LOOK_EVERY_US 500
/* so many naps of a millisecond, times `slow`, for on_lost to be called; not a time, because
 * the process may be stopped meanwhile */
#define TOLD_NAPS 1000

static void
set_once(_Atomic int64_t *field, int64_t time)
{
    int64_t none = 0;
    (void)atomic_compare_exchange_strong(field, &none, time);
}

/* ---- the honest way ---- */

static int
acquire(struct worker *worker, const dibs_request *request, dibs_error *err)
{
    return dibs_acquire(&worker->hold, worker->client, request, err);
}

static int
held(struct worker *worker)
{
    return dibs_held(worker->hold);
}

static uint64_t
token(struct worker *worker)
{
    return dibs_token(worker->hold);
}

static void
note_lost(dibs_hold *hold, void *arg)
{
    struct turn *turn = arg;
    (void)hold;
    set_once(&turn->lost_at, history_now());
    atomic_fetch_add(&turn->lost_calls, 1);
}

static int
admits(uint64_t largest, uint64_t offered)
{
    return offered >= largest;
}

static int
release(struct worker *worker, dibs_error *err)
{
    return dibs_release(worker->hold, err);
}

const struct moves honest_moves = { NULL,      acquire, held,    token,
                                    note_lost, admits,  release, NULL };

/* ---- asking ---- */

/* each code once, and then now and then: there is not room for all of them */
void
worker_say(struct worker *worker, const dibs_error *err)
{
    uint32_t bit = 1u << (-err->code & 31);
    if ((worker->said & bit) != 0 && random_below(&worker->random, 64) != 0)
        return;
    worker->said |= bit;
    history_say(worker->scene->history, worker->place, err->text);
}

static void
describe(struct worker *worker)
{
    const struct errand *errand = &worker->errand;
    struct turn *turn = worker->turn;
    turn->client = worker->place;
    turn->life = worker->life;
    turn->thread = worker->number;
    turn->name = errand->name;
    turn->mode = errand->mode;
    turn->permits = errand->permits;
    turn->limit = errand->limit;
    turn->lease_ms = worker->scene->plan->lease_ms;
    turn->wait_ms = errand->wait_ms;
    turn->fence_code = 1;
}

static dibs_request
request_of(struct worker *worker)
{
    const struct errand *errand = &worker->errand;
    dibs_request request = DIBS_REQUEST_INIT;
    request.name = worker->scene->names[errand->name];
    request.mode = errand->mode;
    request.permits = errand->permits;
    request.limit = errand->limit;
    request.wait_ms = errand->wait_ms;
    request.lease_ms = worker->scene->plan->lease_ms;
    request.flags = errand->flags;
    request.cancel = worker->cancel;
    request.on_lost = worker->moves.on_lost;
    request.on_lost_arg = worker->turn;
    return request;
}

static int
ask(struct worker *worker)
{
    struct turn *turn = worker->turn;
    dibs_request request = request_of(worker);
    dibs_error err = { .code = DIBS_OK };

    atomic_store(&turn->invoked, history_now());
    int code = worker->moves.acquire(worker, &request, &err);
    int64_t now = history_now();
    turn->code = code;
    if (code == DIBS_OK) {
        turn->token = worker->moves.token(worker);
        turn->previous = dibs_previous(worker->hold);
    } else {
        worker_say(worker, &err);
    }
    atomic_store(&turn->returned, now);
    return code;
}

/* ---- having it ---- */

/* after a downgrade others may share it: what was believed of exclusive use has ended */
static void
look(struct worker *worker)
{
    struct turn *turn = worker->turn;
    int64_t before = history_now();
    int is_held = worker->moves.held(worker);
    int64_t after = history_now();
    if (!is_held) {
        set_once(&turn->not_held, after);
    } else if (atomic_load(&turn->not_held) != 0) {
        set_once(&turn->held_again, after);
    } else if (!worker->is_downgraded) {
        set_once(&turn->first_held, after);
        atomic_store(&turn->last_held, before);
    }
}

/* it goes on looking when it has lost the lock: lost must stay lost */
static void
stay_until(struct worker *worker, int64_t time)
{
    look(worker);
    while (history_now() < time && !scene_is_over(worker->scene)) {
        nap(LOOK_EVERY_US);
        look(worker);
    }
}

/* Whether the lock was lost meanwhile is not asked: to refuse is up to the register. */
static void
write_it(struct worker *worker)
{
    struct turn *turn = worker->turn;
    dibs_error err = { .code = DIBS_OK };
    turn->seal_code = register_seal(worker);
    atomic_store(&turn->sealed, history_now());
    if (turn->seal_code == DIBS_OK)
        (void)register_write(worker);
    if (!worker->errand.fences)
        return;
    int code = dibs_fence(worker->client, worker->scene->names[worker->errand.name],
                          turn->token, &err);
    turn->fence_code = code;
    if (code != DIBS_OK)
        worker_say(worker, &err);
}

static void
renew(struct worker *worker)
{
    dibs_error err = { .code = DIBS_OK };
    if (dibs_renew(worker->hold, 0, &err) != DIBS_OK)
        worker_say(worker, &err);
}

static void
downgrade(struct worker *worker)
{
    dibs_error err = { .code = DIBS_OK };
    worker->is_downgraded = 1;
    if (dibs_downgrade(worker->hold, &err) != DIBS_OK)
        worker_say(worker, &err);
}

/* Who finds that it has lost the lock waits to be told so as well: after a release it may be
 * told by that alone. */
static void
await_told(struct worker *worker)
{
    int naps = TOLD_NAPS * worker->scene->plan->slow;
    while (naps-- > 0 && atomic_load(&worker->turn->lost_calls) == 0) {
        nap(1000);
        look(worker);
    }
}

static void
use(struct worker *worker)
{
    const struct errand *errand = &worker->errand;
    int64_t granted = history_now();
    worker->is_downgraded = 0;
    if (errand->write_ms >= 0) {
        stay_until(worker, granted + errand->write_ms * MS_NS);
        write_it(worker);
    }
    if (errand->renews)
        renew(worker);
    if (errand->downgrades)
        downgrade(worker);
    stay_until(worker, granted + errand->hold_ms * MS_NS);
    if (atomic_load(&worker->turn->not_held) != 0)
        await_told(worker);
}

/* ---- giving it back ---- */

static void
abandon(struct worker *worker)
{
    struct turn *turn = worker->turn;
    turn->abandoned = 1;
    atomic_store(&turn->releasing, history_now());
    dibs_abandon(worker->hold);
    atomic_store(&turn->released, history_now());
}

static void
give_back(struct worker *worker)
{
    struct turn *turn = worker->turn;
    dibs_error err = { .code = DIBS_OK };
    atomic_store(&turn->releasing, history_now());
    int code = worker->moves.release(worker, &err);
    int64_t now = history_now();
    turn->release_code = code;
    atomic_store(&turn->released, now);
    if (code != DIBS_OK)
        worker_say(worker, &err);
    dibs_hold_free(worker->hold);
}

void
turn_take(struct worker *worker)
{
    const struct scene *scene = worker->scene;
    errand_draw(&worker->errand, scene->plan, scene->stage->caps, worker->number,
                &worker->random);
    if (worker->moves.shape)
        worker->moves.shape(worker);
    worker->turn = history_turn(scene->history);
    if (!worker->turn) {
        nap(1000 * 1000);
        return;
    }
    describe(worker);
    worker->hold = NULL;
    int code = ask(worker);
    if (code == DIBS_OK) {
        use(worker);
        if (worker->errand.abandons)
            abandon(worker);
        else
            give_back(worker);
    } else if (code != DIBS_EBUSY && code != DIBS_ETIMEDOUT) {
        nap(10 * 1000); /* the engine is in trouble: leave it time */
    }
    nap(worker->errand.rest_ms * 1000);
}
