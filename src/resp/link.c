/* SPDX-License-Identifier: MIT */
/*
 * One connection that threads share, without a thread of its own.
 *
 * How it works
 *   Who has a request appends it to `out`, and itself to the queue of those who wait for
 *   replies; both in the same order, for the server answers in order. Then there are two
 *   roles, and at most one thread has each. The writer sends what is in `out`, also what
 *   others add meanwhile. The reader receives, and gives each reply to the op it belongs
 *   to. It is always one of those who wait; when its own replies are there it passes the
 *   role on to another (the leader) and goes. The rest sleep on a word in their op.
 *   A lone caller is writer and reader: it costs one send and one recv. When many come
 *   at once, the reader that just woke others lets them append before it sends for all.
 *   And while some writes are unanswered (`flights`), those who come leave it to the
 *   reader, which sends when it has received: fewer and larger writes cost both sides
 *   less, if the server is so near that nobody waits long for that. A far one is sent
 *   everything at once.
 *
 * What always holds
 *   I1 Somebody who waits in dibs__resp_wait is the reader, or there is a reader, or a
 *      leader that is on its way. An op whose owner is busy elsewhere is never made leader:
 *      it would keep the others waiting.
 *   I2 When the mutex is free and there is something to be sent, there is a writer, or a
 *      reader that is not parked (it sends before it parks), or one that is parked and due
 *      a reply to several writes, or the socket is full and whoever reads watches for room
 *      as well, or nobody waits at all.
 *   I3 The reader's own op is in the queue while it is parked, so something is due.
 *
 * What can go wrong between two threads, and why it does not
 *   R1 An op is answered while its owner is still sending. So the owner looks at `state`
 *      under the mutex before it takes the reader's role or sleeps.
 *   R2 An owner is made leader before it sleeps. The role is passed in `state`, by value:
 *      then the owner's exchange of PENDING for ASLEEP fails, and it sees LEADER.
 *   R3 A leader runs at once. All that was received has been parsed and given away before
 *      `state` says LEADER, and what is incomplete is in the parser, which the role owns.
 *   R4 After `state` says DONE the owner may end the op, and the op may be used again. A
 *      waker uses only the address, which stays mapped until the link is freed; a wake-up
 *      that hits another op is spurious, and every sleep looks at its word again.
 *   R5 The reader finds a writer at work and does not send. The writer looks at `out` again
 *      under the mutex before it gives up the role. How long it writes for others is
 *      bounded by their number, and it never waits: see R11.
 *   R6 What timed out may still be executed: so what must not overtake it is sent behind
 *      it on the same link (server.c sees to that). If the connection is given up, the next one first makes the server close it
 *      (CLIENT KILL), and only then is anything sent. See remember_past_locked.
 *   R7 A deadline passes. What was not handed to the kernel yet is taken back; else the op
 *      stays in the queue as an orphan, and its replies are dropped. A reader whose time is
 *      up passes the role on as if it had been served.
 *   R8 The connection ends. Reader and writer may both find out; who finds out breaks it
 *      off, which ends the other's system call, and the last of them to leave cleans up:
 *      sent ops are of unknown outcome, the others were surely not sent.
 *   R9 After a fork the child only closes the descriptor (dibs__link_free).
 *   R10 A thread that is cancelled would take its role with it: no cancellation in here.
 *   R11 Sending never waits. If the socket is full, the reader waits for both directions;
 *      one that is parked already looks after WIRE_SLICE at the latest.
 *   R12 A command that waits in the server (BLPOP, SUBSCRIBE) would make all others wait:
 *      such commands have no place here. WAIT is the exception, if its limit is short.
 *
 * Parts: the queue; connecting; the end of a connection; writing; reading; sending; waiting;
 * the ways in; choosing.
 */
#include "resp/link.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "resp/op.h"
#include "util/wait.h"
#include "resp/wire.h"

#define SILENCE_MOST (10000 * DIBS_MS) /* with replies due: the server is not there */
#define SILENCE_SOME (1000 * DIBS_MS)  /* enough, if somebody's time is up as well */
#define IDLE (5 * DIBS_MS)             /* after that we look before we send */
#define OUT_MOST ((size_t)16 << 20)
#define FLIGHTS_MOST 2 /* one would make two threads take turns */

enum link_state { DOWN, CONNECTING, UP, BROKEN };

