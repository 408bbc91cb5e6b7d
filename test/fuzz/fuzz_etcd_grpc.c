/* SPDX-License-Identifier: MIT */
/* Messages of etcd's watch stream (engine/etcd/grpc.c): nothing is read beyond the message,
 * and what we write has the length that was said. */
#include <stdlib.h>
#include <string.h>

#include "engine/etcd/grpc.h"
#include "fuzz.h"

static int
is_within(const char *part, size_t len, const char *bytes, size_t size)
{
    return len == 0 || (part >= bytes && len <= size && part + len <= bytes + size);
}

static void
check_events(struct grpc_message *message, const char *bytes, size_t size)
{
    wire_event event;
    size_t count = 0;
    while (dibs__etcd_grpc_next(message, &event) > 0) {
        HOLDS(is_within(event.key, event.key_len, bytes, size));
        HOLDS(event.is_put == 0 || event.is_put == 1);
        HOLDS(is_within(message->events, message->left, bytes, size));
        count++;
    }
    HOLDS(count <= size);
}

static void
check_message(const char *bytes, size_t size)
{
    struct grpc_message message;
    memset(&message, 0x5a, sizeof message);
    struct grpc_message before = message;
    if (dibs__etcd_grpc_parse(&message, bytes, size) != 0) {
        HOLDS(memcmp(&message, &before, sizeof message) == 0);
        return;
    }
    HOLDS(is_within(message.reason, message.reason_len, bytes, size));
    check_events(&message, bytes, size);
}

/* the head says how long it is; and it is a message, of one field, by our own reader */
static void
check_frame(const char *frame, size_t len)
{
    struct grpc_message message;
    HOLDS(len >= GRPC_HEAD);
    HOLDS(dibs__etcd_grpc_frame(frame) == (int64_t)(len - GRPC_HEAD));
    HOLDS(dibs__etcd_grpc_parse(&message, frame + GRPC_HEAD, len - GRPC_HEAD) == 0);
}

static void
check_written(const char *bytes, size_t size)
{
    wire_range range = { .key = bytes, .key_len = size / 2 };
    int64_t id = (int64_t)size << 24;
    range.end = size % 3 ? bytes + size / 2 : NULL;
    range.end_len = size - size / 2;
    range.filters = (unsigned)size % 4;
    size_t len = dibs__etcd_grpc_create(NULL, &range, id);
    char *frame = malloc(len);
    HOLDS(dibs__etcd_grpc_create(frame, &range, id) == len);
    check_frame(frame, len);
    free(frame);
    len = dibs__etcd_grpc_cancel(NULL, id);
    frame = malloc(len);
    HOLDS(dibs__etcd_grpc_cancel(frame, id) == len);
    check_frame(frame, len);
    free(frame);
}

/* ---- pieces ---- */

struct heard {
    uint64_t hash; /* of all messages, with their lengths */
    size_t count;
};

static int
take(void *context, const char *message, size_t len)
{
    struct heard *heard = context;
    heard->hash = (heard->hash ^ len) * UINT64_C(0x100000001b3);
    for (size_t i = 0; i < len; i++)
        heard->hash = (heard->hash ^ (unsigned char)message[i]) * UINT64_C(0x100000001b3);
    return ++heard->count > 1000;
}

static struct heard
hear(const char *bytes, size_t size, size_t step)
{
    struct grpc_stream stream = { 0 };
    struct heard heard = { 0 };
    int rc = 0;
    for (size_t at = 0; at < size && !rc; at += step) {
        size_t len = size - at < step ? size - at : step;
        rc = dibs__etcd_grpc_feed(&stream, bytes + at, len, take, &heard);
        HOLDS(stream.len <= at + len);
    }
    dibs__etcd_grpc_free(&stream);
    return heard;
}

/* the same messages, in whatever pieces they come */
static void
check_pieces(const char *bytes, size_t size)
{
    struct heard whole = hear(bytes, size, size + 1);
    struct heard pieces = hear(bytes, size, 1 + size % 7);
    HOLDS(whole.count == pieces.count && whole.hash == pieces.hash);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = fuzz_copy(data, size);
    if (size >= GRPC_HEAD) {
        int64_t len = dibs__etcd_grpc_frame(bytes);
        HOLDS(len >= -1 && len <= (int64_t)GRPC_MESSAGE_MAX);
    }
    check_message(bytes, size);
    check_pieces(bytes, size);
    check_written(bytes, size);
    free(bytes);
    return 0;
}
