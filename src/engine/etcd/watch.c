/* SPDX-License-Identifier: MIT */
/*
 * Which claims wait for which keys.
 *
 * A place is what the server watches for us: a key, or a range of them. A waiter is a claim
 * that waits, at a few places: its own key, and the one before it. The first at a
 * place asks for the server's watch, the others join.
 *
 * The keys of a client have the same names again and again, and processes that take turns
 * wait for the same ones before them. So a place stays for a moment when its last waiter has
 * gone: to make and end watches is more than half of the messages of a hand-over.
 *
 * Watches begin "now", for etcd serves those that begin in the past only ten times a second.
 * What happened between a claim's look at the line and that "now" is not told; but the
 * server says which revision "now" is. So each place knows the newest revision of which it
 * has told, or may have missed, something. A waiter that has looked since then misses
 * nothing; any other one looks again. That holds at a place that was watched before its
 * waiter came as well: what the waiter's look does not show is told, or was told already.
 *
 * In this order: finding, coming and going, waiting, what the server says, open and close.
 */
#include "claim.h"

#include <string.h>

#include "util/wait.h"
#include "wire.h"

#define BUCKETS 1024
#define STALE (10000 * DIBS_MS)
/* how long the server may take to confirm a watch, and when to look where there is none */
#define CONFIRM (1000 * DIBS_MS)
#define BLIND_MS 500
/* how long a place stays when nobody waits there, and how many such there are at most */
#define IDLE_TIME (1000 * DIBS_MS)
#define IDLE_MAX 16

struct link;

struct place {
    struct place *next, *next_id; /* in their buckets */
    int64_t id;                   /* of the wire's watch */
    int is_made;                  /* the server has confirmed it */
    int has_ended;                /* the server has ended it: it is of no use */
    int64_t newest;               /* revision of what it told, or began with */
    struct link *links;           /* NULL: it is idle */
    dibs_time idle_since;
    uint64_t hash;
    int sees_puts;
    size_t key_len, end_len; /* end_len 0: one key */
    char bytes[];            /* the key, then the end */
};

/* a waiter at a place */
struct link {
    struct link *neighbour;
    struct waiter *waiter;
    struct place *place;
};

struct waiter {
    struct waiter *next; /* in its bucket */
    struct link links[SPOTS];
    uint64_t serial, birth;
    dibs_bell *bell;
    int64_t revision; /* of its last look */
    dibs_time since;  /* of the same */
    int has_heard;    /* something that it has not seen yet */
    int is_inside;    /* in dibs__etcd_wait: it is told by `told`, and not by its bell */
    pthread_cond_t told;
};

struct watches {
    struct etcd *etcd;
    etcd_wire *wire;
    pthread_mutex_t mutex;
    struct place *places[BUCKETS], *ids[BUCKETS];
    struct waiter *waiters[BUCKETS];
    struct place *idle[IDLE_MAX]; /* the longest first */
    size_t idle_count;
};

/* ---- finding; the mutex is held ---- */

static uint64_t
hash_of(const struct spot *spot)
{
    uint64_t hash = 14695981039346656037u ^ (uint64_t)spot->sees_puts;
    for (size_t i = 0; i < spot->key->len; i++)
        hash = (hash ^ (unsigned char)spot->key->text[i]) * 1099511628211u;
    return hash ^ (hash >> 29);
}

static int
is_at(const struct place *place, const struct spot *spot, uint64_t hash)
{
    size_t end_len = spot->end ? spot->end->len : 0;
    return place->hash == hash && place->sees_puts == spot->sees_puts &&
           place->key_len == spot->key->len && place->end_len == end_len &&
           memcmp(place->bytes, spot->key->text, place->key_len) == 0 &&
           (!end_len ||
            memcmp(place->bytes + place->key_len, spot->end->text, end_len) == 0);
}

static struct place *
find_place(struct watches *all, const struct spot *spot, uint64_t hash)
{
    struct place *place = all->places[hash % BUCKETS];
    while (place && (place->has_ended || !is_at(place, spot, hash)))
        place = place->next;
    return place;
}

static struct place *
find_id(struct watches *all, int64_t id)
{
    struct place *place = all->ids[(uint64_t)id % BUCKETS];
    while (place && place->id != id)
        place = place->next_id;
    return place;
}

static struct waiter **
find_waiter(struct watches *all, uint64_t serial)
{
    struct waiter **at = &all->waiters[serial % BUCKETS];
    while (*at && (*at)->serial != serial)
        at = &(*at)->next;
    return at;
}

