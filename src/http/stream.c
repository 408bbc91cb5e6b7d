/* SPDX-License-Identifier: MIT */
/*
 * Streams: requests whose answers come bit by bit, or late. One thread runs them all, with
 * a multi handle of libcurl's, which nobody else touches: other threads write down what is
 * to be done, and wake it up.
 *
 * A stream is `running` until its last event has returned; only the thread ends that, and
 * who closes a stream waits for it. Events are called under no mutex.
 *
 * libcurl does not look at a stream of HTTP/2 that has nothing to say: so it does not see
 * that the server has ended it. We tell it when we see trailers, which come last; as there
 * may be none, it is made to look once a second; and an answer that is over with its headers
 * is not seen even then: so one has to begin within BEGIN_LIMIT.
 *
 * Parts: what is to be done; what comes and goes; the thread; opening and closing; the end.
 */
#include "http/parts.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_MS 3000
#define POLL_MS 1000
#define NUDGE (1000 * DIBS_MS)
#define BEGIN_LIMIT (4000 * DIBS_MS)
#define SAID_FIRST 256

struct http_stream {
    struct streams *streams;
    struct transfer *transfer; /* the thread's, once it is open */
    http_events events;
    void *context;

    /* for what follows: the mutex of `streams` */
    http_stream *next, *prev; /* of all */
    http_stream *next_todo;
    int is_todo;    /* is in the list of what is to be done */
    int is_added;   /* libcurl has it */
    int is_running; /* events may come */
    int is_closing;
    int is_dropped;
    dibs_time start;   /* is not sent before */
    int is_left_to_us; /* to free: it was closed by its own last event */
    int is_quiet;      /* libcurl found nothing to send, and waits until we say so */
    dibs_time sent;    /* the thread's: when libcurl got it */
    int has_begun;     /* the headers of the answer are there */
    int is_over;       /* and the trailers */
    char *said;        /* not sent yet: */
    size_t said_at, said_len, said_room;
};

struct streams {
    http *http;
    CURLM *multi;
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed; /* some stream does not run any more */
    http_stream *all;
    http_stream *todo, **todo_end;
    int is_stopping;
    dibs_time next;         /* the thread's: when some stream is to be sent */
    dibs_time nudged;       /* the thread's: when it last did that */
    _Atomic int is_resting; /* the thread is not in the middle of anything */
};

/* ---- what is to be done ---- */

static void
enqueue_locked(http_stream *stream)
{
    struct streams *streams = stream->streams;
    if (stream->is_todo)
        return;
    stream->is_todo = 1;
    stream->next_todo = NULL;
    *streams->todo_end = stream;
    streams->todo_end = &stream->next_todo;
}

static void
call_for_locked(http_stream *stream)
{
    int is_known = stream->is_todo;
    enqueue_locked(stream);
    if (!is_known)
        (void)curl_multi_wakeup(stream->streams->multi);
}

static http_stream *
take_todo_locked(struct streams *streams)
{
    http_stream *stream = streams->todo;
    if (!stream)
        return NULL;
    streams->todo = stream->next_todo;
    if (!streams->todo)
        streams->todo_end = &streams->todo;
    stream->is_todo = 0;
    return stream;
}

static void
delist_locked(http_stream *stream)
{
    struct streams *streams = stream->streams;
    http_stream **link = &streams->todo;
    while (*link && *link != stream)
        link = &(*link)->next_todo;
    if (*link)
        *link = stream->next_todo;
    for (streams->todo_end = &streams->todo; *streams->todo_end;)
        streams->todo_end = &(*streams->todo_end)->next_todo;
    if (stream->next)
        stream->next->prev = stream->prev;
    if (stream->prev)
        stream->prev->next = stream->next;
    else
        streams->all = stream->next;
}

static void
free_stream(http_stream *stream)
{
    const dibs_host *host = stream->streams->http->host;
    if (stream->transfer)
        dibs__http_transfer_free(stream->transfer);
    free(stream->said);
    host->free(stream);
}

/* ---- what comes and goes ---- */

static size_t
pass_body(char *bytes, size_t size, size_t count, void *context)
{
    http_stream *stream = context;
    stream->events.heard(stream->context, bytes, size * count);
    return size * count;
}

/* An answer's headers end with an empty line; the first of them says "HTTP/". */
static void
follow(http_stream *stream, const char *line, size_t len)
{
    if (len == 0) {
        stream->has_begun = 1;
        return;
    }
    if (!stream->has_begun || (len > 5 && memcmp(line, "HTTP/", 5) == 0))
        return;
    pthread_mutex_lock(&stream->streams->mutex);
    stream->is_over = 1;
    call_for_locked(stream);
    pthread_mutex_unlock(&stream->streams->mutex);
}