struct resp_link {
    const resp_access *access;
    resp_address address;
    char where[280];        /* it, for messages */
    pthread_mutex_t mutex;  /* for all below */
    pthread_cond_t changed; /* of link->state */
    enum link_state state;
    int is_closed;         /* when BROKEN: by the server */
    struct wire wire;      /* the reader reads, the writer writes */
    struct wire_self past; /* the connection before this one, if it has to be killed */

    /* Bytes are counted as a stream: `sent` have gone to the kernel; then comes what is
     * left in `full` behind `full_at`, then `out`; `added` are all of them. */
    resp_request out, full;
    size_t full_at;
    uint64_t added, sent;

    resp_op *first, **last; /* those that are due a reply, in the order of their bytes */
    resp_op *newest;        /* the last of them, if what is in `out` is not empty */
    resp_op *spare;
    _Atomic unsigned orphans; /* read without the mutex, as load */
    _Atomic unsigned load;    /* ops, from before they are sent */
    unsigned flights;         /* writes that are not answered yet */

    int writing, reading, parked;
    int heard; /* something was received since `quiet_since` */
    dibs_time quiet_since, last_used;

    uint64_t failures;  /* failed connects that were not just out of time */
    dibs_error failure; /* the last of them, or what ended the connection */
};

/* ---- the queue ---- */

/* An op is over, for the lane as well. The order matters: who sees nothing pending must
 * see whether all is settled. */
static void
let_go(resp_link *link, struct lane *lane, int code)
{
    if (code == DIBS_OK)
        atomic_store(&lane->is_unsettled, 0);
    else if (code == DIBS_EUNKNOWN)
        atomic_store(&lane->is_unsettled, 1);
    atomic_fetch_sub(&lane->pending, 1);
    atomic_fetch_sub(&link->load, 1);
}

/* takes the first op out of the queue, and ends it */
static void
finish_first_locked(resp_link *link, int code, struct wakes *wakes)
{
    resp_op *op = link->first;
    link->first = op->next;
    if (link->first == NULL)
        link->last = &link->first;
    link->flights -= (unsigned)op->ends_write;
    let_go(link, op->lane, code);
    if (op->is_orphan) {
        link->orphans--;
        dibs__op_recycle(op, &link->spare);
        return;
    }
    op->code = code;
    dibs__op_set_state(op, OP_DONE, wakes);
}

/* ---- connecting ---- */

resp_link *
dibs__link_new(const resp_access *access, const resp_address *address)
{
    resp_link *link = access->host->alloc(sizeof(*link));
    if (link == NULL)
        return NULL;
    link->access = access;
    link->address = *address;
    dibs__wire_where(link->where, sizeof(link->where), address);
    link->last = &link->first;
    dibs__wire_init(&link->wire, access, -1);
    pthread_mutex_init(&link->mutex, NULL);
    cond_init(&link->changed);
    return link;
}

void
dibs__link_free(resp_link *link, int forked)
{
    if (link == NULL)
        return;
    dibs__wire_close(&link->wire, forked);
    /* in a child the memory is as some thread of the parent left it: let it be (R9) */
    if (forked)
        return;
    const dibs_host *host = link->access->host;
    dibs__op_free_all(link->first, host);
    dibs__op_free_all(link->spare, host);
    dibs__resp_request_free(&link->out);
    dibs__resp_request_free(&link->full);
    pthread_cond_destroy(&link->changed);
    pthread_mutex_destroy(&link->mutex);
    host->free(link);
}

static void
set_link_state_locked(resp_link *link, enum link_state state)
{
    link->state = state;
    pthread_cond_broadcast(&link->changed);
}

static int
connect_locked(resp_link *link, dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = link->access->host;
    dibs_error failure = { 0 };
    set_link_state_locked(link, CONNECTING);
    pthread_mutex_unlock(&link->mutex);
    int code =
        dibs__wire_open(&link->wire, &link->address, &link->past, deadline, &failure);
    int is_late = host->now() >= deadline;
    pthread_mutex_lock(&link->mutex);
    if (code == DIBS_OK) {
        memset(&link->past, 0, sizeof(link->past));
        set_link_state_locked(link, UP);
        return DIBS_OK;
    }
    /* who waited with us has the same answer, unless it was just our time that was short */
    link->failure = failure;
    if (!is_late)
        link->failures++;
    set_link_state_locked(link, DOWN);
    return host->fail(err, code, "%s", failure.text);
}

