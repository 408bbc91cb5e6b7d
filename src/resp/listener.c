/* SPDX-License-Identifier: MIT */
/*
 * The subscription connection and its thread.
 *
 * Anybody may write to the connection (one at a time, `writing`). Only the thread connects
 * and closes; it also reads, unless somebody who waits for a message does (`reader`), which
 * spares that one the thread between. While somebody else reads, the thread is not woken by
 * what comes in: it sleeps in an epoll from which the socket is taken out, without a word to
 * the thread, and put in again. Who finds the connection broken shuts it down, and the
 * thread notices.
 *
 * The server answers in the order in which we ask, once for each command (which names one
 * channel). So commands and answers are counted, and a channel is confirmed when the count
 * of answers reaches the number of its command. A confirmation of an earlier request for a
 * channel of the same name, given up meanwhile, cannot be taken for the one that is due.
 *
 * Parts: channels; writing; what the server says; reading; the thread; for all threads.
 */
#include "resp/resp.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "util/wait.h"
#include "resp/wire.h"

#define CONNECT_LIMIT (3000 * DIBS_MS)
#define WRITE_LIMIT (200 * DIBS_MS)
#define SILENCE (5000 * DIBS_MS)    /* then we ask whether the server is there */
#define PONG_LIMIT (2000 * DIBS_MS) /* and if this is silent too, it is not */
#define LIVED (1000 * DIBS_MS)      /* a connection that was none of the short ones */
#define PAUSE_FIRST (10 * DIBS_MS)
#define PAUSE_MOST (500 * DIBS_MS)
#define BUCKETS 256

struct channel {
    struct channel *next;
    unsigned count; /* subscribers */
    int sharded;
    uint64_t asked; /* the number of our request; 0: not asked on this connection */
    int confirmed;
    int code; /* the server refused it: what to return, and why */
    char refusal[160];
    size_t len;
    char text[];
};

enum reader { NOBODY, THREAD, BORROWER };

struct resp_listener {
    const resp_access *access;
    resp_listener_events events;
    void *context;
    pthread_mutex_t mutex;  /* for all below, but the wire's reading side (`reader`) */
    pthread_cond_t changed; /* confirmed, refused, connected, lost, written */
    pthread_t thread;
    int started, check;
    _Atomic int stopping;
    int wake_fd;  /* wakes the thread, */
    int rouse_fd; /* and this one who reads in its place */
    int epoll_fd; /* wake_fd, and the socket while nobody reads */
    struct channel *channels[BUCKETS];

    struct wire wire;
    int up; /* there is a connection, and who holds the mutex may write */
    int writing;
    enum reader reader;
    _Atomic dibs_time heard_at; /* when something was last read */
    resp_request out;           /* to be written */
    uint64_t asked, answered;   /* commands and answers on this connection */
    uint64_t restored; /* as many answers, and all subscriptions are back; 0: they are */
    uint64_t owed_sharded_ends; /* SUNSUBSCRIBEs that are not answered yet */
    uint64_t last_epoch;
    uint64_t failures; /* connects that failed */
    dibs_error failure;
    _Atomic uint64_t epoch;
};

/* ---- channels ---- */

static struct channel **
find(resp_listener *listener, const char *text, size_t len, int sharded)
{
    uint64_t hash = 0xCBF29CE484222325u;
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ (unsigned char)text[i]) * 0x100000001B3u;
    struct channel **at = &listener->channels[(hash >> 32) % BUCKETS];
    while (*at != NULL && ((*at)->len != len || (*at)->sharded != sharded ||
                           memcmp((*at)->text, text, len) != 0))
        at = &(*at)->next;
    return at;
}

static struct channel *
channel_new(resp_listener *listener, const char *text, size_t len, int sharded)
{
    struct channel *channel = listener->access->host->alloc(sizeof(*channel) + len);
    if (channel != NULL) {
        channel->len = len;
        channel->sharded = sharded;
        memcpy(channel->text, text, len);
    }
    return channel;
}

/* ---- writing; the mutex is held ---- */

/* has the thread see that the connection is over */
static void
break_locked(resp_listener *listener)
{
    if (listener->up)
        dibs__wire_break_off(&listener->wire);
}

