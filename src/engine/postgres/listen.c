/* SPDX-License-Identifier: MIT */
/*
 * The connection on which this client hears what others tell it, and the thread that reads
 * from it. It is begun by the first who waits. What is said while there is no connection is
 * lost, so all who wait ask again when there is a new one.
 */
#include "postgres.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/wait.h"

#define CONNECT_LIMIT (3000 * DIBS_MS)
#define SILENCE (10000 * DIBS_MS)     /* then we ask whether the server is there */
#define ANSWER_LIMIT (3000 * DIBS_MS) /* and if it does not say so, it is not */
#define LIVED (1000 * DIBS_MS)        /* a connection that was none of the short ones */
#define PAUSE_FIRST (10 * DIBS_MS)
#define PAUSE_MOST (1000 * DIBS_MS)

struct listener {
    struct postgres *pg;
    pthread_t thread;
    int wake_fd;
    _Atomic int is_stopping;
    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t changed;
    int is_listening;
    uint64_t failures; /* connects that failed, and why the last one did */
    dibs_error failure;
    struct conn conn; /* the thread's alone */
};

/* ---- what is heard ---- */

static void
hear(struct listener *listener)
{
    PGnotify *notice;
    while ((notice = PQnotifies(listener->conn.pg)) != NULL) {
        dibs__sql_told(&listener->pg->sql, notice->extra, strlen(notice->extra));
        PQfreemem(notice);
    }
}

/* 1: something came from the server; 0: nothing, for a while; -1: we are to end */
static int
rest(const struct listener *listener, int fd, dibs_time pause)
{
    struct pollfd looks[] = { { listener->wake_fd, POLLIN, 0 }, { fd, POLLIN, 0 } };
    (void)poll(looks, fd >= 0 ? 2 : 1, (int)(pause / DIBS_MS));
    if (atomic_load(&listener->is_stopping))
        return -1;
    return fd >= 0 && looks[1].revents;
}

/* Other statements keep a connection from being heard dead; here is nobody who asks. */
static int
is_there(struct listener *listener)
{
    dibs_time deadline = listener->pg->host->now() + ANSWER_LIMIT;
    return dibs__pg_exec(listener->pg, &listener->conn, "SELECT 1", deadline, NULL) ==
           DIBS_OK;
}

/* listens until the connection is over, or we are to end */
static void
listen_on(struct listener *listener)
{
    int came;
    do {
        hear(listener);
        came = rest(listener, PQsocket(listener->conn.pg), SILENCE);
        if (came > 0 && !PQconsumeInput(listener->conn.pg))
            return;
    } while (came > 0 || (came == 0 && is_there(listener)));
}

/* ---- the thread ---- */

static int
connect_now(struct listener *listener, dibs_error *err)
{
    struct postgres *pg = listener->pg;
    char text[64];
    dibs_time deadline = pg->host->now() + CONNECT_LIMIT;
    int rc = dibs__pg_connect(pg, &listener->conn, deadline, err);
    if (rc)
        return rc;
    (void)snprintf(text, sizeof text, "LISTEN dibs_%s", pg->session->id_hex);
    rc = dibs__pg_exec(pg, &listener->conn, text, deadline, err);
    if (rc)
        dibs__pg_disconnect(pg, &listener->conn, 0);
    return rc;
}

static void
set_listening(struct listener *listener, int is_listening, const dibs_error *err)
{
    pthread_mutex_lock(&listener->mutex);
    listener->is_listening = is_listening;
    if (err) {
        listener->failures++;
        listener->failure = *err;
    }
    pthread_cond_broadcast(&listener->changed);
    pthread_mutex_unlock(&listener->mutex);
}

static dibs_time
longer(dibs_time pause)
{
    return pause * 2 < PAUSE_MOST ? pause * 2 : PAUSE_MOST;
}

