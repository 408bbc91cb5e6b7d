/* SPDX-License-Identifier: MIT */
/*
 * Cells, the same for every layout: persistent nodes in ROOT/%cells and ROOT/%fences, with
 * the value as their data. A cell's version is its mzxid, the number of the transaction
 * that wrote it, so none is used twice, whatever became of the cell between. The servers
 * compare only the number of changes since a node was made. So whoever deletes a cell by
 * hand has to change the folder in the same transaction, and a swap checks the folder too.
 */
#include <string.h>

#include "zk.h"

/* each of them means that somebody deleted a cell just then */
#define TRIES 10

/* ---- reading ---- */

/* What follows a barrier sees all that its sender can know of. For cells it is a sync: all
 * that the leader had committed. A leader that nobody follows any more answers it too, for
 * some seconds; then a swap fails, and nothing is lost. But a fence is asked whether there
 * was a larger token, and has to be sure: there it is a transaction that changes nothing,
 * but needs a quorum as any other. Whether the check in it holds does not matter. */
struct barrier {
    struct op op;
    struct op check;
};

static void
barrier_set(struct barrier *barrier, int space)
{
    barrier->check = (struct op){ .kind = OP_CHECK, .path = "/", .version = -1 };
    barrier->op = (struct op){ .kind = OP_SYNC, .path = "/" };
    if (space == DIBS_SPACE_FENCE)
        barrier->op =
            (struct op){ .kind = OP_MULTI, .parts = &barrier->check, .part_count = 1 };
}

/* Whether it was one: a server that is alone and only reads refuses it. */
static int
barrier_check(const struct zk *zk, const struct op *op, dibs_error *err)
{
    return op->rc == ZNOTREADONLY ? dibs__zk_refused(zk, op, err) : DIBS_OK;
}

static int
read_value(const struct zk *zk, const struct op *get, dibs_cell *out, dibs_error *err)
{
    if (get->rc == ZNONODE) {
        out->version = 0;
        out->len = 0;
        return DIBS_ENOTFOUND;
    }
    if (get->rc != ZOK)
        return dibs__zk_refused(zk, get, err);
    /* a node without data has -1 bytes of it */
    size_t len = get->got.len > 0 ? (size_t)get->got.len : 0;
    if (len > sizeof out->value)
        return zk->host->fail(err, DIBS_ECORRUPT, "its node has %zu bytes", len);
    out->version = (uint64_t)get->stat.mzxid;
    out->len = len;
    if (len)
        memcpy(out->value, get->got.text, len);
    return DIBS_OK;
}

int
dibs__zk_cell_read(void *state, const dibs_cell_key *cell, dibs_cell *out,
                   dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    struct path path;
    struct barrier barrier;
    int rc = dibs__zk_cell_path(&path, zk, cell);
    if (rc)
        return rc;
    barrier_set(&barrier, cell->space);
    struct op ops[] = { barrier.op, { .kind = OP_GET, .path = path.text } };
    rc = dibs__zk_ask(zk, ops, 2, deadline, err);
    if (!rc)
        rc = barrier_check(zk, &ops[0], err);
    if (!rc)
        rc = read_value(zk, &ops[1], out, err);
    dibs__zk_ops_free(ops, 2);
    return rc;
}

/* ---- making a cell ---- */

/* What was under way when a session expired may have been done. */
static int
run_change(struct zk *zk, struct op *ops, int count, dibs_time deadline, dibs_error *err)
{
    struct session *home;
    int rc = dibs__zk_home(zk, deadline, &home, err);
    if (rc)
        return rc;
    rc = dibs__zk_run(home, ops, count, deadline, err);
    return rc == DIBS_ELOST ? DIBS_EUNKNOWN : rc;
}

/* That it may have been made is no reason to think that the cell was. */
static int
make_folder(struct zk *zk, const struct path *path, dibs_time deadline, dibs_error *err)
{
    struct session *home;
    int rc = dibs__zk_home(zk, deadline, &home, err);
    if (!rc)
        rc = dibs__zk_make_parents(home, path, deadline, err);
    return rc == DIBS_EUNKNOWN || rc == DIBS_ELOST ? DIBS_EUNAVAIL : rc;
}

static int
make_cell(struct zk *zk, const struct path *path, const void *value, size_t len,
          uint64_t *new_version, dibs_time deadline, dibs_error *err)
{
    struct op make = { .kind = OP_CREATE,
                       .path = path->text,
                       .data = value,
                       .data_len = (int)len,
                       .mode = ZOO_PERSISTENT };
    int rc = run_change(zk, &make, 1, deadline, err);
    if (!rc && make.rc == ZNONODE) {
        rc = make_folder(zk, path, deadline, err);
        if (!rc)
            rc = run_change(zk, &make, 1, deadline, err);
    }
    if (!rc && make.rc == ZNODEEXISTS)
        rc = DIBS_ECONFLICT;
    else if (!rc && make.rc != ZOK)
        rc = dibs__zk_refused(zk, &make, err);
    if (!rc)
        *new_version = (uint64_t)make.stat.mzxid;
    dibs__zk_ops_free(&make, 1);
    return rc;
}

