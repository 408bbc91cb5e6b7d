/* SPDX-License-Identifier: MIT */
/*
 * The thread that sees what comes while nobody asks: the answer to who waits, and the end of
 * a session that holds a lock. Ordinary answers do not wake it.
 */
#include "advisory.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 32

/* ---- the thread ---- */

/* Who waits looks what it is. A hold may be over: the keeper asks. */
static void
came(struct advisory *advisory, uint64_t number)
{
    pthread_mutex_lock(&advisory->mutex);
    struct stake *stake = advisory->taken;
    while (stake && stake->number != number)
        stake = stake->next;
    if (stake && stake->bell)
        advisory->host->ring(stake->bell);
    else if (stake)
        advisory->host->ring(advisory->pg->session->keeper_bell);
    pthread_mutex_unlock(&advisory->mutex);
}

static void *
run(void *arg)
{
    struct advisory *advisory = arg;
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int n = epoll_wait(advisory->epoll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == 0) /* to stop */
                return NULL;
            came(advisory, events[i].data.u64);
        }
    }
}

/* the thread gets no signals: they are for the program's own threads */
static int
start_locked(struct advisory *advisory)
{
    sigset_t all, before;
    if (advisory->is_watching)
        return 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&advisory->thread, NULL, run, advisory);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    advisory->is_watching = !error;
    return error;
}

/* ---- for all threads ---- */

static int
control(struct advisory *advisory, int what, const struct stake *stake, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.u64 = stake->number };
    return epoll_ctl(advisory->epoll_fd, what, PQsocket(stake->conn.pg), &event);
}

int
dibs__advisory_watch_add(struct advisory *advisory, const struct stake *stake)
{
    pthread_mutex_lock(&advisory->mutex);
    int error = start_locked(advisory);
    pthread_mutex_unlock(&advisory->mutex);
    return error || control(advisory, EPOLL_CTL_ADD, stake, EPOLLRDHUP | EPOLLET);
}

void
dibs__advisory_watch_await(struct advisory *advisory, const struct stake *stake,
                           int is_awaited)
{
    uint32_t events =
        is_awaited ? EPOLLIN | EPOLLRDHUP | EPOLLONESHOT : EPOLLRDHUP | EPOLLET;
    (void)control(advisory, EPOLL_CTL_MOD, stake, events);
}

int
dibs__advisory_watch_open(struct advisory *advisory)
{
    struct epoll_event stop = { .events = EPOLLIN, .data.u64 = 0 };
    advisory->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    advisory->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (advisory->epoll_fd < 0 || advisory->stop_fd < 0)
        return -1;
    return epoll_ctl(advisory->epoll_fd, EPOLL_CTL_ADD, advisory->stop_fd, &stop);
}

void
dibs__advisory_watch_close(struct advisory *advisory, int forked)
{
    const uint64_t one = 1;
    if (advisory->is_watching && !forked) {
        (void)!write(advisory->stop_fd, &one, sizeof one);
        pthread_join(advisory->thread, NULL);
    }
    if (advisory->epoll_fd >= 0)
        (void)close(advisory->epoll_fd);
    if (advisory->stop_fd >= 0)
        (void)close(advisory->stop_fd);
}
