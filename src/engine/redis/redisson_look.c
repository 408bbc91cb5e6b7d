/* SPDX-License-Identifier: MIT */
/*
 * Looking at locks that Redisson knows, and breaking them. What is there to see is the
 * owners that hold a lock and how long for, and the order of those who wait for a fair
 * lock; not who they are. In this order: reporting, other dialects, breaking, listing.
 */
#include "redisson.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SCAN_COUNT "500"
#define SCAN_BATCH 128

int64_t
dibs__redisson_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* ---- reporting ---- */

/* a lock as the script `look` saw it */
struct sight {
    const char *name;
    size_t name_len;
    const redisReply *mode, *holders, *queue;
    uint64_t counter;
    int named; /* the sink has heard its name */
};

static int
is_array(const redisReply *reply)
{
    return reply && reply->type == REDIS_REPLY_ARRAY;
}

static int
read_sight(struct sight *sight, const redisReply *reply)
{
    sight->mode = dibs__resp_element(reply, 0);
    sight->holders = dibs__resp_element(reply, 1);
    sight->queue = dibs__resp_element(reply, 2);
    sight->counter = (uint64_t)dibs__resp_integer(dibs__resp_element(reply, 3), 0);
    int good = sight->mode && sight->mode->str && is_array(sight->holders) &&
               is_array(sight->queue);
    return good ? 0 : -1;
}

static int
report(struct sight *sight, dibs_sink *sink, int waiting, const dibs_party *party)
{
    int rc = DIBS_OK;
    int shared = dibs__resp_is_text(sight->mode, "read");
    if (!sight->named++)
        rc = sink->lock(sink, sight->name, sight->name_len,
                        shared ? DIBS_SHARED : DIBS_EXCLUSIVE, 0);
    return rc ? rc : sink->party(sink, waiting, party);
}

/* an owner's name for itself is all that is known of it, so that is its note */
static dibs_party
party_of(const redisReply *owner)
{
    return (dibs_party){ .mode = DIBS_EXCLUSIVE,
                         .permits = 1,
                         .lease_left_ms = -1,
                         .host = "",
                         .app = "",
                         .note = owner->str };
}

static int
is_writer(const redisReply *owner)
{
    static const char write[] = ":write";
    size_t tail = sizeof write - 1;
    return owner->len > tail && strcmp(owner->str + owner->len - tail, write) == 0;
}

static int
report_holder(struct sight *sight, dibs_sink *sink, const redisReply *holder)
{
    const redisReply *owner = dibs__resp_element(holder, 0);
    if (!owner || !owner->str)
        return DIBS_OK;
    dibs_party party = party_of(owner);
    if (sight->mode->len && !is_writer(owner))
        party.mode = DIBS_SHARED;
    party.token = sight->counter; /* fenced locks have one */
    party.lease_left_ms = dibs__resp_integer(dibs__resp_element(holder, 1), -1);
    return report(sight, sink, 0, &party);
}

static int
report_all(struct sight *sight, dibs_sink *sink)
{
    int rc = DIBS_OK;
    for (size_t i = 0; i < sight->holders->elements && !rc; i++)
        rc = report_holder(sight, sink, sight->holders->element[i]);
    for (size_t i = 0; i < sight->queue->elements && !rc; i++) {
        const redisReply *owner = sight->queue->element[i];
        dibs_party party = party_of(owner);
        rc = owner->str ? report(sight, sink, 1, &party) : DIBS_OK;
    }
    return rc;
}

int
dibs__redisson_report(const char *name, size_t name_len, const redisReply *reply,
                      dibs_sink *sink)
{
    struct sight sight = { .name = name, .name_len = name_len };
    return read_sight(&sight, reply) == 0 ? report_all(&sight, sink) : DIBS_ECORRUPT;
}

int
dibs__redisson_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                       dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct naming naming;
    struct call call;
    redisReply *reply;
    int rc = dibs__redisson_name(&naming, redis, name, name_len, err);
    if (rc)
        return rc;
    dibs__redis_script_call(&call, &redisson_of(redis)->look, 3, &naming.lock, name_hash);
    call.flags = CALL_READS;
    dibs__resp_bytes(&call.command, naming.lock.text, naming.lock.len);
    dibs__redisson_put(&call, &naming, THE_QUEUE);
    dibs__redisson_put(&call, &naming, THE_TOKEN);
    dibs__redisson_put(&call, &naming, THE_PREFIX);
    rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc == DIBS_EMISMATCH)
        return dibs__redisson_other_dialect(redis, &naming, name_hash, deadline, err);
    if (rc)
        return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
    rc = dibs__redisson_report(name, name_len, reply, sink);
    if (rc == DIBS_ECORRUPT)
        (void)redis->host->fail(err, rc, "the script's answer is no answer");
    freeReplyObject(reply);
    return rc;
}

