/* SPDX-License-Identifier: MIT */
/*
 * The gates of a cluster. A script can only see keys of its own slot, so each slot has a
 * gate of its own, and a node that forgot or was replaced is noticed slot by slot, each
 * closed for the full time from when somebody first asks there. That is safe, but slow:
 * a name would have to wait on its own, perhaps days later.
 *
 * So when we open, and when a node failed or a slot was found elsewhere, we ask at the
 * gate of one slot of each node. If it had to be closed just now, we ask at all others of
 * that node at once, and they open again together. This only saves time: the script that
 * grants decides by itself in any case.
 */
#include <string.h>

#include "redis.h"

#define CHUNK 128
#define NODES_MAX 1024
#define PAUSE (1000 * DIBS_MS)

struct sweep {
    struct script touch;
    _Atomic uint64_t seen; /* the upsets that were looked after */
    _Atomic dibs_time not_before;
    _Atomic int under_way;
    /* gates still to be closed; only for the one who sweeps */
    size_t due_count;
    uint8_t is_due[SLOTS];
};

/* calls on their way, and what came of them */
struct touches {
    struct key keys[CHUNK];
    struct call calls[CHUNK];
    redisReply *replies[CHUNK];
    int codes[CHUNK];
    uint16_t slots[CHUNK];
    size_t count;
};

struct node {
    resp_server *server;
    uint16_t slot; /* one of its slots */
    int is_closed; /* just now, by us */
};

/* a sweep under way */
struct round {
    struct redis *redis;
    struct sweep *sweep;
    dibs_time deadline;
    struct touches *touches;
    size_t count;
    struct node nodes[NODES_MAX];
};

static int
is_just_closed(const struct round *round, size_t i)
{
    const struct touches *touches = round->touches;
    return touches->codes[i] == DIBS_OK && dibs__resp_integer(touches->replies[i], 0) ==
                                               dibs__redis_gate_close_ms(round->redis);
}

static void
send_touches(struct round *round)
{
    struct touches *touches = round->touches;
    for (size_t i = 0; i < touches->count; i++) {
        struct call *call = &touches->calls[i];
        dibs__redis_script_call(call, &round->sweep->touch, 1, &touches->keys[i],
                                any_order(i));
        dibs__redis_slot_key(&touches->keys[i], BORN_KEY, touches->slots[i]);
        dibs__resp_bytes(&call->command, touches->keys[i].text, touches->keys[i].len);
        dibs__redis_gate_args(round->redis, call);
        call->flags = 0; /* no need for replicas to confirm it */
    }
    dibs__redis_run_many(round->redis, touches->calls, touches->count, round->deadline,
                         touches->replies, touches->codes, NULL);
}

static void
drop_replies(struct touches *touches)
{
    for (size_t i = 0; i < touches->count; i++)
        freeReplyObject(touches->replies[i]);
    touches->count = 0;
}

static struct node *
node_of(struct round *round, uint16_t slot)
{
    resp_server *owner;
    if (round->redis->topology->server(round->redis, slot, round->deadline, &owner,
                                       NULL) != DIBS_OK)
        return NULL;
    size_t i = 0;
    while (i < round->count && round->nodes[i].server != owner)
        i++;
    if (i == round->count && i < NODES_MAX)
        round->nodes[round->count++] = (struct node){ .server = owner, .slot = slot };
    return i < NODES_MAX ? &round->nodes[i] : NULL;
}

/* *closed says whether some gate had to be closed. Returns whether all nodes answered. */
static int
ask_nodes(struct round *round, int *closed)
{
    struct touches *touches = round->touches;
    int answered = round->count > 0;
    *closed = 0;
    for (size_t first = 0; first < round->count; first += CHUNK) {
        for (size_t i = first; i < round->count && touches->count < CHUNK; i++)
            touches->slots[touches->count++] = round->nodes[i].slot;
        send_touches(round);
        for (size_t i = 0; i < touches->count; i++) {
            round->nodes[first + i].is_closed = is_just_closed(round, i);
            *closed |= round->nodes[first + i].is_closed;
            answered &= touches->codes[i] == DIBS_OK;
        }
        drop_replies(touches);
    }
    return answered;
}