/* ---- changing a cell ---- */

/* A change of a cell, on its way. */
struct change {
    struct zk *zk;
    struct path path, folder;
    int space;
    uint64_t version; /* that it must have */
    const void *value;
    size_t len;
};

/* Where a cell is, as far as we know, and the servers' own counts of it and its folder. */
struct seen {
    enum { AT_VERSION, PAST_VERSION, NOT_SEEN } where;
    int cell_count, folder_count;
};

/* Versions of a cell rise, whatever becomes of it between: a later one is the proof that
 * the one that we want is over. */
static void
judge(struct seen *out, const struct op *cell, const struct op *folder, uint64_t version)
{
    uint64_t is_at = cell->rc == ZOK ? (uint64_t)cell->stat.mzxid : 0;
    out->where = is_at == version && folder->rc == ZOK ? AT_VERSION
                 : is_at > version                     ? PAST_VERSION
                                                       : NOT_SEEN;
    out->cell_count = cell->stat.version;
    out->folder_count = folder->stat.version;
}

static void
folder_of(struct path *folder, const struct path *path)
{
    *folder = *path;
    while (folder->len > 1 && folder->text[folder->len - 1] != '/')
        folder->len--;
    folder->text[--folder->len] = '\0';
}

/* What one server knows may be old; behind a barrier it is not. */
static int
see(const struct change *change, int is_sure, struct seen *out, dibs_time deadline,
    dibs_error *err)
{
    struct barrier barrier;
    barrier_set(&barrier, change->space);
    struct op ops[] = { barrier.op,
                        { .kind = OP_EXISTS, .path = change->path.text },
                        { .kind = OP_EXISTS, .path = change->folder.text } };
    struct op *asked = is_sure ? ops : ops + 1, *cell = &ops[1], *folder = &ops[2];
    int count = is_sure ? 3 : 2;
    int rc = dibs__zk_ask(change->zk, asked, count, deadline, err);
    if (!rc && is_sure)
        rc = barrier_check(change->zk, &ops[0], err);
    if (!rc && cell->rc != ZOK && cell->rc != ZNONODE)
        rc = dibs__zk_refused(change->zk, cell, err);
    if (!rc)
        judge(out, cell, folder, change->version);
    dibs__zk_ops_free(asked, count);
    return rc;
}

static int
has_moved(int rc)
{
    return rc == ZBADVERSION || rc == ZNONODE;
}

/* DIBS_EBUSY: the folder has changed, look again. */
static int
store(const struct change *change, const struct seen *seen, uint64_t *new_version,
      dibs_time deadline, dibs_error *err)
{
    struct op parts[] = {
        { .kind = OP_CHECK, .path = change->folder.text, .version = seen->folder_count },
        { .kind = OP_SET,
          .path = change->path.text,
          .data = change->value,
          .data_len = (int)change->len,
          .version = seen->cell_count }
    };
    struct op both = { .kind = OP_MULTI, .parts = parts, .part_count = 2 };
    int rc = run_change(change->zk, &both, 1, deadline, err);
    if (!rc && both.rc == ZOK)
        *new_version = (uint64_t)parts[1].stat.mzxid;
    else if (!rc && has_moved(parts[0].rc))
        rc = DIBS_EBUSY;
    else if (!rc && has_moved(parts[1].rc))
        rc = DIBS_ECONFLICT;
    else if (!rc)
        rc = dibs__zk_refused(change->zk, &both, err);
    dibs__zk_ops_free(&both, 1);
    return rc;
}

static int
change_cell(const struct change *change, uint64_t *new_version, dibs_time deadline,
            dibs_error *err)
{
    for (int i = 0; i < TRIES; i++) {
        struct seen seen;
        int rc = see(change, i > 0, &seen, deadline, err);
        if (rc)
            return rc;
        if (seen.where == PAST_VERSION || (seen.where == NOT_SEEN && i > 0))
            return DIBS_ECONFLICT;
        if (seen.where == NOT_SEEN)
            continue; /* it may be the server that is behind */
        rc = store(change, &seen, new_version, deadline, err);
        if (rc != DIBS_EBUSY)
            return rc;
    }
    return change->zk->host->fail(err, DIBS_EUNAVAIL,
                                  "cells were deleted %d times meanwhile", TRIES);
}

int
dibs__zk_cell_swap(void *state, const dibs_cell_key *cell, uint64_t version,
                   const void *value, size_t len, uint64_t *new_version,
                   dibs_time deadline, dibs_error *err)
{
    struct zk *zk = state;
    struct change change = {
        .zk = zk, .space = cell->space, .version = version, .value = value, .len = len
    };
    int rc = dibs__zk_cell_path(&change.path, zk, cell);
    if (rc)
        return rc;
    if (!version)
        return make_cell(zk, &change.path, value, len, new_version, deadline, err);
    folder_of(&change.folder, &change.path);
    return change_cell(&change, new_version, deadline, err);
}