/* ---- another dialect ---- */

int
dibs__redisson_other_dialect(struct redis *redis, const struct naming *naming,
                             uint64_t hash, dibs_time deadline, dibs_error *err)
{
    struct call call = { .key = &naming->lock, .hash = hash, .flags = CALL_READS };
    redisReply *reply = NULL;
    dibs__resp_word(&call.command, "TYPE");
    dibs__resp_bytes(&call.command, naming->lock.text, naming->lock.len);
    int rc = dibs__redis_run(redis, &call, deadline, &reply, NULL);
    int string = !rc && dibs__resp_is_text(reply, "string");
    const char *type = !rc && reply->str ? reply->str : "value of another kind";
    (void)redis->host->fail(err, DIBS_EMISMATCH,
                            "the key is a %.32s, not one of Redisson's locks%s", type,
                            string ? ": it may be held by a client that uses SET NX "
                                     "(layout=plain or getset)"
                                   : "");
    if (reply)
        freeReplyObject(reply);
    return DIBS_EMISMATCH;
}

/* ---- breaking ---- */

int
dibs__redisson_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                     size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct naming naming;
    struct call call;
    redisReply *reply;
    int rc = dibs__redisson_name(&naming, redis, name, name_len, err);
    if (rc)
        return rc;
    dibs__redis_script_call(&call, &redisson_of(redis)->evict, 3, &naming.lock,
                            name_hash);
    dibs__resp_bytes(&call.command, naming.lock.text, naming.lock.len);
    dibs__redisson_put(&call, &naming, THE_QUEUE);
    dibs__redisson_put(&call, &naming, THE_TIMEOUTS);
    dibs__redisson_put(&call, &naming, THE_CHANNEL);
    dibs__redisson_put(&call, &naming, THE_RW_CHANNEL);
    dibs__redisson_put(&call, &naming, THE_PREFIX);
    dibs__resp_number(&call.command, dibs__redisson_wall_ms());
    rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc == DIBS_EMISMATCH)
        return dibs__redisson_other_dialect(redis, &naming, name_hash, deadline, err);
    if (rc)
        return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
    *broken = (size_t)dibs__resp_integer(reply, 0);
    freeReplyObject(reply);
    return DIBS_OK;
}

/* ---- listing ---- */

/* Names found, on all servers. SCAN may tell one twice, so they are sorted and told
 * afterwards. */
struct found {
    char *name;
    size_t len;
};

struct scan {
    struct redis *redis;
    dibs_time deadline;
    dibs_error *err;
    struct found *found;
    size_t count, room;
};

static int
remember(struct scan *scan, const char *name, size_t len)
{
    const dibs_host *host = scan->redis->host;
    if (scan->count == scan->room) {
        size_t room = scan->room ? 2 * scan->room : 64;
        struct found *wider = host->alloc(room * sizeof *wider);
        if (!wider)
            return DIBS_ENOMEM;
        if (scan->count)
            memcpy(wider, scan->found, scan->count * sizeof *wider);
        host->free(scan->found);
        scan->found = wider;
        scan->room = room;
    }
    char *copy = host->alloc(len + 1);
    if (!copy)
        return DIBS_ENOMEM;
    memcpy(copy, name, len);
    scan->found[scan->count++] = (struct found){ copy, len };
    return DIBS_OK;
}

static int
is_number(const redisReply *value)
{
    return value->len > 0 && strspn(value->str, "0123456789") == value->len;
}

/* does HSCAN's answer look like a lock? then one owner is among the first fields */
static int
is_lock(const redisReply *answer)
{
    const redisReply *fields = dibs__resp_element(answer, 1);
    for (size_t i = 0; is_array(fields) && i + 1 < fields->elements; i += 2) {
        const redisReply *field = fields->element[i];
        if (dibs__redisson_is_owner(field->str, field->len) &&
            is_number(fields->element[i + 1]))
            return 1;
    }
    return 0;
}

