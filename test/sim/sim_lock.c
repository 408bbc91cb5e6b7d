/* SPDX-License-Identifier: MIT */
/*
 * What a simulated thread does with locks: asking in every way the API has, using what it
 * got, giving it back; each step told to the checker. In this order: cancelling, one
 * lock, several at once, in the background, looking on.
 */
#include <poll.h>
#include <stdlib.h>

#include "core/mem.h"
#include "sim_app.h"

static const char *const names[SIM_NAMES] = { "name-0", "name-1", "name-2", "name-3" };

/* ---- cancelling from another thread ---- */

struct cancel {
    dibs_canceller *canceller;
    struct sim_gen *gen;
    int users;
};

static void
cancel_put(struct cancel *cancel)
{
    if (--cancel->users)
        return;
    dibs_canceller_free(cancel->canceller);
    dibs__free(cancel);
}

static void
cancel_later(void *arg)
{
    struct cancel *cancel = arg;

    sim_sleep(some(0, 200) * DIBS_MS);
    if (cancel->gen) {
        cancel->gen->canceled = sim_now();
        sim_record(OP_CANCEL, sim_process(), cancel->gen->name, cancel->gen->id, 0);
    }
    dibs_cancel(cancel->canceller);
    cancel_put(cancel);
}

static struct cancel *
cancel_new(void)
{
    struct cancel *cancel = dibs__alloc(sizeof(*cancel));

    if (dibs_canceller_new(&cancel->canceller, NULL))
        abort();
    cancel->users = 1;
    return cancel;
}

/* ---- one lock, from asking to giving back ---- */

static void
on_lost(dibs_hold *hold, void *arg)
{
    (void)hold;
    sim_check_lost_callback(arg);
}

static dibs_request
some_request(int name)
{
    dibs_request request = DIBS_REQUEST_INIT;

    request.name = names[name];
    request.mode = chance(70) ? DIBS_EXCLUSIVE : DIBS_SHARED;
    request.permits = 1;
    if (sim_names.is_semaphore[name]) {
        request.mode = DIBS_PERMITS;
        request.permits = (uint32_t)some(1, 2);
        request.limit = SIM_LIMIT;
    }
    request.wait_ms = chance(35)   ? DIBS_WAIT_FOREVER
                      : chance(30) ? DIBS_WAIT_NONE
                                   : some(1, 800);
    /* few different leases, or threads could never hand over to each other */
    request.lease_ms = LEASE_MIN_MS << some(0, 3);
    if (request.lease_ms > LEASE_MAX_MS)
        request.lease_ms = LEASE_MAX_MS;
    if (chance(15))
        request.flags |= DIBS_NO_RENEW;
    if (chance(80))
        request.on_lost = on_lost;
    if (chance(5))
        request.max_hold_ms = (uint32_t)some(20, 400);
    if (chance(5))
        request.owner = "somebody";
    return request;
}

/* acquire returns the gen if it was granted, else NULL. */
static struct sim_gen *
acquire(struct thread *thread, dibs_request request, int name)
{
    struct app *app = thread->app;
    struct cancel *cancel = NULL;
    struct sim_gen *gen;
    dibs_hold *hold;
    int rc;

    if (request.wait_ms != DIBS_WAIT_NONE && chance(15)) {
        cancel = cancel_new();
        request.cancel = cancel->canceller;
    }
    gen = sim_check_begin(&request, name);
    request.on_lost_arg = gen;
    if (cancel) {
        cancel->gen = gen;
        cancel->users++;
        sim_spawn(app->process, cancel_later, cancel);
    }
    thread->acquiring = 1;
    rc = dibs_acquire(&hold, app->client, &request, NULL);
    thread->acquiring = 0;
    if (rc == DIBS_OK) {
        gen->hold = hold;
        sim_check_granted(gen);
    } else {
        sim_check_failed(gen, rc);
    }
    if (cancel) {
        cancel->gen = NULL;
        cancel_put(cancel);
    }
    return rc == DIBS_OK ? gen : NULL;
}

/* park calls nothing more until another thread has closed the client. */
static void
park(struct thread *thread)
{
    thread->parked = 1;
    while (!thread->app->closed)
        sim_sleep(DIBS_MS);
}

