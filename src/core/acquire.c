/* SPDX-License-Identifier: MIT */
/*
 * Taking a lock: check the request, prepare everything a grant will need, settle with our
 * own threads (arbiter.c), then ask the engine until it grants, refuses, or the caller's
 * time is up. From the moment something is sent, every way out returns the hold, withdraws
 * the claim, or leaves it to the reaper.
 */
#include "core/core.h"

#include <stdio.h>
#include <string.h>

#include "util/duration.h"

/* a call gets this long even if the caller's time is nearly up: a round trip */
#define IO_LEAST (20 * DIBS_MS)
/* how long withdrawing may hold up a caller whose time is up or who cancelled */
#define WITHDRAW_LIMIT (25 * DIBS_MS)
/* looks that need no ring, in case one is lost: often if next in line, else seldom */
#define LOOK_AGAIN_FIRST (1000 * DIBS_MS)
#define LOOK_AGAIN_OTHERS (10000 * DIBS_MS)
#define BACKOFF_FIRST (5 * DIBS_MS)
#define BACKOFF_LAST (500 * DIBS_MS)
/* a reply that is lost sooner than this was cut off, not late */
#define CUT_OFF (50 * DIBS_MS)

/* not a code: a grant came but was gone before it could be used, start afresh */
#define START_AFRESH 1

/* one acquire under way */
struct ask {
    dibs *client;
    dibs_request request; /* a copy, every default filled in */
    size_t name_len;
    dibs__grant *grant; /* and the hold in it */
    dibs_time deadline;
    dibs_time backoff;
    int reserved;       /* a place with the keeper */
    int inside;         /* counted among those that closing waits for */
    int slept;          /* counted as a waiter */
    int maybe_there;    /* the engine may know of the claim */
    int was_busy;       /* the engine has answered in this wait: the lock was not free */
    int asked_again;    /* at once, after the reply was lost */
    dibs_time io_until; /* ... which gets what was left of the time for the first one */
};

dibs_time
dibs__deadline_of(int64_t wait_ms)
{
    if (wait_ms == DIBS_WAIT_FOREVER)
        return DIBS_NEVER;
    if (wait_ms == DIBS_WAIT_NONE)
        return 0;
    dibs_time now = dibs__now();
    return wait_ms < (DIBS_NEVER - now) / DIBS_MS ? now + wait_ms * DIBS_MS : DIBS_NEVER;
}

dibs_time
dibs__io_deadline(dibs_time deadline, uint32_t lease_ms)
{
    dibs_time now = dibs__now();
    dibs_time most = now + dibs__lease_io_limit(lease_ms);
    if (deadline == 0)
        return most; /* not waiting for the lock is no reason not to wait for the answer */
    if (deadline < now + IO_LEAST)
        return now + IO_LEAST;
    return deadline < most ? deadline : most;
}

static dibs_time
io_deadline(const struct ask *ask)
{
    if (dibs__has(ask->client, DIBS_CAP_DIRECT))
        return 0; /* memory answers at once: no need to look at the clock */
    return dibs__io_deadline(ask->deadline, ask->grant->claim.lease_ms);
}

/* ---- the request ---- */

static void
copy_request(dibs_request *to, const dibs_request *from)
{
    if (from->size == 0 || from->size >= sizeof *to) {
        *to = *from;
        return;
    }
    /* from a program that was compiled against a header with fewer fields */
    memset(to, 0, sizeof *to);
    memcpy(to, from, from->size);
}

