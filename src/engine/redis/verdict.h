/* SPDX-License-Identifier: MIT */
/* What a server's answer means for a call. call.c sends and receives. */
#ifndef DIBS_REDIS_VERDICT_H
#define DIBS_REDIS_VERDICT_H

#include "redis.h"

/* A call on its way. */
struct trip {
    struct call *call;
    uint16_t slot;
    uint8_t open;   /* not settled yet */
    uint8_t asking; /* an ASK redirection sent it to `server`: say ASKING first */
    /* how often it went again, and why */
    uint8_t silences, unknown_script, redirections, rethinks;
    resp_server *server; /* NULL: to be found */
    size_t batch;        /* where it travels, */
    unsigned at;         /* and the place of its answer there */
};

/* verdict returns a code as dibs__redis_run does, or VERDICT_AGAIN: it changed the trip so
 * that it may end better. */
#define VERDICT_AGAIN 1
int dibs__redis_verdict(struct redis *redis, struct trip *trip, const redisReply *reply,
                        dibs_error *err);

#endif /* DIBS_REDIS_VERDICT_H */