/* ---- coming and going; the mutex is held ---- */

static void
drop_place(struct watches *all, struct place *place)
{
    struct place **at = &all->places[place->hash % BUCKETS];
    while (*at != place)
        at = &(*at)->next;
    *at = place->next;
    at = &all->ids[(uint64_t)place->id % BUCKETS];
    while (*at != place)
        at = &(*at)->next_id;
    *at = place->next_id;
    if (!place->has_ended)
        dibs__etcd_wire_drop(all->wire, place->id);
    all->etcd->host->free(place);
}

static void
stop_idling(struct watches *all, const struct place *place)
{
    size_t i = 0;
    while (i < all->idle_count && all->idle[i] != place)
        i++;
    if (i == all->idle_count)
        return;
    all->idle_count--;
    memmove(all->idle + i, all->idle + i + 1, (all->idle_count - i) * sizeof *all->idle);
}

static void
drop_idle(struct watches *all)
{
    struct place *place = all->idle[0];
    stop_idling(all, place);
    drop_place(all, place);
}

static void
begin_idling(struct watches *all, struct place *place)
{
    if (place->has_ended) {
        drop_place(all, place);
        return;
    }
    if (all->idle_count == IDLE_MAX)
        drop_idle(all);
    place->idle_since = all->etcd->host->now();
    all->idle[all->idle_count++] = place;
}

static void
leave(struct watches *all, struct link *link)
{
    struct place *place = link->place;
    if (!place)
        return;
    struct link **at = &place->links;
    while (*at != link)
        at = &(*at)->neighbour;
    *at = link->neighbour;
    link->place = NULL;
    if (!place->links)
        begin_idling(all, place);
}

static int
ask_wire(struct watches *all, struct place *place)
{
    const wire_range range = { .key = place->bytes,
                               .key_len = place->key_len,
                               .end =
                                   place->end_len ? place->bytes + place->key_len : NULL,
                               .end_len = place->end_len,
                               .filters = place->sees_puts ? 0 : WIRE_NO_PUT };
    return dibs__etcd_wire_add(all->wire, &range, &place->id);
}

static struct place *
make_place(struct watches *all, const struct spot *spot, uint64_t hash)
{
    size_t end_len = spot->end ? spot->end->len : 0;
    struct place *place =
        all->etcd->host->alloc(sizeof *place + spot->key->len + end_len);
    if (!place)
        return NULL;
    place->hash = hash;
    place->sees_puts = spot->sees_puts;
    place->key_len = spot->key->len;
    place->end_len = end_len;
    memcpy(place->bytes, spot->key->text, place->key_len);
    if (end_len)
        memcpy(place->bytes + place->key_len, spot->end->text, end_len);
    if (ask_wire(all, place)) {
        all->etcd->host->free(place);
        return NULL;
    }
    place->next = all->places[hash % BUCKETS];
    all->places[hash % BUCKETS] = place;
    place->next_id = all->ids[(uint64_t)place->id % BUCKETS];
    all->ids[(uint64_t)place->id % BUCKETS] = place;
    return place;
}

/* The new place is there before the old one is left: what both need is not asked twice. */
static int
join(struct watches *all, struct waiter *waiter, struct link *link,
     const struct spot *spot)
{
    uint64_t hash = spot ? hash_of(spot) : 0;
    struct place *place = spot ? find_place(all, spot, hash) : NULL;
    if (place && place == link->place)
        return 0;
    if (spot && !place)
        place = make_place(all, spot, hash);
    if (spot && !place)
        return -1;
    if (place)
        stop_idling(all, place); /* or to leave the other one may drop it */
    leave(all, link);
    if (!place)
        return 0;
    link->waiter = waiter;
    link->place = place;
    link->neighbour = place->links;
    place->links = link;
    return 0;
}

static struct waiter *
waiter_of(struct watches *all, const dibs_claim *claim)
{
    struct waiter **at = find_waiter(all, claim->serial);
    if (*at)
        return *at;
    struct waiter *waiter = all->etcd->host->alloc(sizeof *waiter);
    if (waiter) {
        waiter->serial = claim->serial;
        cond_init(&waiter->told);
        *at = waiter;
    }
    return waiter;
}

static void
remove_waiter(struct watches *all, struct waiter **at)
{
    struct waiter *waiter = *at;
    *at = waiter->next;
    for (int i = 0; i < SPOTS; i++)
        leave(all, &waiter->links[i]);
    pthread_cond_destroy(&waiter->told);
    all->etcd->host->free(waiter);
}