static int
check_mode(const dibs *client, const dibs_request *request, dibs_error *err)
{
    const char *engine = client->engine->name;
    switch (request->mode) {
    case DIBS_EXCLUSIVE:
        return DIBS_OK;
    case DIBS_SHARED:
        if (!dibs__has(client, DIBS_CAP_SHARED))
            return dibs__fail(err, DIBS_EUNSUPPORTED, "engine %s has no shared mode",
                              engine);
        return DIBS_OK;
    case DIBS_PERMITS:
        if (!dibs__has(client, DIBS_CAP_PERMITS))
            return dibs__fail(err, DIBS_EUNSUPPORTED, "engine %s has no semaphores",
                              engine);
        if (request->limit == 0)
            return dibs__fail(err, DIBS_EINVAL,
                              "limit is 0: say how many permits there are");
        if (request->permits > request->limit)
            return dibs__fail(err, DIBS_EINVAL,
                              "permits is %u, more than the limit of %u",
                              (unsigned)request->permits, (unsigned)request->limit);
        return DIBS_OK;
    default:
        return dibs__fail(err, DIBS_EINVAL, "mode %d is none of enum dibs_mode",
                          request->mode);
    }
}

static int
check_request(struct ask *ask, dibs_error *err)
{
    dibs_request *request = &ask->request;
    const dibs *client = ask->client;
    int rc =
        dibs__name_check(&ask->name_len, request->name, request->name_len, "name", err);
    if (!rc)
        rc = check_mode(client, request, err);
    if (rc)
        return rc;
    if (request->wait_ms < DIBS_WAIT_NONE)
        return dibs__fail(err, DIBS_EINVAL, "wait_ms is negative");
    if (request->note && strlen(request->note) > DIBS_NOTE_MAX)
        return dibs__fail(err, DIBS_EINVAL, "note is longer than %d bytes",
                          DIBS_NOTE_MAX);
    if (request->owner && (!*request->owner || strlen(request->owner) > DIBS_OWNER_MAX))
        return dibs__fail(err, DIBS_EINVAL, "owner must have 1 to %d bytes",
                          DIBS_OWNER_MAX);
    if (!request->lease_ms)
        request->lease_ms = client->options.lease_ms;
    if (request->lease_ms < client->engine->min_lease_ms)
        return dibs__fail(err, DIBS_EINVAL, "lease_ms is %u, engine %s needs %u at least",
                          (unsigned)request->lease_ms, client->engine->name,
                          (unsigned)client->engine->min_lease_ms);
    if (!request->permits)
        request->permits = 1;
    if (request->mode != DIBS_PERMITS)
        request->permits = 1, request->limit = 0;
    return DIBS_OK;
}

/* ---- preparing ---- */

/* a hold that nobody keeps lasts as long as its process and is told nothing */
static int
wants_keeper(const dibs *client, const dibs_request *request)
{
    return dibs__has(client, DIBS_CAP_LEASE) || request->max_hold_ms || request->on_lost;
}

static void
fill_claim(struct ask *ask)
{
    const dibs_request *request = &ask->request;
    const dibs *client = ask->client;
    dibs__grant *grant = ask->grant;
    dibs_claim *claim = &grant->claim;
    claim->mode = (uint8_t)request->mode;
    claim->permits = request->permits;
    claim->limit = request->limit;
    claim->lease_ms = request->lease_ms;
    claim->flags = (request->wait_ms == DIBS_WAIT_NONE ? DIBS_CLAIM_NOQUEUE : 0) |
                   (request->flags & DIBS_ELECTION ? DIBS_CLAIM_ELECTION : 0);
    dibs__lease_init(&grant->lease,
                     dibs__has(client, DIBS_CAP_LEASE) ? claim->lease_ms : 0,
                     request->grace_ms, client->options.drift_ppm);
    grant->renews = grant->lease.length && !(request->flags & DIBS_NO_RENEW);
}

static int
prepare(struct ask *ask, dibs_error *err)
{
    ask->grant = dibs__grant_new(ask->client, &ask->request);
    if (!ask->grant)
        return dibs__fail_memory(err);
    fill_claim(ask);
    if (!wants_keeper(ask->client, &ask->request))
        return DIBS_OK;
    int needs_alarm = dibs__has(ask->client, DIBS_CAP_LEASE) || ask->request.max_hold_ms;
    int rc = dibs__keeper_reserve(ask->client, needs_alarm, err);
    ask->reserved = rc == DIBS_OK;
    return rc;
}

/* ---- asking ---- */

