/* SPDX-License-Identifier: MIT */
/*
 * Holds: what a caller has in hand. A hold leaves the state HELD exactly once, to LOST (the
 * keeper, or whoever notices) or to RELEASED (its user): one compare-and-exchange decides
 * any race between the two, so a loss is told or a release succeeds, never both.
 */
#include "core/core.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* how long a release inside another call may take before the reaper goes on with it */
#define RELEASE_WAIT (1000 * DIBS_MS)

void
dibs__hold_init(dibs_hold *hold, dibs *client, const dibs_request *request)
{
    hold->client = client;
    atomic_init(&hold->lost_fd, -1);
    hold->on_lost = request->on_lost;
    hold->on_lost_arg = request->on_lost_arg;
}

void
dibs__hold_discard(dibs_hold *hold)
{
    dibs *client = hold->client;
    dibs__grant *own = dibs__grant_of(hold);
    dibs__grant *other = hold->grant != own ? hold->grant : NULL;
    int last = 0;
    if (hold->counted)
        last = dibs__arbiter_forget(client, hold->grant->seat);
    if (other)
        dibs__grant_unref(other);
    dibs__grant_unref(own);
    if (last)
        dibs__client_free(client);
}

/* ---- while held ---- */

static int
is_forked(const dibs_hold *hold)
{
    return dibs__forked(hold->client->fork_mark);
}

int
dibs_held(const dibs_hold *hold)
{
    if (!hold || is_forked(hold))
        return 0;
    if (atomic_load_explicit(&hold->state, memory_order_acquire) != DIBS__HELD)
        return 0;
    return dibs__grant_stands(hold->grant);
}

uint64_t
dibs_token(const dibs_hold *hold)
{
    return hold ? hold->token : 0;
}

int64_t
dibs_remaining(const dibs_hold *hold)
{
    if (!dibs_held(hold))
        return 0;
    dibs_time until = atomic_load(&hold->grant->until);
    if (until == DIBS_NEVER)
        return INT64_MAX;
    dibs_time left = until - dibs__now();
    return left > 0 ? left / DIBS_MS : 0;
}

int
dibs_previous(const dibs_hold *hold)
{
    return hold ? hold->previous : DIBS_PREVIOUS_UNKNOWN;
}

const char *
dibs_previous_name(int previous)
{
    static const char *const names[] = { "clean", "expired", "broken", "unknown" };
    return previous >= 0 && previous <= 3 ? names[previous] : names[3];
}

const char *
dibs_hold_name(const dibs_hold *hold, size_t *len)
{
    if (len)
        *len = hold ? hold->grant->claim.name_len : 0;
    return hold ? hold->grant->claim.name : "";
}

/* ---- being told of a loss ---- */

static void
signal_fd(int fd)
{
    uint64_t one = 1;
    if (fd >= 0)
        (void)!write(fd, &one, sizeof one);
}

int
dibs_lost_fd(dibs_hold *hold, dibs_error *err)
{
    UNCANCELLED;
    if (!hold)
        return dibs__fail(err, DIBS_EINVAL, "hold is NULL");
    if (is_forked(hold) || atomic_load(&hold->state) == DIBS__RELEASED)
        return dibs__fail(err, DIBS_ENOTHELD, "the hold was released");
    int fd = atomic_load(&hold->lost_fd);
    if (fd >= 0)
        return fd;
    int rc = dibs__keeper_ensure(hold->client, hold->grant, err);
    if (rc)
        return rc;
    fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return dibs__fail(err, DIBS_ENOMEM, "cannot make a descriptor: %s",
                          strerror(errno));
    int none = -1;
    if (!atomic_compare_exchange_strong(&hold->lost_fd, &none, fd)) {
        close(fd);
        fd = none;
    }
    if (atomic_load(&hold->state) == DIBS__HOLD_LOST)
        signal_fd(fd);
    return fd;
}

int
dibs__hold_lose(dibs_hold *hold)
{
    int held = atomic_load(&hold->state);
    if (held != DIBS__HELD)
        return 0;
    /* before the state changes: a release that comes right after waits for the notice */
    atomic_store(&hold->telling, hold->on_lost != NULL);
    if (!atomic_compare_exchange_strong(&hold->state, &held, DIBS__HOLD_LOST)) {
        atomic_store(&hold->telling, 0);
        return 0;
    }
    atomic_fetch_add_explicit(&hold->client->lost, 1, memory_order_relaxed);
    signal_fd(atomic_load(&hold->lost_fd));
    if (!hold->on_lost)
        return 0;
    dibs__grant_ref(dibs__grant_of(hold));
    return 1;
}

struct notice {
    dibs *client;
    dibs_hold *list;
};

