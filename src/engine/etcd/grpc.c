/* SPDX-License-Identifier: MIT */
/*
 * The messages of etcd's watch stream: protocol buffers, by hand, as there are only a few.
 * A message is a row of fields; a field is a number, a kind, and a value. What we do not
 * know is skipped. Nothing is taken for granted of what the server sends: every length is
 * checked against what is there.
 *
 * Parts: writing; frames; reading fields; reading messages.
 */
#include "grpc.h"

#include <stdlib.h>
#include <string.h>

/* kinds of fields */
enum { VARINT = 0, FIXED_64 = 1, BYTES = 2, FIXED_32 = 5 };

/* numbers of fields, as etcd's rpc.proto has them */
enum { REQUEST_CREATE = 1, REQUEST_CANCEL = 2 };
enum { CREATE_KEY = 1, CREATE_END = 2, CREATE_FILTERS = 5, CREATE_ID = 7 };
enum { CANCEL_ID = 1 };
enum {
    RESPONSE_HEADER = 1,
    RESPONSE_ID = 2,
    RESPONSE_CREATED = 3,
    RESPONSE_CANCELED = 4,
    RESPONSE_COMPACT = 5,
    RESPONSE_REASON = 6,
    RESPONSE_EVENTS = 11
};
enum { HEADER_REVISION = 3 };
enum { EVENT_TYPE = 1, EVENT_KV = 2, EVENT_IS_DELETE = 1 };
enum { KV_KEY = 1, KV_MOD = 3 };
enum { FILTER_NO_PUT = 0, FILTER_NO_DELETE = 1 };

/* ---- writing ---- */

/* Counts, and writes if there is where to. */
struct writer {
    char *out; /* NULL: counts only */
    size_t len;
};

static void
write_bytes(struct writer *to, const void *bytes, size_t len)
{
    if (to->out && len > 0)
        memcpy(to->out + to->len, bytes, len);
    to->len += len;
}

static void
write_varint(struct writer *to, uint64_t value)
{
    do {
        char byte = (char)((value & 0x7f) | (value > 0x7f ? 0x80 : 0));
        write_bytes(to, &byte, 1);
        value >>= 7;
    } while (value > 0);
}

static void
write_number(struct writer *to, unsigned field, uint64_t value)
{
    write_varint(to, field << 3 | VARINT);
    write_varint(to, value);
}

static void
write_text(struct writer *to, unsigned field, const char *bytes, size_t len)
{
    write_varint(to, field << 3 | BYTES);
    write_varint(to, len);
    write_bytes(to, bytes, len);
}

static void
write_create(struct writer *to, const wire_range *range, int64_t id)
{
    write_text(to, CREATE_KEY, range->key, range->key_len);
    if (range->end)
        write_text(to, CREATE_END, range->end, range->end_len);
    if (range->filters & WIRE_NO_PUT)
        write_number(to, CREATE_FILTERS, FILTER_NO_PUT);
    if (range->filters & WIRE_NO_DELETE)
        write_number(to, CREATE_FILTERS, FILTER_NO_DELETE);
    write_number(to, CREATE_ID, (uint64_t)id);
}

/* The head of a frame: not compressed, and how long it is. */
static void
write_head(struct writer *to, size_t len)
{
    const char head[GRPC_HEAD] = { 0, (char)(len >> 24), (char)(len >> 16),
                                   (char)(len >> 8), (char)len };
    write_bytes(to, head, sizeof head);
}

/* The head of a request that is a frame of one field, which is `len` bytes long. */
static void
write_request(struct writer *to, unsigned field, size_t len)
{
    struct writer inner = { NULL, 0 };
    write_varint(&inner, field << 3 | BYTES);
    write_varint(&inner, len);
    write_head(to, inner.len + len);
    write_varint(to, field << 3 | BYTES);
    write_varint(to, len);
}

size_t
dibs__etcd_grpc_create(char *out, const wire_range *range, int64_t id)
{
    struct writer to = { out, 0 }, inner = { NULL, 0 };
    write_create(&inner, range, id);
    write_request(&to, REQUEST_CREATE, inner.len);
    write_create(&to, range, id);
    return to.len;
}

size_t
dibs__etcd_grpc_cancel(char *out, int64_t id)
{
    struct writer to = { out, 0 }, inner = { NULL, 0 };
    write_number(&inner, CANCEL_ID, (uint64_t)id);
    write_request(&to, REQUEST_CANCEL, inner.len);
    write_number(&to, CANCEL_ID, (uint64_t)id);
    return to.len;
}

/* ---- frames ---- */

int64_t
dibs__etcd_grpc_frame(const char head[GRPC_HEAD])
{
    size_t len = 0;
    for (int i = 1; i < GRPC_HEAD; i++)
        len = len << 8 | (unsigned char)head[i];
    return head[0] == 0 && len <= GRPC_MESSAGE_MAX ? (int64_t)len : -1;
}

/* Takes what is complete; returns how many bytes that was, or -1. */
static int64_t
take_frames(const char *bytes, size_t len, grpc_take *take, void *context)
{
    size_t at = 0;
    while (len - at >= GRPC_HEAD) {
        int64_t size = dibs__etcd_grpc_frame(bytes + at);
        if (size < 0)
            return -1;
        if ((size_t)size > len - at - GRPC_HEAD)
            break;
        if (take(context, bytes + at + GRPC_HEAD, (size_t)size) != 0)
            return -1;
        at += GRPC_HEAD + (size_t)size;
    }
    return (int64_t)at;
}

