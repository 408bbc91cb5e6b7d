/* SPDX-License-Identifier: MIT */
/*
 * The layout concurrency: locks, readers and writers, and leaders, as etcd's own clients
 * write them down. Who wants a lock puts a key NAME/LEASE, and the oldest holds. Everybody
 * else waits for the one before only, so the end of a hold wakes one.
 *
 * A reader's key is NAME/read/LEASE. It waits for the nearest that is no reader's. What was
 * exclusive and is shared now keeps its key, and so its place in the line; what stands in it
 * says that readers need not wait for it any more. With ?form=rw a marker beside the locks
 * says so, for the key must not change.
 */
#include "claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* ---- exclusive ---- */

static http_text *
look(const struct turn *turn, http_text *list)
{
    return dibs__etcd_nearest(turn, list, &turn->line, &turn->end, RANGE_KEYS_ONLY);
}

static int
judge(struct turn *turn, struct answer *answer, int op)
{
    struct kv before;
    int found = dibs__etcd_before(turn, answer, op, &before);
    if (found <= 0)
        return found ? DIBS_ECORRUPT : dibs__etcd_granted(turn);
    if (dibs__etcd_under(turn, &before.key, "permits/"))
        return dibs__etcd_mismatch(turn, "as permits, not as a lock");
    return dibs__etcd_busy(turn, &(struct spot){ .key = &before.key }, NULL);
}

/* Who does not want to wait makes no key where there is one. */
static http_text *
is_empty(const struct turn *turn)
{
    return dibs__etcd_compare_none(&turn->line, &turn->end);
}

static int
refuse(struct turn *turn, struct answer *answer, int op)
{
    struct kv before;
    int found = dibs__etcd_before(turn, answer, op, &before);
    if (found < 0)
        return DIBS_ECORRUPT;
    if (found && dibs__etcd_under(turn, &before.key, "permits/"))
        return dibs__etcd_mismatch(turn, "as permits, not as a lock");
    return DIBS_EBUSY;
}

static const struct way exclusive = { .kind = KIND_LOCK, .look = look, .judge = judge };
static const struct way writer = { .kind = KIND_WRITE, .look = look, .judge = judge };
static const struct way try_exclusive = {
    .kind = KIND_LOCK, .needs = is_empty, .look = look, .judge = judge, .refuse = refuse
};
static const struct way try_writer = {
    .kind = KIND_WRITE, .needs = is_empty, .look = look, .judge = judge, .refuse = refuse
};

/* ---- shared ---- */

static void
markers_of(const struct turn *turn, struct key *markers, struct key *end)
{
    dibs__etcd_marker_key(markers, turn->etcd, &turn->line);
    dibs__etcd_range_end(end, markers);
}

static http_text *
look_for_markers(const struct turn *turn, http_text *list)
{
    struct key markers, end;
    markers_of(turn, &markers, &end);
    const struct range range = { .key = &markers, .end = &end };
    return dibs__etcd_list_add(list, dibs__etcd_range(&range));
}

/* Does a marker say that this key is shared now? */
static int
is_marked(const struct turn *turn, struct answer *answer, int op, const struct kv *kv)
{
    struct key key;
    struct kv marker;
    size_t count = dibs__etcd_kvs(answer, op);
    dibs__etcd_marker_key(&key, turn->etcd, &kv->key);
    for (size_t i = 0; i < count; i++) {
        if (dibs__etcd_kv(answer, op, i, &marker) == 0 &&
            dibs__etcd_key_is(&marker.key, &key) &&
            strtoll(marker.value, NULL, 10) == kv->create)
            return 1;
    }
    return 0;
}

/* Two ranges: what comes before the readers in the order of keys, and what comes behind. */
static http_text *
look_for_writers(const struct turn *turn, http_text *list)
{
    struct key readers = turn->line, behind;
    dibs__etcd_key_add(&readers, "read/", 5);
    dibs__etcd_range_end(&behind, &readers);
    list = dibs__etcd_nearest(turn, list, &turn->line, &readers, 0);
    list = dibs__etcd_nearest(turn, list, &behind, &turn->end, 0);
    return turn->etcd->is_rw ? look_for_markers(turn, list) : list;
}

/* The newer of the two that has to be waited for. Behind one that shares now there is none:
 * it held alone, so all before it had gone. */
static int
nearest_writer(struct turn *turn, struct answer *answer, int op, struct kv *out)
{
    struct kv kv;
    int found = 0;
    for (int i = 0; i < 2; i++) {
        int got = dibs__etcd_before(turn, answer, op + i, &kv);
        if (got < 0)
            return got;
        int shares =
            got && (dibs__etcd_shares(&kv) || is_marked(turn, answer, op + 2, &kv));
        if (got && !shares && (!found || kv.create > out->create)) {
            *out = kv;
            found = 1;
        }
    }
    return found;
}

