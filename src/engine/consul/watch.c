/* SPDX-License-Identifier: MIT */
/*
 * Waiting, by blocking queries: the agent answers a read when there is something newer than
 * what we have seen, or after a minute. A client has one query under way for each name that
 * it waits for, however many claims wait; when it is answered, those are woken for whom it
 * may have changed anything, and for the others the next one is asked.
 *
 * All clients that wait for a name hear of it at the same time, and one of them gets it. Who
 * has been too late before lets a moment pass, and asks how it stands by then: most find that
 * it is taken, and have not tried in vain. It is some time between nothing and twice as long
 * as it took to try and fail; twice that with each failure, and a little less each time that
 * it was long enough. So it fits the number of those who wait, whatever that is.
 *
 * Each query takes a connection, and an agent allows a client 200 of them (its setting
 * http_max_conns_per_client). So there is a limit to queries; and where there is none, or it
 * failed, who waits looks again by the clock, as core does anyway.
 */
#include "claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_S 60
/* the agent adds a sixteenth, by chance */
#define LIMIT_MS ((WAIT_S + WAIT_S / 16 + 10) * 1000)
#define QUERIES_MOST 100
#define BODY_MOST (4 << 20)
#define BUCKETS 64
/* the longest such moment */
#define MOMENT_MOST (500 * DIBS_MS)
/* once in a while it is looked anyway */
#define TRUST (10000 * DIBS_MS)

struct watch {
    struct watch *next;
    struct watches *watches;
    http_stream *stream; /* NULL: no query is under way */
    struct waiter *waiters;
    uint64_t index; /* what is newer than this is awaited */
    int is_late;    /* the query does not block: it was asked a moment later */
    char server[128];
    char *body;
    size_t body_len, body_room;
    int is_lame; /* the body does not fit into memory */
    uint64_t name_hash;
    size_t name_len;
    char name[];
};

struct watches {
    struct consul *consul;
    pthread_mutex_t mutex;
    int query_count;
    struct watch *buckets[BUCKETS];
};

int
dibs__consul_watches_open(struct consul *consul)
{
    struct watches *watches = consul->host->alloc(sizeof *watches);
    if (!watches)
        return DIBS_ENOMEM;
    watches->consul = consul;
    pthread_mutex_init(&watches->mutex, NULL);
    consul->watches = watches;
    return DIBS_OK;
}

/* The streams have ended by then. */
void
dibs__consul_watches_close(struct consul *consul, int forked)
{
    struct watches *watches = consul->watches;
    for (int i = 0; watches && i < BUCKETS; i++) {
        for (struct watch *at = watches->buckets[i], *next; at; at = next) {
            next = at->next;
            free(at->body);
            consul->host->free(at);
        }
    }
    /* in a child somebody of the parent may have it for ever */
    if (watches && !forked)
        pthread_mutex_destroy(&watches->mutex);
    consul->host->free(watches);
    consul->watches = NULL;
}

/* ---- the table; the mutex is held ---- */

static struct watch **
find_locked(struct watches *watches, const dibs_claim *claim)
{
    struct watch **at = &watches->buckets[claim->name_hash % BUCKETS];
    while (*at && ((*at)->name_len != claim->name_len ||
                   memcmp((*at)->name, claim->name, claim->name_len) != 0))
        at = &(*at)->next;
    return at;
}

static struct watch *
make_locked(struct watches *watches, const dibs_claim *claim)
{
    struct watch **at = find_locked(watches, claim);
    if (*at)
        return *at;
    struct watch *watch = watches->consul->host->alloc(sizeof *watch + claim->name_len);
    if (!watch)
        return NULL;
    watch->watches = watches;
    watch->name_hash = claim->name_hash;
    watch->name_len = claim->name_len;
    memcpy(watch->name, claim->name, claim->name_len);
    *at = watch;
    return watch;
}

/* One that nobody needs goes, with its query if that has ended. */
static void
free_if_idle_locked(struct watch *watch)
{
    struct watches *watches = watch->watches;
    struct watch **at = &watches->buckets[watch->name_hash % BUCKETS];
    if (watch->waiters || watch->stream)
        return;
    while (*at != watch)
        at = &(*at)->next;
    *at = watch->next;
    free(watch->body);
    watches->consul->host->free(watch);
}

/* ---- queries ---- */

static void heard(void *context, const char *bytes, size_t len);
static void ended(void *context, int status, uint64_t index);