/* Whoever comes while somebody writes has it done by him: in one write for all. */
static void
flush_locked(resp_listener *listener)
{
    if (listener->writing)
        return;
    listener->writing = 1;
    while (listener->up && listener->out.len > 0) {
        resp_request now = listener->out;
        dibs_time limit = listener->access->host->now() + WRITE_LIMIT;
        memset(&listener->out, 0, sizeof(listener->out));
        pthread_mutex_unlock(&listener->mutex);
        int result = dibs__wire_write(&listener->wire, now.bytes, now.len, limit);
        pthread_mutex_lock(&listener->mutex);
        if (result != 0)
            break_locked(listener);
        dibs__resp_request_free(&now);
    }
    listener->writing = 0;
    pthread_cond_broadcast(&listener->changed);
}

static int
add_locked(resp_listener *listener, const char *verb, const struct channel *channel)
{
    resp_command command = { 0 };
    dibs__resp_word(&command, verb);
    if (channel != NULL)
        dibs__resp_bytes(&command, channel->text, channel->len);
    int code = dibs__resp_add(&listener->out, &command);
    if (code == 0)
        listener->asked++;
    else
        break_locked(listener);
    return code;
}

static void
ask_locked(resp_listener *listener, struct channel *channel)
{
    channel->confirmed = 0;
    channel->code = 0;
    if (add_locked(listener, channel->sharded ? "SSUBSCRIBE" : "SUBSCRIBE", channel) == 0)
        channel->asked = listener->asked;
}

static void
unask_locked(resp_listener *listener, struct channel *channel)
{
    const char *verb = channel->sharded ? "SUNSUBSCRIBE" : "UNSUBSCRIBE";
    if (add_locked(listener, verb, channel) == 0 && channel->sharded)
        listener->owed_sharded_ends++;
}

/* ---- what the server says ---- */

/* the one that was asked with this number, which an error does not name */
static struct channel *
asked_with(resp_listener *listener, uint64_t number)
{
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct channel *each = listener->channels[i]; each != NULL;
             each = each->next) {
            if (each->asked == number)
                return each;
        }
    }
    return NULL;
}

static void
refused_locked(resp_listener *listener, const redisReply *reply)
{
    struct channel *channel = asked_with(listener, ++listener->answered);
    if (channel == NULL)
        return;
    channel->code =
        dibs__resp_trouble(reply) == RESP_DENIED ? DIBS_EDENIED : DIBS_EUNAVAIL;
    (void)snprintf(channel->refusal, sizeof(channel->refusal), "%s", reply->str);
}

/* 0, or -1 if that is not the answer that is due */
static int
subscribed_locked(resp_listener *listener, const redisReply *name, int sharded)
{
    uint64_t number = ++listener->answered;
    struct channel *channel = *find(listener, name->str, (size_t)name->len, sharded);
    if (channel == NULL || channel->asked != number)
        /* given up meanwhile; but if somebody else was to be answered, we lost count */
        return asked_with(listener, number) == NULL ? 0 : -1;
    channel->confirmed = 1;
    return 0;
}

/* A server that gives a slot away ends our subscriptions to it without being asked. */
static int
unsubscribed_locked(resp_listener *listener, int sharded)
{
    if (sharded && listener->owed_sharded_ends == 0)
        return -1;
    if (sharded)
        listener->owed_sharded_ends--;
    listener->answered++;
    return 0;
}

static int
answered_locked(resp_listener *listener, const redisReply *reply)
{
    const redisReply *kind = dibs__resp_element(reply, 0);
    const redisReply *name = dibs__resp_element(reply, 1);
    if (reply->type == REDIS_REPLY_ERROR) {
        refused_locked(listener, reply);
        return 0;
    }
    if (reply->type == REDIS_REPLY_STATUS || dibs__resp_is_text(kind, "pong")) {
        listener->answered++;
        return 0;
    }
    if (name == NULL || name->str == NULL)
        return -1;
    if (dibs__resp_is_text(kind, "subscribe"))
        return subscribed_locked(listener, name, 0);
    if (dibs__resp_is_text(kind, "ssubscribe"))
        return subscribed_locked(listener, name, 1);
    if (dibs__resp_is_text(kind, "unsubscribe"))
        return unsubscribed_locked(listener, 0);
    if (dibs__resp_is_text(kind, "sunsubscribe"))
        return unsubscribed_locked(listener, 1);
    return -1;
}

