/* SPDX-License-Identifier: MIT */
/*
 * Which claims wait for which nodes.
 *
 * A spot is a node that is watched in a session, in one way; a watcher is a claim that waits
 * there. The first at a spot sets the server's watch, the others only join. A spot goes with
 * its last watcher; what the server says about it later is for nobody.
 *
 * After a lost connection the library sets its watches again, and the server tells what was
 * missed. What the library knows a watch by is the session and the path, so nothing of ours
 * has to outlive a claim.
 */
#include "link.h"

#include <string.h>

#define BUCKETS 1024
#define STALE (10000 * DIBS_MS)

struct watcher;

struct spot {
    struct spot *next;
    struct session *session;
    enum watch_kind kind;
    int is_set; /* the server has confirmed it */
    struct watcher *watchers;
    uint64_t hash;
    char path[];
};

struct watcher {
    struct watcher *next;      /* in its bucket */
    struct watcher *neighbour; /* at its spot */
    struct spot *spot;         /* NULL: it has been told */
    uint64_t serial;
    dibs_bell *bell;
    dibs_time since;
};

struct watches {
    pthread_mutex_t mutex;
    struct spot *spots[BUCKETS];
    struct watcher *watchers[BUCKETS];
};

/* ---- finding ---- */

static uint64_t
hash_of(const char *path)
{
    uint64_t hash = 14695981039346656037u;
    for (; *path; path++)
        hash = (hash ^ (unsigned char)*path) * 1099511628211u;
    return hash ^ (hash >> 29);
}

static struct spot **
find_spot(struct watches *all, const struct session *session, const char *path,
          uint64_t hash, enum watch_kind kind)
{
    struct spot **link = &all->spots[hash % BUCKETS];
    while (*link && ((*link)->hash != hash || (*link)->session != session ||
                     (*link)->kind != kind || strcmp((*link)->path, path) != 0))
        link = &(*link)->next;
    return link;
}

static struct watcher **
find_watcher(struct watches *all, uint64_t serial)
{
    struct watcher **link = &all->watchers[serial % BUCKETS];
    while (*link && (*link)->serial != serial)
        link = &(*link)->next;
    return link;
}

/* ---- coming and going ---- */

static void
drop_spot(struct zk *zk, struct spot *spot)
{
    struct watches *all = zk->watches;
    struct spot **link = &all->spots[spot->hash % BUCKETS];
    while (*link != spot)
        link = &(*link)->next;
    *link = spot->next;
    zk->host->free(spot);
}

static void
leave_spot(struct zk *zk, struct watcher *watcher)
{
    struct spot *spot = watcher->spot;
    struct watcher **link = &spot->watchers;
    while (*link != watcher)
        link = &(*link)->neighbour;
    *link = watcher->neighbour;
    watcher->spot = NULL;
    atomic_fetch_sub(&spot->session->watchers, 1);
    if (!spot->watchers)
        drop_spot(zk, spot);
}

/* Rings all who are at a spot, which is gone then. */
static void
tell_all(struct zk *zk, struct spot *spot)
{
    int last = 0;
    while (!last) {
        struct watcher *watcher = spot->watchers;
        last = !watcher->neighbour;
        leave_spot(zk, watcher);
        zk->host->ring(watcher->bell);
    }
}

static struct spot *
make_spot(struct zk *zk, struct session *session, const char *path, uint64_t hash,
          enum watch_kind kind)
{
    struct watches *all = zk->watches;
    size_t size = strlen(path) + 1;
    struct spot *spot = zk->host->alloc(sizeof *spot + size);
    if (!spot)
        return NULL;
    spot->session = session;
    spot->kind = kind;
    spot->hash = hash;
    memcpy(spot->path, path, size);
    spot->next = all->spots[hash % BUCKETS];
    all->spots[hash % BUCKETS] = spot;
    return spot;
}

static struct watcher *
make_watcher(struct zk *zk, const dibs_claim *claim)
{
    struct watches *all = zk->watches;
    struct watcher **link = find_watcher(all, claim->serial);
    if (!*link) {
        *link = zk->host->alloc(sizeof **link);
        if (*link)
            (*link)->serial = claim->serial;
    } else if ((*link)->spot) {
        leave_spot(zk, *link);
    }
    return *link;
}

/* Puts the claim at its spot. 1: the server watches it already; 0: it has to be asked; -1:
 * out of memory. */
static int
join_locked(struct session *session, const dibs_claim *claim, const char *path,
            enum watch_kind kind)
{
    struct zk *zk = session->zk;
    uint64_t hash = hash_of(path);
    struct watcher *watcher = make_watcher(zk, claim);
    if (!watcher)
        return -1;
    struct spot *spot = *find_spot(zk->watches, session, path, hash, kind);
    if (!spot)
        spot = make_spot(zk, session, path, hash, kind);
    if (!spot)
        return -1;
    watcher->bell = claim->bell;
    watcher->since = zk->host->now();
    watcher->spot = spot;
    watcher->neighbour = spot->watchers;
    spot->watchers = watcher;
    atomic_fetch_add(&session->watchers, 1);
    return spot->is_set;
}

/* ---- for layouts ---- */

