/* SPDX-License-Identifier: MIT */
/* Renewing many claims at once; see renewal.h. */
#include "renewal.h"

#define BATCH_MAX 128

/* room for one renewal of a batch; too much for a stack */
struct batch {
    struct call *calls;
    struct renewal *renewals;
    redisReply **replies;
};

static void
free_batch(const dibs_host *host, struct batch *batch)
{
    host->free(batch->calls);
    host->free(batch->renewals);
    host->free(batch->replies);
}

static int
make_batch(const dibs_host *host, struct batch *batch, size_t size)
{
    batch->calls = host->alloc(size * sizeof *batch->calls);
    batch->renewals = host->alloc(size * sizeof *batch->renewals);
    batch->replies = host->alloc(size * sizeof(redisReply *));
    if (batch->calls && batch->renewals && batch->replies)
        return DIBS_OK;
    free_batch(host, batch);
    return DIBS_ENOMEM;
}

/* another value, no value, or a value of another type: it is not ours any more */
static int
result_of(int code, const redisReply *reply)
{
    if (code == DIBS_OK)
        return dibs__resp_integer(reply, 0) == 1 ? DIBS_OK : DIBS_ELOST;
    if (code == DIBS_EMISMATCH)
        return DIBS_ELOST;
    return code == DIBS_EUNKNOWN ? DIBS_EUNKNOWN : DIBS_EUNAVAIL;
}

void
dibs__redis_renew_all(struct redis *redis, renewal_maker *make, dibs_claim *const *claims,
                      int *results, size_t n, dibs_time deadline, dibs_error *err)
{
    struct batch batch;
    size_t size = n < BATCH_MAX ? n : BATCH_MAX;
    if (make_batch(redis->host, &batch, size) != DIBS_OK) {
        for (size_t i = 0; i < n; i++)
            results[i] = DIBS_EUNAVAIL; /* core tries again */
        return;
    }
    for (size_t at = 0; at < n; at += size) {
        size_t count = n - at < size ? n - at : size;
        for (size_t i = 0; i < count; i++) {
            make(redis, claims[at + i], &batch.renewals[i], &batch.calls[i]);
            batch.replies[i] = NULL;
        }
        dibs__redis_run_many(redis, batch.calls, count, deadline, batch.replies,
                             results + at, err);
        for (size_t i = 0; i < count; i++) {
            results[at + i] = result_of(results[at + i], batch.replies[i]);
            if (batch.replies[i])
                freeReplyObject(batch.replies[i]);
        }
    }
    free_batch(redis->host, &batch);
}
