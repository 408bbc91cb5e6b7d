/* SPDX-License-Identifier: MIT */
/* Waiting where nobody keeps a queue; notice.h says how. */
#include "notice.h"

/* how often a holder that gives no notice is looked at: at first, more with each look, at
 * last; core spreads the looks of different claims */
#define LOOK_FIRST_MS 100
#define LOOK_STEP_MS 25
#define LOOK_LAST_MS 500

/* what a waiter remembers in own[0]; own[1] counts its looks at a silent holder */
enum {
    ASKED_HERE = 1u << 0, /* the last request was sent while we were listening */
    SAME = 1u << 1,       /* nothing has changed since then, as far as we know */
    DEAF = 1u << 2        /* we may not subscribe */
};

/* FNV-1a: messages find their waiters by the channel they came on */
static uint64_t
hash_of(const char *channel, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)channel[i]) * UINT64_C(0x100000001b3);
    return hash;
}

int
dibs__redis_notice_watch(struct redis *redis, dibs_claim *claim, const char *prefix,
                         dibs_time deadline, dibs_error *err)
{
    struct key channel;
    notice_channel(&channel, prefix, claim->name, claim->name_len);
    struct waiter *waiter =
        dibs__redis_waiter(redis, claim, hash_of(channel.text, channel.len));
    if (!waiter)
        return DIBS_ENOMEM;
    if (waiter->own[0] & ASKED_HERE &&
        (waiter->own[0] & DEAF || dibs__redis_heard_all(waiter))) {
        waiter->own[0] |= SAME;
        return DIBS_OK;
    }
    int rc =
        dibs__redis_listen(redis, waiter, channel.text, channel.len, NULL, deadline, err);
    if (rc != DIBS_EDENIED)
        return rc;
    waiter->own[0] |= DEAF;
    return DIBS_OK;
}

int
dibs__redis_notice_same_as_before(struct redis *redis, dibs_claim *claim)
{
    struct waiter *waiter = waiter_of(claim);
    char message[128];
    if (!waiter || !(waiter->own[0] & SAME))
        return 0;
    waiter->own[0] &= ~(uint64_t)SAME;
    if (!(waiter->own[0] & DEAF) && !dibs__redis_heard_all(waiter))
        return 0;
    if (dibs__redis_take_message(redis, waiter, message) > 0)
        return 0;
    claim->hint_ms = (uint32_t)claim->priv[1];
    return 1;
}

void
dibs__redis_notice_asking(struct redis *redis, dibs_claim *claim)
{
    struct waiter *waiter = waiter_of(claim);
    char message[128];
    if (!waiter)
        return;
    /* what was heard before is answered by this request */
    (void)dibs__redis_take_message(redis, waiter, message);
    waiter->own[0] &= ~(uint64_t)(ASKED_HERE | SAME);
    if (waiter->own[0] & DEAF || dibs__redis_heard_all(waiter))
        waiter->own[0] |= ASKED_HERE;
}

/* how long to leave a holder alone that says nothing when it lets go */
static int64_t
look_after_ms(struct waiter *waiter)
{
    int64_t pause = LOOK_FIRST_MS + LOOK_STEP_MS * (int64_t)waiter->own[1]++;
    return pause < LOOK_LAST_MS ? pause : LOOK_LAST_MS;
}

int
dibs__redis_notice_busy(dibs_claim *claim, int64_t left_ms, int is_ours)
{
    struct waiter *waiter = waiter_of(claim);
    int64_t hint = left_ms < 0 ? 0 : left_ms + 1;
    if (waiter && (!is_ours || waiter->own[0] & DEAF)) {
        int64_t look = look_after_ms(waiter);
        hint = hint && hint < look ? hint : look;
    }
    claim->hint_ms = hint < UINT32_MAX ? (uint32_t)hint : UINT32_MAX;
    claim->position = 0;
    claim->priv[1] = claim->hint_ms;
    return DIBS_EBUSY;
}

void
dibs__redis_notice_heard(struct redis *redis, const char *channel, size_t channel_len,
                         const char *message, size_t message_len)
{
    dibs__redis_tell(redis, hash_of(channel, channel_len), 0, message, message_len);
}

int
dibs__redis_notice_mismatch(struct redis *redis, const struct key *key, uint64_t hash,
                            dibs_time deadline, dibs_error *err)
{
    struct call call = { .key = key, .hash = hash, .flags = CALL_READS };
    redisReply *reply;
    dibs__resp_word(&call.command, "TYPE");
    dibs__resp_bytes(&call.command, key->text, key->len);
    int rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc)
        return DIBS_EMISMATCH; /* with what the server said first, or now */
    if (dibs__resp_is_text(reply, "hash"))
        rc = redis->host->fail(err, DIBS_EMISMATCH,
                               "the key is a hash, as the locks of Redisson are: those "
                               "are shared with layout=redisson");
    else if (dibs__resp_is_text(reply, "none") || dibs__resp_is_text(reply, "string"))
        rc = redis->host->fail(err, DIBS_EUNAVAIL, "the key has just changed its type");
    else
        rc = redis->host->fail(err, DIBS_EMISMATCH,
                               "the key is a %.20s, which no lock of this layout is",
                               reply->str ? reply->str : "thing");
    freeReplyObject(reply);
    return rc;
}