static dibs_time
end_of_hold(const struct ask *ask)
{
    return dibs__now() + ask->request.max_hold_ms * DIBS_MS;
}

/* Is what the engine granted still worth having? Its answer may have taken long. */
static int
accept_grant(struct ask *ask)
{
    dibs__grant *grant = ask->grant;
    dibs_time until = DIBS_NEVER;
    if (grant->lease.length || ask->request.max_hold_ms) {
        dibs_time now = dibs__now();
        if (ask->request.max_hold_ms)
            grant->lease.end_at = end_of_hold(ask);
        until = dibs__lease_until(&grant->lease, grant->claim.sent);
        if (now >= until)
            return 0;
        grant->granted_at = now;
        if (grant->renews)
            grant->lease.renew_at =
                dibs__lease_renew_at(&grant->lease, grant->claim.sent);
    }
    atomic_store_explicit(&grant->until, until, memory_order_release);
    grant->hold.token = grant->claim.token;
    grant->hold.previous = grant->claim.previous;
    dibs__arbiter_granted(ask->client, grant);
    if (ask->reserved)
        dibs__keeper_add(ask->client, grant);
    ask->reserved = 0;
    return 1;
}

static void
count_as_inside(struct ask *ask)
{
    if (!ask->inside)
        dibs__client_enter(ask->client);
    ask->inside = 1;
}

static void
count_as_waiting(struct ask *ask)
{
    count_as_inside(ask);
    if (!ask->slept)
        atomic_fetch_add_explicit(&ask->client->waited, 1, memory_order_relaxed);
    ask->slept = 1;
}

/* when to look again without a ring */
static dibs_time
look_again_at(const struct ask *ask)
{
    const dibs_claim *claim = &ask->grant->claim;
    dibs_time pause = claim->position > 1 ? LOOK_AGAIN_OTHERS : LOOK_AGAIN_FIRST;
    if (claim->hint_ms && claim->hint_ms * DIBS_MS < pause)
        pause = claim->hint_ms * DIBS_MS + DIBS_MS;
    /* spread those that would all look at the same moment */
    pause +=
        (dibs_time)(claim->serial * UINT64_C(0x9e3779b97f4a7c15) >> 40) % (pause / 8);
    return dibs__now() + pause;
}

/* DIBS_OK: try again. DIBS_ETIMEDOUT, DIBS_ECANCELED. */
static int
sleep_until_rung(struct ask *ask, dibs_time wake_at)
{
    dibs_claim *claim = &ask->grant->claim;
    count_as_waiting(ask);
    dibs_time until = wake_at < ask->deadline ? wake_at : ask->deadline;
    int wake = dibs__wait_claim(ask->client, ask->request.cancel, claim, until);
    if (wake == DIBS__CANCELED)
        return DIBS_ECANCELED;
    return wake == DIBS__TIMED_OUT && until == ask->deadline ? DIBS_ETIMEDOUT : DIBS_OK;
}

/* A connection that was closed while nobody used it takes the first request with it. Who
 * does not wait has no second chance but this one. */
static int
was_cut_off(struct ask *ask, int rc)
{
    if (rc != DIBS_EUNKNOWN || ask->asked_again ||
        ask->request.wait_ms != DIBS_WAIT_NONE || !ask->grant->lease.length)
        return 0;
    ask->asked_again = 1;
    return dibs__now() - ask->grant->claim.sent < CUT_OFF;
}

/* what to say of a wait in whose last moments the engine could not be asked */
static int
unheard(const struct ask *ask)
{
    return ask->was_busy ? DIBS_ETIMEDOUT : DIBS_EUNAVAIL;
}

/* the engine could not be asked: wait a little, longer each time */
static int
back_off(struct ask *ask)
{
    if (ask->request.wait_ms == DIBS_WAIT_NONE || dibs__now() >= ask->deadline)
        return unheard(ask);
    dibs_time pause = ask->backoff + (dibs_time)(dibs__random() % (uint64_t)ask->backoff);
    ask->backoff = ask->backoff * 2 < BACKOFF_LAST ? ask->backoff * 2 : BACKOFF_LAST;
    ask->grant->claim.seen = dibs_bell_seen(ask->grant->claim.bell);
    int slept = sleep_until_rung(ask, dibs__now() + pause);
    return slept == DIBS_ETIMEDOUT ? unheard(ask) : slept;
}

