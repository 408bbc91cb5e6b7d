/* SPDX-License-Identifier: MIT */
/* Wires: see wire.h. Parts: which wire; statements; the thread; open and close. */
#include "wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "util/wait.h"

#define EVENTS 32
/* an answer of which the beginning is here */
#define ANSWER_LIMIT (1000 * DIBS_MS)
/* of a connection on which nobody waits for anything; answers do not wake the thread */
#define ONLY_ITS_END (EPOLLRDHUP | EPOLLET)

/* ---- which wire ---- */

struct my_wire *
dibs__my_wire_find_locked(struct my_wires *wires, uint64_t serial)
{
    struct my_wire *wire = wires->all;
    while (wire && wire->serial != serial)
        wire = wire->next;
    return wire;
}

static void
hang_up(struct my_wire *wire)
{
    dibs__my_link_close(&wire->link, 0);
    wire->lease_s = 0;
}

/* nobody's, in that state */
static struct my_wire *
find_free_locked(struct my_wires *wires, enum my_wire_state state)
{
    struct my_wire *wire = wires->all;
    while (wire && (wire->serial != 0 || wire->state != state))
        wire = wire->next;
    return wire;
}

static struct my_wire *
add_locked(struct my_wires *wires)
{
    struct my_wire *wire = wires->host->alloc(sizeof *wire);
    if (!wire)
        return NULL;
    wire->next = wires->all;
    wires->all = wire;
    wires->count++;
    return wire;
}

/* one that is connected, if there is one; else a new one, or what somebody has left while it
 * was asking. NULL: there are too many, or there is no memory. */
static struct my_wire *
choose_locked(struct my_wires *wires)
{
    struct my_wire *wire = find_free_locked(wires, WIRE_IDLE);
    if (!wire)
        wire = find_free_locked(wires, WIRE_OFF);
    if (!wire && wires->count < wires->most)
        wire = add_locked(wires);
    if (!wire && (wire = find_free_locked(wires, WIRE_ASKING)))
        hang_up(wire);
    return wire;
}

/* The thread need not forget a socket that is closed: epoll does. */
void
dibs__my_wire_put_locked(struct my_wires *wires, struct my_wire *wire)
{
    (void)wires;
    if (wire->link.is_broken || wire->link.waits_for || wire->is_unwanted)
        hang_up(wire);
    wire->state = wire->link.mysql ? WIRE_IDLE : WIRE_OFF;
    wire->serial = 0;
    wire->bell = NULL;
    wire->was_lost = 0;
    wire->is_unwanted = 0;
    wire->keeps_until = 0;
}

void
dibs__my_wire_put(struct my_wires *wires, struct my_wire *wire)
{
    pthread_mutex_lock(&wires->mutex);
    dibs__my_wire_put_locked(wires, wire);
    pthread_mutex_unlock(&wires->mutex);
}

int
dibs__my_wire_await_calm_locked(struct my_wires *wires, struct my_wire *wire,
                                dibs_time deadline)
{
    while (wire->state == WIRE_BUSY) {
        if (wait_for(&wires->calm, &wires->mutex, deadline - wires->host->now()))
            return -1;
    }
    return 0;
}

/* the mutex keeps the thread from hearing of it before it is said to be quiet */
static int
enlist(struct my_wires *wires, struct my_wire *wire)
{
    struct epoll_event event = { .events = ONLY_ITS_END, .data.ptr = wire };
    pthread_mutex_lock(&wires->mutex);
    int rc = epoll_ctl(wires->epoll, EPOLL_CTL_ADD, mysql_get_socket(wire->link.mysql),
                       &event);
    wire->is_quiet = rc == 0;
    pthread_mutex_unlock(&wires->mutex);
    return rc;
}

static int
connect_wire(struct my_wires *wires, struct my_wire *wire, dibs_time deadline,
             dibs_error *err)
{
    if (wire->link.mysql && !dibs__my_link_is_closed(&wire->link))
        return DIBS_OK;
    hang_up(wire);
    int rc = dibs__my_link_open(&wire->link, wires->login, deadline, err);
    if (!rc && wire->link.is_shared)
        rc = wires->host->fail(err, DIBS_EUNSUPPORTED,
                               "a proxy is in between that shares sessions: GET_LOCK "
                               "would not be ours");
    if (!rc && enlist(wires, wire))
        rc = wires->host->fail(err, DIBS_EUNAVAIL, "epoll: %s", strerror(errno));
    if (rc)
        hang_up(wire);
    return rc;
}