static void
write_query(char *out, size_t size, const struct watch *watch)
{
    const char *dc = watch->watches->consul->dc;
    int len = watch->is_late ? snprintf(out, size, "recurse")
                             : snprintf(out, size, "recurse&wait=%ds&index=%" PRIu64,
                                        WAIT_S, watch->index);
    if (*dc)
        (void)snprintf(out + len, size - (size_t)len, "&dc=%s", dc);
}

/* late_ms: less than 0: now, and it blocks */
static void
ask_locked(struct watch *watch, int late_ms)
{
    static const http_events events = { .heard = heard, .ended = ended };
    struct watches *watches = watch->watches;
    struct consul *consul = watches->consul;
    struct key all;
    char path[PATH_ROOM], query[512];
    if (watch->stream || watches->query_count >= QUERIES_MOST)
        return;
    watch->is_late = late_ms >= 0;
    dibs__consul_all_key(&all, consul, watch->name, watch->name_len);
    write_query(query, sizeof query, watch);
    dibs__consul_kv_path(path, &all, query);
    http_request request = { .method = "GET",
                             .path = path,
                             .delay_ms = watch->is_late ? late_ms : 0 };
    watch->body_len = 0;
    watch->is_lame = 0;
    dibs__http_server(consul->http, watch->server, sizeof watch->server);
    if (dibs__http_stream_open(consul->http, &request, LIMIT_MS, &events, watch,
                               &watch->stream) == DIBS_OK)
        watches->query_count++;
}

static void
heard(void *context, const char *bytes, size_t len)
{
    struct watch *watch = context;
    size_t need = watch->body_len + len + 1;
    if (need > watch->body_room && need <= BODY_MOST) {
        char *body = realloc(watch->body, 2 * need);
        watch->body = body ? body : watch->body;
        watch->body_room = body ? 2 * need : watch->body_room;
    }
    if (need > watch->body_room) {
        watch->is_lame = 1;
        return;
    }
    memcpy(watch->body + watch->body_len, bytes, len);
    watch->body_len += len;
    watch->body[watch->body_len] = '\0';
}

/* ---- answers; the mutex is held ---- */

static void
ring_locked(struct watch *watch, struct waiter *waiter)
{
    const dibs_host *host = watch->watches->consul->host;
    if (waiter->is_rung)
        return;
    waiter->is_rung = 1;
    waiter->rung_at = host->now();
    host->ring(waiter->bell);
}

/* Who observes wants to know of everything; others, whether they may go on. */
static int
concerns(const struct waiter *waiter, const struct view *view)
{
    if (waiter->mode == DIBS_OBSERVE)
        return 1;
    if (waiter->mode == DIBS_EXCLUSIVE)
        return view->kind == VIEW_OTHER || dibs__consul_view_count(view) == 0;
    return view->kind != VIEW_HELD && !view->writers;
}

static void
ring_all_locked(struct watch *watch)
{
    for (struct waiter *at = watch->waiters; at; at = at->next)
        ring_locked(watch, at);
}

/* Tells those who are concerned, and returns what moment the others let pass; 0: none do. */
static dibs_time
tell_locked(struct watch *watch, const struct view *view)
{
    dibs_time moment = 0;
    for (struct waiter *at = watch->waiters; at; at = at->next) {
        int is_concerned = concerns(at, view);
        if (!is_concerned && watch->is_late)
            at->moment -= at->moment / 10;
        else if (is_concerned && (watch->is_late || !at->moment))
            ring_locked(watch, at);
        else if (is_concerned)
            moment = at->moment;
    }
    return moment;
}

static int
some_of(const struct watch *watch, dibs_time moment)
{
    uint64_t ms = (uint64_t)(moment / DIBS_MS) + 1;
    return (int)(watch->watches->consul->host->random() % (ms + 1));
}

static void
learn_locked(struct waiter *waiter, dibs_time now)
{
    dibs_time took = now - waiter->rung_at;
    if (waiter->watch && waiter->is_rung)
        waiter->moment = 2 * (waiter->moment ? waiter->moment : took);
    if (waiter->moment > MOMENT_MOST)
        waiter->moment = MOMENT_MOST;
}

/* Returns after how long to ask again, if anybody waits. */
static int
see_locked(struct watch *watch)
{
    dibs_time moment;
    int late_ms = -1;
    struct consul *consul = watch->watches->consul;
    struct answer answer = { .host = consul->host };
    struct view view;
    answer.json = watch->body_len ? dibs__http_json(watch->body, watch->body_len) : NULL;
    if (watch->is_lame || dibs__consul_view(&view, consul, &answer, watch->name,
                                            watch->name_len, NULL) != DIBS_OK) {
        ring_all_locked(watch);
    } else {
        moment = tell_locked(watch, &view);
        if (moment)
            late_ms = some_of(watch, moment);
        dibs__consul_view_free(&view);
    }
    dibs__consul_answer_free(&answer);
    return late_ms;
}

