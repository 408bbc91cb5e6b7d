/* SPDX-License-Identifier: MIT */
/*
 * Clients that break one rule each, so that a checker which has lost its eyes is noticed: a
 * run of each must be found guilty. They break it as real locks have been seen to, and note
 * what a program that trusts such a lock would see.
 */
#include <stdio.h>

#include "parts.h"

/* so that a rule which allows for slow machines is broken on them too */
static int64_t
slowly(const struct worker *worker, int64_t ms)
{
    return ms * worker->scene->plan->slow;
}

/* ---- holds that outlast their leases ---- */

/* nothing renews it, and its owner works on; most of those who wait have the patience */
static void
oversleep_lease(struct worker *worker)
{
    struct errand *errand = &worker->errand;
    int64_t lease_ms = worker->scene->plan->lease_ms;
    errand->flags |= DIBS_NO_RENEW;
    errand->wait_ms = DIBS_WAIT_FOREVER;
    errand->hold_ms = lease_ms * 9 / 5;
    errand->write_ms = errand->write_ms < 0 ? -1 : errand->hold_ms;
    errand->renews = errand->abandons = errand->downgrades = 0;
}

/* K1: counts the lease from when the answer came, and twice */
static int
held_for_two_leases(struct worker *worker)
{
    int64_t for_ns = 2 * (int64_t)worker->scene->plan->lease_ms * MS_NS;
    return dibs_held(worker->hold) ||
           history_now() < atomic_load(&worker->turn->returned) + for_ns;
}

/* K2: some write at once and some late, to a resource that does not look at tokens */
static void
write_early_or_late(struct worker *worker)
{
    oversleep_lease(worker);
    if (worker->place % 2 == 0 && worker->errand.write_ms > 0)
        worker->errand.write_ms = 0;
}

static int
admits_all(uint64_t largest, uint64_t offered)
{
    (void)largest;
    (void)offered;
    return 1;
}

/* K4: nobody is told */
static void
swallow_loss(dibs_hold *hold, void *turn)
{
    (void)hold;
    (void)turn;
}

/* K5: what was lost is taken again, in silence */
static int
held_by_taking_again(struct worker *worker)
{
    const struct scene *scene = worker->scene;
    dibs_hold *again = NULL;
    if (dibs_held(worker->hold))
        return 1;
    if (atomic_load(&worker->turn->not_held) == 0)
        return 0;
    if (dibs_timedlock(&again, worker->client, scene->names[worker->errand.name],
                       2 * (int64_t)scene->plan->lease_ms, NULL) != DIBS_OK)
        return 0;
    dibs_hold_free(worker->hold);
    worker->hold = again;
    return 1;
}

/* ---- tokens, releases, order ---- */

/* K3: each process counts for itself */
static uint64_t
token_of_own_counter(struct worker *worker)
{
    static _Atomic uint64_t counter;
    (void)worker;
    return atomic_fetch_add(&counter, 1) + 1;
}

/* K6: a release by name, which hits whoever has it by then */
static int
release_by_name(struct worker *worker, dibs_error *err)
{
    const char *name = worker->scene->names[worker->errand.name];
    int code = dibs_release(worker->hold, err);
    int broken = dibs_break(NULL, worker->client, name, "released", NULL);
    return code != DIBS_OK || broken == DIBS_ENOTHELD ? code : broken;
}

/* K7: who waits gives up its place now and then, and goes to the end of the line */
static int
acquire_in_slices(struct worker *worker, const dibs_request *request, dibs_error *err)
{
    dibs_request slice = *request;
    int64_t until = history_now() + request->wait_ms * MS_NS;
    int code;
    if (request->wait_ms == DIBS_WAIT_NONE)
        return dibs_acquire(&worker->hold, worker->client, request, err);
    if (request->wait_ms == DIBS_WAIT_FOREVER)
        until = INT64_MAX;
    slice.wait_ms = random_between(&worker->random, 20, 60);
    do {
        code = dibs_acquire(&worker->hold, worker->client, &slice, err);
    } while (code == DIBS_ETIMEDOUT && history_now() < until);
    return code;
}

/* many wait, and long enough to be overtaken */
static void
make_a_line(struct worker *worker)
{
    worker->errand.wait_ms = DIBS_WAIT_FOREVER;
    worker->errand.hold_ms = slowly(worker, 30);
    worker->errand.write_ms = -1;
    worker->errand.rest_ms = 0;
}

/* K8: says that it was released, and keeps it for long */
static int
release_later(struct worker *worker, dibs_error *err)
{
    (void)err;
    worker->secret = worker->hold;
    worker->hold = NULL;
    worker->secret_until = history_now() + (1500 + slowly(worker, 500)) * MS_NS;
    return DIBS_OK;
}

