/* SPDX-License-Identifier: MIT */
/*
 * Looking at locks of the layout curator, and breaking them. A lock is a queue of nodes; a
 * semaphore is two, the queue for its mutex and the leases that are out. However many locks
 * there are, they are asked for in a few requests that travel together, and each is shown
 * as it was at nearly one moment.
 *
 * In this order: what both layouts share; locks, and how they are read; locks and semaphores
 * as they are reported; the slots; breaking.
 */
#include <string.h>

#include "look.h"

#define LOCKS_AT_ONCE 64
#define NODES_AT_ONCE 256

/* ---- asking ---- */

/* Questions in pieces that servers take without being held up. */
static int
ask_all(struct zk *zk, struct op *ops, int count, dibs_time deadline, dibs_error *err)
{
    int rc = DIBS_OK;
    for (int i = 0; !rc && i < count; i += NODES_AT_ONCE) {
        int n = count - i < NODES_AT_ONCE ? count - i : NODES_AT_ONCE;
        rc = dibs__zk_ask(zk, ops + i, n, deadline, err);
    }
    return rc;
}

static const char *
root_path(const struct zk *zk)
{
    return zk->root[0] ? zk->root : "/";
}

int
dibs__zk_ask_names(struct zk *zk, struct op ops[2], dibs_time deadline, dibs_error *err)
{
    ops[0] = (struct op){ .kind = OP_SYNC, .path = root_path(zk) };
    ops[1] = (struct op){ .kind = OP_CHILDREN, .path = root_path(zk) };
    int rc = dibs__zk_ask(zk, ops, 2, deadline, err);
    if (!rc && ops[1].rc != ZOK && ops[1].rc != ZNONODE)
        rc = dibs__zk_refused(zk, &ops[1], err);
    return rc;
}

/* ---- a party ---- */

int
dibs__zk_report_party(dibs_sink *sink, const struct op *node, int waits, int mode,
                      uint32_t permits)
{
    struct kit_note note;
    dibs__zk_note_of(&note, node);
    dibs_party party = note.party;
    party.mode = mode;
    party.permits = permits;
    /* a node that took the place of another says which token that had */
    if (!party.token)
        party.token = token_of(node->stat.czxid);
    if (waits)
        party.token = 0;
    if (!party.since_ms)
        party.since_ms = node->stat.ctime;
    return sink->party(sink, waits, &party);
}

/* ---- locks of the layout curator ---- */

enum { AT_LOCK, AT_MUTEX, AT_LEASES, PLACES };

struct lock {
    char name[DIBS_NAME_MAX];
    size_t name_len;
    struct path paths[PLACES];
    int is_semaphore;
    struct queue queue;  /* who contends: for the lock, or for the semaphore's mutex */
    struct queue leases; /* of a semaphore */
    struct op *nodes;    /* what stands in the nodes of both, one after the other */
};

/* Locks that are looked at together. */
struct look {
    struct zk *zk;
    dibs_time deadline;
    dibs_error *err;
    int skips_denied; /* locks that we may not look at are left out */
    int count;
    struct lock *locks;
    struct op *folders; /* a sync, and then the children at each lock's places */
    struct op *nodes;
    int node_count;
};

static struct op *
folder_of(const struct look *look, int index, int place)
{
    return &look->folders[1 + index * PLACES + place];
}

static int
look_begin(struct look *look, struct zk *zk, dibs_time deadline, dibs_error *err)
{
    *look = (struct look){ .zk = zk, .deadline = deadline, .err = err };
    look->locks = zk->host->alloc(LOCKS_AT_ONCE * sizeof *look->locks);
    look->folders = zk->host->alloc((1 + LOCKS_AT_ONCE * PLACES) * sizeof(struct op));
    return look->locks && look->folders ? DIBS_OK : DIBS_ENOMEM;
}

