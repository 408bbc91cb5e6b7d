/* SPDX-License-Identifier: MIT */
/*
 * The one stream of all watches. See wire.h.
 *
 * What is watched is kept in slots, so that all of it can be asked for again when the stream
 * is lost. An id tells the slot, and which use of it; the server is given the same id.
 *
 * A watch that is refused may be answered without its id. But the server answers in order:
 * so the ids of those that are asked for, and not yet answered, stand in a row.
 *
 * The stream's events come on one thread, one after the other. The one that says that a
 * stream is over opens the next, after a pause if nothing was heard on the last; `is_ending`
 * is set all the while, for who frees the wire to wait.
 *
 * Parts: slots; the row; the stream; what is heard; its end; the wire.
 */
#include "grpc.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define SLOT_BITS 24 /* of an id; the rest counts */
#define SLOTS_FIRST 16
#define PAUSE_FIRST_MS 25
#define PAUSE_MOST_MS 1000
#define CANCEL_MAX 32 /* bytes of a message that ends a watch */

struct slot {
    int64_t id; /* 0: free */
    wire_range range;
    unsigned next_free;
};

struct etcd_wire {
    const dibs_host *host;
    http *http;
    wire_events events;
    void *context;

    pthread_mutex_t mutex; /* for what follows */
    pthread_cond_t ended;
    struct slot *slots;
    unsigned slot_count, used;
    unsigned free; /* a free slot, if there is one; else slot_count */
    int64_t uses;
    int64_t *row; /* ids that the server has not yet answered, the oldest first */
    size_t row_len, row_room;
    size_t row_at;       /* before it are those that were */
    http_stream *stream; /* NULL: there is none */
    int is_closing, is_ending;
    int64_t pause_ms; /* before the next stream */

    /* the thread's */
    struct grpc_stream heard;
    int is_broken; /* this stream says what we cannot read */
};

/* ---- slots ---- */

static int
more_slots_locked(etcd_wire *wire)
{
    unsigned count = wire->slot_count ? 2 * wire->slot_count : SLOTS_FIRST;
    if (count > 1u << SLOT_BITS)
        return DIBS_ENOMEM;
    struct slot *slots = wire->host->alloc(count * sizeof *slots);
    if (!slots)
        return DIBS_ENOMEM;
    for (unsigned i = 0; i < count; i++) {
        if (i < wire->slot_count)
            slots[i] = wire->slots[i];
        else
            slots[i].next_free = i + 1;
    }
    wire->host->free(wire->slots);
    wire->slots = slots;
    wire->free = wire->slot_count;
    wire->slot_count = count;
    return DIBS_OK;
}

/* The slot's memory: key and end, one behind the other. */
static int
copy_range(const etcd_wire *wire, wire_range *out, const wire_range *range)
{
    size_t end_len = range->end ? range->end_len : 0;
    char *bytes = wire->host->alloc(range->key_len + end_len + 1);
    if (!bytes)
        return DIBS_ENOMEM;
    memcpy(bytes, range->key, range->key_len);
    if (end_len > 0)
        memcpy(bytes + range->key_len, range->end, end_len);
    *out = *range;
    out->key = bytes;
    out->end = range->end ? bytes + range->key_len : NULL;
    return DIBS_OK;
}

static int
take_slot_locked(etcd_wire *wire, const wire_range *range, struct slot **out)
{
    if (wire->free == wire->slot_count && more_slots_locked(wire) != DIBS_OK)
        return DIBS_ENOMEM;
    unsigned index = wire->free;
    struct slot *slot = &wire->slots[index];
    if (copy_range(wire, &slot->range, range) != DIBS_OK)
        return DIBS_ENOMEM;
    wire->free = slot->next_free;
    wire->used++;
    slot->id = (++wire->uses << SLOT_BITS) | index;
    *out = slot;
    return DIBS_OK;
}

static struct slot *
find_locked(etcd_wire *wire, int64_t id)
{
    uint64_t index = (uint64_t)id & ((1u << SLOT_BITS) - 1);
    if (id <= 0 || index >= wire->slot_count || wire->slots[index].id != id)
        return NULL;
    return &wire->slots[index];
}

static void
free_slot_locked(etcd_wire *wire, struct slot *slot)
{
    wire->host->free((char *)(uintptr_t)slot->range.key);
    slot->id = 0;
    slot->next_free = wire->free;
    wire->free = (unsigned)(slot - wire->slots);
    wire->used--;
}

static int
is_known(etcd_wire *wire, int64_t id)
{
    pthread_mutex_lock(&wire->mutex);
    int found = find_locked(wire, id) != NULL;
    pthread_mutex_unlock(&wire->mutex);
    return found;
}

/* ---- the row ---- */

static int
row_add_locked(etcd_wire *wire, int64_t id)
{
    if (wire->row_at > wire->row_len / 2) {
        wire->row_len -= wire->row_at;
        memmove(wire->row, wire->row + wire->row_at, wire->row_len * sizeof *wire->row);
        wire->row_at = 0;
    }
    if (wire->row_len == wire->row_room) {
        size_t room = wire->row_room ? 2 * wire->row_room : SLOTS_FIRST;
        int64_t *row = realloc(wire->row, room * sizeof *row);
        if (!row)
            return DIBS_ENOMEM;
        wire->row = row;
        wire->row_room = room;
    }
    wire->row[wire->row_len++] = id;
    return DIBS_OK;
}

