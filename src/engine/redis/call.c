/* SPDX-License-Identifier: MIT */
/*
 * Running commands and scripts on the servers that have their keys, with all that may go
 * wrong on the way.
 *
 * A call's way is a trip. In each round the trips that are still open are routed to
 * servers, put into batches (one for each lane of a server: one request, one write), sent,
 * waited for, and judged by verdict.c: settled, or open for another round. Rounds end, as
 * every reason to go on is counted and the deadline is looked at.
 *
 * Calls of one name (one hash) keep their order. If one has to go again, those behind it
 * go again too: everything we send may be repeated, but not overtaken.
 */
#include <string.h>

#include "verdict.h"

/* so many trips need no memory of their own */
#define FEW 4

/* What goes to one server in one request: all of one lane, which keeps its order. */
struct batch {
    resp_server *server;
    unsigned lane;
    uint64_t hash;
    const struct script
        *carries; /* its text is in there, so its name will do behind it */
    int writes;   /* something for replicas to confirm */
    int only_reads;
    resp_request request;
    resp_op *op;
    int code;
    redisReply **replies;
    redisReply *few[FEW + 2];
};

/* One run of n calls. */
struct run {
    struct redis *redis;
    dibs_time deadline;
    size_t n, batch_count;
    struct trip *trips;
    struct batch *batches;
    redisReply **replies;
    int *codes;
    dibs_error *err; /* NULL once it is filled: the first failure is reported */
};

/* ---- settling ---- */

static void
settle(struct run *run, size_t i, int code, const dibs_error *why)
{
    run->trips[i].open = 0;
    run->codes[i] = code;
    if (code == DIBS_OK)
        return;
    freeReplyObject(run->replies[i]);
    run->replies[i] = NULL;
    if (run->err && why) {
        *run->err = *why;
        run->err = NULL;
    }
}

static void
open_again(struct run *run, size_t i)
{
    freeReplyObject(run->replies[i]);
    run->replies[i] = NULL;
    run->trips[i].open = 1;
}

/* ---- routing ---- */

static void
route(struct run *run, size_t i)
{
    struct trip *trip = &run->trips[i];
    dibs_error why = { 0 };
    if (trip->server)
        return;
    int rc = run->redis->topology->server(run->redis, trip->slot, run->deadline,
                                          &trip->server, &why);
    if (!rc && trip->call->flags & CALL_LASTS && dibs__redis_gate_is_new(run->redis))
        rc = run->redis->host->fail(&why, DIBS_EUNAVAIL,
                                    "there is a new master, and the old one may not have "
                                    "noticed yet (failover=quarantine)");
    if (rc)
        settle(run, i, rc, &why);
}

static struct batch *
batch_for(struct run *run, const struct trip *trip)
{
    unsigned lane = dibs__resp_lane(trip->server, trip->call->hash);
    for (size_t i = 0; i < run->batch_count; i++) {
        if (run->batches[i].server == trip->server && run->batches[i].lane == lane)
            return &run->batches[i];
    }
    struct batch *batch = &run->batches[run->batch_count++];
    batch->server = trip->server;
    batch->lane = lane;
    batch->hash = trip->call->hash;
    batch->carries = NULL;
    batch->writes = 0;
    batch->only_reads = 1;
    memset(&batch->request, 0, sizeof batch->request);
    batch->op = NULL;
    batch->code = DIBS_OK;
    batch->replies = NULL;
    return batch;
}

/* ---- building ---- */

/* By its name, unless the server said that it does not know it: then the first one in a
 * batch brings the text, and if even that did not help, every one does. */
static void
name_script(struct batch *batch, struct trip *trip)
{
    const struct script *script = trip->call->script;
    int is_known =
        !trip->unknown_script || (trip->unknown_script == 1 && batch->carries == script);
    dibs__resp_script_name(&trip->call->command, &script->lua, !is_known);
    if (!is_known)
        batch->carries = script;
}

static int
add_asking(resp_request *request)
{
    resp_command command = { 0 };
    dibs__resp_word(&command, "ASKING");
    return dibs__resp_add(request, &command);
}

