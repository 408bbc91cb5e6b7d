/* SPDX-License-Identifier: MIT */
/* Cells, the optimistic lock, and the fencing check that is made of one. */
#include "core/core.h"

#include <string.h>

#define IO_LIMIT (5000 * DIBS_MS)
/* swaps lost to others before a fence gives up; each loss means that somebody else won */
#define FENCE_TRIES 1000

static int
check_cell(dibs_cell_key *key, dibs *client, int space, const char *name,
           const char *what, dibs_error *err)
{
    size_t len;
    int rc = dibs__client_check(client, err);
    if (!rc)
        rc = dibs__name_check(&len, name, 0, what, err);
    if (rc)
        return rc;
    if (!dibs__has(client, DIBS_CAP_CELL))
        return dibs__fail(err, DIBS_EUNSUPPORTED, "engine %s has no cells",
                          client->engine->name);
    *key = (dibs_cell_key){ space, name, len, dibs__hash(name, len) };
    return DIBS_OK;
}

int
dibs_cell_read(dibs_cell *out, dibs *client, const char *name, dibs_error *err)
{
    UNCANCELLED;
    dibs_cell_key key;
    int rc = check_cell(&key, client, DIBS_SPACE_CELL, name, "name", err);
    if (!rc && !out)
        rc = dibs__fail(err, DIBS_EINVAL, "out is NULL");
    if (rc)
        return rc;
    rc = dibs__engine_cell_read(client, &key, out, dibs__now() + IO_LIMIT, err);
    if (rc == DIBS_ENOTFOUND) {
        out->version = 0;
        out->len = 0;
        return dibs__fail_at(client, err, rc, "read cell", name, key.name_len,
                             "there is none");
    }
    return rc;
}

int
dibs_cell_swap(uint64_t *new_version, dibs *client, const char *name, uint64_t version,
               const void *value, size_t len, dibs_error *err)
{
    UNCANCELLED;
    dibs_cell_key key;
    uint64_t stored;
    int rc = check_cell(&key, client, DIBS_SPACE_CELL, name, "name", err);
    if (rc)
        return rc;
    if (!value && len)
        return dibs__fail(err, DIBS_EINVAL, "value is NULL");
    if (len > DIBS_CELL_MAX)
        return dibs__fail(err, DIBS_EINVAL, "the value is longer than %d bytes",
                          DIBS_CELL_MAX);
    rc = dibs__engine_cell_swap(client, &key, version, value ? value : "", len, &stored,
                                dibs__now() + IO_LIMIT, err);
    if (rc == DIBS_ECONFLICT)
        return dibs__fail_at(client, err, rc, "change cell", name, key.name_len,
                             "it is not at version %llu any more",
                             (unsigned long long)version);
    if (!rc && new_version)
        *new_version = stored;
    return rc;
}

static uint64_t
decode_token(const dibs_cell *cell)
{
    uint64_t token = 0;
    for (size_t i = 0; i < cell->len && i < sizeof token; i++)
        token = token << 8 | cell->value[i];
    return token;
}

static void
encode_token(unsigned char bytes[8], uint64_t token)
{
    for (int i = 7; i >= 0; i--, token >>= 8)
        bytes[i] = (unsigned char)token;
}

static int
pass_fence(dibs *client, const dibs_cell_key *key, uint64_t token, dibs_error *err)
{
    dibs_cell cell;
    unsigned char bytes[8];
    encode_token(bytes, token);
    for (int i = 0; i < FENCE_TRIES; i++) {
        dibs_time deadline = dibs__now() + IO_LIMIT;
        uint64_t version;
        int rc = dibs__engine_cell_read(client, key, &cell, deadline, err);
        if (rc == DIBS_ENOTFOUND)
            cell.version = 0, cell.len = 0;
        else if (rc)
            return rc;
        uint64_t newest = decode_token(&cell);
        if (newest > token)
            return dibs__fail_at(client, err, DIBS_ESTALE, "pass the fence of", key->name,
                                 key->name_len,
                                 "token %llu is older than %llu, seen before",
                                 (unsigned long long)token, (unsigned long long)newest);
        if (newest == token)
            return DIBS_OK;
        rc = dibs__engine_cell_swap(client, key, cell.version, bytes, sizeof bytes,
                                    &version, deadline, err);
        /* conflict: somebody was faster. unknown: reading tells whether it was stored */
        if (rc != DIBS_ECONFLICT && rc != DIBS_EUNKNOWN)
            return rc;
    }
    return dibs__fail_at(client, err, DIBS_EUNAVAIL, "pass the fence of", key->name,
                         key->name_len, "it changed %d times while it was checked",
                         FENCE_TRIES);
}

int
dibs_fence(dibs *client, const char *resource, uint64_t token, dibs_error *err)
{
    UNCANCELLED;
    dibs_cell_key key;
    dibs_error said;
    int rc = check_cell(&key, client, DIBS_SPACE_FENCE, resource, "resource", err);
    if (rc)
        return rc;
    if (token == 0)
        return dibs__fail(err, DIBS_EINVAL, "token is 0, which no hold has");
    rc = pass_fence(client, &key, token, &said);
    if (rc && err)
        *err = said;
    return rc;
}
