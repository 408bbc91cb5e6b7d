/* SPDX-License-Identifier: MIT */
/* Making the parents of a node; and what a refusal of the servers means. */
#include "link.h"

#include <string.h>

#define QUOTA_EXCEEDED (-125) /* newer servers than the library's header say it */

/* ---- refusals ---- */

int
dibs__zk_refused(const struct zk *zk, const struct op *op, dibs_error *err)
{
    int code = DIBS_ECORRUPT;
    switch (op->rc) {
    case ZNOAUTH:
    case QUOTA_EXCEEDED:
    case ZINVALIDACL:
    case ZSESSIONCLOSEDREQUIRESASLAUTH:
        code = DIBS_EDENIED;
        break;
    case ZNOTREADONLY:
    case ZTHROTTLEDOP:
        code = DIBS_EUNAVAIL;
        break;
    case ZEPHEMERALONLOCALSESSION:
        code = DIBS_EUNSUPPORTED;
        break;
    case ZSYSTEMERROR:
        code = DIBS_ENOMEM;
        break;
    default:
        break;
    }
    return zk->host->fail(err, code, "%s: %s", op->path ? op->path : "a transaction",
                          zerror(op->rc));
}

/* ---- parents ---- */

/* The parent of a lock's nodes goes by itself when it is empty. Not those that have to stay:
 * the root, what the versions of cells hang on, and with kazoo's names every one, as kazoo
 * makes parents only once. */
static int
mode_of_parent(const struct zk *zk, const char *parent)
{
    size_t root_len = strlen(zk->root);
    int is_ours = strncmp(parent, zk->root, root_len) == 0 && parent[root_len] == '/';
    if (zk->naming == NAMING_KAZOO || !is_ours || parent[root_len + 1] == '%')
        return ZOO_PERSISTENT;
    return ZOO_CONTAINER;
}

/* Creates one node; `rc` of the op is for the caller to see. */
static int
create(struct session *session, struct op *op, dibs_time deadline, dibs_error *err)
{
    dibs__zk_ops_free(op, 1);
    return dibs__zk_run(session, op, 1, deadline, err);
}

/* All above a path, from the top; what is there already says so, and what may not be made
 * shows when the next one is. */
static int
create_above(struct session *session, const char *parent, dibs_time deadline,
             dibs_error *err)
{
    char above[PATH_MAX_LEN];
    int rc = DIBS_OK;
    const char *slash = strchr(parent + 1, '/');
    for (; slash && !rc; slash = strchr(slash + 1, '/')) {
        size_t len = (size_t)(slash - parent);
        struct op op = { .kind = OP_CREATE, .path = above, .mode = ZOO_PERSISTENT };
        memcpy(above, parent, len);
        above[len] = '\0';
        rc = create(session, &op, deadline, err);
        dibs__zk_ops_free(&op, 1);
    }
    return rc;
}

/* `op` creates the parent: as a container if the server knows that, after those above it if
 * they are missing. */
static int
create_parent(struct session *session, struct op *op, dibs_time deadline, dibs_error *err)
{
    int rc = create(session, op, deadline, err);
    if (!rc && op->rc == ZUNIMPLEMENTED) {
        op->mode = ZOO_PERSISTENT;
        rc = create(session, op, deadline, err);
    }
    if (rc || op->rc != ZNONODE)
        return rc;
    rc = create_above(session, op->path, deadline, err);
    return rc ? rc : create(session, op, deadline, err);
}

int
dibs__zk_make_parents(struct session *session, const struct path *path,
                      dibs_time deadline, dibs_error *err)
{
    const struct zk *zk = session->zk;
    char parent[PATH_MAX_LEN];
    const char *slash = strrchr(path->text, '/');
    size_t len = slash ? (size_t)(slash - path->text) : 0;
    if (len == 0)
        return DIBS_OK; /* the root of the ensemble is always there */
    memcpy(parent, path->text, len);
    parent[len] = '\0';
    struct op op = { .kind = OP_CREATE, .path = parent };
    op.mode = mode_of_parent(zk, parent);
    int rc = create_parent(session, &op, deadline, err);
    if (!rc && op.rc != ZOK && op.rc != ZNODEEXISTS)
        rc = dibs__zk_refused(zk, &op, err);
    dibs__zk_ops_free(&op, 1);
    return rc;
}
