/* SPDX-License-Identifier: MIT */
/*
 * Leases that run out. The servers end nodes with their session only, and the session lives
 * as long as the process keeps it. But a hold that is not renewed has to end when its lease
 * does: nobody may believe in it any more, and others wait. So for each hold there is a copy
 * of its claim in here, until it is released; the pump's thread releases what is over, and
 * what could not be released at once.
 *
 * A renewal that comes too late for that finds nothing to lengthen, and the hold is lost.
 */
#include "link.h"
#include "claim.h"

#include <string.h>

#define BUCKETS 256
#define RUN_LIMIT (50 * DIBS_MS)
#define RUN_AGAIN (100 * DIBS_MS)

struct lapse {
    struct lapse *next;
    dibs_time until;
    int is_ending;    /* it is over: no renewal helps */
    int is_forgotten; /* released, while the pump is at it */
    dibs_claim claim;
    char name[];
};

struct lapses {
    pthread_mutex_t mutex;
    dibs_time due; /* nothing is over before */
    struct lapse *buckets[BUCKETS];
};

int
dibs__zk_lapses_open(struct zk *zk)
{
    struct lapses *all = zk->host->alloc(sizeof *all);
    if (!all)
        return DIBS_ENOMEM;
    pthread_mutex_init(&all->mutex, NULL);
    all->due = DIBS_NEVER;
    zk->lapses = all;
    return DIBS_OK;
}

void
dibs__zk_lapses_close(struct zk *zk, int forked)
{
    struct lapses *all = zk->lapses;
    for (int i = 0; all && i < BUCKETS; i++) {
        for (struct lapse *at = all->buckets[i], *next; at; at = next) {
            next = at->next;
            zk->host->free(at);
        }
    }
    /* in a child somebody of the parent may have it for ever */
    if (all && !forked)
        pthread_mutex_destroy(&all->mutex);
    zk->host->free(all);
    zk->lapses = NULL;
}

/* ---- the table; the mutex is held ---- */

static struct lapse **
find_locked(struct lapses *all, uint64_t serial)
{
    struct lapse **at = &all->buckets[serial % BUCKETS];
    while (*at && (*at)->claim.serial != serial)
        at = &(*at)->next;
    return at;
}

static void
set_until_locked(struct lapses *all, struct lapse *lapse, dibs_time until)
{
    lapse->until = until;
    if (until < all->due)
        all->due = until;
}

static void
remove_locked(struct zk *zk, struct lapse *lapse)
{
    struct lapse **at = find_locked(zk->lapses, lapse->claim.serial);
    *at = lapse->next;
    zk->host->free(lapse);
}

/* ---- holds begin and end ---- */

static struct lapse *
lapse_new(const struct zk *zk, const dibs_claim *claim)
{
    struct lapse *lapse = zk->host->alloc(sizeof *lapse + claim->name_len);
    if (!lapse)
        return NULL;
    memcpy(lapse->name, claim->name, claim->name_len);
    lapse->claim.name = lapse->name;
    lapse->claim.name_len = claim->name_len;
    lapse->claim.flags = claim->flags;
    lapse->claim.permits = claim->permits;
    lapse->claim.limit = claim->limit;
    lapse->claim.serial = claim->serial;
    lapse->claim.note = "";
    return lapse;
}

static int
add(struct zk *zk, const dibs_claim *claim, dibs_time until)
{
    struct lapses *all = zk->lapses;
    struct mine mine = dibs__zk_mine(claim);
    pthread_mutex_lock(&all->mutex);
    struct lapse **at = find_locked(all, claim->serial);
    if (!*at)
        *at = lapse_new(zk, claim);
    struct lapse *lapse = *at;
    if (lapse && !lapse->is_ending) {
        dibs__zk_mine_store(&lapse->claim, &mine);
        set_until_locked(all, lapse, until);
    }
    pthread_mutex_unlock(&all->mutex);
    return lapse ? DIBS_OK : DIBS_ENOMEM;
}