static int
attempt(struct ask *ask, dibs_error *err)
{
    dibs_claim *claim = &ask->grant->claim;
    claim->seen = dibs_bell_seen(claim->bell);
    claim->hint_ms = claim->position = 0;
    if (ask->grant->lease.length)
        claim->sent = dibs__now();
    ask->grant->calls++;
    if (!ask->asked_again)
        ask->io_until = io_deadline(ask);
    return dibs__engine_attempt(ask->client, claim, ask->io_until, err);
}

/* Takes the claim back, wherever it is. */
static void
withdraw(struct ask *ask)
{
    if (!ask->maybe_there)
        return;
    ask->grant->calls++;
    int rc = dibs__engine_release(ask->client, &ask->grant->claim, 0,
                                  dibs__now() + WITHDRAW_LIMIT, NULL);
    if (rc == DIBS_EUNKNOWN || rc == DIBS_EUNAVAIL) {
        atomic_store(&ask->grant->releasing, 1);
        dibs__keeper_adopt(ask->client, ask->grant, dibs__now());
    }
    ask->maybe_there = 0;
}

static int
is_over(const struct ask *ask)
{
    if (dibs__cancel_fired(ask->client, ask->request.cancel))
        return DIBS_ECANCELED;
    int late = ask->deadline != DIBS_NEVER && dibs__now() >= ask->deadline;
    return late ? DIBS_ETIMEDOUT : DIBS_OK;
}

/* Busy: see that we are rung, look once more, sleep. */
static int
wait_for_turn(struct ask *ask, int *watching, dibs_error *err)
{
    int rc = is_over(ask); /* the attempt may have taken long */
    if (rc)
        return rc;
    if (!*watching) {
        *watching = 1;
        ask->grant->calls++;
        rc = dibs__engine_watch(ask->client, &ask->grant->claim, io_deadline(ask), err);
        return rc == DIBS_EUNKNOWN || rc == DIBS_EUNAVAIL ? back_off(ask) : rc;
    }
    *watching = 0;
    return sleep_until_rung(ask, look_again_at(ask));
}

/* DIBS_OK: granted, or (with *reentered) found to be held by the same owner by now. */
static int
ask_engine(struct ask *ask, int *reentered, dibs_error *err)
{
    int watching = 0;
    ask->backoff = BACKOFF_FIRST;
    ask->was_busy = ask->asked_again = 0;
    for (;;) {
        int rc = attempt(ask, err);
        if (rc == DIBS_OK) {
            ask->maybe_there = 1;
            if (dibs__cancel_fired(ask->client, ask->request.cancel))
                return DIBS_ECANCELED;
            if (accept_grant(ask))
                return DIBS_OK;
            return START_AFRESH; /* too old when it came */
        }
        if (rc == DIBS_EUNKNOWN ||
            (rc == DIBS_EBUSY && !(ask->grant->claim.flags & DIBS_CLAIM_NOQUEUE)))
            ask->maybe_there = 1;
        ask->was_busy |= rc == DIBS_EBUSY;
        if (was_cut_off(ask, rc))
            continue;
        if (rc == DIBS_EUNKNOWN || rc == DIBS_EUNAVAIL)
            rc = back_off(ask);
        else if (rc == DIBS_EBUSY && ask->request.wait_ms != DIBS_WAIT_NONE)
            rc = wait_for_turn(ask, &watching, err);
        if (!rc)
            rc = is_over(ask);
        if (rc)
            return rc;
        if (ask->grant->owner.text &&
            dibs__arbiter_reenter(ask->client, &ask->request, ask->grant) == DIBS_OK) {
            *reentered = 1;
            return DIBS_OK;
        }
    }
}

/* ---- the end of it ---- */