static void
mark_others(struct round *round)
{
    struct sweep *sweep = round->sweep;
    for (unsigned slot = 0; slot < SLOTS; slot++) {
        const struct node *node = node_of(round, (uint16_t)slot);
        if (!node || !node->is_closed || sweep->is_due[slot])
            continue;
        sweep->is_due[slot] = 1;
        sweep->due_count++;
    }
}

/* As many as there is time for: the next one goes on. */
static void
close_marked(struct round *round)
{
    struct sweep *sweep = round->sweep;
    struct touches *touches = round->touches;
    if (sweep->due_count)
        dibs__redis_learn_slots();
    for (unsigned slot = 0; sweep->due_count && slot < SLOTS; slot++) {
        if (!sweep->is_due[slot])
            continue;
        touches->slots[touches->count++] = (uint16_t)slot;
        if (touches->count < CHUNK && touches->count < sweep->due_count)
            continue;
        send_touches(round);
        for (size_t i = 0; i < touches->count; i++)
            sweep->is_due[touches->slots[i]] = touches->codes[i] != DIBS_OK;
        for (size_t i = 0; i < touches->count; i++)
            sweep->due_count -= touches->codes[i] == DIBS_OK;
        drop_replies(touches);
        if (round->redis->host->now() >= round->deadline)
            return;
    }
}

/* Returns whether nobody has to do it again. */
static int
go_round(struct redis *redis, dibs_time deadline)
{
    struct round *round = redis->host->alloc(sizeof *round);
    struct touches *touches = redis->host->alloc(sizeof *touches);
    int answered = 0, closed;
    if (round && touches) {
        round->redis = redis;
        round->sweep = redis->sweep_state;
        /* the other half is for what the caller came for */
        round->deadline = deadline - (deadline - redis->host->now()) / 2;
        round->touches = touches;
        for (unsigned slot = 0; slot < SLOTS; slot++)
            (void)node_of(round, (uint16_t)slot);
        answered = ask_nodes(round, &closed);
        if (closed)
            mark_others(round);
        close_marked(round);
        answered &= round->sweep->due_count == 0;
    }
    redis->host->free(touches);
    redis->host->free(round);
    return answered;
}

void
dibs__redis_sweep_if_due(struct redis *redis, dibs_time deadline)
{
    struct sweep *sweep = redis->sweep_state;
    if (!sweep)
        return;
    uint64_t upsets = atomic_load(&redis->upsets);
    if (upsets == atomic_load(&sweep->seen) ||
        redis->host->now() < atomic_load(&sweep->not_before) ||
        atomic_exchange(&sweep->under_way, 1))
        return;
    if (go_round(redis, deadline))
        atomic_store(&sweep->seen, upsets);
    atomic_store(&sweep->not_before, redis->host->now() + PAUSE);
    atomic_store(&sweep->under_way, 0);
}

int
dibs__redis_sweep_open(struct redis *redis, dibs_time deadline)
{
    const char *const parts[] = { dibs__redis_lua_tick, dibs__redis_gate_lua(redis),
                                  "return gate()", NULL };
    struct sweep *sweep = redis->host->alloc(sizeof *sweep);
    if (!sweep)
        return DIBS_ENOMEM;
    redis->sweep_state = sweep;
    int rc = dibs__redis_script_new(&sweep->touch, "touch", parts, redis->host);
    if (!rc && !go_round(redis, deadline))
        atomic_fetch_add(&redis->upsets, 1); /* the first attempt goes on */
    return rc;
}

void
dibs__redis_sweep_close(struct redis *redis)
{
    struct sweep *sweep = redis->sweep_state;
    if (!sweep)
        return;
    dibs__redis_script_free(&sweep->touch, redis->host);
    redis->host->free(sweep);
    redis->sweep_state = NULL;
}