/* Forgets the locks; others may be added then. */
static void
look_clear(struct look *look)
{
    const dibs_host *host = look->zk->host;
    for (int i = 0; i < look->count; i++) {
        host->free(look->locks[i].queue.items);
        host->free(look->locks[i].leases.items);
    }
    for (int i = 0; i < look->node_count; i++)
        host->free((char *)look->nodes[i].path);
    dibs__zk_ops_free(look->nodes, look->node_count);
    host->free(look->nodes);
    if (look->count)
        dibs__zk_ops_free(look->folders, 1 + look->count * PLACES);
    look->nodes = NULL;
    look->node_count = look->count = 0;
}

static void
look_end(struct look *look)
{
    look_clear(look);
    look->zk->host->free(look->locks);
    look->zk->host->free(look->folders);
}

static int
look_add(struct look *look, const char *name, size_t name_len)
{
    struct lock *lock = &look->locks[look->count];
    memset(lock, 0, sizeof *lock);
    memcpy(lock->name, name, name_len);
    lock->name_len = name_len;
    int rc = dibs__zk_lock_path(&lock->paths[AT_LOCK], look->zk, name, name_len);
    if (!rc)
        rc = dibs__zk_child(&lock->paths[AT_MUTEX], &lock->paths[AT_LOCK], "locks");
    if (!rc)
        rc = dibs__zk_child(&lock->paths[AT_LEASES], &lock->paths[AT_LOCK], "leases");
    for (int i = 0; !rc && i < PLACES; i++)
        *folder_of(look, look->count, i) =
            (struct op){ .kind = OP_CHILDREN, .path = lock->paths[i].text };
    look->count += !rc;
    return rc;
}

/* Whether a folder could be read, or is not there. */
static int
check_folder(const struct look *look, const struct op *folder)
{
    if (folder->rc == ZOK || folder->rc == ZNONODE)
        return DIBS_OK;
    if (folder->rc == ZNOAUTH && look->skips_denied)
        return DIBS_OK;
    return dibs__zk_refused(look->zk, folder, look->err);
}

static int
read_queue(const struct look *look, int index, int place, struct queue *out)
{
    const struct op *folder = folder_of(look, index, place);
    int rc = check_folder(look, folder);
    if (rc || folder->rc != ZOK)
        return rc;
    return dibs__zk_queue_read(out, look->zk, &folder->children, NULL);
}

/* Under one name there is a lock or a semaphore; if somebody managed to have both, the
 * lock is shown. */
static int
read_queues(const struct look *look, int index)
{
    struct lock *lock = &look->locks[index];
    int rc = read_queue(look, index, AT_LOCK, &lock->queue);
    if (rc || lock->queue.count)
        return rc;
    look->zk->host->free(lock->queue.items);
    lock->queue = (struct queue){ 0 };
    lock->is_semaphore = 1;
    rc = read_queue(look, index, AT_MUTEX, &lock->queue);
    return rc ? rc : read_queue(look, index, AT_LEASES, &lock->leases);
}

/* Others may give their nodes names of any length. */
static int
add_node(struct look *look, const struct path *folder, const char *child)
{
    size_t len = strlen(child);
    char *text = look->zk->host->alloc(folder->len + 1 + len + 1);
    if (!text)
        return DIBS_ENOMEM;
    memcpy(text, folder->text, folder->len);
    text[folder->len] = '/';
    memcpy(text + folder->len + 1, child, len);
    look->nodes[look->node_count++] = (struct op){ .kind = OP_GET, .path = text };
    return DIBS_OK;
}

static int
add_nodes(struct look *look, struct lock *lock)
{
    const struct path *waits = &lock->paths[lock->is_semaphore ? AT_MUTEX : AT_LOCK];
    int rc = DIBS_OK;
    lock->nodes = look->nodes + look->node_count;
    for (int i = 0; !rc && i < lock->queue.count; i++)
        rc = add_node(look, waits, lock->queue.items[i].node);
    for (int i = 0; !rc && i < lock->leases.count; i++)
        rc = add_node(look, &lock->paths[AT_LEASES], lock->leases.items[i].node);
    return rc;
}