static int
anybody_waits_locked(const struct watch *watch)
{
    const struct waiter *at = watch->waiters;
    while (at && at->is_rung)
        at = at->next;
    return at != NULL;
}

/* An index that goes back is one of servers that have begun anew. */
static void
take_answer_locked(struct watch *watch, uint64_t index)
{
    int late_ms = -1;
    if (index < watch->index)
        ring_all_locked(watch);
    else if (index > watch->index || watch->is_late)
        late_ms = see_locked(watch);
    watch->index = index ? index : 1;
    if (anybody_waits_locked(watch))
        ask_locked(watch, late_ms);
}

static void
ended(void *context, int status, uint64_t index)
{
    struct watch *watch = context;
    struct watches *watches = watch->watches;
    pthread_mutex_lock(&watches->mutex);
    http_stream *stream = watch->stream;
    watch->stream = NULL;
    watches->query_count--;
    if (status == 200 || status == 404)
        take_answer_locked(watch, index);
    free_if_idle_locked(watch);
    pthread_mutex_unlock(&watches->mutex);
    dibs__http_stream_close(stream);
}

/* ---- waiting ---- */

static void
leave_locked(struct waiter *waiter)
{
    struct watch *watch = waiter->watch;
    struct waiter **at = &watch->waiters;
    while (*at != waiter)
        at = &(*at)->next;
    *at = waiter->next;
    waiter->watch = NULL;
    /* a query that nobody waits for any more would hold its connection for a minute */
    if (!watch->waiters && watch->stream)
        dibs__http_stream_drop(watch->stream);
    free_if_idle_locked(watch);
}

void
dibs__consul_unwatch(struct consul *consul, struct stake *stake)
{
    pthread_mutex_lock(&consul->watches->mutex);
    if (stake->waiter.watch)
        leave_locked(&stake->waiter);
    pthread_mutex_unlock(&consul->watches->mutex);
}

static void
enter_locked(struct watch *watch, struct waiter *waiter)
{
    if (waiter->watch == watch)
        return;
    waiter->watch = watch;
    waiter->next = watch->waiters;
    watch->waiters = waiter;
}

/* A query that was sent to a server that is not asked any more may never be answered. */
static int
is_stuck_locked(const struct watch *watch)
{
    char server[sizeof watch->server];
    dibs__http_server(watch->watches->consul->http, server, sizeof server);
    return watch->stream && strcmp(server, watch->server) != 0;
}

static void
wait_locked(struct watch *watch, struct waiter *waiter, uint64_t seen)
{
    if (is_stuck_locked(watch))
        dibs__http_stream_drop(watch->stream);
    /* nobody waits for what came before that */
    if (!watch->stream && !anybody_waits_locked(watch))
        watch->index = seen;
    /* the others have been told of something that this one has not seen */
    waiter->is_rung = seen < watch->index;
    waiter->rung_at = waiter->since;
    enter_locked(watch, waiter);
    ask_locked(watch, -1);
}

/* Core asks for it more often than there is something new. */
void
dibs__consul_watch(struct consul *consul, dibs_claim *claim, struct stake *stake)
{
    struct watches *watches = consul->watches;
    struct waiter *waiter = &stake->waiter;
    if (!stake->seen)
        return;
    pthread_mutex_lock(&watches->mutex);
    struct watch *watch = make_locked(watches, claim);
    if (watch) {
        waiter->bell = claim->bell;
        waiter->mode = claim->mode;
        waiter->since = consul->host->now();
        learn_locked(waiter, waiter->since);
        wait_locked(watch, waiter, stake->seen);
        stake->seen = 0;
    }
    pthread_mutex_unlock(&watches->mutex);
}

int
dibs__consul_still_watching(struct consul *consul, const struct stake *stake)
{
    const struct waiter *waiter = &stake->waiter;
    pthread_mutex_lock(&consul->watches->mutex);
    int is_waiting = waiter->watch && waiter->watch->stream && !waiter->is_rung &&
                     consul->host->now() - waiter->since < TRUST;
    pthread_mutex_unlock(&consul->watches->mutex);
    return is_waiting;
}