static void
give_back(struct thread *thread, struct sim_gen *gen)
{
    struct app *app = thread->app;
    dibs_hold *hold = gen->hold;
    int rc;

    if (app->closing) {
        park(thread);
        if (dibs_held(hold))
            sim_violation(K9, "gen %d is held by a client that was closed", gen->id);
        dibs_hold_free(hold);
        sim_check_ended(gen, OP_ABANDON, 0);
        return;
    }
    sim_check_release(gen);
    if (chance(5)) {
        app->abandons++;
        dibs_abandon(hold);
        sim_check_ended(gen, OP_ABANDON, 0);
    } else if (chance(20)) {
        rc = dibs_release(hold, NULL);
        gen->released = rc == DIBS_OK;
        if (dibs_release(hold, NULL) != DIBS_ENOTHELD)
            sim_violation(K6, "gen %d was released twice", gen->id);
        dibs_hold_free(hold);
        sim_check_ended(gen, OP_RELEASED, rc);
    } else if (chance(5)) {
        rc = dibs_release_after(hold, (uint32_t)some(1, 100), NULL);
        dibs_hold_free(hold);
        sim_check_ended(gen, OP_RELEASED, rc);
    } else {
        rc = dibs_unlock(hold, NULL);
        sim_check_ended(gen, OP_RELEASED, rc);
    }
}

/* K5: a client that takes what it lost once more, under the old name. */
static void
mutate_loss(struct app *app, struct sim_gen *gen)
{
    dibs_request again = gen->request;
    dibs_hold *hold, *lost = gen->hold;

    if (sim_run.mutant != K5 || sim_check_held(gen))
        return;
    again.wait_ms = 200;
    again.cancel = NULL;
    again.on_lost = NULL;
    if (dibs_acquire(&hold, app->client, &again, NULL) != DIBS_OK)
        return;
    gen->hold = hold;
    (void)sim_check_held(gen);
    (void)dibs_unlock(lost, NULL);
}

static void
pass_fence(struct app *app, struct sim_gen *gen)
{
    uint64_t largest_before = sim_check_fence_begin(gen);
    int rc = dibs_fence(app->client, names[gen->name], gen->token, NULL);

    sim_check_fence(gen, rc, largest_before);
}

static void
renew(struct sim_gen *gen)
{
    int rc =
        dibs_renew(gen->hold, chance(50) ? 0 : (uint32_t)some(50, LEASE_MAX_MS), NULL);

    sim_record(OP_RENEW, gen->process, gen->name, gen->id, (uint64_t)rc);
}

static void
downgrade(struct sim_gen *gen)
{
    int rc;

    /* others may come in before we hear that it worked, or if we never do */
    gen->mode = DIBS_SHARED;
    rc = dibs_downgrade(gen->hold, NULL);
    if (rc == DIBS_EDEADLOCK || rc == DIBS_EINVAL)
        gen->mode = DIBS_EXCLUSIVE;
    sim_record(OP_DOWNGRADE, gen->process, gen->name, gen->id, (uint64_t)rc);
}

static void
watch_lost_fd(struct sim_gen *gen)
{
    struct pollfd waiting = { .fd = dibs_lost_fd(gen->hold, NULL), .events = POLLIN };

    if (waiting.fd < 0)
        return;
    sim_sleep(some(0, gen->request.lease_ms) * DIBS_MS);
    sim_check_lost_fd(gen, poll(&waiting, 1, 0) == 1);
}

static void
use(struct thread *thread, struct sim_gen *gen, int depth)
{
    struct app *app = thread->app;
    int64_t steps = some(0, 3);
    dibs_request again;
    struct sim_gen *inner;

    for (int64_t i = 0; i < steps && !sim_violated(); i++) {
        sim_sleep(some(0, chance(20) ? 2 * gen->request.lease_ms : 10) * DIBS_MS);
        if (app->closing)
            return;
        (void)sim_check_held(gen);
        mutate_loss(app, gen);
        switch (some(0, 9)) {
        case 0:
            renew(gen);
            break;
        case 1:
        case 2:
            pass_fence(app, gen);
            break;
        case 3:
            if (depth == 0 && gen->mode == DIBS_EXCLUSIVE)
                downgrade(gen);
            break;
        case 4:
            again = some_request(gen->name);
            if (again.wait_ms == DIBS_WAIT_FOREVER)
                again.wait_ms = 300; /* it may have been lost, and be another's */
            inner = depth < 2 && !sim_names.is_semaphore[gen->name]
                        ? acquire(thread, again, gen->name)
                        : NULL;
            if (inner) {
                use(thread, inner, depth + 1);
                give_back(thread, inner);
            }
            break;
        case 5:
            watch_lost_fd(gen);
            break;
        default:
            break;
        }
    }
}

