/* SPDX-License-Identifier: MIT */
/*
 * The connection on which this client hears what others tell it, and the thread that reads
 * from it. It is begun by the first who waits. What is said while there is no connection is
 * lost, so all who wait ask again when there is a new one.
 *
 * Only the thread connects and disconnects. It reads as well, unless one who waits does
 * (`reader`), which spares that one a switch of threads. Meanwhile the thread is not woken by
 * what comes in: it sleeps in an epoll that is not told of the socket then.
 *
 * Parts: who reads; what is heard; the thread; for who waits; beginning and end.
 */
#include "postgres.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/wait.h"

#define CONNECT_LIMIT (3000 * DIBS_MS)
#define SILENCE (10000 * DIBS_MS)     /* then we ask whether the server is there */
#define ANSWER_LIMIT (3000 * DIBS_MS) /* and if it does not say so, it is not */
#define LIVED (1000 * DIBS_MS)        /* a connection that was none of the short ones */
#define PAUSE_FIRST (10 * DIBS_MS)
#define PAUSE_MOST (1000 * DIBS_MS)

enum reader { NOBODY, THREAD, BORROWER };

struct listener {
    struct postgres *pg;
    pthread_t thread;
    int wake_fd;  /* wakes the thread, */
    int rouse_fd; /* and this one who reads in its place */
    int epoll_fd; /* wake_fd, and the socket while nobody reads */
    _Atomic int is_stopping;
    pthread_mutex_t mutex; /* for all below */
    pthread_cond_t changed;
    int is_listening;
    _Atomic int is_wanted; /* by the thread: nobody else begins to read, or goes on */
    enum reader reader;
    uint64_t failures; /* connects that failed, and why the last one did */
    dibs_error failure;
    struct conn conn; /* the reader's alone */
};

/* ---- who reads ---- */

static void
wake(int event_fd)
{
    const uint64_t one = 1;
    (void)!write(event_fd, &one, sizeof one);
}

static void
forget_wakes(int event_fd)
{
    uint64_t count;
    (void)!read(event_fd, &count, sizeof count);
}

/* The thread is told once of what comes in, and then no more until this is called again. */
static void
tell_thread(const struct listener *listener, int operation, uint32_t events)
{
    int fd = PQsocket(listener->conn.pg);
    struct epoll_event event = { .events = events | EPOLLONESHOT, .data.fd = fd };
    (void)epoll_ctl(listener->epoll_fd, operation, fd, &event);
}

/* the thread's turn: whoever reads in its place is asked to leave */
static void
begin_as_thread(struct listener *listener)
{
    pthread_mutex_lock(&listener->mutex);
    listener->is_wanted = 1;
    if (listener->reader == BORROWER)
        wake(listener->rouse_fd);
    while (listener->reader == BORROWER)
        pthread_cond_wait(&listener->changed, &listener->mutex);
    listener->reader = THREAD;
    pthread_mutex_unlock(&listener->mutex);
}

static void
end_as_thread(struct listener *listener)
{
    pthread_mutex_lock(&listener->mutex);
    listener->is_wanted = 0;
    listener->reader = NOBODY;
    tell_thread(listener, EPOLL_CTL_MOD, EPOLLIN);
    pthread_mutex_unlock(&listener->mutex);
}

static int
begin_as_borrower(struct listener *listener)
{
    pthread_mutex_lock(&listener->mutex);
    int is_free =
        listener->is_listening && !listener->is_wanted && listener->reader == NOBODY;
    if (is_free) {
        listener->reader = BORROWER;
        tell_thread(listener, EPOLL_CTL_MOD, 0);
    }
    pthread_mutex_unlock(&listener->mutex);
    return is_free;
}

/* libpq closes a socket that is of no use: then nothing would come from it */
static void
end_as_borrower(struct listener *listener)
{
    pthread_mutex_lock(&listener->mutex);
    listener->reader = NOBODY;
    if (PQsocket(listener->conn.pg) >= 0)
        tell_thread(listener, EPOLL_CTL_MOD, EPOLLIN);
    else
        wake(listener->wake_fd);
    if (listener->is_wanted)
        pthread_cond_broadcast(&listener->changed);
    pthread_mutex_unlock(&listener->mutex);
}

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

/* 1: something came; 0: nothing, for a while; -1: we are to end */
static int
rest(const struct listener *listener, dibs_time pause)
{
    struct epoll_event event;
    int count = epoll_wait(listener->epoll_fd, &event, 1, (int)(pause / DIBS_MS));
    if (count > 0 && event.data.fd == listener->wake_fd)
        forget_wakes(listener->wake_fd);
    return atomic_load(&listener->is_stopping) ? -1 : count > 0;
}

