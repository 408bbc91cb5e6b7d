/* SPDX-License-Identifier: MIT */
/*
 * The watches of etcd, on the wire: one gRPC stream per client, on which any number of
 * watches are made and ended. It is opened with the first of them, and opened again, at
 * another server, when it is lost. wire.c has the stream, grpc.c the few messages of it.
 */
#ifndef DIBS_ETCD_WIRE_H
#define DIBS_ETCD_WIRE_H

#include "http/http.h"

typedef struct etcd_wire etcd_wire;

enum wire_filter {
    WIRE_NO_PUT = 1u << 0,   /* only what is deleted is told */
    WIRE_NO_DELETE = 1u << 1 /* only what is put */
};

/* What is watched: a key, or all from it up to `end`. Any bytes. The watch begins "now":
 * when it was made, nothing is missed from then on, and nothing of before is told. */
typedef struct wire_range {
    const char *key;
    size_t key_len;
    const char *end; /* NULL: that key only */
    size_t end_len;
    unsigned filters; /* enum wire_filter */
} wire_range;

typedef struct wire_event {
    int is_put; /* else it was deleted, or its lease is over */
    const char *key;
    size_t key_len;
    int64_t mod_revision;
} wire_event;

/* Called on the thread of the streams, under no mutex of the wire's, so they may add and
 * drop watches; nothing that waits. Of a watch that was dropped they may still tell what
 * was under way.
 *   made: the server watches it from this revision on; also each time after `lost`.
 *   happened: something was put or deleted there.
 *   ended: the server ended it (compact_revision is not 0: what it stood at is compacted;
 *     else the reason says why, "permission denied" for one). It is dropped already.
 *   lost: the connection was, and so may have been any event. All watches are being made
 *     again, so `made` follows for each; who waits looks for himself after that.
 *   tick: a second or two have passed, or less; may be NULL. */
typedef struct wire_events {
    void (*made)(void *context, int64_t id, int64_t revision);
    void (*happened)(void *context, int64_t id, const wire_event *event);
    void (*ended)(void *context, int64_t id, int64_t compact_revision,
                  const char *reason);
    void (*lost)(void *context);
    void (*tick)(void *context);
} wire_events;

/* DIBS_OK, ENOMEM. http, events and context outlive the wire. free: no call is under way;
 * afterwards no event is. Before dibs__http_free. */
int dibs__etcd_wire_new(etcd_wire **out, const dibs_host *host, http *http,
                        const wire_events *events, void *context);
void dibs__etcd_wire_free(etcd_wire *wire, int forked);

/* We have authenticated ourselves, and http has a new header for it: the stream there is, if
 * any, is opened again with it. `lost` follows, and then `made`. Does not wait. */
void dibs__etcd_wire_reopen(etcd_wire *wire);

/* add asks for a watch, and returns before the server answers; its id is above 0, and never
 * used again. drop ends one; one that is not there (any more) is not an error. Any thread,
 * also events. They wait for no event, so a mutex that events take may be held: then the id
 * is written down before the first of them comes. DIBS_OK, ENOMEM. */
int dibs__etcd_wire_add(etcd_wire *wire, const wire_range *range, int64_t *id);
void dibs__etcd_wire_drop(etcd_wire *wire, int64_t id);

#endif /* DIBS_ETCD_WIRE_H */
