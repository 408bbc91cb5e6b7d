/* SPDX-License-Identifier: MIT */
/*
 * The layout plain, of which plain.c takes and gives and plain_look.c reports: a string
 * under the lock's own name, with a value nobody else has, that the server expires.
 *
 * Our value is "ID \t pid \t host \t app \t note" without the spaces. The ID is the claim's
 * (dibs__redis_id), which nobody else has; the rest is for people. Who waits for a lock that
 * one of us has turns the ':' of its ID into a ';': only then a release is published. The
 * other programs never look into a value that is not theirs.
 */
#ifndef DIBS_REDIS_PLAIN_H
#define DIBS_REDIS_PLAIN_H

#include "redis.h"

#define PLAIN_CHANNEL "dibs:plain:"

struct plain {
    struct script acquire, renew, release, evict;
    size_t about_len;
    char about[192]; /* what is between ID and note in all values of this client */
};

/* plain_key makes the key of a name: the name itself, as the other programs have it. */
void dibs__redis_plain_key(struct key *key, const char *name, size_t len);

int dibs__redis_plain_list(void *state, dibs_sink *sink, dibs_time deadline,
                           dibs_error *err);
int dibs__redis_plain_inspect(void *state, const char *name, size_t name_len,
                              uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                              dibs_error *err);

#endif /* DIBS_REDIS_PLAIN_H */
