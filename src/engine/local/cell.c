/* SPDX-License-Identifier: MIT */
/*
 * Cells: a name and a text that holds the version, the length and the bytes. A swap writes
 * a new text and then points the cell at it, which is one store.
 */
#include "engine/local/local.h"

typedef struct value_head {
    uint64_t version;
    uint64_t len;
} value_head;

static local_key
key_of(const dibs_cell_key *cell)
{
    return (local_key){ KIND_CELL, (uint8_t)cell->space, cell->name_hash, cell->name,
                        cell->name_len };
}

/* read_head returns the version and length of a cell; 0: there is no such cell. */
static value_head
read_head(table *t, uint32_t index)
{
    value_head head = { 0, 0 };
    if (index && at(t, index)->cell.value)
        dibs__local_text_read(t, at(t, index)->cell.value, 0, &head, sizeof(head));
    if (head.len > DIBS_CELL_MAX) {
        (void)dibs__local_wrong(t);
        head.version = head.len = 0;
    }
    return head;
}

static int
finish(table *t, uint32_t n, int rc, dibs_error *err)
{
    dibs__local_unlock(t, n);
    return atomic_load(&t->damaged) ? dibs__local_damage(t, err) : rc;
}

int
dibs__local_cell_read(void *state, const dibs_cell_key *cell, dibs_cell *out,
                      dibs_time deadline, dibs_error *err)
{
    table *t = ((local_state *)state)->table;
    local_key key = key_of(cell);
    uint32_t n = shard_of(key.hash);
    (void)deadline;
    int rc = dibs__local_lock(t, n, err);
    if (rc != DIBS_OK)
        return rc;
    uint32_t index = dibs__local_find(t, &key);
    value_head head = read_head(t, index);
    out->version = head.version;
    out->len = head.len;
    if (head.len)
        dibs__local_text_read(t, at(t, index)->cell.value, sizeof(head), out->value,
                              head.len);
    return finish(t, n, head.version ? DIBS_OK : DIBS_ENOTFOUND, err);
}

static int
swap_locked(table *t, const local_key *key, uint64_t version, const void *value,
            size_t len, uint64_t *new_version, dibs_error *err)
{
    uint32_t index = dibs__local_find(t, key), text;
    if (read_head(t, index).version != version)
        return DIBS_ECONFLICT;
    value_head head = { atomic_fetch_add(&t->head->counter, 1) + 1, len };
    int rc = dibs__local_text_new(&text, t, shard_of(key->hash), &head, sizeof(head),
                                  value, len, err);
    if (rc != DIBS_OK)
        return rc;
    if (!index && !(index = dibs__local_name_new(t, key, err))) {
        dibs__local_text_free(t, text);
        return DIBS_ENOMEM;
    }
    uint32_t old = at(t, index)->cell.value;
    in_order();
    at(t, index)->cell.value = text;
    in_order();
    dibs__local_text_free(t, old);
    *new_version = head.version;
    return DIBS_OK;
}

int
dibs__local_cell_swap(void *state, const dibs_cell_key *cell, uint64_t version,
                      const void *value, size_t len, uint64_t *new_version,
                      dibs_time deadline, dibs_error *err)
{
    table *t = ((local_state *)state)->table;
    local_key key = key_of(cell);
    uint32_t n = shard_of(key.hash);
    uint64_t made = 0;
    (void)deadline;
    int rc = dibs__local_lock(t, n, err);
    if (rc != DIBS_OK)
        return rc;
    rc = swap_locked(t, &key, version, value, len, &made, err);
    rc = finish(t, n, rc, err);
    if (rc == DIBS_OK && new_version)
        *new_version = made;
    return rc;
}
