/* SPDX-License-Identifier: MIT */
/*
 * Waiting where nobody keeps a queue: what the layouts plain and getset share.
 *
 * The programs they share locks with tell nobody when they let go. dibs does: whoever of us
 * releases a name publishes a notice on a channel of that name, in the same script. So a
 * waiter is woken at once if one of ours had the lock, and otherwise looks again now and
 * then, which is what the other programs do as well. All of our processes that wait for a
 * name are woken by its notice, and one of them wins.
 *
 * Core asks twice before it sleeps: before and after `watch`. If we were listening already
 * when we asked for the first time, and have heard nothing since, then the second answer
 * would be the same, and notice_same_as_before saves the round trip.
 */
#ifndef DIBS_REDIS_NOTICE_H
#define DIBS_REDIS_NOTICE_H

#include "redis.h"

/* ---- what became of a claim's attempts, in claim->priv[2] ---- */

enum {
    NOTICE_ASKED = 1u << 0,      /* there was one */
    NOTICE_MAYBE_THERE = 1u << 1 /* one was granted, or not answered */
};

/* notice_remember is called with what an attempt returns, and returns it. */
static inline int
notice_remember(dibs_claim *claim, int rc)
{
    claim->priv[2] |= NOTICE_ASKED;
    if (rc != DIBS_EBUSY && rc != DIBS_EUNAVAIL && rc != DIBS_EMISMATCH)
        claim->priv[2] |= NOTICE_MAYBE_THERE;
    return rc;
}

static inline int
was_asked(const dibs_claim *claim)
{
    return (claim->priv[2] & NOTICE_ASKED) != 0;
}

/* may_be_there: if not, there is nothing to release, and no need to ask the server */
static inline int
may_be_there(const dibs_claim *claim)
{
    return (claim->priv[2] & NOTICE_MAYBE_THERE) != 0;
}

/* ---- waiting ---- */

/* What is published on the channel of a name. */
#define NOTICE "free"

/* channel makes the channel of a name, of the layout that the prefix stands for. */
static inline void
notice_channel(struct key *out, const char *prefix, const char *name, size_t len)
{
    dibs__redis_key_set(out, prefix, name, len, "");
}

/* watch is the layout's slot. Who may not subscribe polls. */
int dibs__redis_notice_watch(struct redis *redis, dibs_claim *claim, const char *prefix,
                             dibs_time deadline, dibs_error *err);

/* same_as_before says that asking again would be answered "busy" as before; the claim's
 * hint is set then. asking must be called before each request that is sent. */
int dibs__redis_notice_same_as_before(struct redis *redis, dibs_claim *claim);
void dibs__redis_notice_asking(struct redis *redis, dibs_claim *claim);

/* busy sets the hint and returns DIBS_EBUSY. The holder's lease ends in left_ms, -1 if
 * never; is_ours: there will be a notice when it lets go. */
int dibs__redis_notice_busy(dibs_claim *claim, int64_t left_ms, int is_ours);

/* heard is the layout's slot. */
void dibs__redis_notice_heard(struct redis *redis, const char *channel,
                              size_t channel_len, const char *message,
                              size_t message_len);

/* mismatch explains a key of another type by its probable owner: DIBS_EMISMATCH, or
 * DIBS_EUNAVAIL if it is that no more. */
int dibs__redis_notice_mismatch(struct redis *redis, const struct key *key, uint64_t hash,
                                dibs_time deadline, dibs_error *err);

#endif /* DIBS_REDIS_NOTICE_H */