/* Keys that are no hash answer with an error; so does a slot that has moved meanwhile. */
static int
look_at_keys(struct scan *scan, resp_server *server, redisReply *const *keys, size_t n)
{
    resp_request request = { 0 };
    redisReply *replies[SCAN_BATCH];
    int rc = DIBS_OK;
    for (size_t i = 0; i < n && !rc; i++) {
        resp_command command = { 0 };
        dibs__resp_word(&command, "HSCAN");
        dibs__resp_bytes(&command, keys[i]->str, keys[i]->len);
        dibs__resp_word(&command, "0");
        rc = dibs__resp_add(&request, &command);
    }
    if (!rc)
        rc = dibs__resp_call(server, 0, &request, scan->deadline, replies, scan->err);
    dibs__resp_request_free(&request);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++) {
        if (!rc && keys[i]->len <= DIBS_NAME_MAX && is_lock(replies[i]))
            rc = remember(scan, keys[i]->str, keys[i]->len);
        freeReplyObject(replies[i]);
    }
    return rc;
}

static int
scan_once(struct scan *scan, resp_server *server, const char *cursor, redisReply **reply)
{
    resp_request request = { 0 };
    resp_command command = { 0 };
    dibs__resp_word(&command, "SCAN");
    dibs__resp_word(&command, cursor);
    dibs__resp_word(&command, "COUNT");
    dibs__resp_word(&command, SCAN_COUNT);
    int rc = dibs__resp_add(&request, &command);
    if (!rc)
        rc = dibs__resp_call(server, 0, &request, scan->deadline, reply, scan->err);
    dibs__resp_request_free(&request);
    if (rc || is_array(*reply))
        return rc;
    rc = scan->redis->host->fail(
        scan->err,
        dibs__resp_trouble(*reply) == RESP_DENIED ? DIBS_EDENIED : DIBS_EUNAVAIL,
        "SCAN: the server said: %.100s", (*reply)->str ? (*reply)->str : "nothing");
    freeReplyObject(*reply);
    return rc;
}

static int
look_at_page(struct scan *scan, resp_server *server, const redisReply *page)
{
    int rc = DIBS_OK;
    for (size_t i = 0; page && i < page->elements && !rc; i += SCAN_BATCH) {
        size_t left = page->elements - i;
        rc = look_at_keys(scan, server, page->element + i,
                          left < SCAN_BATCH ? left : SCAN_BATCH);
    }
    return rc;
}

static int
scan_server(void *context, resp_server *server)
{
    struct scan *scan = context;
    char cursor[24] = "0";
    int rc;
    do {
        redisReply *reply = NULL;
        rc = scan_once(scan, server, cursor, &reply);
        if (rc)
            return rc;
        const redisReply *next = dibs__resp_element(reply, 0);
        (void)snprintf(cursor, sizeof cursor, "%s", next && next->str ? next->str : "0");
        rc = look_at_page(scan, server, dibs__resp_element(reply, 1));
        freeReplyObject(reply);
    } while (!rc && strcmp(cursor, "0") != 0);
    return rc;
}

static int
by_name(const void *a, const void *b)
{
    const struct found *one = a, *other = b;
    size_t len = one->len < other->len ? one->len : other->len;
    int order = memcmp(one->name, other->name, len);
    return order ? order : (one->len > other->len) - (one->len < other->len);
}

static int
tell_found(struct scan *scan, dibs_sink *sink)
{
    int rc = DIBS_OK;
    if (scan->count)
        qsort(scan->found, scan->count, sizeof *scan->found, by_name);
    for (size_t i = 0; i < scan->count && !rc; i++) {
        const struct found *found = &scan->found[i];
        if (i && by_name(found, found - 1) == 0)
            continue;
        rc = dibs__redisson_inspect(scan->redis, found->name, found->len, i, sink,
                                    scan->deadline, scan->err);
        /* it may have become something else meanwhile, or not be a lock at all */
        if (rc == DIBS_EMISMATCH || rc == DIBS_EINVAL)
            rc = DIBS_OK;
    }
    return rc;
}

int
dibs__redisson_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    struct scan scan = { .redis = redis, .deadline = deadline, .err = err };
    int rc = redis->topology->each(redis, deadline, scan_server, &scan, err);
    if (!rc)
        rc = tell_found(&scan, sink);
    for (size_t i = 0; i < scan.count; i++)
        redis->host->free(scan.found[i].name);
    redis->host->free(scan.found);
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}