static int
read_nodes(struct look *look)
{
    size_t count = 0;
    int rc = DIBS_OK;
    for (int i = 0; i < look->count; i++)
        count += (size_t)(look->locks[i].queue.count + look->locks[i].leases.count);
    if (!count)
        return DIBS_OK;
    look->nodes = look->zk->host->alloc(count * sizeof *look->nodes);
    if (!look->nodes)
        return DIBS_ENOMEM;
    for (int i = 0; !rc && i < look->count; i++)
        rc = add_nodes(look, &look->locks[i]);
    if (rc)
        return rc;
    return ask_all(look->zk, look->nodes, look->node_count, look->deadline, look->err);
}

/* Looks at all locks that were added. */
static int
look_at_them(struct look *look)
{
    int rc;
    look->folders[0] = (struct op){ .kind = OP_SYNC, .path = root_path(look->zk) };
    rc = dibs__zk_ask(look->zk, look->folders, 1 + look->count * PLACES, look->deadline,
                      look->err);
    for (int i = 0; !rc && i < look->count; i++)
        rc = read_queues(look, i);
    return rc ? rc : read_nodes(look);
}

/* ---- locks ---- */

static int
mode_of(const struct contender *contender)
{
    return contender->kind == CONTENDER_READ ? DIBS_SHARED : DIBS_EXCLUSIVE;
}

/* Shown in the mode of the first who has it. Nodes may have gone since they were listed. */
static int
report_queue(const struct lock *lock, dibs_sink *sink)
{
    int holders = dibs__zk_queue_holders(&lock->queue), rc = DIBS_OK, is_named = 0;
    for (int i = 0; !rc && i < lock->queue.count; i++) {
        int mode = mode_of(&lock->queue.items[i]);
        if (lock->nodes[i].rc != ZOK)
            continue;
        if (!is_named++)
            rc = sink->lock(sink, lock->name, lock->name_len, mode, 0);
        if (!rc)
            rc = dibs__zk_report_party(sink, &lock->nodes[i], i >= holders, mode, 1);
    }
    return rc;
}

/* ---- semaphores ---- */

/* A lease. Those of one claim are a group, known by its first. */
struct lease {
    const char *name;
    const struct op *node;
    int first;        /* index of the first lease of its group */
    uint32_t permits; /* of a first: how many the group has */
    int waits;        /* of a first: there are not enough yet */
};

struct semaphore {
    struct lease *leases;
    int count;
    uint32_t limit; /* 0: nobody says; Curator does not write it down */
};

static void
see_limit(struct semaphore *semaphore, const struct op *node)
{
    struct kit_note note;
    if (semaphore->limit || node->rc != ZOK)
        return;
    dibs__zk_note_of(&note, node);
    semaphore->limit = note.limit;
}

static int
first_of_group(const struct semaphore *semaphore, const char *name)
{
    for (int i = 0; i < semaphore->count; i++) {
        if (dibs__zk_same_owner(semaphore->leases[i].name, name))
            return i;
    }
    return semaphore->count;
}

static void
add_lease(struct semaphore *semaphore, const char *name, const struct op *node)
{
    struct lease *lease = &semaphore->leases[semaphore->count];
    lease->name = name;
    lease->node = node;
    lease->first = first_of_group(semaphore, name);
    semaphore->leases[lease->first].permits++;
    semaphore->count++;
}

/* Who waits for permits has made its leases already. It is known by its place in the queue
 * for the mutex, or, where Curator gave that another name, because its lease is one of too
 * many. */
static void
mark_waiting(struct semaphore *semaphore, const struct queue *queue)
{
    for (int i = 0; i < queue->count; i++) {
        int group = first_of_group(semaphore, queue->items[i].node);
        if (group < semaphore->count)
            semaphore->leases[group].waits = 1;
    }
    for (int64_t i = semaphore->limit; semaphore->limit && i < semaphore->count; i++)
        semaphore->leases[semaphore->leases[i].first].waits = 1;
}