/* a connection, from its beginning to its end: how long to wait before the next */
static dibs_time
live_once(struct listener *listener, dibs_time pause)
{
    struct postgres *pg = listener->pg;
    dibs_error err = { 0 };
    if (connect_now(listener, &err)) {
        set_listening(listener, 0, &err);
        return longer(pause);
    }
    dibs_time since = pg->host->now();
    set_listening(listener, 1, NULL);
    dibs__sql_unheard(&pg->sql);
    listen_on(listener);
    set_listening(listener, 0, NULL);
    dibs__pg_disconnect(pg, &listener->conn, 0);
    return pg->host->now() - since > LIVED ? PAUSE_FIRST : longer(pause);
}

static void *
run(void *arg)
{
    struct listener *listener = arg;
    dibs_time pause = PAUSE_FIRST;
    while (!atomic_load(&listener->is_stopping)) {
        pause = live_once(listener, pause);
        (void)rest(listener, -1, pause);
    }
    return NULL;
}

/* ---- beginning and end ---- */

static void
destroy(struct listener *listener, const dibs_host *host)
{
    pthread_cond_destroy(&listener->changed);
    pthread_mutex_destroy(&listener->mutex);
    (void)close(listener->wake_fd);
    host->free(listener);
}

static struct listener *
make(struct postgres *pg)
{
    struct listener *listener = pg->host->alloc(sizeof *listener);
    if (!listener)
        return NULL;
    listener->pg = pg;
    listener->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    pthread_mutex_init(&listener->mutex, NULL);
    cond_init(&listener->changed);
    if (listener->wake_fd >= 0)
        return listener;
    destroy(listener, pg->host);
    return NULL;
}

/* the thread gets no signals: they are for the program's own threads */
static int
start_thread(struct listener *listener)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&listener->thread, NULL, run, listener);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return error;
}

static int
start(struct postgres *pg, dibs_error *err)
{
    struct listener *listener = make(pg);
    if (!listener)
        return pg->host->fail(err, DIBS_ENOMEM, "out of memory");
    int error = start_thread(listener);
    if (error) {
        destroy(listener, pg->host);
        return pg->host->fail(err, DIBS_ENOMEM, "cannot start a thread: %s",
                              strerror(error));
    }
    atomic_store(&pg->listener, listener);
    return DIBS_OK;
}

static int
await(struct listener *listener, dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = listener->pg->host;
    int rc = DIBS_OK;
    pthread_mutex_lock(&listener->mutex);
    uint64_t failures = listener->failures;
    while (!rc && !listener->is_listening) {
        if (listener->failures != failures)
            rc = host->fail(err, DIBS_EUNAVAIL, "%s", listener->failure.text);
        else if (wait_for(&listener->changed, &listener->mutex, deadline - host->now()))
            rc = host->fail(err, DIBS_EUNAVAIL, "PostgreSQL did not listen in time");
    }
    pthread_mutex_unlock(&listener->mutex);
    return rc;
}

int
dibs__pg_listen(struct postgres *pg, dibs_time deadline, dibs_error *err)
{
    int rc = DIBS_OK;
    if (!atomic_load(&pg->listener)) {
        pthread_mutex_lock(&pg->starting);
        if (!atomic_load(&pg->listener))
            rc = start(pg, err);
        pthread_mutex_unlock(&pg->starting);
    }
    return rc ? rc : await(atomic_load(&pg->listener), deadline, err);
}

void
dibs__pg_listener_free(struct postgres *pg, int forked)
{
    const uint64_t one = 1;
    struct listener *listener = atomic_load(&pg->listener);
    if (!listener)
        return;
    if (forked) { /* a child has no such thread, and it may have been at anything */
        listener->conn.busy = 1;
        dibs__pg_disconnect(pg, &listener->conn, 1);
        (void)close(listener->wake_fd);
        return;
    }
    atomic_store(&listener->is_stopping, 1);
    (void)!write(listener->wake_fd, &one, sizeof one);
    pthread_join(listener->thread, NULL);
    destroy(listener, pg->host);
}
