/* SPDX-License-Identifier: MIT */
/*
 * Noticing deaths: one thread per table sleeps on the pidfds of the processes that this
 * one waits for, and buries who dies. It is started at the first wait. An entry that
 * nobody has asked for in a while gives way when the room is used up; waiters ask again
 * at least once a second.
 */
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "engine/local/local.h"

#define ENTRY_IDLE (5000 * DIBS_MS)

static uint64_t
tag_of(uint32_t member, uint32_t word)
{
    return (uint64_t)word << 32 | member; /* never 0: a member's word is not */
}

void
dibs__local_watch_init(watcher *w)
{
    pthread_mutex_init(&w->mutex, NULL);
    w->epoll_fd = w->stop_fd = -1;
}

static watch_entry *
find_entry(watcher *w, uint32_t member, uint32_t word)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (w->entries[i].member == member && w->entries[i].word == word)
            return &w->entries[i];
    return NULL;
}

static void
remove_entry(watcher *w, watch_entry *entry)
{
    close(entry->fd); /* which takes it out of the epoll set */
    *entry = w->entries[--w->count];
}

static void *
listen_for_deaths(void *arg)
{
    table *t = arg;
    watcher *w = &t->watch;
    struct epoll_event events[16];
    for (;;) {
        int n = epoll_wait(w->epoll_fd, events, 16, -1);
        for (int i = 0; i < n; i++) {
            uint32_t member = (uint32_t)events[i].data.u64;
            uint32_t word = (uint32_t)(events[i].data.u64 >> 32);
            if (events[i].data.u64 == 0)
                return NULL;
            pthread_mutex_lock(&w->mutex);
            watch_entry *entry = find_entry(w, member, word);
            if (entry)
                remove_entry(w, entry);
            pthread_mutex_unlock(&w->mutex);
            dibs__local_bury(t, member, word);
        }
    }
}

static int
add_fd(watcher *w, int fd, uint64_t tag)
{
    struct epoll_event event = { .events = EPOLLIN, .data.u64 = tag };
    return epoll_ctl(w->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static int
start_thread(table *t)
{
    watcher *w = &t->watch;
    pthread_attr_t attr;
    sigset_t all, old;
    if (pthread_attr_init(&attr) != 0)
        return -1;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    (void)pthread_attr_setstacksize(&attr, 256 * 1024);
    int rc = pthread_create(&w->thread, &attr, listen_for_deaths, t);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (rc == 0)
        (void)pthread_setname_np(w->thread, "dibs-local");
    return rc;
}

static void
close_fds(watcher *w)
{
    while (w->count)
        remove_entry(w, &w->entries[0]);
    if (w->epoll_fd >= 0)
        close(w->epoll_fd);
    if (w->stop_fd >= 0)
        close(w->stop_fd);
    w->epoll_fd = w->stop_fd = -1;
}

static int
start_locked(table *t)
{
    watcher *w = &t->watch;
    if (w->started)
        return 0;
    w->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    w->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (w->epoll_fd < 0 || w->stop_fd < 0 || add_fd(w, w->stop_fd, 0) != 0 ||
        start_thread(t) != 0) {
        close_fds(w);
        return -1;
    }
    w->started = 1;
    return 0;
}

static void
make_room_locked(watcher *w, dibs_time now)
{
    for (uint32_t i = 0; i < w->count && w->count == WATCH_MAX; i++)
        if (now - w->entries[i].used > ENTRY_IDLE)
            remove_entry(w, &w->entries[i]);
}

/* watch_locked returns 0, 1: better poll, or -1: it is dead. */
static int
watch_locked(table *t, uint32_t member, uint32_t word)
{
    watcher *w = &t->watch;
    dibs_time now = t->host->now();
    watch_entry *entry = find_entry(w, member, word);
    if (entry) {
        entry->used = now;
        return 0;
    }
    make_room_locked(w, now);
    if (w->count == WATCH_MAX || start_locked(t) != 0)
        return 1;
    int32_t pid = atomic_load(&at(t, member)->member.pid);
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0)
        return errno == ESRCH ? -1 : 1;
    /* only now is it sure that the pidfd is of the process that was meant */
    if (!dibs__local_alive(t, member, word)) {
        close(fd);
        return -1;
    }
    if (add_fd(w, fd, tag_of(member, word)) != 0) {
        close(fd);
        return 1;
    }
    w->entries[w->count++] = (watch_entry){ member, word, fd, now };
    return 0;
}

int
dibs__local_watch(table *t, uint32_t member, uint32_t word)
{
    if (atomic_load(&at(t, member)->member.pid) == t->pid)
        return 0; /* we die together */
    pthread_mutex_lock(&t->watch.mutex);
    int rc = watch_locked(t, member, word);
    pthread_mutex_unlock(&t->watch.mutex);
    if (rc < 0)
        dibs__local_bury(t, member, word);
    return rc > 0;
}

void
dibs__local_watch_stop(watcher *w)
{
    uint64_t one = 1;
    if (w->started && write(w->stop_fd, &one, sizeof(one)) == sizeof(one))
        pthread_join(w->thread, NULL);
    close_fds(w);
    pthread_mutex_destroy(&w->mutex);
}

/* In a fork child there is no such thread, and somebody may have had the mutex. */
void
dibs__local_watch_forked(watcher *w)
{
    w->started = 0;
    close_fds(w);
    pthread_mutex_init(&w->mutex, NULL);
}