static int
read_semaphore(const struct zk *zk, const struct lock *lock, struct semaphore *out)
{
    const struct op *nodes = lock->nodes + lock->queue.count;
    *out = (struct semaphore){ 0 };
    out->leases = zk->host->alloc(((size_t)lock->leases.count + 1) * sizeof *out->leases);
    if (!out->leases)
        return DIBS_ENOMEM;
    for (int i = 0; i < lock->leases.count; i++) {
        if (nodes[i].rc == ZOK)
            add_lease(out, lock->leases.items[i].node, &nodes[i]);
    }
    for (int i = 0; i < lock->queue.count + lock->leases.count; i++)
        see_limit(out, &lock->nodes[i]);
    mark_waiting(out, &lock->queue);
    return DIBS_OK;
}

static int
holds_permits(const struct semaphore *semaphore, int index)
{
    return semaphore->leases[index].first == index && !semaphore->leases[index].waits;
}

static uint32_t
permits_wanted(const struct op *node)
{
    struct kit_note note;
    dibs__zk_note_of(&note, node);
    return note.permits ? note.permits : 1;
}

static int
report_holders(const struct semaphore *semaphore, dibs_sink *sink)
{
    int rc = DIBS_OK;
    for (int i = 0; !rc && i < semaphore->count; i++) {
        const struct lease *lease = &semaphore->leases[i];
        if (holds_permits(semaphore, i))
            rc =
                dibs__zk_report_party(sink, lease->node, 0, DIBS_PERMITS, lease->permits);
    }
    return rc;
}

static int
report_waiters(const struct lock *lock, dibs_sink *sink)
{
    int rc = DIBS_OK;
    for (int i = 0; !rc && i < lock->queue.count; i++) {
        const struct op *node = &lock->nodes[i];
        if (node->rc == ZOK)
            rc = dibs__zk_report_party(sink, node, 1, DIBS_PERMITS, permits_wanted(node));
    }
    return rc;
}

static int
is_in_use(const struct lock *lock)
{
    for (int i = 0; i < lock->queue.count + lock->leases.count; i++) {
        if (lock->nodes[i].rc == ZOK)
            return 1;
    }
    return 0;
}

static int
report_semaphore(const struct zk *zk, const struct lock *lock, dibs_sink *sink)
{
    struct semaphore semaphore;
    if (!is_in_use(lock))
        return DIBS_OK;
    int rc = read_semaphore(zk, lock, &semaphore);
    if (!rc)
        rc = sink->lock(sink, lock->name, lock->name_len, DIBS_PERMITS, semaphore.limit);
    if (!rc)
        rc = report_holders(&semaphore, sink);
    if (!rc)
        rc = report_waiters(lock, sink);
    zk->host->free(semaphore.leases);
    return rc;
}

/* ---- the slots of the layout curator ---- */

static int
look_and_report(struct look *look, dibs_sink *sink)
{
    int rc = look_at_them(look);
    for (int i = 0; !rc && i < look->count; i++) {
        const struct lock *lock = &look->locks[i];
        rc = lock->is_semaphore ? report_semaphore(look->zk, lock, sink)
                                : report_queue(lock, sink);
    }
    return rc;
}

int
dibs__zk_curator_inspect(void *state, const char *name, size_t name_len,
                         uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                         dibs_error *err)
{
    struct zk *zk = state;
    (void)name_hash;
    struct look look;
    int rc = look_begin(&look, zk, deadline, err);
    if (!rc)
        rc = look_add(&look, name, name_len);
    if (!rc)
        rc = look_and_report(&look, sink);
    look_end(&look);
    return rc;
}

