/* SPDX-License-Identifier: MIT */
/*
 * Driving the client library, and run, which waits for answers.
 *
 * Who waits and finds that nobody drives does it: asks the library what it wants, polls
 * without the mutex, and lets it process what came, for all who wait. Done, it wakes one of
 * the others to go on, or leaves the session to the pump.
 *
 * Parts: the library; sleeping and driving; run.
 */
#include "link.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>

#include "util/wait.h"

#define NS_PER_S 1000000000
#define READS 256 /* taken after one poll */

/* ---- the library ---- */

/* The library sets all its watches again with one request, and servers take no larger ones
 * than 1 MB: they end the connection. */
#define WATCH_BYTES_MAX (512 * 1024)

static void
connection_came(struct session *session)
{
    struct zk *zk = session->zk;
    session->granted_ms = zoo_recv_timeout(session->handle);
    dibs__zk_life_attach(&session->life, session->connect_sent, session->granted_ms,
                         zk->tick_ms, !session->was_connected);
    session->connected = 1;
    session->was_connected = 1;
    session->trouble = 0;
    session->failures = 0;
    session->patience = 0;
    session->pause = 0;
    session->asked_quorum = 0; /* this connection has still to prove its worth */
    if (session->is_behind)
        dibs__zk_catch_up(session);
    pthread_cond_broadcast(&session->changed);
}

static void
connection_went(struct session *session, int trouble)
{
    if (session->connected) {
        dibs__zk_life_detach(&session->life);
        session->connected = 0;
        session->due = 0;
        dibs__zk_pump_wake(session->zk);
    }
    if (trouble) {
        session->trouble = trouble;
        session->failures++;
        pthread_cond_broadcast(&session->changed);
    }
}

/* Sees what a call of the library has changed; `before`: the time before that call. */
static void
note_state(struct session *session, int rc, dibs_time before)
{
    int trouble = errno;
    int state = zoo_state(session->handle);
    if (state == ZOO_ASSOCIATING_STATE && !session->connected && !session->connect_sent)
        session->connect_sent = before;
    if (state == ZOO_CONNECTED_STATE && !session->connected)
        connection_came(session);
    if (state == ZOO_CONNECTED_STATE && !session->fate)
        return;
    connection_went(session, rc == ZOK || rc == ZNOTHING ? 0 : trouble);
    if (state != ZOO_CONNECTING_STATE && state != ZOO_ASSOCIATING_STATE) {
        session->fd = -1;
        session->mask = 0;
        session->connect_sent = 0;
    }
    if (state >= 0 && !session->fate && session->watch_bytes > WATCH_BYTES_MAX)
        dibs__zk_remake(session);
    if (state < 0 || session->fate)
        dibs__zk_bury(session, session->fate                    ? session->fate
                               : state == ZOO_AUTH_FAILED_STATE ? ZAUTHFAILED
                                                                : ZSESSIONEXPIRED);
}

int
dibs__zk_process(struct session *session, short revents)
{
    int events = 0;
    dibs_time before = session->connected ? 0 : session->zk->host->now();
    if (revents & (POLLIN | POLLHUP | POLLERR))
        events |= ZOOKEEPER_READ;
    if (revents & (POLLOUT | POLLHUP | POLLERR))
        events |= ZOOKEEPER_WRITE;
    errno = 0;
    int rc = zookeeper_process(session->handle, events);
    if (rc == ZOK)
        session->heard = session->zk->host->now();
    note_state(session, rc, before);
    return rc;
}

void
dibs__zk_check(struct session *session)
{
    errno = 0;
    note_state(session, ZOK, 0);
}

/* After a failed send the library would send what it has kept again, on the next
 * connection, with what is left of the first one. It forgets only when a connection fails:
 * so we let it make one, and cut it. */
static void
clear_debris(struct session *session)
{
    int fd = session->fd;
    if (!session->has_debris || fd == -1)
        return;
    (void)shutdown(fd, SHUT_RDWR);
    (void)dibs__zk_process(session, POLLIN | POLLOUT);
    session->has_debris = session->handle && session->fd == fd;
}

int
dibs__zk_interest(struct session *session, dibs_time *wait)
{
    int fd = -1, wants = 0;
    struct timeval tv = { 0, 0 };
    dibs_time before = session->zk->host->now();
    errno = 0;
    int rc = zookeeper_interest(session->handle, &fd, &wants, &tv);
    if (session->fd == -1)
        session->heard = before;
    session->fd = rc == ZOK ? fd : -1;
    /* or each program that this process executes has it as well */
    if (session->fd != -1 && zoo_state(session->handle) != ZOO_CONNECTED_STATE)
        (void)fcntl(session->fd, F_SETFD, FD_CLOEXEC);
    note_state(session, rc, before);
    if (session->handle)
        clear_debris(session);
    *wait = (dibs_time)tv.tv_sec * NS_PER_S + (dibs_time)tv.tv_usec * 1000;
    session->events = (short)((wants & ZOOKEEPER_READ ? POLLIN : 0) |
                              (wants & ZOOKEEPER_WRITE ? POLLOUT : 0));
    return session->handle && session->fd != -1 ? 0 : -1;
}

/* Sends a request that nobody waits for. */
static int
send_alone(struct session *session, struct op *op, int is_beat)
{
    struct batch *batch = dibs__zk_batch_new(session, op, 1);
    if (!batch)
        return 0;
    batch->is_beat = is_beat;
    dibs__zk_batch_send(batch);
    int is_sent = batch->pending > 0;
    dibs__zk_batch_leave(batch);
    return is_sent;
}