int
dibs__my_wire_take(struct my_wires *wires, struct my_wire **out, uint64_t serial,
                   dibs_time deadline, dibs_error *err)
{
    pthread_mutex_lock(&wires->mutex);
    struct my_wire *wire = choose_locked(wires);
    if (wire) {
        wire->state = WIRE_BUSY;
        wire->serial = serial;
    }
    pthread_mutex_unlock(&wires->mutex);
    if (!wire)
        return wires->host->fail(err, DIBS_EUNAVAIL, "all %u connections are in use",
                                 wires->most);
    int rc = connect_wire(wires, wire, deadline, err);
    if (rc)
        dibs__my_wire_put(wires, wire);
    else
        *out = wire;
    return rc;
}

/* ---- statements ---- */

int
dibs__my_wire_prepare(struct my_wires *wires, struct my_wire *wire,
                      enum my_wire_statement which, dibs_time deadline, dibs_error *err)
{
    struct my_link *link = &wire->link;
    return dibs__my_prepare(link, &link->statements[which], wires->texts[which], deadline,
                            err);
}

int
dibs__my_wire_begin(struct my_wire *wire, enum my_wire_statement which,
                    const struct sql_value *params, size_t n, dibs_error *err)
{
    struct my_link *link = &wire->link;
    wire->asked = which;
    int rc = dibs__my_bind(link, link->statements[which], params, n, err);
    if (!rc)
        dibs__my_link_begin(link, dibs__my_step_execute, link->statements[which]);
    return rc;
}

int
dibs__my_wire_run(struct my_wires *wires, struct my_wire *wire,
                  enum my_wire_statement which, const struct sql_value *params, size_t n,
                  struct sql_result *out, dibs_time deadline, dibs_error *err)
{
    struct my_link *link = &wire->link;
    int rc = dibs__my_wire_prepare(wires, wire, which, deadline, err);
    if (!rc)
        rc = dibs__my_wire_begin(wire, which, params, n, err);
    if (rc)
        return rc;
    if (dibs__my_link_finish(link, deadline))
        return dibs__my_too_late(link, err);
    return dibs__my_rows(link, link->statements[which], out, deadline, err);
}

int64_t
dibs__my_wire_answer(struct my_wire *wire, enum my_wire_statement which)
{
    struct my_link *link = &wire->link;
    const dibs_host *host = link->login->host;
    struct sql_result result;
    dibs__sql_result_init(&result, host);
    int rc = dibs__my_rows(link, link->statements[which], &result,
                           host->now() + ANSWER_LIMIT, NULL);
    const struct sql_value *value = dibs__sql_at(&result, 0, 0);
    int64_t answer = !rc && value->kind == SQL_NUMBER ? value->number : -1;
    dibs__sql_result_free(&result);
    return answer;
}

/* ---- the thread ---- */

/* What the thread is to be told of. An answer may have been there at once, and nothing more
 * will come: it is to look all the same. */
static uint32_t
events_of(const struct my_wire *wire)
{
    int awaits = wire->link.waits_for;
    if (wire->state == WIRE_HELD && !awaits)
        return ONLY_ITS_END;
    return EPOLLIN | EPOLLRDHUP | EPOLLONESHOT |
           (!awaits || awaits & MYSQL_WAIT_WRITE ? EPOLLOUT : 0);
}

/* Most locks are given back soon: one whose connection was listened to before in the same way
 * costs nothing. Where it is asked for, epoll tells of an end that is there already. */
int
dibs__my_wire_listen_locked(struct my_wires *wires, struct my_wire *wire)
{
    struct epoll_event event = { .events = events_of(wire), .data.ptr = wire };
    int is_quiet = event.events == ONLY_ITS_END;
    if (is_quiet && wire->is_quiet)
        return 0;
    int rc = epoll_ctl(wires->epoll, EPOLL_CTL_MOD, mysql_get_socket(wire->link.mysql),
                       &event);
    if (rc == 0)
        wire->is_quiet = is_quiet;
    return rc;
}

