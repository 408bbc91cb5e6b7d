/* SPDX-License-Identifier: MIT */
/*
 * Renewing many claims by a script that answers 1 (renewed) or 0 (not ours any more), in as
 * few round trips as there can be. What plain and getset share.
 */
#ifndef DIBS_REDIS_RENEWAL_H
#define DIBS_REDIS_RENEWAL_H

#include "redis.h"

/* A claim's ID with a tab behind it, which is how its values begin. */
#define MARK_MAX (ID_MAX + 1)
static inline size_t
mark_of(const struct redis *redis, const dibs_claim *claim, char out[MARK_MAX])
{
    size_t len = dibs__redis_id(redis, claim, out);
    out[len] = '\t';
    return len + 1;
}

/* What is under a key, or how it begins. */
#define VALUE_MAX 512
struct value {
    size_t len;
    char text[VALUE_MAX];
};

/* What the words of one renewal may point to. */
struct renewal {
    struct key keys[2];
    struct value value;
};

/* renewal_maker makes the call that renews a claim. */
typedef void renewal_maker(struct redis *redis, const dibs_claim *claim,
                           struct renewal *renewal, struct call *call);

/* renew_all is the layout's slot. */
void dibs__redis_renew_all(struct redis *redis, renewal_maker *make,
                           dibs_claim *const *claims, int *results, size_t n,
                           dibs_time deadline, dibs_error *err);

#endif /* DIBS_REDIS_RENEWAL_H */