static size_t
pass_header(char *line, size_t size, size_t count, void *context)
{
    http_stream *stream = context;
    size_t len = size * count;
    struct transfer *transfer = stream->transfer;
    transfer->index = dibs__http_index_of(line, len, transfer->index);
    while (len > 0 && (line[len - 1] == '\n' || line[len - 1] == '\r'))
        len--;
    follow(stream, line, len);
    if (len > 0 && stream->events.trailer)
        stream->events.trailer(stream->context, line, len);
    return size * count;
}

static size_t
send_more(char *out, size_t size, size_t count, void *context)
{
    http_stream *stream = context;
    size_t room = size * count;
    pthread_mutex_lock(&stream->streams->mutex);
    size_t len = stream->said_len < room ? stream->said_len : room;
    if (len > 0)
        memcpy(out, stream->said + stream->said_at, len);
    stream->said_at += len;
    stream->said_len -= len;
    int is_over = stream->is_over;
    stream->is_quiet = len == 0 && !is_over;
    pthread_mutex_unlock(&stream->streams->mutex);
    return len > 0 || is_over ? len : CURL_READFUNC_PAUSE;
}

/* ---- the thread ---- */

/* Whoever closes it frees it; but from its own last event it is left to us. */
static void
stop_running(http_stream *stream)
{
    struct streams *streams = stream->streams;
    dibs__http_transfer_free(stream->transfer);
    pthread_mutex_lock(&streams->mutex);
    stream->transfer = NULL;
    stream->is_running = 0;
    int is_ours = stream->is_left_to_us;
    if (is_ours)
        delist_locked(stream);
    pthread_cond_broadcast(&streams->changed);
    pthread_mutex_unlock(&streams->mutex);
    if (is_ours)
        free_stream(stream);
}

/* The stream whose last event this thread is in. */
static _Thread_local const http_stream *ending;

/* One that has begun to answer did nothing wrong if our time is up. */
static int
is_servers_fault(CURLcode why, long status)
{
    return why != CURLE_OK && why != CURLE_ABORTED_BY_CALLBACK &&
           why != CURLE_OUT_OF_MEMORY && (why != CURLE_OPERATION_TIMEDOUT || status == 0);
}

static void
finish(http_stream *stream, CURLcode why)
{
    struct transfer *transfer = stream->transfer;
    long status = 0;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (is_servers_fault(why, status))
        dibs__http_failed(transfer->http, transfer->server);
    if (stream->is_added)
        (void)curl_multi_remove_handle(stream->streams->multi, transfer->easy);
    stream->is_added = 0;
    ending = stream;
    stream->events.ended(stream->context, why == CURLE_OK ? (int)status : 0,
                         transfer->index);
    ending = NULL;
    stop_running(stream);
}

/* Hands it to libcurl, unless it is to wait. */
static void
begin(http_stream *stream)
{
    struct streams *streams = stream->streams;
    if (streams->http->host->now() < stream->start) {
        streams->next = stream->start < streams->next ? stream->start : streams->next;
        return;
    }
    stream->sent = streams->http->host->now();
    stream->is_added =
        curl_multi_add_handle(streams->multi, stream->transfer->easy) == CURLM_OK;
    if (!stream->is_added)
        finish(stream, CURLE_OUT_OF_MEMORY);
}

/* What others have written down, as it was when the thread looked. */
struct wish {
    int is_running, is_closing, is_dropped, is_quiet;
};

static int
is_late(const http_stream *stream)
{
    return !stream->has_begun &&
           stream->streams->http->host->now() > stream->sent + BEGIN_LIMIT;
}

/* Does what was called for. The stream may be gone afterwards. */
static void
attend(http_stream *stream, const struct wish *wish)
{
    CURL *easy = stream->transfer->easy;
    if (wish->is_closing) {
        if (stream->is_added)
            (void)curl_multi_remove_handle(stream->streams->multi, easy);
        stop_running(stream);
    } else if (wish->is_dropped) {
        finish(stream, CURLE_ABORTED_BY_CALLBACK);
    } else if (!stream->is_added) {
        begin(stream);
    } else if (wish->is_quiet && is_late(stream)) {
        finish(stream, CURLE_OPERATION_TIMEDOUT);
    } else if (wish->is_quiet) {
        if (stream->events.tick)
            stream->events.tick(stream->context);
        (void)curl_easy_pause(easy, CURLPAUSE_CONT);
    }
}

