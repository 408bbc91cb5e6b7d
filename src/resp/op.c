/* SPDX-License-Identifier: MIT */
/* Ops: where they come from, and how their owners sleep. See op.h. */
#include "resp/op.h"

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S 1000000000
#define SLEEP_MOST_S 3600

/* room for as many replies; 0 or -1 */
static int
make_room(resp_op *op, unsigned commands, const dibs_host *host)
{
    if (op->replies == NULL) {
        op->replies = op->few;
        op->room = OP_FEW;
    }
    if (commands <= op->room)
        return 0;
    redisReply **replies = host->alloc(commands * sizeof(redisReply *));
    if (replies == NULL)
        return -1;
    if (op->replies != op->few)
        host->free(op->replies);
    op->replies = replies;
    op->room = commands;
    return 0;
}

resp_op *
dibs__op_new(resp_op **spare, unsigned commands, const dibs_host *host)
{
    resp_op *op = *spare;
    if (op != NULL)
        *spare = op->next;
    else
        op = host->alloc(sizeof(*op));
    if (op == NULL)
        return NULL;
    if (make_room(op, commands, host) != 0) {
        dibs__op_recycle(op, spare);
        return NULL;
    }
    atomic_store_explicit(&op->state, OP_PENDING, memory_order_relaxed);
    op->next = NULL;
    op->commands = commands;
    op->ends_write = op->is_waiting = op->is_orphan = op->code = 0;
    return op;
}

static void
drop_replies(resp_op *op)
{
    for (unsigned i = 0; i < op->received; i++)
        freeReplyObject(op->replies[i]);
    op->received = 0;
}

void
dibs__op_recycle(resp_op *op, resp_op **spare)
{
    drop_replies(op);
    op->next = *spare;
    *spare = op;
}

void
dibs__op_free_all(resp_op *op, const dibs_host *host)
{
    while (op != NULL) {
        resp_op *next = op->next;
        drop_replies(op);
        if (op->replies != op->few)
            host->free(op->replies);
        host->free(op);
        op = next;
    }
}

/* ---- sleeping ---- */

static void
futex_wake(_Atomic uint32_t *word)
{
    (void)syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}

void
dibs__op_wake_all(struct wakes *wakes)
{
    for (unsigned i = 0; i < wakes->count; i++)
        futex_wake(wakes->words[i]);
    wakes->count = 0;
}

void
dibs__op_set_state(resp_op *op, enum op_state state, struct wakes *wakes)
{
    _Atomic uint32_t *word = &op->state;
    if (atomic_exchange(word, state) != OP_ASLEEP)
        return;
    if (wakes == NULL || wakes->count == OP_BATCH + 1) {
        futex_wake(word);
        return;
    }
    wakes->words[wakes->count] = word;
    if (state == OP_LEADER) {
        wakes->words[wakes->count] = wakes->words[0];
        wakes->words[0] = word;
    }
    wakes->count++;
}

void
dibs__op_sleep(resp_op *op, dibs_time deadline, const dibs_host *host)
{
    uint32_t expected = OP_PENDING;
    /* fails if it is DONE or LEADER already (R2) */
    if (!atomic_compare_exchange_strong(&op->state, &expected, OP_ASLEEP))
        return;
    while (atomic_load(&op->state) == OP_ASLEEP) {
        struct timespec limit = { SLEEP_MOST_S, 0 };
        dibs_time left = deadline - host->now();
        if (left <= 0)
            return;
        if (left < (dibs_time)SLEEP_MOST_S * NS_PER_S) {
            limit.tv_sec = (time_t)(left / NS_PER_S);
            limit.tv_nsec = (long)(left % NS_PER_S);
        }
        (void)syscall(SYS_futex, &op->state, FUTEX_WAIT_PRIVATE, OP_ASLEEP, &limit, NULL,
                      0);
    }
}