/* one caller connects, others wait for it */
static int
be_up_locked(resp_link *link, dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = link->access->host;
    const uint64_t failures = link->failures;
    for (;;) {
        if (link->state == UP)
            return DIBS_OK;
        if (link->failures != failures)
            return host->fail(err, link->failure.code, "%s", link->failure.text);
        if (link->state == DOWN)
            return connect_locked(link, deadline, err);
        if (wait_for(&link->changed, &link->mutex, deadline - host->now()) != 0)
            return host->fail(err, DIBS_EUNAVAIL, "connect to %s: no answer in time",
                              link->where);
    }
}

/* ---- the end of a connection ---- */

/* R8: whoever finds out. `is_closed`: by the server, which then executes nothing more. */
static void
break_locked(resp_link *link, int is_closed, const char *why)
{
    if (link->state != UP)
        return;
    link->is_closed = is_closed;
    (void)link->access->host->fail(&link->failure, DIBS_EUNAVAIL, "%s: %s", link->where,
                                   why);
    set_link_state_locked(link, BROKEN);
    dibs__wire_break_off(&link->wire);
}

/* R6: Some of what was sent may still be on its way to be executed. Even if it was closed
 * by the other side: that may be something in between. So the next connection has it
 * killed. Old servers do not tell our address; then the id alone might mean somebody else,
 * if the server was restarted, and we do it only if we must. */
static void
remember_past_locked(resp_link *link)
{
    link->past = link->wire.self;
    if (link->is_closed && link->past.address[0] == '\0')
        link->past.id = 0;
}

/* for the last of reader and writer to leave */
static void
clean_up_locked(resp_link *link, struct wakes *wakes)
{
    if (link->state != BROKEN || link->reading || link->writing)
        return;
    remember_past_locked(link);
    dibs__wire_close(&link->wire, 0);
    while (link->first != NULL)
        finish_first_locked(
            link, link->first->start >= link->sent ? DIBS_EUNAVAIL : DIBS_EUNKNOWN,
            wakes);
    assert(link->flights == 0);
    link->out.len = link->full.len = link->full_at = 0;
    link->added = link->sent = 0;
    set_link_state_locked(link, DOWN);
}

/* A connection that was not used for a while may have been closed: look, for what is sent
 * then would be of unknown outcome. */
static void
look_at_idle_locked(resp_link *link)
{
    if (link->first != NULL || link->reading || link->writing ||
        link->access->host->now() - link->last_used < IDLE)
        return;
    if (dibs__wire_is_quiet(&link->wire))
        return;
    break_locked(link, link->wire.is_closed, "the server closed the connection");
    clean_up_locked(link, NULL);
}

/* ---- writing ---- */

static int
has_output_locked(const resp_link *link)
{
    return link->full_at < link->full.len || link->out.len > 0 ||
           dibs__wire_has_rest(&link->wire);
}

/* the next bytes, out of the way of those who append */
static void
turn_over_locked(resp_link *link)
{
    if (link->full_at < link->full.len || link->out.len == 0)
        return;
    link->newest->ends_write = 1;
    link->flights++;
    resp_request empty = link->full;
    link->full = link->out;
    link->full_at = 0;
    link->out = empty;
    link->out.len = 0;
}

/* Sends what there is, and what comes meanwhile, until the socket is full. The mutex is
 * free while it sends. */
static void
flush_locked(resp_link *link, struct wakes *wakes)
{
    if (link->writing)
        return;
    link->writing = 1;
    while (link->state == UP && has_output_locked(link)) {
        turn_over_locked(link);
        const char *bytes = link->full.bytes + link->full_at;
        size_t len = link->full.len - link->full_at;
        pthread_mutex_unlock(&link->mutex);
        ssize_t n = dibs__wire_send(&link->wire, bytes, len);
        int error = errno, is_full = n < (ssize_t)len || dibs__wire_has_rest(&link->wire);
        pthread_mutex_lock(&link->mutex);
        if (n < 0) {
            break_locked(link, 0, strerror(error));
            break;
        }
        link->full_at += (size_t)n;
        link->sent += (size_t)n;
        if (is_full)
            break;
    }
    link->writing = 0;
    clean_up_locked(link, wakes);
}

/* ---- reading ---- */