void
dibs__zk_beat(struct session *session, int by_quorum)
{
    struct op check = { .kind = OP_CHECK, .path = "/", .version = -1 };
    struct op op = { .kind = by_quorum ? OP_MULTI : OP_EXISTS,
                     .path = "/",
                     .parts = &check,
                     .part_count = 1 };
    session->beat_flies = send_alone(session, &op, 1);
}

void
dibs__zk_catch_up(struct session *session)
{
    struct op op = { .kind = OP_SYNC, .path = "/" };
    session->is_behind = !send_alone(session, &op, 0);
}

/* ---- sleeping and driving ---- */

static struct timespec
span(dibs_time ns)
{
    if (ns < 0)
        ns = 0;
    struct timespec ts = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };
    return ts;
}

/* One step: polls until something comes, but not beyond the deadline. Answers that belong
 * together come together: what is there is taken without another poll. */
static void
drive(struct session *session, const struct batch *batch, dibs_time deadline)
{
    dibs_time wait;
    if (dibs__zk_interest(session, &wait) != 0)
        return;
    struct pollfd entry = { .fd = session->fd, .events = session->events };
    dibs_time left = deadline - session->zk->host->now();
    struct timespec limit = span(left < wait ? left : wait);
    pthread_mutex_unlock(&session->mutex);
    int ready = ppoll(&entry, 1, &limit, NULL);
    pthread_mutex_lock(&session->mutex);
    short revents = ready > 0 ? entry.revents : 0;
    for (int i = 0; i < READS && revents && session->handle && batch->pending > 0; i++)
        revents = dibs__zk_process(session, revents) == ZOK ? POLLIN : 0;
}

static void
enlist(struct batch *batch)
{
    batch->next = batch->session->waiting;
    batch->session->waiting = batch;
}

static void
delist(struct batch *batch)
{
    struct batch **link = &batch->session->waiting;
    while (*link && *link != batch)
        link = &(*link)->next;
    if (*link)
        *link = batch->next;
}

/* Somebody else has to drive now. */
static void
pass_on(struct session *session)
{
    for (struct batch *other = session->waiting; other; other = other->next) {
        if (other->pending > 0) {
            pthread_cond_signal(&other->answered);
            return;
        }
    }
    dibs__zk_pump_resume(session);
}

static void
await_awake(struct batch *batch, dibs_time deadline)
{
    struct session *session = batch->session;
    session->driver = 1;
    dibs__zk_pump_hush(session);
    do {
        drive(session, batch, deadline);
    } while (batch->pending > 0 && session->connected &&
             session->zk->host->now() < deadline);
    session->driver = 0;
}

/* Waits until all are answered, or the time is up; drives if nobody else does. */
static void
await_answers(struct batch *batch, dibs_time deadline)
{
    struct session *session = batch->session;
    enlist(batch);
    while (batch->pending > 0 && session->zk->host->now() < deadline) {
        if (!session->driver && session->connected)
            await_awake(batch, deadline);
        else
            (void)wait_for(&batch->answered, &session->mutex,
                           deadline - session->zk->host->now());
    }
    delist(batch);
    if (!session->driver)
        pass_on(session);
}

/* ---- run ---- */

static int
fail_dead(const struct session *session, dibs_error *err)
{
    const dibs_host *host = session->zk->host;
    if (session->fate == ZAUTHFAILED)
        return host->fail(err, DIBS_EDENIED, "the servers refused our credentials");
    return host->fail(err, DIBS_ELOST, "the session has expired");
}

static int
fail_unconnected(const struct session *session, dibs_error *err)
{
    const char *why = session->trouble == EHOSTDOWN ? "the server closed the connection"
                      : session->trouble            ? strerror(session->trouble)
                                                    : "no server answers";
    return session->zk->host->fail(err, DIBS_EUNAVAIL, "not connected: %s", why);
}

/* Nobody is there, and we never had a session: to wait longer is for the caller to say. */
static int
is_hopeless(const struct session *session)
{
    int error = session->trouble;
    return !session->was_connected && session->failures >= session->addresses &&
           (error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH);
}

int
dibs__zk_await_connection(struct session *session, dibs_time deadline, dibs_error *err)
{
    while (!session->connected && session->handle &&
           session->zk->host->now() < deadline && !is_hopeless(session))
        (void)wait_for(&session->changed, &session->mutex,
                       deadline - session->zk->host->now());
    if (!session->handle)
        return fail_dead(session, err);
    return session->connected ? DIBS_OK : fail_unconnected(session, err);
}

/* What run returns when all answers are there, or the time is up. */
static int
verdict(const struct session *session, const struct op *ops, int count, dibs_error *err)
{
    const dibs_host *host = session->zk->host;
    int lost = 0;
    for (int i = 0; i < count; i++) {
        if (ops[i].rc == ZSYSTEMERROR)
            return host->fail(err, DIBS_ENOMEM, "out of memory");
        lost |= !dibs__zk_is_answer(ops[i].rc);
    }
    if (!lost)
        return DIBS_OK;
    if (session->fate)
        return fail_dead(session, err);
    return host->fail(err, DIBS_EUNKNOWN, "%s",
                      session->connected ? "no answer in time"
                                         : "the connection was lost");
}

int
dibs__zk_run(struct session *session, struct op *ops, int count, dibs_time deadline,
             dibs_error *err)
{
    struct batch *batch = dibs__zk_batch_new(session, ops, count);
    if (!batch)
        return session->zk->host->fail(err, DIBS_ENOMEM, "out of memory");
    cond_init(&batch->answered);
    pthread_mutex_lock(&session->mutex);
    int rc = dibs__zk_await_connection(session, deadline, err);
    if (!rc) {
        dibs__zk_batch_send(batch);
        await_answers(batch, deadline);
        rc = verdict(session, ops, count, err);
    }
    dibs__zk_batch_leave(batch);
    pthread_mutex_unlock(&session->mutex);
    return rc;
}
