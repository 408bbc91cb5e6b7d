/* SPDX-License-Identifier: MIT */
/* The messages of etcd's watch stream, as bytes. Known to wire.c, and to tests. */
#ifndef DIBS_ETCD_GRPC_H
#define DIBS_ETCD_GRPC_H

#include "wire.h"

/* A message in its frame: how many bytes, and the bytes, into `out` unless that is NULL. */
size_t dibs__etcd_grpc_create(char *out, const wire_range *range, int64_t id);
size_t dibs__etcd_grpc_cancel(char *out, int64_t id);

#define GRPC_HEAD 5                         /* bytes before a message */
#define GRPC_MESSAGE_MAX ((size_t)64 << 20) /* longer ones are refused */

/* frame: the length of the message that follows its head, or -1: it is none we can read. */
int64_t dibs__etcd_grpc_frame(const char head[GRPC_HEAD]);

/* The stream, put together from pieces of any size. feed gives `take` each message that is
 * complete: 0, or -1: `take` returned not 0, these are no frames, or memory ran out; then
 * nothing more is to be fed before clear, which forgets what is left of a message. Zero it
 * first; free after the last. */
struct grpc_stream {
    char *kept; /* what came, and is not yet a whole message */
    size_t len, room;
};
typedef int grpc_take(void *context, const char *message, size_t len);
int dibs__etcd_grpc_feed(struct grpc_stream *stream, const char *bytes, size_t len,
                         grpc_take *take, void *context);
void dibs__etcd_grpc_clear(struct grpc_stream *stream);
void dibs__etcd_grpc_free(struct grpc_stream *stream);

/* What the server says; texts point into the message. */
struct grpc_message {
    int64_t id, revision, compact_revision;
    int is_created, is_canceled;
    const char *reason;
    size_t reason_len;
    const char *events; /* where the first one may be; for next */
    size_t left;
};

/* parse reads a message; next takes one event out of it. 1: there is one; 0: there is none
 * left; -1: that is no such message. */
int dibs__etcd_grpc_parse(struct grpc_message *out, const char *bytes, size_t len);
int dibs__etcd_grpc_next(struct grpc_message *message, wire_event *out);

#endif /* DIBS_ETCD_GRPC_H */