/* all subscriptions are (back): from here on nothing is missed */
static void
open_epoch(resp_listener *listener)
{
    int is_first = listener->last_epoch == 0;
    atomic_store(&listener->epoch, ++listener->last_epoch);
    pthread_cond_broadcast(&listener->changed);
    pthread_mutex_unlock(&listener->mutex);
    if (!is_first)
        listener->events.gap(listener->context);
    pthread_mutex_lock(&listener->mutex);
}

static int
answered(resp_listener *listener, const redisReply *reply)
{
    pthread_mutex_lock(&listener->mutex);
    int result = answered_locked(listener, reply);
    if (result == 0 && atomic_load(&listener->epoch) == 0 &&
        listener->answered >= listener->restored)
        open_epoch(listener);
    pthread_cond_broadcast(&listener->changed);
    pthread_mutex_unlock(&listener->mutex);
    return result;
}

static int
take(resp_listener *listener, const redisReply *reply)
{
    const redisReply *kind = dibs__resp_element(reply, 0);
    const redisReply *name = dibs__resp_element(reply, 1);
    const redisReply *message = dibs__resp_element(reply, 2);
    if (!dibs__resp_is_text(kind, "message") && !dibs__resp_is_text(kind, "smessage"))
        return answered(listener, reply);
    if (message == NULL || name->str == NULL || message->str == NULL)
        return -1;
    listener->events.heard(listener->context, name->str, (size_t)name->len, message->str,
                           (size_t)message->len);
    return 0;
}

/* ---- reading ---- */

static int
take_all(resp_listener *listener)
{
    redisReply *reply;
    for (;;) {
        int n = dibs__wire_parse(&listener->wire, &reply, NULL);
        if (n <= 0)
            return n;
        n = take(listener, reply);
        freeReplyObject(reply);
        if (n != 0)
            return -1;
    }
}

/* what a read returned: 1 something was taken, 0 there was nothing, -1 it is over */
static int
take_read(resp_listener *listener, int n)
{
    if (n <= 0)
        return n;
    atomic_store(&listener->heard_at, listener->access->host->now());
    return take_all(listener) == 0 ? 1 : -1;
}

/* The thread is told once of what comes in, and then no more until this is called again. */
static void
tell_thread_locked(resp_listener *listener, int operation, uint32_t events)
{
    struct epoll_event event = { .events = events | EPOLLONESHOT,
                                 .data.fd = listener->wire.fd };
    (void)epoll_ctl(listener->epoll_fd, operation, listener->wire.fd, &event);
}

static int
begin_reading(resp_listener *listener, enum reader who)
{
    pthread_mutex_lock(&listener->mutex);
    int is_free = listener->up && listener->reader == NOBODY;
    if (is_free) {
        listener->reader = who;
        if (who == BORROWER) {
            tell_thread_locked(listener, EPOLL_CTL_MOD, 0);
            listener->wire.wake_fd = listener->rouse_fd;
        }
    }
    pthread_mutex_unlock(&listener->mutex);
    return is_free;
}

/* n < 0: the connection is of no use any more */
static void
end_reading(resp_listener *listener, int n)
{
    pthread_mutex_lock(&listener->mutex);
    if (n < 0)
        break_locked(listener);
    listener->reader = NOBODY;
    listener->wire.wake_fd = listener->wake_fd;
    tell_thread_locked(listener, EPOLL_CTL_MOD, EPOLLIN);
    pthread_cond_broadcast(&listener->changed);
    pthread_mutex_unlock(&listener->mutex);
}

static void
silence(int event_fd)
{
    uint64_t rings;
    (void)!read(event_fd, &rings, sizeof(rings));
}

/* ---- the thread ---- */

