/* SPDX-License-Identifier: MIT */
/*
 * Leases that run out. The store ends what was written in a life of this client with that
 * life only, which lasts as long as the process keeps it. But a hold that is not renewed has
 * to end when its lease does: nobody may believe in it any more, and others wait. So for
 * each hold there is a copy of its claim in here, until it is released; one thread of the
 * engine's ends what is over, and what could not be released at once.
 *
 * A renewal that comes too late for that finds nothing to lengthen, and the hold is lost.
 */
#include "kit.h"

#include <string.h>

#define BUCKETS 256
#define RUN_AGAIN (100 * DIBS_MS)
/* the thread has other things to do as well: what is left comes next time */
#define RUN_FOR (50 * DIBS_MS)

struct lapse {
    struct lapse *next, *chained;
    dibs_time until;
    int is_ending;    /* it is over: no renewal helps */
    int is_forgotten; /* released, while it is being ended */
    dibs_claim claim;
    char name[];
};

struct kit_lapses {
    const dibs_host *host;
    kit_end_fn *end;
    void *state;
    void (*wake)(void *arg);
    void *wake_arg;
    pthread_mutex_t mutex;
    dibs_time due; /* nothing is over before */
    struct lapse *buckets[BUCKETS];
};

static void
wake_nobody(void *arg)
{
    (void)arg;
}

kit_lapses *
dibs__kit_lapses_new(const dibs_host *host, kit_end_fn *end, void *state)
{
    kit_lapses *lapses = host->alloc(sizeof *lapses);
    if (!lapses)
        return NULL;
    lapses->host = host;
    lapses->end = end;
    lapses->state = state;
    lapses->wake = wake_nobody;
    lapses->due = DIBS_NEVER;
    pthread_mutex_init(&lapses->mutex, NULL);
    return lapses;
}

void
dibs__kit_lapses_waker(kit_lapses *lapses, void (*wake)(void *arg), void *arg)
{
    lapses->wake = wake;
    lapses->wake_arg = arg;
}

void
dibs__kit_lapses_free(kit_lapses *lapses, int forked)
{
    if (!lapses)
        return;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct lapse *at = lapses->buckets[i], *next; at; at = next) {
            next = at->next;
            lapses->host->free(at);
        }
    }
    /* in a child somebody of the parent may have it for ever */
    if (!forked)
        pthread_mutex_destroy(&lapses->mutex);
    lapses->host->free(lapses);
}

/* ---- what engines remember ---- */

void
dibs__kit_priv_read(uint64_t out[3], const dibs_claim *claim)
{
    for (int i = 2; i >= 0; i--)
        out[i] = __atomic_load_n(&claim->priv[i], __ATOMIC_ACQUIRE);
}

void
dibs__kit_priv_write(dibs_claim *claim, const uint64_t priv[3])
{
    for (int i = 0; i < 3; i++)
        __atomic_store_n(&claim->priv[i], priv[i], __ATOMIC_RELEASE);
}

/* ---- the table; the mutex is held ---- */

static struct lapse **
find_locked(kit_lapses *lapses, uint64_t serial)
{
    struct lapse **at = &lapses->buckets[serial % BUCKETS];
    while (*at && (*at)->claim.serial != serial)
        at = &(*at)->next;
    return at;
}

static void
set_until_locked(kit_lapses *lapses, struct lapse *lapse, dibs_time until)
{
    lapse->until = until;
    if (until >= lapses->due)
        return;
    lapses->due = until;
    lapses->wake(lapses->wake_arg);
}

static void
remove_locked(kit_lapses *lapses, const struct lapse *lapse)
{
    struct lapse **at = find_locked(lapses, lapse->claim.serial);
    struct lapse *found = *at;
    *at = found->next;
    lapses->host->free(found);
}

/* ---- holds begin and end ---- */

static struct lapse *
lapse_new(const kit_lapses *lapses, const dibs_claim *claim)
{
    struct lapse *lapse = lapses->host->alloc(sizeof *lapse + claim->name_len);
    if (!lapse)
        return NULL;
    memcpy(lapse->name, claim->name, claim->name_len);
    lapse->claim.name = lapse->name;
    lapse->claim.name_len = claim->name_len;
    lapse->claim.name_hash = claim->name_hash;
    lapse->claim.mode = claim->mode;
    lapse->claim.flags = claim->flags;
    lapse->claim.permits = claim->permits;
    lapse->claim.limit = claim->limit;
    lapse->claim.lease_ms = claim->lease_ms;
    lapse->claim.serial = claim->serial;
    lapse->claim.note = "";
    return lapse;
}

