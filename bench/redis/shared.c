/* SPDX-License-Identifier: MIT */
/*
 * One mutex per connection, the bytes to be sent and the ops in the same order; whoever finds
 * no reader reads for all, and passes the role on when its own reply is there. While two
 * writes are unanswered, others leave the sending to the reader.
 */
#include "shared.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LINKS = 4, OPS = 64, OUT = 65536, FLIGHTS = 2 };
enum { PENDING, ASLEEP, LEADER, DONE };

typedef struct op {
    struct op *next;
    _Atomic uint32_t state;
    int replies, ends_write;
} op;

typedef struct wake_list {
    int count;
    _Atomic uint32_t *words[OPS];
} wake_list;

typedef struct channel {
    _Alignas(64) pthread_mutex_t mutex;
    redisContext *context;
    char out[OUT], full[OUT];
    size_t len;
    op *first, **last, *newest;
    int writing, reading, parked, flights;
} channel;

struct shared {
    channel links[LINKS];
    char sha[41];
};

static void
set_state(op *o, uint32_t state, wake_list *wakes)
{
    if (atomic_exchange(&o->state, state) == ASLEEP)
        wakes->words[wakes->count++] = &o->state;
}

static void
wake_all(wake_list *wakes)
{
    for (int i = 0; i < wakes->count; i++)
        syscall(SYS_futex, wakes->words[i], FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    wakes->count = 0;
}

static void
flush_locked(channel *l)
{
    l->writing = 1;
    while (l->len > 0) {
        size_t len = l->len;
        memcpy(l->full, l->out, len);
        l->len = 0;
        l->newest->ends_write = 1;
        l->flights++;
        pthread_mutex_unlock(&l->mutex);
        if (send(l->context->fd, l->full, len, MSG_NOSIGNAL) != (ssize_t)len)
            bench_die("redis-server takes no more");
        pthread_mutex_lock(&l->mutex);
    }
    l->writing = 0;
}

static void
give_locked(channel *l, int replies, wake_list *wakes)
{
    while (replies-- > 0) {
        op *o = l->first;
        if (--o->replies > 0)
            continue;
        l->first = o->next;
        if (l->first == NULL)
            l->last = &l->first;
        l->flights -= o->ends_write;
        set_state(o, DONE, wakes);
    }
}

/* receives once, and returns how many replies there were */
static int
receive(channel *l)
{
    char bytes[16384];
    redisReply *reply;
    int count = 0;
    ssize_t n = recv(l->context->fd, bytes, sizeof bytes, 0);

    if (n <= 0)
        bench_die("redis-server is gone");
    (void)redisReaderFeed(l->context->reader, bytes, (size_t)n);
    while (redisReaderGetReply(l->context->reader, (void **)&reply) == REDIS_OK &&
           reply != NULL) {
        if (reply->type == REDIS_REPLY_ERROR)
            bench_die("redis-server: %s", reply->str);
        freeReplyObject(reply);
        count++;
    }
    return count;
}

static void
lead_locked(channel *l, op *own, wake_list *wakes)
{
    while (atomic_load(&own->state) != DONE) {
        int replies;
        if (l->len > 0 && !l->writing)
            flush_locked(l);
        l->parked = 1;
        pthread_mutex_unlock(&l->mutex);
        wake_all(wakes);
        replies = receive(l);
        pthread_mutex_lock(&l->mutex);
        l->parked = 0;
        give_locked(l, replies, wakes);
    }
    if (l->first != NULL)
        set_state(l->first, LEADER, wakes);
    else
        l->reading = 0;
}

/* returns with the mutex held, when others have read for us or we are to */
static void
follow_locked(channel *l, op *own)
{
    uint32_t state = PENDING;

    pthread_mutex_unlock(&l->mutex);
    if (atomic_compare_exchange_strong(&own->state, &state, ASLEEP))
        while (atomic_load(&own->state) == ASLEEP)
            syscall(SYS_futex, &own->state, FUTEX_WAIT_PRIVATE, ASLEEP, NULL, NULL, 0);
    pthread_mutex_lock(&l->mutex);
}

static void
call(channel *l, const char *bytes, size_t len, int replies)
{
    op own = { .replies = replies };
    wake_list wakes = { 0 };

    pthread_mutex_lock(&l->mutex);
    if (l->len + len > OUT)
        bench_die("too much to be sent");
    memcpy(l->out + l->len, bytes, len);
    l->len += len;
    *l->last = l->newest = &own;
    l->last = &own.next;
    if (!l->writing && (!l->reading || (l->parked && l->flights < FLIGHTS)))
        flush_locked(l);
    if (atomic_load(&own.state) != DONE) {
        if (l->reading)
            follow_locked(l, &own);
        else
            l->reading = 1;
        if (atomic_load(&own.state) != DONE)
            lead_locked(l, &own, &wakes);
    }
    pthread_mutex_unlock(&l->mutex);
    wake_all(&wakes);
}

static void
send_words(shared *s, int index, int count, const char **words, const char *more,
           int replies)
{
    char bytes[512], *command;
    int len = redisFormatCommandArgv(&command, count, words, NULL);

    memcpy(bytes, command, (size_t)len);
    memcpy(bytes + len, more, strlen(more));
    call(&s->links[index % LINKS], bytes, (size_t)len + strlen(more), replies);
    redisFreeCommand(command);
}

void
shared_lock(shared *s, int index, const char *name)
{
    const char *words[] = { "SET", name, RAW_VALUE, "NX", "PX", "30000" };

    send_words(s, index, 6, words, "*1\r\n$4\r\nTIME\r\n", 2);
}

void
shared_unlock(shared *s, int index, const char *name)
{
    const char *words[] = { "EVALSHA", s->sha, "1", name, RAW_VALUE };

    send_words(s, index, 5, words, "", 1);
}

shared *
shared_open(void)
{
    shared *s = bench_shared(sizeof *s); /* for its alignment */

    for (int i = 0; i < LINKS; i++) {
        channel *l = &s->links[i];
        raw r;
        raw_open(&r, 0);
        memcpy(s->sha, r.sha, sizeof s->sha);
        l->context = r.link;
        l->last = &l->first;
        pthread_mutex_init(&l->mutex, NULL);
    }
    return s;
}

void
shared_close(shared *s)
{
    for (int i = 0; i < LINKS; i++)
        redisFree(s->links[i].context);
}
