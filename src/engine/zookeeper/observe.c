/* SPDX-License-Identifier: MIT */
/*
 * Observing: who holds a lock now, and waiting until that is somebody else. An observer has
 * no node. It watches the holder's; or, where another holder may come while this one stays
 * (readers, permits, nobody at all), the children of the lock.
 */
#include "claim.h"

#include <string.h>

/* one look of an observer */
struct view {
    struct zk *zk;
    dibs_claim *claim;
    dibs_time deadline;
    dibs_error *err;
    struct session *session;
    struct path lock, leases;
    const char *armed; /* whose children are watched since before they were listed */
};

/* ---- semaphores: they are looked at as `inspect` does ---- */

struct newest {
    dibs_sink sink;
    uint64_t token;
};

static int
take_lock(dibs_sink *sink, const char *name, size_t name_len, int mode, uint32_t limit)
{
    (void)sink, (void)name, (void)name_len, (void)mode, (void)limit;
    return 0;
}

static int
take_party(dibs_sink *sink, int waiting, const dibs_party *party)
{
    struct newest *newest = (struct newest *)sink;
    if (!waiting && party->token > newest->token)
        newest->token = party->token;
    return 0;
}

static int
newest_permit(struct view *view, uint64_t *token)
{
    struct newest newest = { .sink = { .lock = take_lock, .party = take_party } };
    int rc = dibs__zk_curator_inspect(view->zk, view->claim->name, view->claim->name_len,
                                      view->claim->name_hash, &newest.sink,
                                      view->deadline, view->err);
    *token = newest.token;
    return rc;
}

/* ---- watching ---- */

/* DIBS_EBUSY: it is watched, and nothing has changed. */
static int
watch(struct view *view, const char *path, enum watch_kind kind)
{
    int gone = 0;
    if (view->armed == path && kind == WATCH_CHILDREN)
        return DIBS_EBUSY;
    int rc = dibs__zk_watch(view->session, view->claim, path, kind, &gone, view->deadline,
                            view->err);
    view->armed = !rc && !gone && kind == WATCH_CHILDREN ? path : NULL;
    if (rc)
        return rc;
    /* what came before the watch was there is not told: children are listed once more */
    if (kind == WATCH_PLACE)
        return gone ? DIBS_EBUSY : TURN_AGAIN;
    return kind == WATCH_NODE && !gone ? DIBS_EBUSY : TURN_AGAIN;
}

/* Is it another than the one that the observer knows? Else wait for a change. */
static int
compare(struct view *view, uint64_t token, const char *path, enum watch_kind kind)
{
    if (token == view->claim->token)
        return watch(view, path, kind);
    view->claim->token = token;
    return DIBS_OK;
}

/* ---- looking ---- */

static int
see_holder(struct view *view, const struct path *path, int is_alone)
{
    struct kit_note note;
    struct op op = { .kind = OP_GET, .path = path->text };
    int rc = dibs__zk_run(view->session, &op, 1, view->deadline, view->err);
    if (!rc && op.rc == ZNONODE)
        rc = TURN_AGAIN;
    else if (!rc && op.rc != ZOK)
        rc = dibs__zk_refused(view->zk, &op, view->err);
    if (!rc) {
        dibs__zk_note_of(&note, &op);
        uint64_t token = note.party.token ? note.party.token : token_of(op.stat.czxid);
        rc = compare(view, token, is_alone ? path->text : view->lock.text,
                     is_alone ? WATCH_NODE : WATCH_CHILDREN);
    }
    dibs__zk_ops_free(&op, 1);
    return rc;
}

static int
see_leases(struct view *view)
{
    struct op op = { .kind = OP_CHILDREN, .path = view->leases.text };
    uint64_t token = 0;
    int rc = dibs__zk_run(view->session, &op, 1, view->deadline, view->err);
    int any = !rc && op.rc == ZOK && op.children.count > 0;
    dibs__zk_ops_free(&op, 1);
    if (any)
        rc = newest_permit(view, &token);
    if (rc)
        return rc;
    return compare(view, token, any ? view->leases.text : view->lock.text,
                   WATCH_CHILDREN);
}

static int
see_queue(struct view *view, const struct queue *queue)
{
    struct path path;
    if (!queue->count)
        return see_leases(view);
    /* tokens rise with the numbers, so the last who holds has the newest */
    int holders = dibs__zk_queue_holders(queue);
    int is_alone = queue->items[0].kind != CONTENDER_READ && holders == 1;
    if (dibs__zk_child(&path, &view->lock, queue->items[holders - 1].node))
        return view->zk->host->fail(view->err, DIBS_ECORRUPT,
                                    "a node's path is too long");
    return see_holder(view, &path, is_alone);
}

static int
look(struct view *view)
{
    struct queue queue;
    struct op op = { .kind = OP_CHILDREN, .path = view->lock.text };
    int rc = dibs__zk_run(view->session, &op, 1, view->deadline, view->err);
    if (!rc && op.rc == ZNONODE)
        return compare(view, 0, view->lock.text, WATCH_PLACE);
    if (!rc && op.rc == ZOK)
        rc = dibs__zk_queue_read(&queue, view->zk, &op.children, NULL);
    else if (!rc)
        return dibs__zk_refused(view->zk, &op, view->err);
    if (!rc) {
        rc = see_queue(view, &queue);
        view->zk->host->free(queue.items);
    }
    dibs__zk_ops_free(&op, 1);
    return rc;
}

/* What an observer does not get to know now, it asks again for. */
static int
code_of(dibs_claim *claim, int rc)
{
    if (rc == TURN_AGAIN) {
        claim->hint_ms = 1;
        return DIBS_EBUSY;
    }
    return rc == DIBS_ELOST || rc == DIBS_ETIMEDOUT ? DIBS_EUNAVAIL : rc;
}

int
dibs__zk_observe(struct zk *zk, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct view view = { .zk = zk, .claim = claim, .deadline = deadline, .err = err };
    dibs__zk_unwatch(zk, claim);
    if (dibs__zk_lock_path(&view.lock, zk, claim->name, claim->name_len) ||
        dibs__zk_child(&view.leases, &view.lock, "leases"))
        return zk->host->fail(err, DIBS_EINVAL, "the path of its node is too long");
    int rc = dibs__zk_home(zk, deadline, &view.session, err);
    if (!rc)
        rc = TURN_AGAIN;
    for (int i = 0; i < TURN_ROUNDS && rc == TURN_AGAIN; i++)
        rc = look(&view);
    rc = code_of(claim, rc);
    if (rc != DIBS_EBUSY)
        dibs__zk_unwatch(zk, claim);
    return rc;
}