static void
put(struct run *run, size_t i)
{
    struct trip *trip = &run->trips[i];
    struct batch *batch = batch_for(run, trip);
    trip->batch = (size_t)(batch - run->batches);
    if (trip->call->script)
        name_script(batch, trip);
    batch->writes |= (trip->call->flags & CALL_WRITES) != 0;
    batch->only_reads &= (trip->call->flags & CALL_READS) != 0;
    if (!batch->code && trip->asking)
        batch->code = add_asking(&batch->request);
    trip->at = batch->request.commands;
    if (!batch->code)
        batch->code = dibs__resp_add(&batch->request, &trip->call->command);
}

/* WAIT stands behind what it waits for, on the same connection: on another one it would
 * say nothing about it. Its limit ends before ours, so that its answer arrives. */
static int
add_wait(const struct run *run, struct batch *batch)
{
    const struct redis *redis = run->redis;
    dibs_time left = (run->deadline - redis->host->now()) / DIBS_MS * 3 / 4;
    resp_command command = { 0 };
    dibs__resp_word(&command, "WAIT");
    dibs__resp_number(&command, redis->replicas);
    dibs__resp_number(&command, left < 1                      ? 1
                                : left < redis->wait_limit_ms ? left
                                                              : redis->wait_limit_ms);
    return dibs__resp_add(&batch->request, &command);
}

/* ---- there and back ---- */

static void
send_batch(struct run *run, struct batch *batch, dibs_error *why)
{
    if (!batch->code && batch->writes && run->redis->replicas)
        batch->code = add_wait(run, batch);
    batch->replies = batch->few;
    if (!batch->code && batch->request.commands > FEW + 2) {
        batch->replies =
            run->redis->host->alloc(batch->request.commands * sizeof(redisReply *));
        if (!batch->replies)
            batch->code = DIBS_ENOMEM;
    }
    if (!batch->code)
        batch->code = dibs__resp_send(batch->server, batch->hash, &batch->request,
                                      run->deadline, &batch->op, why);
}

static void
drop_replies(struct batch *batch)
{
    for (unsigned i = 0; batch->op && !batch->code && i < batch->request.commands; i++)
        freeReplyObject(batch->replies[i]);
}

static void
end_batch(const struct run *run, struct batch *batch)
{
    drop_replies(batch);
    if (batch->replies != batch->few)
        run->redis->host->free(batch->replies);
    dibs__resp_request_free(&batch->request);
}

/* ---- judging ---- */

/* WAIT counts the replicas that have all that was written on its connection so far. */
static int
is_confirmed(const struct run *run, const struct batch *batch, dibs_error *why)
{
    const struct redis *redis = run->redis;
    if (!batch->writes || !redis->replicas)
        return 1;
    int64_t count = dibs__resp_integer(batch->replies[batch->request.commands - 1], 0);
    if (count >= (int64_t)redis->replicas)
        return 1;
    (void)redis->host->fail(why, DIBS_EUNKNOWN,
                            "done on the master, but only %lld of %u replicas confirmed "
                            "it",
                            (long long)count, redis->replicas);
    return 0;
}

static void
judge_answer(struct run *run, size_t i, struct batch *batch)
{
    struct trip *trip = &run->trips[i];
    dibs_error why;
    why.code = DIBS_OK;
    run->replies[i] = batch->replies[trip->at];
    batch->replies[trip->at] = NULL;
    int rc = dibs__redis_verdict(run->redis, trip, run->replies[i], &why);
    if (rc == VERDICT_AGAIN) {
        open_again(run, i);
        return;
    }
    if (!rc && trip->call->flags & CALL_WRITES && !is_confirmed(run, batch, &why))
        rc = DIBS_EUNKNOWN;
    settle(run, i, rc, &why);
}

/* No answer. What was surely not sent goes again, once; what may have been done does not,
 * unless it changes nothing. */
