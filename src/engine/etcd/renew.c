/* SPDX-License-Identifier: MIT */
/*
 * Renewing: what is renewed is the tenure, once for all that live in it; then it is seen
 * that the claims' keys are still there, many of them in one transaction.
 *
 * A hold whose lease became longer than its tenure moves to another one: its key is put
 * again with the other lease, and keeps its name and its place. If the answer to that is
 * lost, the key may be in either, and the hold is not renewed before that is certain.
 */
#include "claim.h"

#include <string.h>

/* the servers refuse more than 128 ops in a transaction, unless they are told otherwise */
#define KEYS_AT_ONCE 100
#define BYTES_AT_ONCE 200000

struct renewal {
    struct etcd *etcd;
    dibs_claim *const *claims;
    int *results;
    dibs_time deadline, began;
    dibs_error *err;
    /* the keys to be checked next */
    size_t owners[KEYS_AT_ONCE];
    int count;
    size_t bytes;
    http_text *compares, *looks;
};

/* ---- checking keys ---- */

/* Only the end of a claim is certain enough to be one. */
static int
code_of(int rc)
{
    return rc == DIBS_EUNAVAIL ? rc : DIBS_EUNKNOWN;
}

static int
is_there(const struct renewal *renewal, struct answer *answer, int index)
{
    struct kv kv;
    struct mine mine = dibs__etcd_mine(renewal->claims[renewal->owners[index]]);
    return dibs__etcd_kvs(answer, index) && dibs__etcd_kv(answer, index, 0, &kv) == 0 &&
           kv.create == mine.create;
}

static void
flush(struct renewal *renewal)
{
    struct answer answer;
    if (!renewal->count)
        return;
    http_text *txn = dibs__etcd_txn(renewal->compares, NO_OPS, renewal->looks);
    int rc = dibs__etcd_ask(renewal->etcd, "/kv/txn", txn, HTTP_REPEATABLE, &answer,
                            renewal->deadline, renewal->err);
    int all_there = !rc && dibs__etcd_succeeded(&answer);
    for (int i = 0; i < renewal->count; i++) {
        int *result = &renewal->results[renewal->owners[i]];
        if (rc)
            *result = code_of(rc);
        else
            *result = all_there || is_there(renewal, &answer, i) ? DIBS_OK : DIBS_ELOST;
    }
    dibs__etcd_answer_free(&answer);
    renewal->count = 0;
    renewal->bytes = 0;
}

static void
add(struct renewal *renewal, size_t index)
{
    struct key own;
    const dibs_claim *claim = renewal->claims[index];
    struct mine mine = dibs__etcd_mine(claim);
    if (renewal->count == KEYS_AT_ONCE || renewal->bytes > BYTES_AT_ONCE)
        flush(renewal);
    if (!renewal->count) {
        renewal->compares = dibs__etcd_list(NULL);
        renewal->looks = dibs__etcd_list(NULL);
    }
    dibs__etcd_own_key(&own, renewal->etcd, claim, &mine);
    const struct range look = { .key = &own, .flags = RANGE_KEYS_ONLY };
    renewal->compares = dibs__etcd_list_add(
        renewal->compares, dibs__etcd_compare(&own, COMPARE_CREATE, mine.create));
    renewal->looks = dibs__etcd_list_add(renewal->looks, dibs__etcd_range(&look));
    renewal->owners[renewal->count++] = index;
    renewal->bytes += 2 * own.len;
}

/* ---- the tenure ---- */

/* After EUNKNOWN the key may be in the other tenure: so that is not left. */
static int
move_to(struct renewal *renewal, dibs_claim *claim, kit_tenure *to)
{
    struct etcd *etcd = renewal->etcd;
    struct mine mine = dibs__etcd_mine(claim);
    uint64_t old = mine.birth;
    const struct rewriting what = { .lease = dibs__etcd_lease_of(to) };
    mine.flags |= MINE_MOVING;
    dibs__etcd_mine_store(claim, &mine);
    int rc =
        dibs__etcd_rewrite(etcd, claim, &mine, &what, renewal->deadline, renewal->err);
    if (rc == DIBS_OK) {
        mine.birth = dibs__kit_tenure_birth(to);
        dibs__kit_tenure_leave(etcd->tenures, old);
    }
    if (rc == DIBS_OK || rc == DIBS_EUNAVAIL) {
        mine.flags &= ~(unsigned)MINE_MOVING;
        dibs__etcd_mine_store(claim, &mine);
    }
    if (rc == DIBS_EUNAVAIL || rc == DIBS_ELOST)
        dibs__kit_tenure_leave(etcd->tenures, dibs__kit_tenure_birth(to));
    return rc == DIBS_OK || rc == DIBS_ELOST ? rc : code_of(rc);
}

static int
move(struct renewal *renewal, dibs_claim *claim)
{
    struct mine mine = dibs__etcd_mine(claim);
    kit_tenure *to;
    /* etcd's recipes order keys by when they were put last */
    if (renewal->etcd->is_rw && (mine.kind == KIND_READ || mine.kind == KIND_WRITE))
        return renewal->etcd->host->fail(renewal->err, DIBS_EUNAVAIL,
                                         "with form=rw a lease cannot become that much "
                                         "longer: use session=");
    int rc = dibs__kit_tenure_join(renewal->etcd->tenures, claim->lease_ms, 0,
                                   renewal->deadline, &to, renewal->err);
    if (rc)
        return code_of(rc);
    if (dibs__kit_tenure_birth(to) != mine.birth || mine.flags & MINE_MOVING)
        return move_to(renewal, claim, to);
    dibs__kit_tenure_leave(renewal->etcd->tenures, mine.birth);
    return DIBS_OK;
}

static int
secure(struct renewal *renewal, dibs_claim *claim)
{
    struct etcd *etcd = renewal->etcd;
    struct mine mine = dibs__etcd_mine(claim);
    dibs_time until = renewal->began + claim->lease_ms * DIBS_MS;
    kit_tenure *tenure = dibs__kit_tenure_find(etcd->tenures, mine.birth);
    if (mine.flags & MINE_MOVING)
        return move(renewal, claim);
    if (!tenure)
        return etcd->host->fail(renewal->err, DIBS_ELOST, "its lease is over");
    int rc = dibs__kit_tenure_secure(etcd->tenures, tenure, until, renewal->deadline,
                                     renewal->err);
    if (rc == DIBS_EINVAL)
        return move(renewal, claim);
    return rc == DIBS_OK || rc == DIBS_ELOST ? rc : code_of(rc);
}

/* ---- the slot ---- */

void
dibs__etcd_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                 dibs_time deadline, dibs_error *err)
{
    struct etcd *etcd = state;
    struct renewal renewal = { .etcd = etcd,
                               .claims = claims,
                               .results = results,
                               .deadline = deadline,
                               .began = etcd->host->now(),
                               .err = err };
    for (size_t i = 0; i < n; i++) {
        results[i] = secure(&renewal, claims[i]);
        if (!results[i])
            add(&renewal, i);
    }
    flush(&renewal);
    for (size_t i = 0; i < n; i++) {
        dibs_time until = renewal.began + claims[i]->lease_ms * DIBS_MS;
        if (!results[i])
            results[i] = dibs__kit_lapse_move(etcd->lapses, claims[i], until);
    }
}
