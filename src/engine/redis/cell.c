/* SPDX-License-Identifier: MIT */
/*
 * Cells, the same for every layout: a hash with the version and the value. A version is a
 * tick of the server's hybrid clock, so none is used twice, whatever became of the cell
 * between.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis.h"

static const char *const prefixes[] = {
    [DIBS_SPACE_CELL] = "dibs:cell:", [DIBS_SPACE_FENCE] = "dibs:fence:"
};

/* ARGV: the version it must have, as text ('0': it must not be there); the value.
 * Replies: the new version, or 0. */
static const char lua_swap[] =
    "if (redis.call('HGET', KEYS[1], 'version') or '0') ~= ARGV[1] then return 0 end\n"
    "local version = tick(KEYS[2])\n"
    "redis.call('HSET', KEYS[1], 'version', string.format('%.0f', version), 'value', "
    "ARGV[2])\n"
    "return version\n";

int
dibs__redis_cells_open(struct redis *redis, dibs_error *err)
{
    const char *const parts[] = { dibs__redis_lua_tick, lua_swap, NULL };
    struct script *swap = redis->host->alloc(sizeof *swap);
    (void)err;
    redis->cell_state = swap;
    return swap ? dibs__redis_script_new(swap, "swap", parts, redis->host) : DIBS_ENOMEM;
}

void
dibs__redis_cells_close(struct redis *redis)
{
    if (!redis->cell_state)
        return;
    dibs__redis_script_free(redis->cell_state, redis->host);
    redis->host->free(redis->cell_state);
    redis->cell_state = NULL;
}

static int
read_fields(const struct redis *redis, const redisReply *reply, dibs_cell *out,
            dibs_error *err)
{
    const redisReply *version = dibs__resp_element(reply, 0);
    const redisReply *value = dibs__resp_element(reply, 1);
    out->version = 0;
    out->len = 0;
    if (version && version->type == REDIS_REPLY_NIL)
        return DIBS_ENOTFOUND;
    if (!version || !value || value->type != REDIS_REPLY_STRING ||
        value->len > sizeof out->value || dibs__resp_integer(version, 0) <= 0)
        return redis->host->fail(err, DIBS_ECORRUPT, "its key is not what a cell has");
    out->version = (uint64_t)dibs__resp_integer(version, 0);
    out->len = value->len;
    memcpy(out->value, value->str, value->len);
    return DIBS_OK;
}

/* what run says, in the codes that cells have */
static int
cell_code(const struct redis *redis, int rc, dibs_error *err)
{
    if (rc != DIBS_EMISMATCH)
        return rc;
    return redis->host->fail(err, DIBS_ECORRUPT, "under its key is no cell");
}

int
dibs__redis_cell_read(void *state, const dibs_cell_key *cell, dibs_cell *out,
                      dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct key key;
    struct call call = { .key = &key, .hash = cell->name_hash, .flags = CALL_READS };
    redisReply *reply;
    dibs__redis_key_set(&key, prefixes[cell->space], cell->name, cell->name_len, "");
    dibs__resp_word(&call.command, "HMGET");
    dibs__resp_bytes(&call.command, key.text, key.len);
    dibs__resp_word(&call.command, "version");
    dibs__resp_word(&call.command, "value");
    int rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc == DIBS_EUNKNOWN)
        return DIBS_EUNAVAIL;
    if (rc)
        return cell_code(redis, rc, err);
    rc = read_fields(redis, reply, out, err);
    freeReplyObject(reply);
    return rc;
}

int
dibs__redis_cell_swap(void *state, const dibs_cell_key *cell, uint64_t version,
                      const void *value, size_t len, uint64_t *new_version,
                      dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct key key, clock;
    struct call call;
    redisReply *reply;
    char expected[24];
    (void)snprintf(expected, sizeof expected, "%" PRIu64, version);
    dibs__redis_key_set(&key, prefixes[cell->space], cell->name, cell->name_len, "");
    dibs__redis_clock_key(redis, &key, &clock);
    dibs__redis_script_call(&call, redis->cell_state, 2, &key, cell->name_hash);
    dibs__resp_bytes(&call.command, key.text, key.len);
    dibs__resp_bytes(&call.command, clock.text, clock.len);
    dibs__resp_word(&call.command, expected);
    dibs__resp_bytes(&call.command, value, len);
    int rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc)
        return cell_code(redis, rc, err);
    int64_t stored = dibs__resp_integer(reply, 0);
    freeReplyObject(reply);
    if (stored <= 0)
        return DIBS_ECONFLICT;
    *new_version = (uint64_t)stored;
    return DIBS_OK;
}
