/* SPDX-License-Identifier: MIT */
/*
 * Moving a hold into another session. A hold's nodes die with their session, so its lease
 * cannot be longer than that session lives; and the length of a session is fixed. When the
 * user renews a hold for longer, its nodes are made anew in a session that is long enough:
 * in one transaction, under the same names, so nobody else can be first in between. Who
 * waits for one of them is woken, looks, and goes on waiting.
 *
 * If the answer is lost the nodes may be in either session. Until it is known that they are
 * in the new one (it is no harm to move them twice) the hold is not renewed.
 */
#include "claim.h"

#include <string.h>

struct moving {
    struct zk *zk;
    const dibs_claim *claim;
    char data[KIT_NOTE_MAX];
    int data_len;
    struct op *parts;
    int count;
    size_t path_size;
    char *paths;
};

static int
add_node(void *arg, const char *path)
{
    struct moving *moving = arg;
    char *copy = moving->paths + (size_t)(moving->count / 2) * moving->path_size;
    size_t size = strlen(path) + 1;
    if (size > moving->path_size)
        return DIBS_EINVAL;
    memcpy(copy, path, size);
    moving->parts[moving->count++] =
        (struct op){ .kind = OP_DELETE, .path = copy, .version = -1 };
    moving->parts[moving->count++] = (struct op){ .kind = OP_CREATE,
                                                  .path = copy,
                                                  .data = moving->data,
                                                  .data_len = moving->data_len,
                                                  .mode = ZOO_EPHEMERAL };
    return DIBS_OK;
}

/* The nodes say which token the hold has, as it is no longer theirs. */
static void
write_data(struct moving *moving, const struct mine *mine)
{
    const dibs_claim *claim = moving->claim;
    dibs_claim held = {
        .mode = (uint8_t)(claim->limit                ? DIBS_PERMITS
                          : mine->flags & MINE_READER ? DIBS_SHARED
                                                      : DIBS_EXCLUSIVE),
        .permits = claim->permits,
        .limit = claim->limit,
        .lease_ms = claim->lease_ms,
        .serial = claim->serial,
        .note = claim->note,
        .token = claim->token,
    };
    moving->data_len = dibs__zk_data_write(moving->data, moving->zk, &held);
}

static int
prepare(struct moving *moving, const struct mine *mine)
{
    struct path lock;
    const dibs_claim *claim = moving->claim;
    if (dibs__zk_lock_path(&lock, moving->zk, claim->name, claim->name_len))
        return DIBS_EINVAL;
    moving->path_size = lock.len + 2 * CONTENDER_MAX;
    moving->parts = moving->zk->host->alloc(2 * claim->permits * sizeof(struct op));
    moving->paths = moving->zk->host->alloc(claim->permits * moving->path_size);
    if (!moving->parts || !moving->paths)
        return DIBS_ENOMEM;
    write_data(moving, mine);
    return dibs__zk_each_node(moving->zk, claim, mine, add_node, moving);
}

/* A node whose path is not its own is known by its czxid from now on. */
static int
transact(const struct moving *moving, struct session *to, int64_t *czxid,
         dibs_time deadline, dibs_error *err)
{
    struct op ops[] = {
        { .kind = OP_MULTI, .parts = moving->parts, .part_count = moving->count },
        { .kind = OP_EXISTS, .path = moving->parts[0].path }
    };
    int rc = dibs__zk_run(to, ops, 2, deadline, err);
    if (!rc && ops[0].rc == ZOK && ops[1].rc == ZOK)
        *czxid = ops[1].stat.czxid;
    else if (!rc)
        rc = ops[0].rc == ZNONODE || ops[0].rc == ZOK ? DIBS_ELOST : DIBS_EUNKNOWN;
    else if (rc != DIBS_EUNAVAIL)
        rc = DIBS_EUNKNOWN; /* the end of this session is not that of the other */
    dibs__zk_ops_free(ops, 2);
    return rc;
}

static int
move_to(struct moving *moving, dibs_claim *claim, struct session *to, dibs_time deadline,
        dibs_error *err)
{
    struct mine mine = dibs__zk_mine(claim);
    int rc = prepare(moving, &mine);
    if (!rc) {
        mine.flags |= MINE_MOVING;
        dibs__zk_mine_store(claim, &mine);
        rc = transact(moving, to, &mine.czxid, deadline, err);
    }
    if (rc == DIBS_OK) {
        mine.flags &= ~(unsigned)MINE_MOVING;
        mine.birth = dibs__zk_birth(to);
        dibs__zk_mine_store(claim, &mine);
    }
    moving->zk->host->free(moving->parts);
    moving->zk->host->free(moving->paths);
    return rc == DIBS_OK || rc == DIBS_ELOST ? rc : DIBS_EUNKNOWN;
}

int
dibs__zk_move(struct zk *zk, dibs_claim *claim, dibs_time deadline, struct session **out,
              dibs_error *err)
{
    struct moving moving = { .zk = zk, .claim = claim };
    struct mine mine = dibs__zk_mine(claim);
    struct session *to;
    int rc = dibs__zk_session_for(zk, claim->lease_ms, deadline, &to, err);
    if (rc)
        return DIBS_EUNKNOWN;
    if (dibs__zk_birth(to) != mine.birth || mine.flags & MINE_MOVING)
        rc = move_to(&moving, claim, to, deadline, err);
    if (!rc)
        *out = to;
    return rc;
}