/* gives replies away; -1 if one is for nobody */
static int
give_locked(resp_link *link, redisReply **replies, unsigned count, struct wakes *wakes)
{
    for (unsigned i = 0; i < count; i++) {
        resp_op *op = link->first;
        if (op == NULL) {
            break_locked(link, 0,
                         replies[i]->type == REDIS_REPLY_ERROR
                             ? replies[i]->str
                             : "a reply that nobody asked for");
            for (; i < count; i++)
                freeReplyObject(replies[i]);
            return -1;
        }
        op->replies[op->received++] = replies[i];
        if (op->received == op->commands)
            finish_first_locked(link, DIBS_OK, wakes);
    }
    return 0;
}

/* Takes all complete replies out of the parser (R3). Called without the mutex, returns
 * with it. -1: that was not the protocol. */
static int
give_all_then_lock(resp_link *link, struct wakes *wakes, dibs_error *why)
{
    redisReply *replies[OP_BATCH];
    for (;;) {
        unsigned count = 0;
        int n = 1;
        while (count < OP_BATCH &&
               (n = dibs__wire_parse(&link->wire, &replies[count], why)) > 0)
            count++;
        pthread_mutex_lock(&link->mutex);
        link->heard = 1;
        if (give_locked(link, replies, count, wakes) != 0 || n <= 0)
            return n < 0 ? -1 : 0;
        pthread_mutex_unlock(&link->mutex);
        dibs__op_wake_all(wakes);
    }
}

/* nothing came for a while; is it too long? */
static void
judge_silence_locked(resp_link *link, dibs_time now)
{
    if (link->heard) {
        link->heard = 0;
        link->quiet_since = now;
    } else if (now - link->quiet_since > SILENCE_MOST) {
        break_locked(link, 0, "no answer for 10 s");
    }
}

/* The next reader. To become it costs a wake-up, and it reads for all who are before it: so
 * it is not the first of those who wait, but the last one of some. */
static resp_op *
next_reader_locked(const resp_link *link)
{
    resp_op *found = NULL;
    unsigned seen = 0;
    for (resp_op *op = link->first; op != NULL && (found == NULL || seen < OP_BATCH);
         op = op->next) {
        if (op->is_waiting)
            found = op;
        seen++;
    }
    return found;
}

/* passes the role on to somebody who waits, or lays it down */
static void
leave_reading_locked(resp_link *link, struct wakes *wakes)
{
    resp_op *next = next_reader_locked(link);
    if (next != NULL) {
        dibs__op_set_state(next, OP_LEADER, wakes);
        return;
    }
    link->reading = 0;
    clean_up_locked(link, wakes);
}

/* One round of reading. Returns with the mutex held: 0, or -1 if the connection is over. */
static int
read_once_locked(resp_link *link, dibs_time deadline, struct wakes *wakes)
{
    dibs_error why = { 0 };
    if (link->state == UP && has_output_locked(link))
        flush_locked(link, wakes);
    int or_room = link->state == UP && !link->writing && has_output_locked(link);
    link->parked = 1;
    pthread_mutex_unlock(&link->mutex);
    dibs__op_wake_all(wakes);
    int n = dibs__wire_read(&link->wire, or_room, deadline, &why);
    if (n > 0)
        n = give_all_then_lock(link, wakes, &why);
    else
        pthread_mutex_lock(&link->mutex);
    link->parked = 0;
    if (n < 0)
        break_locked(link, link->wire.is_closed, why.text);
    return n;
}

/* Reads until the op is done, its time is up or the connection is over. The caller has
 * the reader's role, and has it no more afterwards. */
static void
lead_locked(resp_op *op, dibs_time deadline, struct wakes *wakes)
{
    resp_link *link = op->link;
    const dibs_host *host = link->access->host;
    while (atomic_load(&op->state) != OP_DONE) {
        if (read_once_locked(link, deadline, wakes) < 0) {
            link->reading = 0;
            clean_up_locked(link, wakes);
            return;
        }
        if (atomic_load(&op->state) == OP_DONE)
            break;
        dibs_time now = host->now();
        judge_silence_locked(link, now);
        if (now >= deadline)
            break;
        /* who was answered goes on now, and may add to what we send next */
        if (wakes->count > 0) {
            pthread_mutex_unlock(&link->mutex);
            dibs__op_wake_all(wakes);
            pthread_mutex_lock(&link->mutex);
        }
    }
    leave_reading_locked(link, wakes);
}

/* ---- sending ---- */