/* Whose answer this is; 0: nobody's. */
static int64_t
row_take(etcd_wire *wire)
{
    pthread_mutex_lock(&wire->mutex);
    int64_t id = wire->row_at < wire->row_len ? wire->row[wire->row_at++] : 0;
    pthread_mutex_unlock(&wire->mutex);
    return id;
}

/* A new stream: all are to be answered. */
static int
row_fill_locked(etcd_wire *wire)
{
    int rc = DIBS_OK;
    wire->row_len = wire->row_at = 0;
    for (unsigned i = 0; !rc && i < wire->slot_count; i++) {
        if (wire->slots[i].id)
            rc = row_add_locked(wire, wire->slots[i].id);
    }
    return rc;
}

/* ---- the stream ---- */

static const http_events stream_events;

/* All watches, as messages; for free(). NULL: out of memory. */
static char *
write_all_locked(const etcd_wire *wire, size_t *len)
{
    *len = 0;
    for (unsigned i = 0; i < wire->slot_count; i++) {
        const struct slot *slot = &wire->slots[i];
        if (slot->id)
            *len += dibs__etcd_grpc_create(NULL, &slot->range, slot->id);
    }
    char *bytes = malloc(*len + 1);
    size_t at = 0;
    for (unsigned i = 0; bytes && i < wire->slot_count; i++) {
        const struct slot *slot = &wire->slots[i];
        if (slot->id)
            at += dibs__etcd_grpc_create(bytes + at, &slot->range, slot->id);
    }
    return bytes;
}

/* A member that has lost its leader hears of nothing: it is to end the stream. */
static int
open_locked(etcd_wire *wire)
{
    static const char *const headers[] = { "content-type: application/grpc",
                                           "te: trailers", "hasleader: true", NULL };
    http_request request = { .method = "POST",
                             .path = "/etcdserverpb.Watch/Watch",
                             .headers = headers,
                             .flags = HTTP_2,
                             .delay_ms = wire->pause_ms };
    char *body = row_fill_locked(wire) ? NULL : write_all_locked(wire, &request.body_len);
    if (!body)
        return DIBS_ENOMEM;
    request.body = body;
    int rc = dibs__http_stream_open(wire->http, &request, 0, &stream_events, wire,
                                    &wire->stream);
    free(body);
    return rc;
}

static int
say_create_locked(etcd_wire *wire, const struct slot *slot)
{
    size_t len = dibs__etcd_grpc_create(NULL, &slot->range, slot->id);
    char *bytes = malloc(len);
    int rc = bytes ? row_add_locked(wire, slot->id) : DIBS_ENOMEM;
    if (rc)
        goto out;
    (void)dibs__etcd_grpc_create(bytes, &slot->range, slot->id);
    rc = dibs__http_stream_say(wire->stream, bytes, len);
    if (rc)
        wire->row_len--;
out:
    free(bytes);
    return rc;
}

/* ---- what is heard ---- */

static void
drop_stream(etcd_wire *wire)
{
    pthread_mutex_lock(&wire->mutex);
    if (wire->stream)
        dibs__http_stream_drop(wire->stream);
    pthread_mutex_unlock(&wire->mutex);
}

static void
take_end(etcd_wire *wire, const struct grpc_message *message)
{
    char reason[160];
    size_t len =
        message->reason_len < sizeof reason ? message->reason_len : sizeof reason - 1;
    if (len > 0)
        memcpy(reason, message->reason, len);
    reason[len] = '\0';
    pthread_mutex_lock(&wire->mutex);
    struct slot *slot = find_locked(wire, message->id);
    if (slot)
        free_slot_locked(wire, slot);
    pthread_mutex_unlock(&wire->mutex);
    if (slot)
        wire->events.ended(wire->context, message->id, message->compact_revision, reason);
}

static int
take_events(etcd_wire *wire, struct grpc_message *message)
{
    wire_event event;
    int more;
    while ((more = dibs__etcd_grpc_next(message, &event)) > 0)
        wire->events.happened(wire->context, message->id, &event);
    return more;
}

static int
take_news(etcd_wire *wire, struct grpc_message *message)
{
    pthread_mutex_lock(&wire->mutex);
    wire->pause_ms = 0; /* this server serves us */
    pthread_mutex_unlock(&wire->mutex);
    if (!is_known(wire, message->id))
        return 0;
    if (message->is_created)
        wire->events.made(wire->context, message->id, message->revision);
    return take_events(wire, message);
}

static int
take_message(void *context, const char *bytes, size_t len)
{
    etcd_wire *wire = context;
    struct grpc_message message;
    if (dibs__etcd_grpc_parse(&message, bytes, len) < 0)
        return -1;
    int64_t id = message.is_created ? row_take(wire) : message.id;
    if (message.id < 0)
        message.id = id;
    if (message.id != id)
        return -1;
    if (!message.is_canceled)
        return take_news(wire, &message);
    take_end(wire, &message);
    return 0;
}