int
dibs__zk_lapse_add(struct zk *zk, const dibs_claim *claim)
{
    return add(zk, claim, claim->sent + claim->lease_ms * DIBS_MS);
}

int
dibs__zk_lapse_move(struct zk *zk, const dibs_claim *claim, dibs_time until)
{
    struct lapses *all = zk->lapses;
    struct mine mine = dibs__zk_mine(claim);
    pthread_mutex_lock(&all->mutex);
    struct lapse *lapse = *find_locked(all, claim->serial);
    int is_there = lapse && !lapse->is_ending;
    if (is_there) {
        dibs__zk_mine_store(&lapse->claim, &mine);
        set_until_locked(all, lapse, until ? until : lapse->until);
    }
    pthread_mutex_unlock(&all->mutex);
    return is_there ? DIBS_OK : DIBS_ELOST;
}

static void
forget(struct zk *zk, const dibs_claim *claim)
{
    struct lapses *all = zk->lapses;
    pthread_mutex_lock(&all->mutex);
    struct lapse *lapse = *find_locked(all, claim->serial);
    if (lapse && lapse->is_ending)
        lapse->is_forgotten = 1;
    else if (lapse)
        remove_locked(zk, lapse);
    pthread_mutex_unlock(&all->mutex);
}

/* Core tries again for as long as the lease; but what is left would stay as long as the
 * session does, in everybody's way. */
int
dibs__zk_lapse_released(struct zk *zk, const dibs_claim *claim, int rc)
{
    if (rc == DIBS_EUNKNOWN || rc == DIBS_EUNAVAIL)
        (void)add(zk, claim, zk->host->now() + RUN_AGAIN);
    else
        forget(zk, claim);
    return rc;
}

/* ---- what is over ---- */

/* Finds one that is over by now, or when the next one is. */
static struct lapse *
take_due_locked(struct lapses *all, dibs_time now)
{
    dibs_time due = DIBS_NEVER;
    if (now < all->due)
        return NULL;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct lapse *at = all->buckets[i]; at; at = at->next) {
            if (at->until <= now)
                return at;
            due = at->until < due ? at->until : due;
        }
    }
    all->due = due;
    return NULL;
}

/* Only the pump can connect a session, so it does not wait for that here. */
static int
is_connected(struct session *session)
{
    pthread_mutex_lock(&session->mutex);
    int connected = session->connected;
    pthread_mutex_unlock(&session->mutex);
    return connected;
}

/* whether nothing is left to do for it */
static int
end_it(struct zk *zk, struct lapse *lapse)
{
    struct mine mine = dibs__zk_mine(&lapse->claim);
    struct session *session = dibs__zk_session_born(zk, mine.birth);
    if (!session && !(mine.flags & MINE_MOVING))
        return 1;
    if (session && !is_connected(session))
        return 0;
    int rc = zk->session->engine->release(zk, &lapse->claim, 0,
                                          zk->host->now() + RUN_LIMIT, NULL);
    return rc != DIBS_EUNKNOWN && rc != DIBS_EUNAVAIL;
}

dibs_time
dibs__zk_lapse(struct zk *zk)
{
    struct lapses *all = zk->lapses;
    struct lapse *lapse;
    dibs_time now = zk->host->now();
    pthread_mutex_lock(&all->mutex);
    while ((lapse = take_due_locked(all, now))) {
        lapse->is_ending = 1;
        pthread_mutex_unlock(&all->mutex);
        int is_done = end_it(zk, lapse);
        pthread_mutex_lock(&all->mutex);
        if (is_done || lapse->is_forgotten)
            remove_locked(zk, lapse);
        else
            set_until_locked(all, lapse, now + RUN_AGAIN);
    }
    dibs_time due = all->due;
    pthread_mutex_unlock(&all->mutex);
    return due;
}
