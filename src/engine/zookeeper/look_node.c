/* SPDX-License-Identifier: MIT */
/* Looking at locks of the layout node, and breaking them. A node says who holds the lock;
 * who waits is written down nowhere. */
#include "look.h"

#define LOCKS_AT_ONCE 256

/* A node that lasts is no lock of this layout. */
static int
is_held(const struct op *node)
{
    return node->rc == ZOK && node->stat.ephemeralOwner != 0;
}

static int
report_node(const char *name, size_t name_len, const struct op *node, dibs_sink *sink)
{
    if (!is_held(node))
        return DIBS_OK;
    int rc = sink->lock(sink, name, name_len, DIBS_EXCLUSIVE, 0);
    return rc ? rc : dibs__zk_report_party(sink, node, 0, DIBS_EXCLUSIVE, 1);
}

static int
ask_node(struct zk *zk, const struct path *path, struct op ops[2], dibs_time deadline,
         dibs_error *err)
{
    ops[0] = (struct op){ .kind = OP_SYNC, .path = path->text };
    ops[1] = (struct op){ .kind = OP_GET, .path = path->text };
    int rc = dibs__zk_ask(zk, ops, 2, deadline, err);
    if (!rc && ops[1].rc != ZOK && ops[1].rc != ZNONODE)
        rc = dibs__zk_refused(zk, &ops[1], err);
    return rc;
}

int
dibs__zk_node_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                      dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    (void)name_hash;
    struct op ops[2] = { 0 };
    struct path path;
    int rc = dibs__zk_lock_path(&path, zk, name, name_len);
    if (!rc)
        rc = ask_node(zk, &path, ops, deadline, err);
    if (!rc)
        rc = report_node(name, name_len, &ops[1], sink);
    dibs__zk_ops_free(ops, 2);
    return rc;
}

/* Whoever holds it when the order arrives: the name is all there is. So it is not repeated
 * if the answer is lost. */
static int
delete_once(struct zk *zk, const struct path *path, dibs_time deadline, dibs_error *err)
{
    struct op end = { .kind = OP_DELETE, .path = path->text, .version = -1 };
    struct session *home;
    int rc = dibs__zk_home(zk, deadline, &home, err);
    if (!rc)
        rc = dibs__zk_run(home, &end, 1, deadline, err);
    if (rc)
        return rc == DIBS_EUNKNOWN || rc == DIBS_ELOST ? DIBS_EUNAVAIL : rc;
    return end.rc == ZOK || end.rc == ZNONODE ? DIBS_OK : dibs__zk_refused(zk, &end, err);
}

int
dibs__zk_node_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                    size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    (void)name_hash;
    struct op ops[2] = { 0 };
    struct path path;
    int rc = dibs__zk_lock_path(&path, zk, name, name_len);
    if (!rc)
        rc = ask_node(zk, &path, ops, deadline, err);
    int held = !rc && is_held(&ops[1]);
    if (held)
        rc = delete_once(zk, &path, deadline, err);
    if (!rc)
        *broken = (size_t)held;
    dibs__zk_ops_free(ops, 2);
    return rc;
}

/* Some of the locks, read in one go. */
struct some {
    int count;
    struct {
        char name[DIBS_NAME_MAX];
        size_t name_len;
        struct path path;
    } locks[LOCKS_AT_ONCE];
    struct op ops[LOCKS_AT_ONCE];
};

static int
add_some(struct some *some, const struct zk *zk, const char *node)
{
    int i = some->count;
    if (dibs__zk_name_of(node, some->locks[i].name, &some->locks[i].name_len) != 0)
        return DIBS_OK;
    int rc = dibs__zk_lock_path(&some->locks[i].path, zk, some->locks[i].name,
                                some->locks[i].name_len);
    some->ops[i] = (struct op){ .kind = OP_GET, .path = some->locks[i].path.text };
    some->count += !rc;
    return rc;
}

static int
report_some(struct some *some, struct zk *zk, dibs_sink *sink, dibs_time deadline,
            dibs_error *err)
{
    int rc = some->count ? dibs__zk_ask(zk, some->ops, some->count, deadline, err) : 0;
    for (int i = 0; !rc && i < some->count; i++)
        rc = report_node(some->locks[i].name, some->locks[i].name_len, &some->ops[i],
                         sink);
    dibs__zk_ops_free(some->ops, some->count);
    some->count = 0;
    return rc;
}

int
dibs__zk_node_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    struct op names[2] = { 0 };
    struct some *some = zk->host->alloc(sizeof *some);
    int rc = some ? dibs__zk_ask_names(zk, names, deadline, err) : DIBS_ENOMEM;
    const struct String_vector *nodes = &names[1].children;
    for (int i = 0; !rc && i < nodes->count; i++) {
        rc = add_some(some, zk, nodes->data[i]);
        if (!rc && (some->count == LOCKS_AT_ONCE || i + 1 == nodes->count))
            rc = report_some(some, zk, sink, deadline, err);
    }
    zk->host->free(some);
    dibs__zk_ops_free(names, 2);
    return rc;
}
