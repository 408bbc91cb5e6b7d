/* SPDX-License-Identifier: MIT */
/* One connection that threads share. Known to the files of this folder only. */
#ifndef DIBS_RESP_LINK_H
#define DIBS_RESP_LINK_H

#include <pthread.h>
#include <stdatomic.h>

#include "resp/resp.h"

typedef struct resp_link resp_link;

/* What is executed in order; see server.c. */
struct lane {
    pthread_mutex_t mutex;    /* for link */
    resp_link *link;          /* where the last op went; NULL: none did yet */
    _Atomic unsigned pending; /* ops that may still be executed */
    _Atomic int
        is_unsettled; /* one ended without an answer, and none was answered since */
};

/* A link is reserved before an op is sent over it: try_reserve only if nobody else uses
 * it; it says whether it did. load counts. The reservation ends with the op. */
resp_link *dibs__link_new(const resp_access *access, const resp_address *address);
void dibs__link_free(resp_link *link, int forked);
/* drain lets the server answer what nobody waits for any more; no call is under way. */
void dibs__link_drain(resp_link *link, dibs_time deadline);
unsigned dibs__link_load(const resp_link *link);
void dibs__link_reserve(resp_link *link);
int dibs__link_try_reserve(resp_link *link);

/* As the functions of a server, in resp.h; the link is reserved, and the op counted as
 * pending in its lane. */
int dibs__link_send(resp_link *link, struct lane *lane, const resp_request *request,
                    dibs_time deadline, resp_op **op, dibs_error *err);
int dibs__link_call(resp_link *link, struct lane *lane, const resp_request *request,
                    dibs_time deadline, redisReply **replies, dibs_error *err);
int dibs__link_is_stalled(const resp_link *link);

#endif /* DIBS_RESP_LINK_H */