/* Asks the server. What was heard in between has taken the claim from its spot already. */
static int
ask(struct session *session, const dibs_claim *claim, const char *path,
    enum watch_kind kind, int *gone, dibs_time deadline, dibs_error *err)
{
    static const enum op_kind ops[] = { OP_GET, OP_CHILDREN, OP_EXISTS };
    struct zk *zk = session->zk;
    struct watches *all = zk->watches;
    struct op op = { .kind = ops[kind], .path = path, .watch = 1 };
    int rc = dibs__zk_run(session, &op, 1, deadline, err);
    *gone = !rc && op.rc == ZNONODE;
    if (!rc && op.rc != ZOK && op.rc != ZNONODE)
        rc = dibs__zk_refused(zk, &op, err);
    pthread_mutex_lock(&all->mutex);
    struct watcher *watcher = *find_watcher(all, claim->serial);
    struct spot *spot = watcher ? watcher->spot : NULL;
    if (spot && *gone && kind != WATCH_PLACE)
        tell_all(zk, spot);
    else if (spot && rc)
        leave_spot(zk, watcher);
    else if (spot)
        spot->is_set = 1;
    pthread_mutex_unlock(&all->mutex);
    dibs__zk_ops_free(&op, 1);
    return rc;
}

int
dibs__zk_watch(struct session *session, dibs_claim *claim, const char *path,
               enum watch_kind kind, int *gone, dibs_time deadline, dibs_error *err)
{
    struct watches *all = session->zk->watches;
    *gone = 0;
    pthread_mutex_lock(&all->mutex);
    int joined = join_locked(session, claim, path, kind);
    pthread_mutex_unlock(&all->mutex);
    if (joined < 0)
        return session->zk->host->fail(err, DIBS_ENOMEM, "out of memory");
    return joined ? DIBS_OK : ask(session, claim, path, kind, gone, deadline, err);
}

int
dibs__zk_still_watching(struct zk *zk, const dibs_claim *claim)
{
    struct watches *all = zk->watches;
    pthread_mutex_lock(&all->mutex);
    const struct watcher *watcher = *find_watcher(all, claim->serial);
    int still = watcher && watcher->spot && watcher->spot->is_set &&
                zk->host->now() - watcher->since < STALE;
    pthread_mutex_unlock(&all->mutex);
    return still;
}

void
dibs__zk_unwatch(struct zk *zk, const dibs_claim *claim)
{
    struct watches *all = zk->watches;
    pthread_mutex_lock(&all->mutex);
    struct watcher **link = find_watcher(all, claim->serial);
    struct watcher *watcher = *link;
    if (watcher) {
        *link = watcher->next;
        if (watcher->spot)
            leave_spot(zk, watcher);
        zk->host->free(watcher);
    }
    pthread_mutex_unlock(&all->mutex);
}

/* ---- what the servers say ---- */

size_t
dibs__zk_watch_len(const char *path)
{
    return strlen(path) + 4;
}

void
dibs__zk_watch_fired(zhandle_t *handle, int type, int state, const char *path,
                     void *context)
{
    struct session *session = context;
    struct watches *all = session->zk->watches;
    uint64_t hash = hash_of(path);
    (void)handle;
    (void)state;
    if (type == ZOO_SESSION_EVENT)
        return;
    size_t len = dibs__zk_watch_len(path);
    session->watch_bytes -= len < session->watch_bytes ? len : session->watch_bytes;
    pthread_mutex_lock(&all->mutex);
    for (int kind = WATCH_NODE; kind <= WATCH_PLACE; kind++) {
        struct spot *spot = *find_spot(all, session, path, hash, (enum watch_kind)kind);
        /* a change of the children is none of the node, and the other way round */
        int is_for_children = type == ZOO_CHILD_EVENT;
        if (spot &&
            (type == ZOO_DELETED_EVENT || is_for_children == (kind == WATCH_CHILDREN)))
            tell_all(session->zk, spot);
    }
    pthread_mutex_unlock(&all->mutex);
}

void
dibs__zk_watch_lost(struct session *session)
{
    struct watches *all = session->zk->watches;
    pthread_mutex_lock(&all->mutex);
    for (int i = 0; i < BUCKETS; i++) {
        struct spot *spot = all->spots[i];
        while (spot) {
            struct spot *next = spot->next;
            if (spot->session == session)
                tell_all(session->zk, spot);
            spot = next;
        }
    }
    pthread_mutex_unlock(&all->mutex);
}

/* ---- open and close ---- */

int
dibs__zk_watches_open(struct zk *zk)
{
    struct watches *all = zk->host->alloc(sizeof *all);
    if (!all)
        return DIBS_ENOMEM;
    pthread_mutex_init(&all->mutex, NULL);
    zk->watches = all;
    return DIBS_OK;
}

void
dibs__zk_watches_close(struct zk *zk)
{
    struct watches *all = zk->watches;
    if (!all)
        return;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct spot *spot = all->spots[i], *next; spot; spot = next) {
            next = spot->next;
            zk->host->free(spot);
        }
        for (struct watcher *watcher = all->watchers[i], *next; watcher; watcher = next) {
            next = watcher->next;
            zk->host->free(watcher);
        }
    }
    zk->host->free(all);
    zk->watches = NULL;
}