/* Other statements keep a connection from being heard dead; here is nobody who asks. */
static int
is_there(struct listener *listener)
{
    dibs_time deadline = listener->pg->host->now() + ANSWER_LIMIT;
    return dibs__pg_query(listener->pg, &listener->conn, "SELECT 1", NULL, deadline,
                          NULL) == DIBS_OK;
}

/* what the thread does when it is its turn: 1, or 0: the connection is over */
static int
look(struct listener *listener, int came)
{
    int is_well = came ? PQconsumeInput(listener->conn.pg) : is_there(listener);
    if (is_well)
        hear(listener);
    return is_well;
}

/* listens until the connection is over, or we are to end; it is the thread's turn then */
static void
listen_on(struct listener *listener)
{
    hear(listener); /* what came while we said that we listen */
    for (int is_well = 1; is_well;) {
        end_as_thread(listener);
        int came = rest(listener, SILENCE);
        begin_as_thread(listener);
        is_well = came >= 0 && look(listener, came);
    }
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
    rc = dibs__pg_query(pg, &listener->conn, text, NULL, deadline, err);
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
    tell_thread(listener, EPOLL_CTL_ADD, 0);
    dibs__sql_unheard(&pg->sql);
    set_listening(listener, 1, NULL);
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
        (void)rest(listener, pause);
    }
    return NULL;
}

/* ---- for who waits ---- */

/* 1: go on, 0: the connection is over, or the thread wants it */
static int
read_once(struct listener *listener, dibs_time deadline)
{
    struct pollfd looks[] = { { listener->rouse_fd, POLLIN, 0 },
                              { PQsocket(listener->conn.pg), POLLIN, 0 } };
    dibs_time left = (deadline - listener->pg->host->now()) / DIBS_MS + 1;
    (void)poll(looks, 2, (int)(left < SILENCE / DIBS_MS ? left : SILENCE / DIBS_MS));
    if (looks[0].revents)
        forget_wakes(listener->rouse_fd);
    if (looks[1].revents && !PQconsumeInput(listener->conn.pg))
        return 0;
    hear(listener);
    return !atomic_load(&listener->is_wanted);
}

void
dibs__pg_sleep(void *state, dibs_claim *claim, dibs_time deadline)
{
    const struct postgres *pg = state;
    struct listener *listener = atomic_load(&pg->listener);
    if (!listener || !begin_as_borrower(listener))
        return;
    while (dibs_bell_seen(claim->bell) == claim->seen && pg->host->now() < deadline &&
           read_once(listener, deadline))
        ;
    end_as_borrower(listener);
}

void
dibs__pg_rouse(void *state, dibs_claim *claim)
{
    const struct postgres *pg = state;
    const struct listener *listener = atomic_load(&pg->listener);
    (void)claim;
    if (listener)
        wake(listener->rouse_fd);
}

/* ---- beginning and end ---- */

static void
close_fds(const struct listener *listener)
{
    const int fds[] = { listener->wake_fd, listener->rouse_fd, listener->epoll_fd };
    for (size_t i = 0; i < sizeof fds / sizeof fds[0]; i++) {
        if (fds[i] >= 0)
            (void)close(fds[i]);
    }
}

static int
open_fds(struct listener *listener)
{
    struct epoll_event wakes = { .events = EPOLLIN };
    listener->wake_fd = wakes.data.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    listener->rouse_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    listener->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (listener->wake_fd < 0 || listener->rouse_fd < 0 || listener->epoll_fd < 0)
        return -1;
    return epoll_ctl(listener->epoll_fd, EPOLL_CTL_ADD, listener->wake_fd, &wakes);
}

static void
destroy(struct listener *listener, const dibs_host *host)
{
    pthread_cond_destroy(&listener->changed);
    pthread_mutex_destroy(&listener->mutex);
    close_fds(listener);
    host->free(listener);
}

static struct listener *
make(struct postgres *pg)
{
    struct listener *listener = pg->host->alloc(sizeof *listener);
    if (!listener) {
        errno = ENOMEM;
        return NULL;
    }
    listener->pg = pg;
    listener->reader = THREAD;
    pthread_mutex_init(&listener->mutex, NULL);
    cond_init(&listener->changed);
    if (open_fds(listener) == 0)
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
    if (!listener) /* without descriptors one goes on asking, until there are some */
        return pg->host->fail(err, errno == ENOMEM ? DIBS_ENOMEM : DIBS_EUNAVAIL,
                              "cannot listen: %s", strerror(errno));
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
    struct listener *listener = atomic_load(&pg->listener);
    if (!listener)
        return;
    if (forked) { /* a child has no such thread, and it may have been at anything */
        listener->conn.busy = 1;
        dibs__pg_disconnect(pg, &listener->conn, 1);
        close_fds(listener);
        return;
    }
    atomic_store(&listener->is_stopping, 1);
    wake(listener->wake_fd);
    pthread_join(listener->thread, NULL);
    destroy(listener, pg->host);
}