static int
list_names(struct look *look, const struct String_vector *names, dibs_sink *sink)
{
    int rc = DIBS_OK;
    for (int i = 0; !rc && i < names->count; i++) {
        char name[DIBS_NAME_MAX];
        size_t len;
        if (dibs__zk_name_of(names->data[i], name, &len) == 0)
            rc = look_add(look, name, len);
        if (!rc && (look->count == LOCKS_AT_ONCE || i + 1 == names->count)) {
            rc = look_and_report(look, sink);
            look_clear(look);
        }
    }
    return rc;
}

int
dibs__zk_curator_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    struct op names[2] = { 0 };
    struct look look;
    int rc = look_begin(&look, zk, deadline, err);
    look.skips_denied = 1;
    if (!rc)
        rc = dibs__zk_ask_names(zk, names, deadline, err);
    if (!rc)
        rc = list_names(&look, &names[1].children, sink);
    look_end(&look);
    dibs__zk_ops_free(names, 2);
    return rc;
}

/* ---- breaking ---- */

/* Nodes that are to be deleted, and how many holds that ends. */
struct breaking {
    struct op *deletes;
    int count;
    size_t holds;
};

static void
delete_node(struct breaking *breaking, const struct op *node)
{
    breaking->deletes[breaking->count++] =
        (struct op){ .kind = OP_DELETE, .path = node->path, .version = -1 };
}

static void
break_queue(struct breaking *breaking, const struct lock *lock)
{
    int holders = dibs__zk_queue_holders(&lock->queue);
    for (int i = 0; i < holders; i++) {
        if (lock->nodes[i].rc != ZOK)
            continue;
        delete_node(breaking, &lock->nodes[i]);
        breaking->holds++;
    }
}

static int
break_semaphore(struct breaking *breaking, const struct zk *zk, const struct lock *lock)
{
    struct semaphore semaphore;
    int rc = read_semaphore(zk, lock, &semaphore);
    for (int i = 0; !rc && i < semaphore.count; i++) {
        const struct lease *lease = &semaphore.leases[i];
        if (!semaphore.leases[lease->first].waits)
            delete_node(breaking, lease->node);
        breaking->holds += (size_t)holds_permits(&semaphore, i);
    }
    zk->host->free(semaphore.leases);
    return rc;
}

static int
check_deletes(const struct zk *zk, const struct breaking *breaking, dibs_error *err)
{
    for (int i = 0; i < breaking->count; i++) {
        int rc = breaking->deletes[i].rc;
        if (rc != ZOK && rc != ZNONODE)
            return dibs__zk_refused(zk, &breaking->deletes[i], err);
    }
    return DIBS_OK;
}

/* Names of nodes are not used again, so this ends the holds that were seen and no other. */
static int
break_lock(const struct look *look, size_t *broken)
{
    struct zk *zk = look->zk;
    const struct lock *lock = &look->locks[0];
    struct breaking breaking = { 0 };
    size_t room = (size_t)look->node_count + 1;
    breaking.deletes = zk->host->alloc(room * sizeof *breaking.deletes);
    int rc = breaking.deletes ? DIBS_OK : DIBS_ENOMEM;
    if (!rc && lock->is_semaphore)
        rc = break_semaphore(&breaking, zk, lock);
    else if (!rc)
        break_queue(&breaking, lock);
    if (!rc)
        rc = ask_all(zk, breaking.deletes, breaking.count, look->deadline, look->err);
    if (!rc)
        rc = check_deletes(zk, &breaking, look->err);
    if (!rc)
        *broken = breaking.holds;
    zk->host->free(breaking.deletes);
    return rc;
}

int
dibs__zk_curator_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                       size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    (void)name_hash;
    struct look look;
    int rc = look_begin(&look, zk, deadline, err);
    if (!rc)
        rc = look_add(&look, name, name_len);
    if (!rc)
        rc = look_at_them(&look);
    if (!rc)
        rc = break_lock(&look, broken);
    look_end(&look);
    return rc;
}