/* Nothing was asked. Is there something to read, or an end of it? What woke us may have been
 * the answer to a ping, which the thread that renews has read since. */
static int
is_said_goodbye(const struct my_wire *wire)
{
    struct pollfd fd = { .fd = mysql_get_socket(wire->link.mysql),
                         .events = POLLIN | POLLRDHUP };
    return poll(&fd, 1, 0) != 0;
}

static void
hear_locked(struct my_wires *wires, struct my_wire *wire)
{
    int is_held = wire->state == WIRE_HELD;
    wire->is_quiet = 0; /* it is told once: who is at work on it asks anew */
    if (!is_held && wire->state != WIRE_ASKING && wire->state != WIRE_LETTING)
        return;
    if (is_held && !wire->link.waits_for && is_said_goodbye(wire)) {
        wire->was_lost = 1;
        wire->link.is_broken = 1;
        wires->heard(wires, wire);
        return;
    }
    dibs__my_link_proceed(&wire->link);
    if (wire->link.waits_for || is_held)
        (void)dibs__my_wire_listen_locked(wires, wire);
    else
        wires->heard(wires, wire);
}

/* 1: the thread is to end */
static int
handle_locked(struct my_wires *wires, const struct epoll_event *event)
{
    eventfd_t ignored;
    if (event->data.ptr)
        hear_locked(wires, event->data.ptr);
    else
        (void)eventfd_read(wires->wake, &ignored);
    return wires->is_ending;
}

static void *
run(void *arg)
{
    struct my_wires *wires = arg;
    struct epoll_event events[EVENTS];
    int ends = 0;
    while (!ends) {
        int count = epoll_wait(wires->epoll, events, EVENTS, -1);
        if (count < 0 && errno != EINTR)
            return NULL;
        pthread_mutex_lock(&wires->mutex);
        for (int i = 0; i < count; i++)
            ends |= handle_locked(wires, &events[i]);
        pthread_mutex_unlock(&wires->mutex);
    }
    return NULL;
}

static int
start_thread(struct my_wires *wires)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&wires->thread, NULL, run, wires);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    wires->is_running = error == 0;
    return error;
}

int
dibs__my_wires_start_locked(struct my_wires *wires)
{
    return wires->is_running ? 0 : start_thread(wires);
}

/* ---- open and close ---- */

static void
start_locks(struct my_wires *wires)
{
    pthread_mutex_init(&wires->mutex, NULL);
    cond_init(&wires->calm);
}

int
dibs__my_wires_open(struct my_wires *wires, dibs_error *err)
{
    struct epoll_event event = { .events = EPOLLIN, .data.ptr = NULL };
    wires->host = wires->session->host;
    wires->epoll = epoll_create1(EPOLL_CLOEXEC);
    wires->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wires->epoll >= 0 && wires->wake >= 0 &&
        epoll_ctl(wires->epoll, EPOLL_CTL_ADD, wires->wake, &event) == 0) {
        start_locks(wires);
        return DIBS_OK;
    }
    int rc = wires->host->fail(err, DIBS_EUNAVAIL, "epoll: %s", strerror(errno));
    if (wires->epoll >= 0)
        (void)close(wires->epoll);
    if (wires->wake >= 0)
        (void)close(wires->wake);
    return rc;
}

static void
stop_thread(struct my_wires *wires)
{
    if (!wires->is_running)
        return;
    pthread_mutex_lock(&wires->mutex);
    wires->is_ending = 1;
    pthread_mutex_unlock(&wires->mutex);
    (void)eventfd_write(wires->wake, 1);
    (void)pthread_join(wires->thread, NULL);
    wires->is_running = 0;
}

/* In a fork's child the thread is not there, and the mutex may be anybody's. */
void
dibs__my_wires_close(struct my_wires *wires, int forked)
{
    if (!forked)
        stop_thread(wires);
    for (struct my_wire *wire = wires->all, *next; wire; wire = next) {
        next = wire->next;
        wire->link.is_busy |= wire->state == WIRE_BUSY;
        dibs__my_link_close(&wire->link, forked);
        wires->host->free(wire);
    }
    (void)close(wires->epoll);
    (void)close(wires->wake);
    if (forked)
        return;
    pthread_cond_destroy(&wires->calm);
    pthread_mutex_destroy(&wires->mutex);
}
