/* SPDX-License-Identifier: MIT */
/*
 * The thread that sees what comes while nobody asks: the answer to who waits, and the end of
 * a session that holds a lock. Ordinary answers do not wake it.
 */
#include "bound.h"

#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define EVENTS_MAX 32

/* ---- the thread ---- */

/* Who waits looks what it is. A hold may be over: the keeper asks. */
static void
came(struct bound *bound, uint64_t number)
{
    pthread_mutex_lock(&bound->mutex);
    struct stake *stake = bound->taken;
    while (stake && stake->number != number)
        stake = stake->next;
    if (stake && stake->bell)
        bound->host->ring(stake->bell);
    else if (stake)
        bound->host->ring(bound->pg->session->keeper_bell);
    pthread_mutex_unlock(&bound->mutex);
}

static void *
run(void *arg)
{
    struct bound *bound = arg;
    struct epoll_event events[EVENTS_MAX];
    for (;;) {
        int n = epoll_wait(bound->epoll_fd, events, EVENTS_MAX, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.u64 == 0) /* to stop */
                return NULL;
            came(bound, events[i].data.u64);
        }
    }
}

/* the thread gets no signals: they are for the program's own threads */
static int
start_locked(struct bound *bound)
{
    sigset_t all, before;
    if (bound->is_watching)
        return 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&bound->thread, NULL, run, bound);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    bound->is_watching = !error;
    return error;
}

/* ---- for all threads ---- */

static int
control(struct bound *bound, int what, const struct stake *stake, uint32_t events)
{
    struct epoll_event event = { .events = events, .data.u64 = stake->number };
    return epoll_ctl(bound->epoll_fd, what, PQsocket(stake->conn.pg), &event);
}

int
dibs__bound_watch_add(struct bound *bound, const struct stake *stake)
{
    pthread_mutex_lock(&bound->mutex);
    int error = start_locked(bound);
    pthread_mutex_unlock(&bound->mutex);
    return error || control(bound, EPOLL_CTL_ADD, stake, EPOLLRDHUP | EPOLLET);
}

void
dibs__bound_watch_await(struct bound *bound, const struct stake *stake, int is_awaited)
{
    uint32_t events =
        is_awaited ? EPOLLIN | EPOLLRDHUP | EPOLLONESHOT : EPOLLRDHUP | EPOLLET;
    (void)control(bound, EPOLL_CTL_MOD, stake, events);
}

int
dibs__bound_watch_open(struct bound *bound)
{
    struct epoll_event stop = { .events = EPOLLIN, .data.u64 = 0 };
    bound->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    bound->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bound->epoll_fd < 0 || bound->stop_fd < 0)
        return -1;
    return epoll_ctl(bound->epoll_fd, EPOLL_CTL_ADD, bound->stop_fd, &stop);
}

void
dibs__bound_watch_close(struct bound *bound, int forked)
{
    const uint64_t one = 1;
    if (bound->is_watching && !forked) {
        (void)!write(bound->stop_fd, &one, sizeof one);
        pthread_join(bound->thread, NULL);
    }
    if (bound->epoll_fd >= 0)
        (void)close(bound->epoll_fd);
    if (bound->stop_fd >= 0)
        (void)close(bound->stop_fd);
}
