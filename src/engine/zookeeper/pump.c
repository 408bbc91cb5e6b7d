/* SPDX-License-Identifier: MIT */
/*
 * The thread that drives sessions while no caller does: it connects, keeps them alive, and
 * hears what claims wait for.
 *
 * Its epoll reports each change once (EPOLLET). A session that is connected and waits for
 * nothing is in there only so that a lost connection is noticed; one that has watches, or
 * requests that their callers have left behind, also for what can be read. While a caller
 * drives that is taken out, so that the two do not wake each other.
 */
#include "link.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define EVENTS 16
#define READS 256                  /* answers taken in one look */
#define PAUSE_FIRST (10 * DIBS_MS) /* between attempts to connect */
#define PAUSE_MOST (250 * DIBS_MS)
#define SILENCE_LEAST (500 * DIBS_MS)
#define PATIENCE (1000 * DIBS_MS) /* with the first of them */
#define BEATS 10                  /* per session's length, while it has claims */
#define TOUCHES 5

struct pump {
    struct zk *zk;
    pthread_t thread;
    _Atomic int is_on, stopping;
    dibs_time parked; /* when it was stopped, to be started again */
    int epoll_fd, wake_fd;
};

/* ---- what epoll reports ---- */

static dibs_time
earlier(dibs_time a, dibs_time b)
{
    return a < b ? a : b;
}

static void
set_mask(struct session *session, uint32_t mask)
{
    const struct pump *pump = session->zk->pump;
    struct epoll_event event = { .events = mask | EPOLLET, .data.u64 = session->birth };
    if (session->fd == -1 || session->mask == (mask | EPOLLET))
        return;
    int how = session->mask ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    if (epoll_ctl(pump->epoll_fd, how, session->fd, &event) == 0)
        session->mask = mask | EPOLLET;
}

static void
set_mask_idle(struct session *session, int is_left_alone)
{
    uint32_t mask = EPOLLRDHUP;
    int is_waiting = session->flights || atomic_load(&session->watchers);
    if (!session->connected || (is_left_alone && is_waiting))
        mask |= EPOLLIN;
    if (is_left_alone && (session->events & POLLOUT))
        mask |= EPOLLOUT;
    set_mask(session, mask);
}

void
dibs__zk_pump_hush(struct session *session)
{
    set_mask_idle(session, 0);
}

void
dibs__zk_pump_resume(struct session *session)
{
    if (!session->connected)
        dibs__zk_pump_wake(session->zk);
    else
        set_mask_idle(session, 1);
}

void
dibs__zk_pump_wake(struct zk *zk)
{
    const struct pump *pump = zk->pump;
    uint64_t one = 1;
    /* it fails only if there are wake-ups enough */
    (void)!write(pump->wake_fd, &one, sizeof one);
}

/* ---- looking after a session ---- */

/* Takes what has come. The library handles one answer at a time. */
static void
take_in(struct session *session)
{
    int more = 1;
    for (int i = 0; i < READS && more && session->handle && session->fd != -1; i++) {
        struct pollfd entry = { .fd = session->fd, .events = session->events | POLLIN };
        more = poll(&entry, 1, 0) > 0 &&
               dibs__zk_process(session, entry.revents) == ZOK && entry.revents & POLLIN;
    }
}

/* Sends a beat if one is due, and returns when the next one is. */
static dibs_time
keep_up(struct session *session, dibs_time now)
{
    dibs_time used = atomic_load_explicit(&session->used, memory_order_relaxed);
    dibs_time length = session->life.timeout;
    if (!session->connected || !used)
        return DIBS_NEVER;
    int is_busy = atomic_load(&session->watchers) || now - used < length / 2;
    dibs_time every = length / (is_busy ? BEATS : TOUCHES);
    dibs_time last = is_busy ? session->asked_quorum : session->asked_any;
    if (now < last + every)
        return last + every;
    if (!session->beat_flies)
        dibs__zk_beat(session, is_busy);
    return now + every;
}