/* says whether somebody wants the thread to end, or to look whether the server is there */
static int
woken(resp_listener *listener, int *check)
{
    silence(listener->wake_fd);
    pthread_mutex_lock(&listener->mutex);
    *check = listener->check;
    listener->check = 0;
    pthread_mutex_unlock(&listener->mutex);
    return atomic_load(&listener->stopping);
}

static void
ping(resp_listener *listener)
{
    pthread_mutex_lock(&listener->mutex);
    if (add_locked(listener, "PING", NULL) == 0)
        flush_locked(listener);
    pthread_mutex_unlock(&listener->mutex);
}

/* waits until there is something to read, the thread is woken, or the limit has passed */
static int
listen_until(resp_listener *listener, dibs_time limit)
{
    struct epoll_event events[2];
    int timeout = dibs__wire_timeout(&listener->wire, limit);
    int count = epoll_wait(listener->epoll_fd, events, 2, timeout);
    for (int i = 0; i < count; i++) {
        if (events[i].data.fd == listener->wake_fd || !begin_reading(listener, THREAD))
            continue;
        int n = take_read(listener, dibs__wire_receive(&listener->wire, NULL));
        end_reading(listener, n);
        return n;
    }
    return 0;
}

/* listens until the connection is over, or we are to end */
static void
listen_on(resp_listener *listener)
{
    const dibs_host *host = listener->access->host;
    dibs_time pinged_at = 0; /* 0: the server owes us no answer */
    int check;
    for (;;) {
        dibs_time heard_at = atomic_load(&listener->heard_at);
        if (heard_at > pinged_at)
            pinged_at = 0;
        dibs_time limit = pinged_at ? pinged_at + PONG_LIMIT : heard_at + SILENCE;
        int n = listen_until(listener, limit);
        if (n < 0 || atomic_load(&listener->stopping))
            return;
        if (n > 0)
            continue;
        if (woken(listener, &check))
            return;
        int is_late =
            host->now() >= limit && atomic_load(&listener->heard_at) == heard_at;
        if (is_late && pinged_at)
            return;
        if ((is_late || check) && !pinged_at) {
            pinged_at = host->now();
            ping(listener);
        }
    }
}

static int
connect_now(resp_listener *listener, dibs_error *err)
{
    resp_address address;
    dibs_time deadline = listener->access->host->now() + CONNECT_LIMIT;
    int code = listener->events.locate(listener->context, &address, deadline, err);
    if (code == 0)
        code = dibs__wire_open(&listener->wire, &address, NULL, deadline, err);
    return code;
}

/* asks for all channels again, in one write */
static void
restore(resp_listener *listener)
{
    pthread_mutex_lock(&listener->mutex);
    listener->up = 1;
    atomic_store(&listener->heard_at, listener->access->host->now());
    tell_thread_locked(listener, EPOLL_CTL_ADD, EPOLLIN);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct channel *each = listener->channels[i]; each != NULL;
             each = each->next)
            ask_locked(listener, each);
    }
    listener->restored = listener->asked;
    if (listener->answered >= listener->restored)
        open_epoch(listener);
    flush_locked(listener);
    pthread_mutex_unlock(&listener->mutex);
}

static void
close_wire_locked(resp_listener *listener)
{
    break_locked(listener);
    listener->up = 0;
    atomic_store(&listener->epoch, 0);
    /* somebody may be about to write to it, or be reading */
    while (listener->writing || listener->reader != NOBODY)
        pthread_cond_wait(&listener->changed, &listener->mutex);
    tell_thread_locked(listener, EPOLL_CTL_DEL, 0);
    dibs__wire_close(&listener->wire, 0);
    dibs__resp_request_free(&listener->out);
    listener->asked = listener->answered = listener->owed_sharded_ends = 0;
}

/* returns whether we are to end: then nobody is interested in what is missed */
static int
lost(resp_listener *listener)
{
    pthread_mutex_lock(&listener->mutex);
    close_wire_locked(listener);
    for (size_t i = 0; i < BUCKETS; i++) {
        for (struct channel *each = listener->channels[i]; each != NULL;
             each = each->next) {
            each->asked = 0;
            each->confirmed = 0;
        }
    }
    pthread_cond_broadcast(&listener->changed);
    pthread_mutex_unlock(&listener->mutex);
    if (atomic_load(&listener->stopping))
        return 1;
    listener->events.gap(listener->context);
    return 0;
}