/* Finds those for which it is time. */
static void
look_around_locked(struct streams *streams)
{
    dibs_time now = streams->http->host->now();
    int is_time = now >= streams->next, do_nudge = now >= streams->nudged + NUDGE;
    if (!is_time && !do_nudge)
        return;
    if (is_time)
        streams->next = DIBS_NEVER;
    if (do_nudge)
        streams->nudged = now;
    for (http_stream *stream = streams->all; stream; stream = stream->next) {
        if (stream->is_running &&
            (stream->is_added ? do_nudge && stream->is_quiet : is_time))
            enqueue_locked(stream);
    }
}

static int
attend_all(struct streams *streams)
{
    pthread_mutex_lock(&streams->mutex);
    look_around_locked(streams);
    http_stream *stream = take_todo_locked(streams);
    while (stream) {
        struct wish wish = { .is_running = stream->is_running,
                             .is_closing = stream->is_closing,
                             .is_dropped = stream->is_dropped,
                             .is_quiet = stream->is_quiet };
        pthread_mutex_unlock(&streams->mutex);
        if (wish.is_running)
            attend(stream, &wish);
        pthread_mutex_lock(&streams->mutex);
        stream = take_todo_locked(streams);
    }
    int is_stopping = streams->is_stopping;
    pthread_mutex_unlock(&streams->mutex);
    return !is_stopping;
}

static int
ms_to_wait(const struct streams *streams)
{
    dibs_time left = streams->next - streams->http->host->now();
    if (left >= POLL_MS * DIBS_MS)
        return POLL_MS;
    return left > 0 ? (int)(left / DIBS_MS) + 1 : 0;
}

static void
finish_all(struct streams *streams)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(streams->multi, &left)) != NULL) {
        char *stream = NULL;
        CURLcode why = message->data.result;
        if (message->msg != CURLMSG_DONE)
            continue;
        (void)curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, &stream);
        finish((http_stream *)(void *)stream, why);
    }
}

static void *
run(void *arg)
{
    struct streams *streams = arg;
    int running;
    while (attend_all(streams)) {
        (void)curl_multi_perform(streams->multi, &running);
        finish_all(streams);
        atomic_store(&streams->is_resting, 1);
        (void)curl_multi_poll(streams->multi, NULL, 0, ms_to_wait(streams), NULL);
        atomic_store(&streams->is_resting, 0);
    }
    return NULL;
}

static int
start_thread(struct streams *streams)
{
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&streams->thread, NULL, run, streams);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return error ? DIBS_ENOMEM : DIBS_OK;
}

/* In a child there may seem to be some who wait, so nothing they wait for is destroyed. */
static void
free_streams(struct streams *streams, int forked)
{
    if (streams->multi)
        (void)curl_multi_cleanup(streams->multi);
    if (!forked) {
        pthread_cond_destroy(&streams->changed);
        pthread_mutex_destroy(&streams->mutex);
    }
    streams->http->host->free(streams);
}

static struct streams *
start_locked(http *client)
{
    struct streams *streams = client->host->alloc(sizeof *streams);
    if (!streams)
        return NULL;
    streams->http = client;
    streams->todo_end = &streams->todo;
    streams->next = DIBS_NEVER;
    pthread_mutex_init(&streams->mutex, NULL);
    pthread_cond_init(&streams->changed, NULL);
    streams->multi = curl_multi_init();
    if (streams->multi && start_thread(streams) == DIBS_OK)
        return streams;
    free_streams(streams, 0);
    return NULL;
}

/* ---- opening and closing ---- */

static struct streams *
streams_of(http *client)
{
    pthread_mutex_lock(&client->mutex);
    if (!client->streams)
        client->streams = start_locked(client);
    struct streams *streams = client->streams;
    pthread_mutex_unlock(&client->mutex);
    return streams;
}

static int
add_said_locked(http_stream *stream, const void *bytes, size_t len)
{
    if (stream->said_at > 0 && stream->said_len > 0)
        memmove(stream->said, stream->said + stream->said_at, stream->said_len);
    stream->said_at = 0;
    if (stream->said_len + len > stream->said_room) {
        size_t room = stream->said_room ? stream->said_room : SAID_FIRST;
        while (room < stream->said_len + len)
            room *= 2;
        char *said = realloc(stream->said, room);
        if (!said)
            return DIBS_ENOMEM;
        stream->said = said;
        stream->said_room = room;
    }
    if (len > 0)
        memcpy(stream->said + stream->said_len, bytes, len);
    stream->said_len += len;
    return DIBS_OK;
}

/* The body is what is said first. The connection is not shared: libcurl 7.88 loses its way
 * where another stream was given up. */