static void
stream_heard(void *context, const char *bytes, size_t len)
{
    etcd_wire *wire = context;
    if (wire->is_broken ||
        dibs__etcd_grpc_feed(&wire->heard, bytes, len, take_message, wire) == 0)
        return;
    wire->is_broken = 1;
    drop_stream(wire);
}

/* ---- its end ---- */

static int64_t
longer(int64_t pause_ms)
{
    if (pause_ms == 0)
        return PAUSE_FIRST_MS;
    return 2 * pause_ms < PAUSE_MOST_MS ? 2 * pause_ms : PAUSE_MOST_MS;
}

/* Opens the next one, unless nobody watches, or somebody just did. */
static void
open_next(etcd_wire *wire)
{
    pthread_mutex_lock(&wire->mutex);
    if (!wire->is_closing && !wire->stream && wire->used > 0)
        (void)open_locked(wire);
    wire->pause_ms = longer(wire->pause_ms);
    wire->is_ending = 0;
    pthread_cond_broadcast(&wire->ended);
    pthread_mutex_unlock(&wire->mutex);
}

static void
stream_ended(void *context, int status, uint64_t index)
{
    etcd_wire *wire = context;
    (void)index;
    dibs__etcd_grpc_clear(&wire->heard);
    wire->is_broken = 0;
    pthread_mutex_lock(&wire->mutex);
    http_stream *stream = wire->stream;
    int is_closing = wire->is_closing;
    if (!is_closing) {
        wire->stream = NULL;
        wire->is_ending = 1;
    }
    pthread_mutex_unlock(&wire->mutex);
    if (is_closing)
        return;
    if (status != 0) /* it has no leader, or is about to end */
        dibs__http_avoid(wire->http);
    dibs__http_stream_close(stream);
    wire->events.lost(wire->context);
    open_next(wire);
}

static void
stream_tick(void *context)
{
    etcd_wire *wire = context;
    if (wire->events.tick)
        wire->events.tick(wire->context);
}

static const http_events stream_events = { .heard = stream_heard,
                                           .ended = stream_ended,
                                           .tick = stream_tick };

/* ---- the wire ---- */

int
dibs__etcd_wire_new(etcd_wire **out, const dibs_host *host, http *client,
                    const wire_events *events, void *context)
{
    etcd_wire *wire = host->alloc(sizeof *wire);
    if (!wire)
        return DIBS_ENOMEM;
    wire->host = host;
    wire->http = client;
    wire->events = *events;
    wire->context = context;
    pthread_mutex_init(&wire->mutex, NULL);
    pthread_cond_init(&wire->ended, NULL);
    *out = wire;
    return DIBS_OK;
}

/* Ends the stream, and waits until no event is under way. */
static void
end_stream(etcd_wire *wire)
{
    pthread_mutex_lock(&wire->mutex);
    wire->is_closing = 1;
    while (wire->is_ending)
        pthread_cond_wait(&wire->ended, &wire->mutex);
    pthread_mutex_unlock(&wire->mutex);
    if (wire->stream)
        dibs__http_stream_close(wire->stream);
}

void
dibs__etcd_wire_free(etcd_wire *wire, int forked)
{
    const dibs_host *host = wire->host;
    if (!forked)
        end_stream(wire);
    for (unsigned i = 0; i < wire->slot_count; i++) {
        if (wire->slots[i].id)
            host->free((char *)(uintptr_t)wire->slots[i].range.key);
    }
    if (!forked) {
        pthread_cond_destroy(&wire->ended);
        pthread_mutex_destroy(&wire->mutex);
    }
    dibs__etcd_grpc_free(&wire->heard);
    free(wire->row);
    host->free(wire->slots);
    host->free(wire);
}

void
dibs__etcd_wire_reopen(etcd_wire *wire)
{
    drop_stream(wire);
}

int
dibs__etcd_wire_add(etcd_wire *wire, const wire_range *range, int64_t *id)
{
    struct slot *slot;
    pthread_mutex_lock(&wire->mutex);
    int rc = take_slot_locked(wire, range, &slot);
    if (!rc) {
        rc = wire->stream ? say_create_locked(wire, slot) : open_locked(wire);
        if (rc)
            free_slot_locked(wire, slot);
        else
            *id = slot->id;
    }
    pthread_mutex_unlock(&wire->mutex);
    return rc;
}

void
dibs__etcd_wire_drop(etcd_wire *wire, int64_t id)
{
    char bytes[CANCEL_MAX];
    pthread_mutex_lock(&wire->mutex);
    struct slot *slot = find_locked(wire, id);
    if (slot)
        free_slot_locked(wire, slot);
    /* if that fails, the server tells what nobody wants to know */
    if (slot && wire->stream)
        (void)dibs__http_stream_say(wire->stream, bytes,
                                    dibs__etcd_grpc_cancel(bytes, id));
    pthread_mutex_unlock(&wire->mutex);
}