static int
append_locked(resp_link *link, const resp_request *request, dibs_error *err)
{
    const dibs_host *host = link->access->host;
    resp_request *out = &link->out;
    size_t len = out->len + request->len;
    if (out->len > 0 && len > OUT_MOST)
        return host->fail(err, DIBS_EUNAVAIL, "%s: too much is waiting to be sent",
                          link->where);
    if (len > out->room) {
        size_t room = out->room != 0 ? out->room : 4096;
        while (room < len)
            room *= 2;
        char *bytes = realloc(out->bytes, room);
        if (bytes == NULL)
            return host->fail(err, DIBS_ENOMEM, "out of memory");
        out->bytes = bytes;
        out->room = room;
    }
    memcpy(out->bytes + out->len, request->bytes, request->len);
    out->len = len;
    return DIBS_OK;
}

static int
enqueue_locked(resp_link *link, struct lane *lane, const resp_request *request,
               resp_op **out, dibs_error *err)
{
    resp_op *op = dibs__op_new(&link->spare, request->commands, link->access->host);
    if (op == NULL)
        return link->access->host->fail(err, DIBS_ENOMEM, "out of memory");
    int code = append_locked(link, request, err);
    if (code != DIBS_OK) {
        dibs__op_recycle(op, &link->spare);
        return code;
    }
    dibs_time now = link->access->host->now();
    op->link = link;
    op->lane = lane;
    op->start = link->added;
    link->added += request->len;
    if (link->first == NULL) {
        link->quiet_since = now;
        link->heard = 0;
    }
    *link->last = op;
    link->last = &op->next;
    link->newest = op;
    link->last_used = now;
    *out = op;
    return DIBS_OK;
}

/* a reader that is awake sends for all before it parks, or as soon as it received (I2) */
static int
is_ours_to_send_locked(const resp_link *link)
{
    if (!link->reading)
        return 1;
    return link->parked && (!link->wire.is_near || link->flights < FLIGHTS_MOST);
}

static int
send_locked(resp_link *link, struct lane *lane, const resp_request *request,
            dibs_time deadline, resp_op **op, dibs_error *err)
{
    assert(request->commands > 0);
    if (link->state == UP)
        look_at_idle_locked(link);
    int code = be_up_locked(link, deadline, err);
    if (code == DIBS_OK)
        code = enqueue_locked(link, lane, request, op, err);
    if (code != DIBS_OK)
        let_go(link, lane, code);
    else if (is_ours_to_send_locked(link))
        flush_locked(link, NULL);
    return code;
}

/* ---- waiting ---- */

/* waits until somebody else has read for us, or we are to read */
static void
follow_locked(resp_op *op, dibs_time deadline, struct wakes *wakes)
{
    resp_link *link = op->link;
    op->is_waiting = 1;
    pthread_mutex_unlock(&link->mutex);
    dibs__op_wake_all(wakes);
    dibs__op_sleep(op, deadline, link->access->host);
    pthread_mutex_lock(&link->mutex);
    op->is_waiting = 0;
    uint32_t state = atomic_load(&op->state);
    if (state == OP_DONE)
        return;
    atomic_store(&op->state, OP_PENDING);
    if (state == OP_LEADER)
        lead_locked(op, deadline, wakes);
}

/* R7: nothing of it was given to the writer yet, so it can be taken back */
static void
take_back_locked(resp_link *link, resp_op *op, size_t at)
{
    resp_op **before = &link->first, *previous = NULL;
    while (*before != op) {
        previous = *before;
        before = &previous->next;
    }
    *before = op->next;
    if (link->last == &op->next) {
        link->last = before;
        link->newest = previous;
    }
    size_t len = (size_t)((op->next != NULL ? op->next->start : link->added) - op->start);
    memmove(link->out.bytes + at, link->out.bytes + at + len, link->out.len - at - len);
    link->out.len -= len;
    link->added -= len;
    for (resp_op *each = op->next; each != NULL; each = each->next)
        each->start -= len;
    let_go(link, op->lane, DIBS_EUNAVAIL);
    dibs__op_recycle(op, &link->spare);
}

/* A connection that swallows what is sent is not to cost us the holds that another would
 * keep: so it is given up long before SILENCE_MOST if callers run out of time on it, whose
 * limits are a part of their lease. */
static void
suspect_locked(resp_link *link, struct wakes *wakes)
{
    if (link->heard || link->access->host->now() - link->quiet_since < SILENCE_SOME)
        return;
    break_locked(link, 0, "no answer in time");
    clean_up_locked(link, wakes);
}