static int
keep(struct grpc_stream *stream, const char *bytes, size_t len)
{
    if (stream->len + len > stream->room) {
        size_t room = 2 * (stream->len + len);
        char *kept = realloc(stream->kept, room);
        if (!kept)
            return -1;
        stream->kept = kept;
        stream->room = room;
    }
    memcpy(stream->kept + stream->len, bytes, len);
    stream->len += len;
    return 0;
}

/* What is complete is taken from where it is; only the rest is copied. */
int
dibs__etcd_grpc_feed(struct grpc_stream *stream, const char *bytes, size_t len,
                     grpc_take *take, void *context)
{
    int64_t taken = stream->len == 0 ? take_frames(bytes, len, take, context) : 0;
    if (taken < 0)
        return -1;
    if ((size_t)taken == len)
        return 0;
    int is_new = stream->len == 0;
    if (keep(stream, bytes + taken, len - (size_t)taken) != 0)
        return -1;
    if (is_new)
        return 0;
    taken = take_frames(stream->kept, stream->len, take, context);
    if (taken < 0)
        return -1;
    stream->len -= (size_t)taken;
    memmove(stream->kept, stream->kept + taken, stream->len);
    return 0;
}

void
dibs__etcd_grpc_clear(struct grpc_stream *stream)
{
    stream->len = 0;
}

void
dibs__etcd_grpc_free(struct grpc_stream *stream)
{
    free(stream->kept);
}

/* ---- reading fields ---- */

struct field {
    uint64_t number; /* its number */
    unsigned kind;
    uint64_t value; /* of VARINT */
    const char *bytes;
    size_t len;
};

static int
read_varint(const char **at, size_t *left, uint64_t *out)
{
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64 && *left > 0; shift += 7) {
        unsigned char byte = (unsigned char)*(*at)++;
        (*left)--;
        value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80)) {
            *out = value;
            return 1;
        }
    }
    return -1;
}

static int
read_value(struct field *out, const char **at, size_t *left)
{
    uint64_t len = out->kind == FIXED_64 ? 8 : 4;
    if (out->kind == VARINT)
        return read_varint(at, left, &out->value);
    if (out->kind == BYTES && read_varint(at, left, &len) < 0)
        return -1;
    if ((out->kind != BYTES && out->kind != FIXED_64 && out->kind != FIXED_32) ||
        len > *left)
        return -1;
    out->bytes = *at;
    out->len = (size_t)len;
    *at += len;
    *left -= (size_t)len;
    return 1;
}

/* 1: a field; 0: the end; -1: neither */
static int
read_field(struct field *out, const char **at, size_t *left)
{
    uint64_t tag;
    memset(out, 0, sizeof *out);
    if (*left == 0)
        return 0;
    if (read_varint(at, left, &tag) < 0)
        return -1;
    out->number = tag >> 3;
    out->kind = tag & 7;
    return read_value(out, at, left);
}

static int
is_field(const struct field *field, unsigned number, unsigned kind)
{
    return field->number == number && field->kind == kind;
}

/* ---- reading messages ---- */

static int
read_header(struct grpc_message *out, const char *at, size_t left)
{
    struct field field;
    int more;
    while ((more = read_field(&field, &at, &left)) > 0) {
        if (is_field(&field, HEADER_REVISION, VARINT))
            out->revision = (int64_t)field.value;
    }
    return more;
}

static int
read_part(struct grpc_message *out, const struct field *field)
{
    if (is_field(field, RESPONSE_HEADER, BYTES))
        return read_header(out, field->bytes, field->len);
    if (is_field(field, RESPONSE_ID, VARINT)) {
        out->id = (int64_t)field->value;
    } else if (is_field(field, RESPONSE_CREATED, VARINT)) {
        out->is_created = field->value != 0;
    } else if (is_field(field, RESPONSE_CANCELED, VARINT)) {
        out->is_canceled = field->value != 0;
    } else if (is_field(field, RESPONSE_COMPACT, VARINT)) {
        out->compact_revision = (int64_t)field->value;
    } else if (is_field(field, RESPONSE_REASON, BYTES)) {
        out->reason = field->bytes;
        out->reason_len = field->len;
    }
    return 0;
}

int
dibs__etcd_grpc_parse(struct grpc_message *out, const char *bytes, size_t len)
{
    struct field field;
    struct grpc_message message = { .events = bytes, .left = len };
    int more;
    while ((more = read_field(&field, &bytes, &len)) > 0) {
        if (read_part(&message, &field) < 0)
            return -1;
    }
    if (more == 0)
        *out = message;
    return more;
}

static int
read_kv(wire_event *out, const char *at, size_t left)
{
    struct field field;
    int more;
    while ((more = read_field(&field, &at, &left)) > 0) {
        if (is_field(&field, KV_KEY, BYTES)) {
            out->key = field.bytes;
            out->key_len = field.len;
        } else if (is_field(&field, KV_MOD, VARINT)) {
            out->mod_revision = (int64_t)field.value;
        }
    }
    return more;
}

static int
read_event(wire_event *out, const char *at, size_t left)
{
    struct field field;
    int more;
    *out = (wire_event){ .is_put = 1, .key = "" };
    while ((more = read_field(&field, &at, &left)) > 0) {
        if (is_field(&field, EVENT_TYPE, VARINT))
            out->is_put = field.value != EVENT_IS_DELETE;
        else if (is_field(&field, EVENT_KV, BYTES) &&
                 read_kv(out, field.bytes, field.len) < 0)
            return -1;
    }
    return more;
}

int
dibs__etcd_grpc_next(struct grpc_message *message, wire_event *out)
{
    struct field field;
    int more;
    while ((more = read_field(&field, &message->events, &message->left)) > 0) {
        if (is_field(&field, RESPONSE_EVENTS, BYTES))
            return read_event(out, field.bytes, field.len) < 0 ? -1 : 1;
    }
    return more;
}