static void
failed(resp_listener *listener, const dibs_error *err)
{
    pthread_mutex_lock(&listener->mutex);
    listener->failures++;
    listener->failure = *err;
    pthread_cond_broadcast(&listener->changed);
    pthread_mutex_unlock(&listener->mutex);
}

static void
rest(resp_listener *listener, dibs_time pause)
{
    struct pollfd wake = { listener->wake_fd, POLLIN, 0 };
    (void)poll(&wake, 1, (int)(pause / DIBS_MS));
}

static dibs_time
longer(dibs_time pause)
{
    return pause * 2 < PAUSE_MOST ? pause * 2 : PAUSE_MOST;
}

static void *
run(void *argument)
{
    resp_listener *listener = argument;
    dibs_time pause = PAUSE_FIRST;
    int check;
    while (!woken(listener, &check)) {
        dibs_error err = { 0 };
        if (connect_now(listener, &err) != 0) {
            failed(listener, &err);
            rest(listener, pause);
            pause = longer(pause);
            continue;
        }
        dibs_time since = listener->access->host->now();
        restore(listener);
        listen_on(listener);
        if (lost(listener))
            break;
        /* a server that lets us in and then throws us out is not asked without a pause */
        if (listener->access->host->now() - since > LIVED) {
            pause = PAUSE_FIRST;
        } else {
            rest(listener, pause);
            pause = longer(pause);
        }
    }
    return NULL;
}

/* ---- for all threads ---- */

static int
open_descriptors(resp_listener *listener)
{
    listener->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    listener->rouse_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    listener->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event event = { .events = EPOLLIN, .data.fd = listener->wake_fd };
    if (listener->wake_fd < 0 || listener->rouse_fd < 0 || listener->epoll_fd < 0)
        return -1;
    return epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, listener->wake_fd, &event);
}

static void
close_descriptors(resp_listener *listener)
{
    const int fds[] = { listener->wake_fd, listener->rouse_fd, listener->epoll_fd };
    for (size_t i = 0; i < sizeof(fds) / sizeof(*fds); i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
}

resp_listener *
dibs__resp_listener_new(const resp_access *access, const resp_listener_events *events,
                        void *context)
{
    resp_listener *listener = access->host->alloc(sizeof(*listener));
    if (listener == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    listener->access = access;
    listener->events = *events;
    listener->context = context;
    if (open_descriptors(listener) != 0) {
        close_descriptors(listener);
        access->host->free(listener);
        return NULL;
    }
    dibs__wire_init(&listener->wire, access, listener->wake_fd);
    pthread_mutex_init(&listener->mutex, NULL);
    cond_init(&listener->changed);
    return listener;
}

static void
ring(int event_fd)
{
    const uint64_t one = 1;
    (void)!write(event_fd, &one, sizeof(one));
}

static void
stop(resp_listener *listener)
{
    atomic_store(&listener->stopping, 1);
    ring(listener->wake_fd);
    if (listener->started)
        pthread_join(listener->thread, NULL);
    pthread_cond_destroy(&listener->changed);
    pthread_mutex_destroy(&listener->mutex);
}

void
dibs__resp_listener_free(resp_listener *listener, int forked)
{
    if (listener == NULL)
        return;
    const dibs_host *host = listener->access->host;
    if (forked) {
        /* a child has no such thread, and the memory is as the parent's threads left it */
        dibs__wire_close(&listener->wire, 1);
        close_descriptors(listener);
        return;
    }
    stop(listener);
    dibs__resp_request_free(&listener->out);
    close_descriptors(listener);
    for (size_t i = 0; i < BUCKETS; i++) {
        while (listener->channels[i] != NULL) {
            struct channel *channel = listener->channels[i];
            listener->channels[i] = channel->next;
            host->free(channel);
        }
    }
    host->free(listener);
}

/* the thread gets no signals: they are for the program's own threads */
static int
start_locked(resp_listener *listener, dibs_error *err)
{
    sigset_t all, before;
    if (listener->started)
        return DIBS_OK;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&listener->thread, NULL, run, listener);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error != 0)
        return listener->access->host->fail(err, DIBS_ENOMEM, "cannot start a thread: %s",
                                            strerror(error));
    listener->started = 1;
    return DIBS_OK;
}