static void
copy_priv(dibs_claim *to, const dibs_claim *from)
{
    uint64_t priv[3];
    dibs__kit_priv_read(priv, from);
    dibs__kit_priv_write(to, priv);
}

static int
add(kit_lapses *lapses, const dibs_claim *claim, dibs_time until)
{
    pthread_mutex_lock(&lapses->mutex);
    struct lapse **at = find_locked(lapses, claim->serial);
    if (!*at)
        *at = lapse_new(lapses, claim);
    struct lapse *lapse = *at;
    if (lapse && !lapse->is_ending) {
        copy_priv(&lapse->claim, claim);
        set_until_locked(lapses, lapse, until);
    }
    pthread_mutex_unlock(&lapses->mutex);
    return lapse ? DIBS_OK : DIBS_ENOMEM;
}

int
dibs__kit_lapse_add(kit_lapses *lapses, const dibs_claim *claim)
{
    return add(lapses, claim, claim->sent + claim->lease_ms * DIBS_MS);
}

/* The mode is read only where it cannot change meanwhile: in a downgrade. */
int
dibs__kit_lapse_move(kit_lapses *lapses, const dibs_claim *claim, dibs_time until)
{
    pthread_mutex_lock(&lapses->mutex);
    struct lapse *lapse = *find_locked(lapses, claim->serial);
    int is_there = lapse && !lapse->is_ending;
    if (is_there) {
        copy_priv(&lapse->claim, claim);
        if (!until)
            lapse->claim.mode = claim->mode;
        set_until_locked(lapses, lapse, until ? until : lapse->until);
    }
    pthread_mutex_unlock(&lapses->mutex);
    return is_there ? DIBS_OK : DIBS_ELOST;
}

static void
forget(kit_lapses *lapses, const dibs_claim *claim)
{
    pthread_mutex_lock(&lapses->mutex);
    struct lapse *lapse = *find_locked(lapses, claim->serial);
    if (lapse && lapse->is_ending)
        lapse->is_forgotten = 1;
    else if (lapse)
        remove_locked(lapses, lapse);
    pthread_mutex_unlock(&lapses->mutex);
}

/* Core tries again for as long as the lease; but what is left would stay as long as this
 * client lives, in everybody's way. */
int
dibs__kit_lapse_released(kit_lapses *lapses, const dibs_claim *claim, int rc)
{
    if (rc == DIBS_EUNKNOWN || rc == DIBS_EUNAVAIL)
        (void)add(lapses, claim, lapses->host->now() + RUN_AGAIN);
    else
        forget(lapses, claim);
    return rc;
}

/* ---- what is over ---- */

/* All that is over by now, chained, and when the next one will be. What is ending is taken
 * out of the table in here only, so the chain holds while the mutex is not held. */
static struct lapse *
take_due_locked(kit_lapses *lapses, dibs_time now)
{
    struct lapse *chain = NULL;
    if (now < lapses->due)
        return NULL;
    lapses->due = DIBS_NEVER;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct lapse *at = lapses->buckets[i]; at; at = at->next) {
            if (at->until <= now) {
                at->is_ending = 1;
                at->chained = chain;
                chain = at;
            } else if (at->until < lapses->due) {
                lapses->due = at->until;
            }
        }
    }
    return chain;
}

static void
end_locked(kit_lapses *lapses, struct lapse *lapse)
{
    pthread_mutex_unlock(&lapses->mutex);
    int is_done = lapses->end(lapses->state, &lapse->claim);
    pthread_mutex_lock(&lapses->mutex);
    if (is_done || lapse->is_forgotten)
        remove_locked(lapses, lapse);
    else
        set_until_locked(lapses, lapse, lapses->host->now() + RUN_AGAIN);
}

dibs_time
dibs__kit_lapses_run(kit_lapses *lapses)
{
    dibs_time now = lapses->host->now();
    pthread_mutex_lock(&lapses->mutex);
    struct lapse *chain = take_due_locked(lapses, now);
    for (struct lapse *next; chain; chain = next) {
        next = chain->chained;
        if (lapses->host->now() - now > RUN_FOR)
            set_until_locked(lapses, chain, now);
        else
            end_locked(lapses, chain);
    }
    dibs_time due = lapses->due;
    pthread_mutex_unlock(&lapses->mutex);
    return due;
}