/* In a short session, a server that is only slow should not look dead. */
static dibs_time
silence_limit(dibs_time length)
{
    dibs_time least = earlier(SILENCE_LEAST, length * 6 / 10);
    return length / 3 > least ? length / 3 : least;
}

/* When a server that does not answer is left for another: well before the session is over,
 * while the library would wait for two thirds of it. Attempts to connect get more time from
 * one to the next, as servers may be slow. */
static dibs_time
patience_ends(const struct session *session)
{
    dibs_time length = session->wanted_ms * DIBS_MS;
    if (session->fd == -1)
        return DIBS_NEVER;
    if (!session->connected)
        return session->heard +
               (session->patience < length / 2 ? session->patience : length / 2);
    if (!session->flights)
        return DIBS_NEVER;
    dibs_time since =
        session->heard > session->asked_first ? session->heard : session->asked_first;
    return since + silence_limit(session->life.timeout);
}

/* Whoever polls the connection sees it end. */
static void
lose_patience(struct session *session, dibs_time now)
{
    if (now < patience_ends(session))
        return;
    session->patience = earlier(2 * session->patience, session->wanted_ms * DIBS_MS);
    session->trouble = ETIMEDOUT;
    session->heard = now; /* once is enough */
    (void)shutdown(session->fd, SHUT_RDWR);
}

/* The servers may have moved. */
static void
learn_addresses(struct session *session)
{
    struct zk *zk = session->zk;
    char *addresses = dibs__zk_names_copy(zk, &session->names_edition);
    if (addresses)
        (void)zoo_set_servers(session->handle, addresses);
    zk->host->free(addresses);
    if (session->failures > 2 * session->addresses)
        dibs__zk_names_doubt(zk);
}

/* A third may be lost before we know that the connection is: there should be time for
 * some servers in the rest. */
static dibs_time
first_patience(const struct session *session)
{
    return earlier(session->wanted_ms * DIBS_MS / 6, PATIENCE);
}

/* Lets the library connect; returns when to look again. */
static dibs_time
go_on(struct session *session, dibs_time now)
{
    dibs_time wait;
    if (!session->connected && session->fd == -1)
        learn_addresses(session);
    if (dibs__zk_interest(session, &wait) == 0) {
        session->patience =
            session->patience ? session->patience : first_patience(session);
        return now + wait;
    }
    session->pause = session->pause ? 2 * session->pause : PAUSE_FIRST;
    if (session->pause > PAUSE_MOST)
        session->pause = PAUSE_MOST;
    return now + session->pause;
}

static void
look_after(struct session *session, dibs_time now)
{
    take_in(session);
    dibs_time beat = session->handle ? keep_up(session, now) : 0;
    dibs_time next = session->handle ? go_on(session, now) : 0;
    if (!session->handle)
        return;
    session->due = earlier(earlier(beat, next), patience_ends(session));
    set_mask_idle(session, 1);
}

/* A caller drives, and may leave without pings having been sent. */
static dibs_time
look_on(struct session *session, dibs_time now)
{
    dibs_time next = earlier(keep_up(session, now), patience_ends(session));
    return earlier(next, now + session->life.timeout / BEATS);
}

/* Returns when to look again. */
static dibs_time
tend(struct session *session, dibs_time now, int has_event)
{
    dibs_time due = DIBS_NEVER;
    pthread_mutex_lock(&session->mutex);
    if (session->handle)
        lose_patience(session, now);
    if (session->handle && session->driver && session->connected)
        session->due = look_on(session, now);
    else if (session->handle && !session->driver && (has_event || now >= session->due))
        look_after(session, now);
    if (session->handle)
        due = session->due;
    pthread_mutex_unlock(&session->mutex);
    return due;
}

/* ---- the thread ---- */

static int
is_reported(const struct epoll_event *events, int count, uint64_t birth)
{
    for (int i = 0; i < count; i++) {
        if (events[i].data.u64 == birth)
            return 1;
    }
    return 0;
}

