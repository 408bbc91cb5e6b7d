/* SPDX-License-Identifier: MIT */
/*
 * Cells: entries that no session has, with the value as it is and a mark of ours. A cell's
 * version is its ModifyIndex, the number of the log entry that wrote it, so none is used
 * twice, whatever became of the cell between. Reads are consistent: the leader asks the
 * others whether it still is, so a fence cannot miss a larger token.
 */
#include "consul.h"

#include <string.h>

static int
read_value(const struct consul *consul, struct answer *answer, dibs_cell *out,
           dibs_error *err)
{
    struct entry entry;
    if (!dibs__consul_entries(answer)) {
        out->version = 0;
        out->len = 0;
        return DIBS_ENOTFOUND;
    }
    if (dibs__consul_entry(answer, 0, &entry) != 0)
        return consul->host->fail(err, DIBS_ECORRUPT, "its entry cannot be read");
    if (entry.value_len > sizeof out->value)
        return consul->host->fail(err, DIBS_ECORRUPT, "its entry has %zu bytes",
                                  entry.value_len);
    out->version = entry.modify_index;
    out->len = entry.value_len;
    memcpy(out->value, entry.value, entry.value_len);
    return DIBS_OK;
}

int
dibs__consul_cell_read(void *state, const dibs_cell_key *cell, dibs_cell *out,
                       dibs_time deadline, dibs_error *err)
{
    struct consul *consul = state;
    struct answer answer = { 0 };
    struct key key;
    dibs__consul_cell_key(&key, consul, cell);
    int rc = dibs__consul_get(consul, &key, 0, &answer, deadline, err);
    if (!rc)
        rc = read_value(consul, &answer, out, err);
    dibs__consul_answer_free(&answer);
    return rc;
}

/* What was stored, or why not. */
static int
read_outcome(const struct consul *consul, struct answer *answer, uint64_t *new_version,
             dibs_error *err)
{
    struct entry entry;
    const char *said = "";
    if (answer->status != 200 && dibs__consul_txn_refused(answer, &said) == 0)
        return DIBS_ECONFLICT;
    if (answer->status != 200)
        return consul->host->fail(err, DIBS_EUNAVAIL, "refused: %s", said);
    if (dibs__consul_entry(answer, 0, &entry) != 0)
        return consul->host->fail(err, DIBS_EUNKNOWN, "the answer cannot be read");
    *new_version = entry.modify_index;
    return DIBS_OK;
}

/* Not repeated if the answer is lost: then nobody knows whether it was ours that was done. */
int
dibs__consul_cell_swap(void *state, const dibs_cell_key *cell, uint64_t version,
                       const void *value, size_t len, uint64_t *new_version,
                       dibs_time deadline, dibs_error *err)
{
    struct consul *consul = state;
    struct answer answer = { 0 };
    struct key key;
    struct txn *txn = dibs__consul_txn();
    dibs__consul_cell_key(&key, consul, cell);
    int rc = dibs__consul_txn_cas(txn, &key, version, FLAGS_CELL, value, len);
    if (rc) {
        dibs__consul_txn_free(txn);
        return consul->host->fail(err, rc, "out of memory");
    }
    rc = dibs__consul_txn_run(consul, txn, 0, &answer, deadline, err);
    if (!rc)
        rc = read_outcome(consul, &answer, new_version, err);
    dibs__consul_answer_free(&answer);
    return rc;
}