/* ---- waiting ---- */

enum sight { NOT_YET, WATCHED, UNWATCHED };

static enum sight
sight_of(const struct waiter *waiter)
{
    enum sight sight = WATCHED;
    for (int i = 0; i < SPOTS; i++) {
        const struct place *place = waiter->links[i].place;
        if (place && place->has_ended)
            return UNWATCHED;
        if (place && !place->is_made)
            sight = NOT_YET;
    }
    return sight;
}

static int
may_have_missed(const struct waiter *waiter)
{
    for (int i = 0; i < SPOTS; i++) {
        const struct place *place = waiter->links[i].place;
        if (place && place->newest > waiter->revision)
            return 1;
    }
    return 0;
}

static int
await_locked(struct watches *all, struct waiter *waiter, dibs_claim *claim,
             dibs_time deadline)
{
    dibs_time most = all->etcd->host->now() + CONFIRM;
    waiter->is_inside = 1;
    while (sight_of(waiter) == NOT_YET && !waiter->has_heard &&
           wait_for(&waiter->told, &all->mutex,
                    (deadline < most ? deadline : most) - all->etcd->host->now()) == 0)
        continue;
    waiter->is_inside = 0;
    if (waiter->has_heard || may_have_missed(waiter))
        return TURN_AGAIN;
    if (sight_of(waiter) != WATCHED)
        claim->hint_ms = BLIND_MS;
    return DIBS_EBUSY;
}

static int
wait_locked(struct watches *all, dibs_claim *claim, const struct spot *const spots[SPOTS],
            int64_t revision, dibs_time deadline, dibs_error *err)
{
    struct waiter *waiter = waiter_of(all, claim);
    if (!waiter)
        return all->etcd->host->fail(err, DIBS_ENOMEM, "out of memory");
    waiter->bell = claim->bell;
    waiter->birth = dibs__etcd_mine(claim).birth;
    waiter->revision = revision;
    waiter->since = all->etcd->host->now();
    waiter->has_heard = 0;
    for (int i = 0; i < SPOTS; i++) {
        if (join(all, waiter, &waiter->links[i], spots[i])) {
            remove_waiter(all, find_waiter(all, claim->serial));
            return all->etcd->host->fail(err, DIBS_ENOMEM, "out of memory");
        }
    }
    return await_locked(all, waiter, claim, deadline);
}

int
dibs__etcd_wait(struct etcd *etcd, dibs_claim *claim,
                const struct spot *const spots[SPOTS], int64_t revision,
                dibs_time deadline, dibs_error *err)
{
    struct watches *all = etcd->watches;
    pthread_mutex_lock(&all->mutex);
    int rc = wait_locked(all, claim, spots, revision, deadline, err);
    pthread_mutex_unlock(&all->mutex);
    return rc;
}

int
dibs__etcd_still_waits(struct etcd *etcd, const dibs_claim *claim)
{
    struct watches *all = etcd->watches;
    pthread_mutex_lock(&all->mutex);
    const struct waiter *waiter = *find_waiter(all, claim->serial);
    int still = waiter && !waiter->has_heard && sight_of(waiter) == WATCHED &&
                etcd->host->now() - waiter->since < STALE;
    pthread_mutex_unlock(&all->mutex);
    return still;
}

void
dibs__etcd_unwait(struct etcd *etcd, const dibs_claim *claim)
{
    struct watches *all = etcd->watches;
    pthread_mutex_lock(&all->mutex);
    struct waiter **at = find_waiter(all, claim->serial);
    if (*at)
        remove_waiter(all, at);
    pthread_mutex_unlock(&all->mutex);
}

/* ---- what the server says ---- */

static void
tell(struct watches *all, struct waiter *waiter)
{
    waiter->has_heard = 1;
    if (waiter->is_inside)
        pthread_cond_signal(&waiter->told);
    else
        all->etcd->host->ring(waiter->bell);
}

/* Tells who has not looked since that revision; and who waits for the confirmation. */
static void
tell_all(struct watches *all, const struct place *place, int64_t revision)
{
    for (struct link *link = place->links; link; link = link->neighbour) {
        struct waiter *waiter = link->waiter;
        if (waiter->revision < revision)
            tell(all, waiter);
        else if (waiter->is_inside)
            pthread_cond_signal(&waiter->told);
    }
}