static void
wait_for_release(struct worker *worker)
{
    while (worker->secret && history_now() < worker->secret_until &&
           !scene_is_over(worker->scene)) {
        nap(1000);
    }
    dibs_hold_free(worker->secret);
    worker->secret = NULL;
    worker->errand.wait_ms = DIBS_WAIT_FOREVER;
    worker->errand.abandons = 0;
    worker->errand.hold_ms = 10;
    worker->errand.write_ms = worker->errand.write_ms < 0 ? -1 : 0;
}

/* ---- what is left, what is said ---- */

/* K9: takes a lock for an hour and is gone */
static void
leave_a_hold(struct worker *worker)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold = NULL;
    if (worker->place != 0 || worker->number != 0)
        return;
    request.name = worker->scene->names[0];
    request.lease_ms = 3600 * 1000;
    request.wait_ms = slowly(worker, 5000);
    if (dibs_acquire(&hold, worker->client, &request, NULL) == DIBS_OK)
        dibs_abandon(hold);
}

/* K10: who does not want to wait is made to */
static int
acquire_and_oversleep(struct worker *worker, const dibs_request *request, dibs_error *err)
{
    int code = dibs_acquire(&worker->hold, worker->client, request, err);
    if (request->wait_ms == DIBS_WAIT_NONE)
        nap(slowly(worker, 250) * 1000);
    return code;
}

/* K11: one is refused after a while, and has it ever after */
static int
acquire_and_deny(struct worker *worker, const dibs_request *request, dibs_error *err)
{
    static _Atomic int granted;
    int code = dibs_acquire(&worker->hold, worker->client, request, err);
    if (code != DIBS_OK || worker->place != 0 || atomic_fetch_add(&granted, 1) != 5)
        return code;
    worker->secret = worker->hold;
    worker->hold = NULL;
    return request->wait_ms == DIBS_WAIT_NONE ? DIBS_EBUSY : DIBS_ETIMEDOUT;
}

static void
be_impatient(struct worker *worker)
{
    worker->errand.flags = DIBS_NO_REENTRY; /* who has it in secret is refused too */
    worker->errand.wait_ms = DIBS_WAIT_NONE;
    worker->errand.hold_ms = 5;
    worker->errand.write_ms = -1;
    worker->errand.abandons = 0;
    worker->errand.rest_ms = 50;
}

static void
free_secret(struct worker *worker)
{
    dibs_hold_free(worker->secret);
    worker->secret = NULL;
}

/* K12: an error names the URL with all that is in it */
static int
acquire_and_tell(struct worker *worker, const dibs_request *request, dibs_error *err)
{
    const struct torture_plan *plan = worker->scene->plan;
    int code = dibs_acquire(&worker->hold, worker->client, request, err);
    if (code != DIBS_OK && plan->secret)
        (void)snprintf(err->text, sizeof err->text, "cannot reach redis://app:%s@db",
                       plan->secret);
    return code;
}

/* K13: somebody has it, says one who has not looked */
static void
be_alone(struct worker *worker)
{
    be_impatient(worker);
    worker->errand.rest_ms = slowly(worker, 100);
}

static int
acquire_or_guess(struct worker *worker, const dibs_request *request, dibs_error *err)
{
    if (random_below(&worker->random, 2) == 0) {
        err->code = DIBS_EBUSY;
        return DIBS_EBUSY;
    }
    return dibs_acquire(&worker->hold, worker->client, request, err);
}

struct moves
mutant_moves(int rule)
{
    struct moves moves = honest_moves;
    switch (rule) {
    case 1:
        moves.shape = oversleep_lease;
        moves.held = held_for_two_leases;
        break;
    case 2:
        moves.shape = write_early_or_late;
        moves.admits = admits_all;
        break;
    case 3:
        moves.token = token_of_own_counter;
        break;
    case 4:
        moves.shape = oversleep_lease;
        moves.on_lost = swallow_loss;
        break;
    case 5:
        moves.shape = oversleep_lease;
        moves.held = held_by_taking_again;
        break;
    case 6:
        moves.release = release_by_name;
        break;
    case 7:
        moves.shape = make_a_line;
        moves.acquire = acquire_in_slices;
        break;
    case 8:
        moves.shape = wait_for_release;
        moves.release = release_later;
        moves.leave = free_secret;
        break;
    case 9:
        moves.leave = leave_a_hold;
        break;
    case 10:
        moves.acquire = acquire_and_oversleep;
        break;
    case 11:
        moves.shape = be_impatient;
        moves.acquire = acquire_and_deny;
        moves.leave = free_secret;
        break;
    case 12:
        moves.acquire = acquire_and_tell;
        break;
    case 13:
        moves.shape = be_alone;
        moves.acquire = acquire_or_guess;
        break;
    default:
        break;
    }
    return moves;
}