static int
wait_locked(resp_listener *listener, dibs_time deadline)
{
    return wait_for(&listener->changed, &listener->mutex,
                    deadline - listener->access->host->now());
}

static int
await_locked(resp_listener *listener, struct channel *channel, dibs_time deadline,
             dibs_error *err)
{
    const dibs_host *host = listener->access->host;
    uint64_t failures = listener->failures;
    for (;;) {
        if (channel->confirmed && atomic_load(&listener->epoch) != 0)
            return DIBS_OK;
        if (channel->code != 0)
            return host->fail(err, channel->code, "%s", channel->refusal);
        if (listener->failures != failures) {
            int code =
                listener->failure.code == DIBS_EDENIED ? DIBS_EDENIED : DIBS_EUNAVAIL;
            return host->fail(err, code, "%s", listener->failure.text);
        }
        if (wait_locked(listener, deadline) != 0)
            return host->fail(err, DIBS_EUNAVAIL, "the server did not confirm in time");
    }
}

static void
leave_locked(resp_listener *listener, struct channel **at)
{
    struct channel *channel = *at;
    if (--channel->count > 0)
        return;
    *at = channel->next;
    if (listener->up && channel->asked != 0 && channel->code == 0) {
        unask_locked(listener, channel);
        flush_locked(listener);
    }
    listener->access->host->free(channel);
}

int
dibs__resp_subscribe(resp_listener *listener, const char *text, size_t len, int sharded,
                     dibs_time deadline, dibs_error *err)
{
    pthread_mutex_lock(&listener->mutex);
    int code = start_locked(listener, err);
    struct channel **at = find(listener, text, len, sharded), *channel = *at;
    if (code == 0 && channel == NULL) {
        channel = channel_new(listener, text, len, sharded);
        if (channel == NULL)
            code = listener->access->host->fail(err, DIBS_ENOMEM, "out of memory");
        else
            *at = channel;
    }
    if (code == 0) {
        channel->count++;
        if (listener->up && channel->asked == 0) {
            ask_locked(listener, channel);
            flush_locked(listener);
        }
        code = await_locked(listener, channel, deadline, err);
        if (code != 0)
            leave_locked(listener, find(listener, text, len, sharded));
    }
    pthread_mutex_unlock(&listener->mutex);
    return code;
}

void
dibs__resp_unsubscribe(resp_listener *listener, const char *text, size_t len, int sharded)
{
    pthread_mutex_lock(&listener->mutex);
    struct channel **at = find(listener, text, len, sharded);
    if (*at != NULL)
        leave_locked(listener, at);
    pthread_mutex_unlock(&listener->mutex);
}

uint64_t
dibs__resp_listener_epoch(const resp_listener *listener)
{
    return atomic_load(&listener->epoch);
}

void
dibs__resp_listener_check(resp_listener *listener)
{
    pthread_mutex_lock(&listener->mutex);
    int up = listener->up;
    listener->check = 1;
    pthread_mutex_unlock(&listener->mutex);
    if (up)
        ring(listener->wake_fd);
}

void
dibs__resp_listener_borrow(resp_listener *listener, dibs_bell *bell, uint32_t seen,
                           dibs_time deadline)
{
    const dibs_host *host = listener->access->host;
    int n = 0, cancel_state;
    /* a thread that ends while it reads would leave nobody to read */
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
    if (begin_reading(listener, BORROWER)) {
        while (n >= 0 && dibs_bell_seen(bell) == seen && host->now() < deadline) {
            n = take_read(listener, dibs__wire_read(&listener->wire, 0, deadline, NULL));
            if (n == 0)
                silence(listener->rouse_fd);
        }
        end_reading(listener, n);
    }
    pthread_setcancelstate(cancel_state, NULL);
}

void
dibs__resp_listener_rouse(resp_listener *listener)
{
    ring(listener->rouse_fd);
}