static int
give_up_locked(resp_op *op, struct wakes *wakes, dibs_error *err)
{
    resp_link *link = op->link;
    const dibs_host *host = link->access->host;
    uint64_t out_start = link->added - link->out.len;
    if (op->start >= out_start) {
        take_back_locked(link, op, (size_t)(op->start - out_start));
        return host->fail(err, DIBS_EUNAVAIL, "%s: could not be sent in time",
                          link->where);
    }
    op->is_orphan = 1;
    link->orphans++;
    suspect_locked(link, wakes);
    return host->fail(err, DIBS_EUNKNOWN, "%s: no answer in time", link->where);
}

/* ends an op that is done */
static int
take_locked(resp_op *op, redisReply **replies, dibs_error *err)
{
    resp_link *link = op->link;
    int code = op->code;
    if (code == DIBS_OK) {
        memcpy(replies, op->replies, op->received * sizeof(redisReply *));
        op->received = 0;
    } else {
        (void)link->access->host->fail(err, code, "%s", link->failure.text);
    }
    dibs__op_recycle(op, &link->spare);
    return code;
}

static int
wait_locked(resp_op *op, dibs_time deadline, redisReply **replies, struct wakes *wakes,
            dibs_error *err)
{
    resp_link *link = op->link;
    while (atomic_load(&op->state) != OP_DONE) {
        if (link->reading || link->state != UP) {
            follow_locked(op, deadline, wakes);
        } else {
            link->reading = 1;
            lead_locked(op, deadline, wakes);
        }
        if (atomic_load(&op->state) != OP_DONE && link->access->host->now() >= deadline)
            return give_up_locked(op, wakes, err);
    }
    return take_locked(op, replies, err);
}

/* ---- the ways in ---- */

int
dibs__link_send(resp_link *link, struct lane *lane, const resp_request *request,
                dibs_time deadline, resp_op **op, dibs_error *err)
{
    int cancel_state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&link->mutex);
    int code = send_locked(link, lane, request, deadline, op, err);
    pthread_mutex_unlock(&link->mutex);
    pthread_setcancelstate(cancel_state, NULL);
    return code;
}

int
dibs__resp_wait(resp_op *op, dibs_time deadline, redisReply **replies, dibs_error *err)
{
    resp_link *link = op->link;
    struct wakes wakes;
    int cancel_state;
    wakes.count = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&link->mutex);
    int code = wait_locked(op, deadline, replies, &wakes, err);
    pthread_mutex_unlock(&link->mutex);
    dibs__op_wake_all(&wakes);
    pthread_setcancelstate(cancel_state, NULL);
    return code;
}

int
dibs__link_call(resp_link *link, struct lane *lane, const resp_request *request,
                dibs_time deadline, redisReply **replies, dibs_error *err)
{
    resp_op *op;
    struct wakes wakes;
    int cancel_state;
    wakes.count = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    pthread_mutex_lock(&link->mutex);
    int code = send_locked(link, lane, request, deadline, &op, err);
    if (code == DIBS_OK)
        code = wait_locked(op, deadline, replies, &wakes, err);
    pthread_mutex_unlock(&link->mutex);
    dibs__op_wake_all(&wakes);
    pthread_setcancelstate(cancel_state, NULL);
    return code;
}

/* ---- choosing; no mutex ---- */

unsigned
dibs__link_load(const resp_link *link)
{
    return atomic_load_explicit(&link->load, memory_order_relaxed);
}

void
dibs__link_reserve(resp_link *link)
{
    atomic_fetch_add(&link->load, 1);
}

int
dibs__link_try_reserve(resp_link *link)
{
    unsigned none = 0;
    return atomic_compare_exchange_strong(&link->load, &none, 1);
}

int
dibs__link_is_stalled(const resp_link *link)
{
    return atomic_load(&link->orphans) > 0;
}

/* To close a socket with answers in it resets the connection, and then the server drops
 * what it has not read yet: a release, perhaps. */
void
dibs__link_drain(resp_link *link, dibs_time deadline)
{
    const dibs_host *host = link->access->host;
    struct wakes wakes;
    int more = 1;
    wakes.count = 0;
    pthread_mutex_lock(&link->mutex);
    link->reading = 1;
    while (more && link->state == UP && link->first != NULL && host->now() < deadline)
        more = read_once_locked(link, deadline, &wakes) >= 0;
    link->reading = 0;
    clean_up_locked(link, &wakes);
    pthread_mutex_unlock(&link->mutex);
}