static void
made(void *context, int64_t id, int64_t revision)
{
    struct watches *all = context;
    pthread_mutex_lock(&all->mutex);
    struct place *place = find_id(all, id);
    if (place) {
        place->is_made = 1;
        if (revision > place->newest)
            place->newest = revision;
        tell_all(all, place, revision);
    }
    pthread_mutex_unlock(&all->mutex);
}

static void
happened(void *context, int64_t id, const wire_event *event)
{
    struct watches *all = context;
    pthread_mutex_lock(&all->mutex);
    struct place *place = find_id(all, id);
    if (place) {
        if (event->mod_revision > place->newest)
            place->newest = event->mod_revision;
        tell_all(all, place, event->mod_revision);
    }
    pthread_mutex_unlock(&all->mutex);
}

static void
ended(void *context, int64_t id, int64_t compact_revision, const char *reason)
{
    struct watches *all = context;
    (void)compact_revision;
    (void)reason;
    pthread_mutex_lock(&all->mutex);
    struct place *place = find_id(all, id);
    if (place) {
        place->has_ended = 1;
        tell_all(all, place, INT64_MAX);
        if (!place->links) {
            stop_idling(all, place);
            drop_place(all, place);
        }
    }
    pthread_mutex_unlock(&all->mutex);
}

/* Until a watch is made again nothing is heard: who waits there has to look. */
static void
lost(void *context)
{
    struct watches *all = context;
    pthread_mutex_lock(&all->mutex);
    while (all->idle_count)
        drop_idle(all);
    for (int i = 0; i < BUCKETS; i++) {
        for (struct place *place = all->places[i]; place; place = place->next)
            place->is_made = 0;
    }
    pthread_mutex_unlock(&all->mutex);
}

static void
tick(void *context)
{
    struct watches *all = context;
    pthread_mutex_lock(&all->mutex);
    dibs_time latest = all->etcd->host->now() - IDLE_TIME;
    while (all->idle_count && all->idle[0]->idle_since < latest)
        drop_idle(all);
    pthread_mutex_unlock(&all->mutex);
}

void
dibs__etcd_wake_tenure(struct etcd *etcd, uint64_t birth)
{
    struct watches *all = etcd->watches;
    pthread_mutex_lock(&all->mutex);
    for (int i = 0; i < BUCKETS; i++) {
        for (struct waiter *waiter = all->waiters[i]; waiter; waiter = waiter->next)
            if (waiter->birth == birth)
                tell(all, waiter);
    }
    pthread_mutex_unlock(&all->mutex);
}

/* ---- open and close ---- */

void
dibs__etcd_watches_signed_in(struct etcd *etcd)
{
    struct watches *all = etcd->watches;
    if (all)
        dibs__etcd_wire_reopen(all->wire);
}

int
dibs__etcd_watches_open(struct etcd *etcd, dibs_error *err)
{
    static const wire_events events = {
        .made = made, .happened = happened, .ended = ended, .lost = lost, .tick = tick
    };
    struct watches *all = etcd->host->alloc(sizeof *all);
    int rc = all ? DIBS_OK : DIBS_ENOMEM;
    if (!rc)
        rc = dibs__etcd_wire_new(&all->wire, etcd->host, etcd->http, &events, all);
    if (rc) {
        etcd->host->free(all);
        return etcd->host->fail(err, rc, "out of memory");
    }
    all->etcd = etcd;
    pthread_mutex_init(&all->mutex, NULL);
    etcd->watches = all;
    return DIBS_OK;
}

static void
free_places(struct watches *all)
{
    for (int i = 0; i < BUCKETS; i++) {
        for (struct place *place = all->places[i], *next; place; place = next) {
            next = place->next;
            all->etcd->host->free(place);
        }
    }
}

/* In a child a thread of the parent may have the mutex for ever, or sleep. */
void
dibs__etcd_watches_close(struct etcd *etcd, int forked)
{
    struct watches *all = etcd->watches;
    if (!all)
        return;
    dibs__etcd_wire_free(all->wire, forked);
    for (int i = 0; i < BUCKETS; i++) {
        for (struct waiter *waiter = all->waiters[i], *next; waiter; waiter = next) {
            next = waiter->next;
            if (!forked)
                pthread_cond_destroy(&waiter->told);
            etcd->host->free(waiter);
        }
    }
    free_places(all);
    if (!forked)
        pthread_mutex_destroy(&all->mutex);
    etcd->host->free(all);
    etcd->watches = NULL;
}