static void
talk_http_2(http_stream *stream)
{
    CURL *easy = stream->transfer->easy;
    int is_tls = stream->streams->http->settings.tls;
    (void)curl_easy_setopt(
        easy, CURLOPT_HTTP_VERSION,
        (long)(is_tls ? CURL_HTTP_VERSION_2TLS : CURL_HTTP_VERSION_2_PRIOR_KNOWLEDGE));
    (void)curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_FORBID_REUSE, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_UPLOAD, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_READFUNCTION, send_more);
    (void)curl_easy_setopt(easy, CURLOPT_READDATA, stream);
}

static int
prepare(http_stream *stream, const http_request *request, int64_t limit_ms)
{
    http *client = stream->streams->http;
    http_request plain = *request;
    CURL *easy = stream->transfer->easy;
    if (request->flags & HTTP_2)
        plain.body = NULL;
    int rc = dibs__http_transfer_prepare(stream->transfer, &plain,
                                         dibs__http_first(client), limit_ms, CONNECT_MS);
    if (!rc && request->flags & HTTP_2)
        talk_http_2(stream);
    if (!rc && request->body && request->flags & HTTP_2)
        rc = add_said_locked(stream, request->body, request->body_len);
    if (!rc && request->body && !(request->flags & HTTP_2) &&
        curl_easy_setopt(easy, CURLOPT_COPYPOSTFIELDS, request->body) != CURLE_OK)
        rc = DIBS_ENOMEM;
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, pass_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, stream);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, pass_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, stream);
    (void)curl_easy_setopt(easy, CURLOPT_PRIVATE, stream);
    return rc;
}

static void
enlist(http_stream *stream)
{
    struct streams *streams = stream->streams;
    pthread_mutex_lock(&streams->mutex);
    stream->is_running = 1;
    stream->next = streams->all;
    if (stream->next)
        stream->next->prev = stream;
    streams->all = stream;
    call_for_locked(stream);
    pthread_mutex_unlock(&streams->mutex);
}

int
dibs__http_stream_open(http *client, const http_request *request, int64_t limit_ms,
                       const http_events *events, void *context, http_stream **out)
{
    struct streams *streams = streams_of(client);
    http_stream *stream = streams ? client->host->alloc(sizeof *stream) : NULL;
    if (!stream)
        return DIBS_ENOMEM;
    stream->streams = streams;
    stream->events = *events;
    stream->context = context;
    if (request->delay_ms > 0)
        stream->start = client->host->now() + request->delay_ms * DIBS_MS;
    stream->transfer = dibs__http_transfer_new(client);
    if (!stream->transfer || prepare(stream, request, limit_ms) != DIBS_OK) {
        free_stream(stream);
        return DIBS_ENOMEM;
    }
    *out = stream;
    enlist(stream);
    return DIBS_OK;
}

int
dibs__http_stream_say(http_stream *stream, const void *bytes, size_t len)
{
    pthread_mutex_lock(&stream->streams->mutex);
    int rc = stream->is_running ? add_said_locked(stream, bytes, len) : DIBS_OK;
    if (!rc && stream->is_running)
        call_for_locked(stream);
    pthread_mutex_unlock(&stream->streams->mutex);
    return rc;
}

void
dibs__http_stream_drop(http_stream *stream)
{
    pthread_mutex_lock(&stream->streams->mutex);
    stream->is_dropped = 1;
    if (stream->is_running)
        call_for_locked(stream);
    pthread_mutex_unlock(&stream->streams->mutex);
}

void
dibs__http_stream_close(http_stream *stream)
{
    struct streams *streams = stream->streams;
    if (ending == stream) {
        stream->is_left_to_us = 1;
        return;
    }
    pthread_mutex_lock(&streams->mutex);
    stream->is_closing = 1;
    if (stream->is_running)
        call_for_locked(stream);
    while (stream->is_running)
        pthread_cond_wait(&streams->changed, &streams->mutex);
    delist_locked(stream);
    pthread_mutex_unlock(&streams->mutex);
    free_stream(stream);
}

/* ---- the end ---- */

static void
stop_thread(struct streams *streams)
{
    pthread_mutex_lock(&streams->mutex);
    streams->is_stopping = 1;
    (void)curl_multi_wakeup(streams->multi);
    pthread_mutex_unlock(&streams->mutex);
    pthread_join(streams->thread, NULL);
}

/* In a child libcurl can be taken apart only if the thread was not busy with it. */
void
dibs__http_streams_free(http *client, int forked)
{
    struct streams *streams = client->streams;
    if (!streams || (forked && !atomic_load(&streams->is_resting)))
        return;
    if (!forked)
        stop_thread(streams);
    while (streams->all) {
        http_stream *stream = streams->all;
        streams->all = stream->next;
        if (stream->is_added && stream->transfer)
            (void)curl_multi_remove_handle(streams->multi, stream->transfer->easy);
        free_stream(stream);
    }
    free_streams(streams, forked);
}