static int
judge_shared(struct turn *turn, struct answer *answer, int op)
{
    struct kv before;
    int found = nearest_writer(turn, answer, op, &before);
    if (found <= 0)
        return found ? DIBS_ECORRUPT : dibs__etcd_granted(turn);
    if (dibs__etcd_under(turn, &before.key, "permits/"))
        return dibs__etcd_mismatch(turn, "as permits, not as a lock");
    struct key markers, end;
    const struct spot writers = { .key = &before.key, .sees_puts = 1 };
    const struct spot beside = { .key = &markers, .end = &end, .sees_puts = 1 };
    if (!turn->etcd->is_rw)
        return dibs__etcd_busy(turn, &writers, NULL);
    markers_of(turn, &markers, &end);
    return dibs__etcd_busy(turn, &writers, &beside);
}

static const struct way shared = { .kind = KIND_READ,
                                   .look = look_for_writers,
                                   .judge = judge_shared };

/* ---- the slots ---- */

/* A leadership is written as `etcdctl elect` does in any case. */
static const struct way *
way_of(const struct etcd *etcd, const dibs_claim *claim)
{
    int tries = (claim->flags & DIBS_CLAIM_NOQUEUE) != 0;
    if (claim->limit)
        return &dibs__etcd_permits;
    if (claim->mode == DIBS_SHARED)
        return &shared;
    if (etcd->is_rw && !(claim->flags & DIBS_CLAIM_ELECTION))
        return tries ? &try_writer : &writer;
    return tries ? &try_exclusive : &exclusive;
}

/* An attempt that says EBUSY waits already, so there is no slot `watch`. */
int
dibs__etcd_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct etcd *etcd = state;
    if (dibs__etcd_still_waits(etcd, claim))
        return DIBS_EBUSY;
    if (claim->mode == DIBS_OBSERVE)
        return dibs__etcd_observe(etcd, claim, deadline, err);
    return dibs__etcd_claim_attempt(etcd, claim, way_of(etcd, claim), deadline, err);
}

/* With ?form=rw the key stays as it is. */
static int
put_marker(struct etcd *etcd, dibs_claim *claim, struct mine *mine, dibs_time deadline,
           dibs_error *err)
{
    struct key own, marker;
    struct answer answer;
    char create[24];
    const kit_tenure *tenure = dibs__kit_tenure_find(etcd->tenures, mine->birth);
    if (!tenure)
        return etcd->host->fail(err, DIBS_ELOST, "its lease is over");
    int len = snprintf(create, sizeof create, "%" PRId64, mine->create);
    dibs__etcd_own_key(&own, etcd, claim, mine);
    dibs__etcd_marker_key(&marker, etcd, &own);
    mine->flags |= MINE_MARKED;
    dibs__etcd_mine_store(claim, mine);
    http_text *put =
        dibs__etcd_put(&marker, create, (size_t)len, dibs__etcd_lease_of(tenure));
    http_text *txn = dibs__etcd_txn(
        dibs__etcd_list(dibs__etcd_compare(&own, COMPARE_CREATE, mine->create), NULL),
        dibs__etcd_list(put, NULL), NO_OPS);
    int rc = dibs__etcd_ask(etcd, "/kv/txn", txn, 0, &answer, deadline, err);
    if (!rc && !dibs__etcd_succeeded(&answer))
        rc = etcd->host->fail(err, DIBS_ELOST, "its key is gone");
    dibs__etcd_answer_free(&answer);
    return rc;
}

static int
rewrite_as_reader(struct etcd *etcd, const dibs_claim *claim, const struct mine *mine,
                  dibs_time deadline, dibs_error *err)
{
    char value[VALUE_MAX];
    dibs_claim reader = { .mode = DIBS_SHARED,
                          .permits = 1,
                          .lease_ms = claim->lease_ms,
                          .serial = claim->serial,
                          .note = claim->note,
                          .token = claim->token };
    struct rewriting what = { .value = value };
    what.len = dibs__etcd_own_value(value, etcd, &reader, mine);
    return dibs__etcd_rewrite(etcd, claim, mine, &what, deadline, err);
}

int
dibs__etcd_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct etcd *etcd = state;
    struct mine mine = dibs__etcd_mine(claim);
    int rc = mine.kind == KIND_WRITE
                 ? put_marker(etcd, claim, &mine, deadline, err)
                 : rewrite_as_reader(etcd, claim, &mine, deadline, err);
    if (!rc)
        claim->mode = DIBS_SHARED;
    (void)dibs__kit_lapse_move(etcd->lapses, claim, 0);
    return rc == DIBS_OK || rc == DIBS_ELOST || rc == DIBS_EUNAVAIL ? rc : DIBS_EUNKNOWN;
}
