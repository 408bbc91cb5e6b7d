/* SPDX-License-Identifier: MIT */
/*
 * Cells, the same for every layout: keys without a lease, with the value as it is. A cell's
 * version is its mod revision, the number of the transaction that wrote it, so none is used
 * twice, whatever became of the cell between. Reads are linearizable: a member asks a quorum
 * before it answers, so a fence cannot miss a larger token.
 */
#include "etcd.h"

#include <string.h>

static int
read_value(const struct etcd *etcd, struct answer *answer, dibs_cell *out,
           dibs_error *err)
{
    struct kv found;
    if (!dibs__etcd_kvs(answer, -1)) {
        out->version = 0;
        out->len = 0;
        return DIBS_ENOTFOUND;
    }
    if (dibs__etcd_kv(answer, -1, 0, &found) != 0)
        return etcd->host->fail(err, DIBS_ECORRUPT, "its key cannot be read");
    if (found.value_len > sizeof out->value)
        return etcd->host->fail(err, DIBS_ECORRUPT, "its key has %zu bytes",
                                found.value_len);
    out->version = (uint64_t)found.mod;
    out->len = found.value_len;
    memcpy(out->value, found.value, found.value_len);
    return DIBS_OK;
}

int
dibs__etcd_cell_read(void *state, const dibs_cell_key *cell, dibs_cell *out,
                     dibs_time deadline, dibs_error *err)
{
    struct etcd *etcd = state;
    struct answer answer = { 0 };
    struct key key;
    dibs__etcd_cell_key(&key, etcd, cell);
    struct range one = { .key = &key };
    int rc = dibs__etcd_ask(etcd, "/kv/range", dibs__etcd_range_alone(&one),
                            HTTP_REPEATABLE, &answer, deadline, err);
    if (!rc)
        rc = read_value(etcd, &answer, out, err);
    dibs__etcd_answer_free(&answer);
    return rc;
}

/* Not repeated if the answer is lost: then nobody knows whether it was ours that was done. */
int
dibs__etcd_cell_swap(void *state, const dibs_cell_key *cell, uint64_t version,
                     const void *value, size_t len, uint64_t *new_version,
                     dibs_time deadline, dibs_error *err)
{
    struct etcd *etcd = state;
    struct answer answer = { 0 };
    struct key key;
    dibs__etcd_cell_key(&key, etcd, cell);
    /* the mod revision of a key that is not there is 0 */
    http_text *is_at = dibs__etcd_compare(&key, COMPARE_MOD, (int64_t)version);
    http_text *store = dibs__etcd_put(&key, value, len, 0);
    http_text *swap = dibs__etcd_txn(dibs__etcd_list(is_at, NULL),
                                     dibs__etcd_list(store, NULL), NO_OPS);
    int rc = dibs__etcd_ask(etcd, "/kv/txn", swap, 0, &answer, deadline, err);
    if (!rc && !dibs__etcd_succeeded(&answer))
        rc = DIBS_ECONFLICT;
    if (!rc)
        *new_version = (uint64_t)dibs__etcd_revision(&answer);
    dibs__etcd_answer_free(&answer);
    return rc;
}