/* ---- several at once ---- */

static void
take_all(struct thread *thread)
{
    struct app *app = thread->app;
    dibs_wanted wanted[SIM_NAMES];
    struct sim_gen *gen[SIM_NAMES];
    dibs_hold *holds[SIM_NAMES];
    int64_t wait_ms = chance(10) ? DIBS_WAIT_NONE : some(1, 500);
    int rc;

    for (int i = 0; i < sim_names.count; i++) {
        wanted[i].client = app->client;
        wanted[i].request = some_request(i);
        wanted[i].request.wait_ms = wait_ms;
        gen[i] = sim_check_begin(&wanted[i].request, i);
        gen[i]->together = 1;
        wanted[i].request.on_lost_arg = gen[i];
    }
    rc = dibs_acquire_all(holds, wanted, (size_t)sim_names.count, wait_ms, NULL);
    for (int i = 0; i < sim_names.count; i++) {
        if (rc) {
            sim_check_failed(gen[i], rc);
            continue;
        }
        gen[i]->hold = holds[i];
        sim_check_granted(gen[i]);
    }
    if (!rc)
        sim_sleep(some(0, 20) * DIBS_MS);
    for (int i = 0; i < sim_names.count && !rc; i++)
        give_back(thread, gen[i]);
}

/* ---- in the background ---- */

static void
async_done(dibs_op *op, void *arg)
{
    (void)op;
    ((struct sim_gen *)arg)->op_calls++;
}

static void
take_async(struct thread *thread, int name)
{
    dibs_request request = some_request(name);
    struct sim_gen *gen = sim_check_begin(&request, name);
    dibs_hold *hold;
    dibs_op *op;
    int rc;

    if (!request.owner) /* then it belongs to nobody but the op */
        gen->fiber = UINT64_MAX - 1 - (uint64_t)gen->id;
    request.on_lost_arg = gen;
    if (dibs_acquire_async(&op, thread->app->client, &request, async_done, gen, NULL))
        abort();
    thread->parked = 1; /* closing ends ops, too */
    sim_sleep(some(0, 50) * DIBS_MS);
    if (chance(40)) {
        gen->canceled = sim_now();
        dibs_op_cancel(op);
    }
    rc = dibs_op_finish(&hold, op, NULL);
    thread->parked = 0;
    if (gen->op_calls != 1)
        sim_violation(K10, "the op of gen %d ended with %d calls", gen->id,
                      gen->op_calls);
    if (rc) {
        sim_check_failed(gen, rc);
        return;
    }
    gen->hold = hold;
    gen->canceled = gen->request.wait_ms = 0; /* it was there before it was asked for */
    sim_check_granted(gen);
    sim_sleep(some(0, 20) * DIBS_MS);
    give_back(thread, gen);
}

/* ---- looking on ---- */

static int
note_leader(const dibs_party *leader, void *arg)
{
    (void)leader;
    ++*(int *)arg;
    return 0;
}

static void
look_on(struct thread *thread, int name)
{
    dibs *client = thread->app->client;
    dibs_time wait_ms = some(1, 300), invoked = sim_now();
    dibs_report *report;
    int rc, changes = 0;

    if (chance(30)) {
        if (dibs_inspect(&report, client, names[name], NULL) == DIBS_OK)
            dibs_report_free(report);
        return;
    }
    rc = dibs_observe(client, names[name], note_leader, &changes, wait_ms, NULL, NULL);
    if (sim_network.is_faulty)
        return;
    if (rc != DIBS_ETIMEDOUT || !changes)
        sim_violation(K10, "an observer was told %s after %d changes", dibs_errname(rc),
                      changes);
    if (sim_now() - invoked > (wait_ms + 100) * DIBS_MS)
        sim_violation(K10, "an observer came back too late");
}

/* ---- whatever comes next ---- */

void
sim_one_round(struct thread *thread)
{
    int name = (int)some(0, sim_names.count - 1);
    struct sim_gen *gen;

    if (chance(10)) {
        take_all(thread);
    } else if (chance(10)) {
        take_async(thread, name);
    } else if (chance(5)) {
        look_on(thread, name);
    } else {
        gen = acquire(thread, some_request(name), name);
        if (gen) {
            use(thread, gen, 0);
            give_back(thread, gen);
        }
    }
    if (chance(30))
        sim_sleep(some(0, 100) * DIBS_MS);
}