static void
notify_one(dibs_hold *hold)
{
    hold->teller = dibs__thread_number();
    hold->on_lost(hold, hold->on_lost_arg);
    atomic_store(&hold->telling, 0);
    dibs__bell_ring(&hold->told);
    dibs__grant_unref(dibs__grant_of(hold));
}

static void *
notify_main(void *arg)
{
    struct notice *notice = arg;
    dibs *client = notice->client;
    dibs_hold *next;
    for (dibs_hold *hold = notice->list; hold; hold = next) {
        next = hold->next_told;
        notify_one(hold);
    }
    dibs__free(notice);
    dibs__client_leave(client);
    return NULL;
}

void
dibs__hold_notify(dibs *client, dibs_hold *list)
{
    struct notice *notice = dibs__alloc(sizeof *notice);
    dibs__client_enter(client);
    if (notice) {
        notice->client = client;
        notice->list = list;
        /* a slow callback must not keep the keeper from renewing other holds */
        if (dibs__thread_start(NULL, "dibs-notify", notify_main, notice, 1) == 0)
            return;
        (void)notify_main(notice);
        return;
    }
    dibs_hold *next;
    for (; list; list = next) {
        next = list->next_told;
        notify_one(list);
    }
    dibs__client_leave(client);
}

/* ---- renewing and downgrading ---- */

static int
check_held(const dibs_hold *hold, dibs_error *err)
{
    if (!hold)
        return dibs__fail(err, DIBS_EINVAL, "hold is NULL");
    if (dibs_held(hold))
        return DIBS_OK;
    int released = !is_forked(hold) && atomic_load(&hold->state) == DIBS__RELEASED;
    return released ? dibs__fail(err, DIBS_ENOTHELD, "the hold was released")
                    : dibs__fail(err, DIBS_ELOST, "the hold was lost");
}

int
dibs_renew(dibs_hold *hold, uint32_t lease_ms, dibs_error *err)
{
    UNCANCELLED;
    int rc = check_held(hold, err);
    if (rc)
        return rc;
    const dibs_engine *engine = hold->client->engine;
    if (lease_ms && lease_ms < engine->min_lease_ms)
        return dibs__fail(err, DIBS_EINVAL, "lease_ms is %u, engine %s needs %u at least",
                          (unsigned)lease_ms, engine->name,
                          (unsigned)engine->min_lease_ms);
    rc = dibs__keeper_renew(hold->client, hold->grant, lease_ms, err);
    return rc == DIBS_ELOST ? dibs__fail(err, rc, "the hold was lost") : rc;
}

int
dibs_downgrade(dibs_hold *hold, dibs_error *err)
{
    UNCANCELLED;
    int rc = check_held(hold, err);
    if (rc)
        return rc;
    dibs *client = hold->client;
    dibs__grant *grant = hold->grant;
    if (grant->claim.mode != DIBS_EXCLUSIVE)
        return dibs__fail(err, DIBS_EINVAL, "only an exclusive hold can be downgraded");
    if (!dibs__has(client, DIBS_CAP_SHARED))
        return dibs__fail(err, DIBS_EUNSUPPORTED, "this engine has no shared mode");
    dibs__shard *shard = dibs__shard_of(client, grant->seat);
    dibs__mutex_lock(&shard->mutex);
    int reentered = grant->holds != hold || hold->next;
    int before = grant->sharing;
    /* from before it is sent: if the reply is lost, we may be one of many */
    grant->sharing = !reentered || before;
    dibs__mutex_unlock(&shard->mutex);
    if (reentered)
        return dibs__fail(err, DIBS_EDEADLOCK,
                          "the owner has taken it several times: release the inner ones "
                          "first");
    rc = dibs__engine_downgrade(client, &grant->claim,
                                dibs__io_deadline(0, grant->claim.lease_ms), err);
    if (rc == DIBS_OK)
        dibs__arbiter_share(client, grant);
    else if (rc == DIBS_EUNAVAIL || rc == DIBS_EUNSUPPORTED)
        dibs__arbiter_unshare(client, grant, before);
    return rc;
}

/* ---- giving back ---- */

int
dibs__grant_end(dibs *client, dibs__grant *grant, uint32_t linger_ms, int lost,
                dibs_time deadline, dibs_error *err)
{
    UNCANCELLED_IF(!dibs__is_quick(client));
    int direct = dibs__has(client, DIBS_CAP_DIRECT);
    dibs__keeper_remove(client, grant);
    if (atomic_load(&grant->kept) && atomic_exchange(&grant->releasing, 1))
        return DIBS_ELOST; /* the keeper ended it, and the reaper has it */
    int rc = DIBS_EUNKNOWN;
    if (!lost || direct)
        rc = dibs__engine_release(
            client, &grant->claim, linger_ms,
            direct || deadline ? deadline : dibs__now() + RELEASE_WAIT, err);
    if (rc == DIBS_EUNKNOWN || rc == DIBS_EUNAVAIL) {
        dibs__keeper_adopt(client, grant, dibs__now());
        return lost ? DIBS_ELOST : dibs__fail_as(err, DIBS_EUNKNOWN);
    }
    if (lost || rc == DIBS_ENOTHELD)
        return DIBS_ELOST;
    return rc;
}