static int
explain(const struct ask *ask, int rc, dibs_error *err)
{
    char limit[32] = "";
    const char *why;
    switch (rc) {
    case DIBS_EBUSY:
        why = "somebody else has it";
        break;
    case DIBS_ETIMEDOUT:
        why = "timed out after ";
        dibs__duration_print(limit, sizeof limit, ask->request.wait_ms);
        break;
    case DIBS_ECANCELED:
        why = "cancelled";
        break;
    case DIBS_EDEADLOCK:
        why = "its owner has it shared, and upgrading would deadlock; release it first";
        break;
    default:
        return dibs__fail_as(err, rc); /* whoever failed has said it */
    }
    return dibs__fail_at(ask->client, err, rc, "lock", ask->request.name, ask->name_len,
                         "%s%s", why, limit);
}

static void
count_failure(dibs *client, int rc)
{
    if (rc == DIBS_ETIMEDOUT)
        atomic_fetch_add_explicit(&client->timed_out, 1, memory_order_relaxed);
    else if (rc == DIBS_ECANCELED)
        atomic_fetch_add_explicit(&client->canceled, 1, memory_order_relaxed);
}

/* A hold on somebody else's grant may need the keeper though the grant's own did not. */
static int
join_keeper(struct ask *ask, dibs_error *err)
{
    dibs__grant *grant = ask->grant->hold.grant;
    if (!wants_keeper(ask->client, &ask->request))
        return DIBS_OK;
    int rc = dibs__keeper_ensure(ask->client, grant, err);
    if (!rc && ask->request.max_hold_ms)
        dibs__keeper_end_at(ask->client, grant, end_of_hold(ask));
    if (rc)
        dibs__hold_undo(&ask->grant->hold, dibs__now() + WITHDRAW_LIMIT);
    return rc;
}

/* one pass: DIBS_OK, START_AFRESH or a code */
static int
run(struct ask *ask, dibs_error *err)
{
    int entry, reentered = 0;
    if (!dibs__has(ask->client, DIBS_CAP_DIRECT))
        count_as_inside(ask);
    int rc = dibs__arbiter_enter(&entry, ask->client, &ask->request, ask->name_len,
                                 ask->grant, ask->deadline);
    if (rc)
        return rc == DIBS_ENOMEM ? dibs__fail_memory(err) : rc;
    if (entry == DIBS__ENTRY_ASK) {
        rc = ask_engine(ask, &reentered, err);
        if (rc || reentered) {
            withdraw(ask);
            dibs__arbiter_gave_up(ask->client, ask->grant);
        }
        if (rc || !reentered)
            return rc;
    }
    int canceled = dibs__cancel_fired(ask->client, ask->request.cancel);
    if (entry == DIBS__ENTRY_HANDED && (canceled || !dibs_held(&ask->grant->hold))) {
        dibs__hold_undo(&ask->grant->hold, dibs__now() + WITHDRAW_LIMIT);
        return canceled ? DIBS_ECANCELED : START_AFRESH;
    }
    return join_keeper(ask, err);
}

/* gives up what one pass had prepared, but for a hold that was got */
static void
clean_up(struct ask *ask, int rc)
{
    if (ask->reserved)
        dibs__keeper_unreserve(ask->client);
    ask->reserved = 0;
    if (rc && ask->grant)
        dibs__hold_discard(&ask->grant->hold);
}

static int
one_pass(struct ask *ask, dibs_error *err)
{
    int rc =
        dibs__cancel_fired(ask->client, ask->request.cancel) ? DIBS_ECANCELED : DIBS_OK;
    ask->grant = NULL;
    if (!rc)
        rc = prepare(ask, err);
    if (!rc)
        rc = run(ask, err);
    clean_up(ask, rc);
    if (rc != START_AFRESH)
        return rc;
    if (ask->request.wait_ms == DIBS_WAIT_NONE)
        return DIBS_EBUSY;
    return dibs__now() < ask->deadline ? START_AFRESH : DIBS_ETIMEDOUT;
}