static void
judge_silence(struct run *run, size_t i, const struct batch *batch, const dibs_error *why)
{
    struct redis *redis = run->redis;
    struct trip *trip = &run->trips[i];
    int may_repeat = batch->code == DIBS_EUNAVAIL ||
                     (batch->code == DIBS_EUNKNOWN && batch->only_reads);
    if (batch->code == DIBS_EUNAVAIL || batch->code == DIBS_EUNKNOWN)
        redis->topology->rethink(redis, trip->slot, trip->server, NULL);
    if (may_repeat && trip->silences++ == 0 && redis->host->now() < run->deadline) {
        trip->server = NULL;
        trip->asking = 0;
        open_again(run, i);
        return;
    }
    settle(run, i, batch->code, why);
}

static void
judge_batch(struct run *run, size_t index, const dibs_error *why)
{
    struct batch *batch = &run->batches[index];
    if (batch->code == DIBS_EUNAVAIL || batch->code == DIBS_EUNKNOWN)
        dibs__redis_check_listener(run->redis);
    for (size_t i = 0; i < run->n; i++) {
        if (!run->trips[i].open || run->trips[i].batch != index)
            continue;
        if (batch->code)
            judge_silence(run, i, batch, why);
        else
            judge_answer(run, i, batch);
    }
    end_batch(run, batch);
}

/* what is behind an open trip of the same name goes again as well */
static int
keep_order(struct run *run)
{
    int open = 0;
    for (size_t i = 0; i < run->n; i++) {
        if (!run->trips[i].open)
            continue;
        open = 1;
        for (size_t j = i + 1; j < run->n; j++) {
            if (!run->trips[j].open &&
                run->trips[j].call->hash == run->trips[i].call->hash)
                open_again(run, j);
        }
    }
    return open;
}

/* ---- a run ---- */

/* All are sent before any is waited for, so that servers work side by side. */
static int
go_round(struct run *run)
{
    dibs_error why;
    why.code = DIBS_OK;
    why.text[0] = '\0';
    run->batch_count = 0;
    for (size_t i = 0; i < run->n; i++) {
        if (run->trips[i].open)
            route(run, i);
        if (run->trips[i].open)
            put(run, i);
    }
    for (size_t i = 0; i < run->batch_count; i++)
        send_batch(run, &run->batches[i], &why);
    for (size_t i = 0; i < run->batch_count; i++) {
        struct batch *batch = &run->batches[i];
        if (!batch->code)
            batch->code = dibs__resp_wait(batch->op, run->deadline, batch->replies, &why);
        judge_batch(run, i, &why);
    }
    return keep_order(run);
}

static void
start(struct run *run, struct call *calls)
{
    const struct redis *redis = run->redis;
    for (size_t i = 0; i < run->n; i++) {
        run->trips[i] = (struct trip){ .call = &calls[i], .open = 1 };
        run->replies[i] = NULL;
        if (redis->is_cluster && calls[i].key)
            run->trips[i].slot = dibs__redis_slot(calls[i].key->text, calls[i].key->len);
    }
    while (go_round(run))
        ;
}

static void
fail_all(const struct run *run, int code)
{
    for (size_t i = 0; i < run->n; i++) {
        run->replies[i] = NULL;
        run->codes[i] = code;
    }
}

void
dibs__redis_run_many(struct redis *redis, struct call *calls, size_t n,
                     dibs_time deadline, redisReply **replies, int *codes,
                     dibs_error *err)
{
    struct trip few_trips[FEW];
    struct batch few_batches[FEW];
    struct run run = {
        redis, deadline, n, 0, few_trips, few_batches, replies, codes, err
    };
    if (n > FEW) {
        run.trips = redis->host->alloc(n * sizeof *run.trips);
        run.batches = redis->host->alloc(n * sizeof *run.batches);
    }
    if (run.trips && run.batches)
        start(&run, calls);
    else
        fail_all(&run, DIBS_ENOMEM);
    if (n > FEW) {
        redis->host->free(run.trips);
        redis->host->free(run.batches);
    }
}

int
dibs__redis_run(struct redis *redis, struct call *call, dibs_time deadline,
                redisReply **reply, dibs_error *err)
{
    int code;
    dibs__redis_run_many(redis, call, 1, deadline, reply, &code, err);
    return code;
}