/* RELEASED from here on; says whether it had been lost before, or -1 if it was released */
static int
mark_released(dibs_hold *hold)
{
    int state = DIBS__HELD;
    if (atomic_compare_exchange_strong(&hold->state, &state, DIBS__RELEASED))
        return !dibs__grant_stands(hold->grant);
    if (state == DIBS__HOLD_LOST &&
        atomic_compare_exchange_strong(&hold->state, &state, DIBS__RELEASED))
        return 1;
    return -1;
}

static void
close_fd(int fd)
{
    UNCANCELLED;
    close(fd);
}

static int
give_back(dibs_hold *hold, uint32_t linger_ms, int then_free, dibs_time deadline,
          dibs_error *err)
{
    if (is_forked(hold))
        return dibs__fail(err, DIBS_ELOST, "the hold belongs to the parent process");
    dibs *client = hold->client;
    int lost = mark_released(hold);
    if (lost < 0)
        return dibs__fail(err, DIBS_ENOTHELD, "the hold was released before");
    int rc = lost ? DIBS_ELOST : DIBS_OK;
    dibs__grant *grant = hold->grant;
    int how = (!lost && !linger_ms ? DIBS__LEAVE_HAND_OVER : 0) |
              (then_free ? DIBS__LEAVE_FREE : 0) | DIBS__LEAVE_TELL;
    if (dibs__arbiter_leave(client, hold, how)) {
        rc = dibs__grant_end(client, grant, linger_ms, lost, deadline, err);
        dibs__arbiter_vacate(client, grant);
    }
    if (rc == DIBS_ELOST)
        return dibs__fail(err, rc, "the hold was lost before it was released");
    return rc;
}

int
dibs_release(dibs_hold *hold, dibs_error *err)
{
    if (!hold)
        return dibs__fail(err, DIBS_EINVAL, "hold is NULL");
    return give_back(hold, 0, 0, 0, err);
}

int
dibs_release_after(dibs_hold *hold, uint32_t delay_ms, dibs_error *err)
{
    if (!hold)
        return dibs__fail(err, DIBS_EINVAL, "hold is NULL");
    if (delay_ms && !dibs__has(hold->client, DIBS_CAP_LINGER))
        return dibs__fail(err, DIBS_EUNSUPPORTED,
                          "engine %s cannot keep a lock after its release",
                          dibs_engine_name(hold->client));
    return give_back(hold, delay_ms, 0, 0, err);
}

/* what on_lost uses may be gone once we return; unless it is on_lost that frees */
static void
wait_until_told(dibs_hold *hold)
{
    while (atomic_load(&hold->telling)) {
        if (atomic_load(&hold->teller) == dibs__thread_number())
            return;
        uint32_t seen = dibs_bell_seen(&hold->told);
        if (!atomic_load(&hold->telling))
            break;
        (void)dibs__bell_wait(&hold->told, seen, DIBS_NEVER);
    }
}

static void
free_handle(dibs_hold *hold)
{
    int fd = atomic_load(&hold->lost_fd);
    int forked = is_forked(hold);
    if (!forked && hold->on_lost)
        wait_until_told(hold);
    if (fd >= 0)
        close_fd(fd);
    /* a child's copy of a mutex may be locked for ever: there the memory is left alone */
    if (!forked)
        dibs__hold_discard(hold);
}

int
dibs_unlock(dibs_hold *hold, dibs_error *err)
{
    if (!hold)
        return dibs__fail(err, DIBS_EINVAL, "hold is NULL");
    int rc = give_back(hold, 0, 1, 0, err);
    free_handle(hold);
    return rc;
}

void
dibs__hold_undo(dibs_hold *hold, dibs_time deadline)
{
    (void)give_back(hold, 0, 0, deadline, NULL);
}

void
dibs_hold_free(dibs_hold *hold)
{
    if (!hold)
        return;
    (void)give_back(hold, 0, 1, 0, NULL);
    free_handle(hold);
}

void
dibs_abandon(dibs_hold *hold)
{
    if (!hold)
        return;
    if (!is_forked(hold) && mark_released(hold) >= 0 &&
        dibs__arbiter_leave(hold->client, hold, DIBS__LEAVE_FREE)) {
        dibs__keeper_remove(hold->client, hold->grant);
        dibs__arbiter_vacate(hold->client, hold->grant);
    }
    free_handle(hold);
}