/* ask->client and ask->request are set; the rest is not, because this is the hot path */
static int
acquire(dibs_hold **out, struct ask *ask, dibs_error *err)
{
    dibs_error said; /* of the last of maybe many tries */
    ask->inside = ask->slept = ask->reserved = ask->maybe_there = 0;
    int rc = check_request(ask, err);
    if (rc)
        return rc;
    UNCANCELLED_IF(!dibs__is_quick(ask->client));
    ask->deadline = dibs__deadline_of(ask->request.wait_ms);
    said.text[0] = '\0';
    do
        rc = one_pass(ask, &said);
    while (rc == START_AFRESH);
    if (rc) {
        count_failure(ask->client, rc);
        rc = explain(ask, rc, &said);
        if (err)
            *err = said;
    } else {
        *out = &ask->grant->hold;
    }
    if (ask->inside)
        dibs__client_leave(ask->client);
    return rc;
}

static int
check_caller(dibs_hold **out, const dibs *client, dibs_error *err)
{
    int rc = dibs__client_check(client, err);
    return rc || out ? rc : dibs__fail(err, DIBS_EINVAL, "out is NULL");
}

int
dibs_acquire(dibs_hold **out, dibs *client, const dibs_request *request, dibs_error *err)
{
    struct ask ask;
    int rc = check_caller(out, client, err);
    if (!rc && !request)
        rc = dibs__fail(err, DIBS_EINVAL, "request is NULL");
    if (rc)
        return rc;
    ask.client = client;
    copy_request(&ask.request, request);
    return acquire(out, &ask, err);
}

/* ---- short forms ---- */

static int
acquire_short(dibs_hold **out, dibs *client, const char *name, int mode, uint32_t limit,
              int64_t wait_ms, dibs_error *err)
{
    struct ask ask;
    dibs_request *request = &ask.request;
    int rc = check_caller(out, client, err);
    if (rc)
        return rc;
    ask.client = client;
    /* field by field: compilers clear a struct of this size with slow string moves */
    request->size = 0;
    request->name = name;
    request->name_len = 0;
    request->mode = mode;
    request->permits = 0;
    request->limit = limit;
    request->wait_ms = wait_ms;
    request->lease_ms = request->max_hold_ms = request->grace_ms = request->flags = 0;
    request->owner = request->note = NULL;
    request->cancel = NULL;
    request->on_lost = NULL;
    request->on_lost_arg = NULL;
    return acquire(out, &ask, err);
}

int
dibs_lock(dibs_hold **out, dibs *client, const char *name, dibs_error *err)
{
    return acquire_short(out, client, name, DIBS_EXCLUSIVE, 0, DIBS_WAIT_FOREVER, err);
}

int
dibs_trylock(dibs_hold **out, dibs *client, const char *name, dibs_error *err)
{
    return acquire_short(out, client, name, DIBS_EXCLUSIVE, 0, DIBS_WAIT_NONE, err);
}

int
dibs_timedlock(dibs_hold **out, dibs *client, const char *name, int64_t wait_ms,
               dibs_error *err)
{
    /* no time at all is "do not wait", not the zero that means "for ever" */
    return acquire_short(out, client, name, DIBS_EXCLUSIVE, 0,
                         wait_ms > 0 ? wait_ms : DIBS_WAIT_NONE, err);
}

int
dibs_rdlock(dibs_hold **out, dibs *client, const char *name, dibs_error *err)
{
    return acquire_short(out, client, name, DIBS_SHARED, 0, DIBS_WAIT_FOREVER, err);
}

int
dibs_wrlock(dibs_hold **out, dibs *client, const char *name, dibs_error *err)
{
    return acquire_short(out, client, name, DIBS_EXCLUSIVE, 0, DIBS_WAIT_FOREVER, err);
}

int
dibs_permit(dibs_hold **out, dibs *client, const char *name, uint32_t limit,
            dibs_error *err)
{
    return acquire_short(out, client, name, DIBS_PERMITS, limit, DIBS_WAIT_FOREVER, err);
}