static dibs_time
tend_all(struct zk *zk, const struct epoll_event *events, int count)
{
    struct sessions *all = zk->sessions;
    dibs_time due = DIBS_NEVER;
    struct session *session = atomic_load(&all->first);
    for (; session; session = session->next) {
        dibs_time next =
            tend(session, zk->host->now(), is_reported(events, count, session->birth));
        if (next < due)
            due = next;
    }
    return due;
}

static int
ms_until(const struct zk *zk, dibs_time due)
{
    dibs_time left = due - zk->host->now();
    if (left <= 0)
        return 0;
    return left > 1000 * DIBS_MS ? 1000 : (int)(left / DIBS_MS) + 1;
}

static void *
pump_run(void *arg)
{
    struct pump *pump = arg;
    struct epoll_event events[EVENTS];
    int count = 0;
    while (!atomic_load(&pump->stopping)) {
        uint64_t wakes;
        dibs_time due = tend_all(pump->zk, events, count);
        due = earlier(due, dibs__kit_lapses_run(pump->zk->lapses));
        count = epoll_wait(pump->epoll_fd, events, EVENTS, ms_until(pump->zk, due));
        if (count > 0 && is_reported(events, count, 0))
            (void)!read(pump->wake_fd, &wakes, sizeof wakes);
    }
    return NULL;
}

static int
start_thread(struct pump *pump)
{
    sigset_t all, old;
    atomic_store(&pump->stopping, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    int error = pthread_create(&pump->thread, NULL, pump_run, pump);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    atomic_store(&pump->is_on, error == 0);
    return error;
}

static void
stop_thread(struct pump *pump)
{
    if (!atomic_load(&pump->is_on))
        return;
    atomic_store(&pump->stopping, 1);
    dibs__zk_pump_wake(pump->zk);
    pthread_join(pump->thread, NULL);
    atomic_store(&pump->is_on, 0);
}

int
dibs__zk_pump_is_on(const struct zk *zk)
{
    const struct pump *pump = zk->pump;
    return atomic_load_explicit(&pump->is_on, memory_order_acquire);
}

dibs_time
dibs__zk_pump_parked(const struct zk *zk)
{
    const struct pump *pump = zk->pump;
    return pump->parked;
}

int
dibs__zk_pump_start(struct zk *zk, dibs_error *err)
{
    int error = start_thread(zk->pump);
    if (error)
        return zk->host->fail(err, DIBS_EUNAVAIL, "cannot start a thread: %s",
                              strerror(error));
    return DIBS_OK;
}

void
dibs__zk_pump_park(struct zk *zk)
{
    struct pump *pump = zk->pump;
    stop_thread(pump);
    pump->parked = zk->host->now();
}

/* ---- open and close ---- */

int
dibs__zk_pump_open(struct zk *zk, dibs_error *err)
{
    struct pump *pump = zk->host->alloc(sizeof *pump);
    struct epoll_event wake = { .events = EPOLLIN };
    if (!pump)
        return zk->host->fail(err, DIBS_ENOMEM, "out of memory");
    zk->pump = pump;
    pump->zk = zk;
    pump->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    pump->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (pump->epoll_fd == -1 || pump->wake_fd == -1 ||
        epoll_ctl(pump->epoll_fd, EPOLL_CTL_ADD, pump->wake_fd, &wake) != 0)
        return zk->host->fail(err, DIBS_EUNAVAIL, "cannot wait for servers: %s",
                              strerror(errno));
    return DIBS_OK;
}

void
dibs__zk_pump_close(struct zk *zk, int forked)
{
    struct pump *pump = zk->pump;
    if (!pump)
        return;
    if (!forked)
        stop_thread(pump);
    if (pump->epoll_fd != -1)
        (void)close(pump->epoll_fd);
    if (pump->wake_fd != -1)
        (void)close(pump->wake_fd);
    zk->host->free(pump);
    zk->pump = NULL;
}
