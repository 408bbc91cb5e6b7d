/* SPDX-License-Identifier: MIT */
/*
 * From an address to a connected socket, within a deadline.
 *
 * Looking up a name can take as long as it likes, so a thread does it that may outlive
 * the call: both share the lookup, and the last one frees it.
 */
#include "resp/wire.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#define NEAR_US 300

/* ---- names ---- */

struct lookup {
    pthread_mutex_t mutex;
    int users; /* guarded by the mutex, like all below */
    int done;
    int error, system_error; /* of getaddrinfo */
    struct addrinfo *found;
    int done_fd; /* readable when it is done */
    char host[256], port[8];
};

static int
look_up_now(const char *host, const char *port, int flags, struct addrinfo **found)
{
    struct addrinfo hints = { .ai_family = AF_UNSPEC,
                              .ai_socktype = SOCK_STREAM,
                              .ai_flags = flags };
    return getaddrinfo(host, port, &hints, found);
}

static struct lookup *
lookup_new(const char *host, const char *port)
{
    struct lookup *lookup = calloc(1, sizeof(*lookup));
    if (lookup == NULL)
        return NULL;
    lookup->done_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (lookup->done_fd < 0) {
        free(lookup);
        return NULL;
    }
    pthread_mutex_init(&lookup->mutex, NULL);
    lookup->users = 1;
    (void)snprintf(lookup->host, sizeof(lookup->host), "%s", host);
    (void)snprintf(lookup->port, sizeof(lookup->port), "%s", port);
    return lookup;
}

static void
lookup_leave(struct lookup *lookup)
{
    pthread_mutex_lock(&lookup->mutex);
    int left = --lookup->users;
    pthread_mutex_unlock(&lookup->mutex);
    if (left > 0)
        return;
    if (lookup->found != NULL)
        freeaddrinfo(lookup->found);
    close(lookup->done_fd);
    pthread_mutex_destroy(&lookup->mutex);
    free(lookup);
}

static void *
lookup_run(void *argument)
{
    struct lookup *lookup = argument;
    const uint64_t one = 1;
    struct addrinfo *found = NULL;
    int error = look_up_now(lookup->host, lookup->port, 0, &found);
    int system_error = errno;
    pthread_mutex_lock(&lookup->mutex);
    lookup->error = error;
    lookup->system_error = system_error;
    lookup->found = found;
    lookup->done = 1;
    (void)!write(lookup->done_fd, &one, sizeof(one));
    pthread_mutex_unlock(&lookup->mutex);
    lookup_leave(lookup);
    return NULL;
}

/* the thread gets no signals: they are for the program's own threads */
static int
lookup_start(struct lookup *lookup)
{
    sigset_t all, before;
    pthread_t thread;
    lookup->users++;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, NULL, lookup_run, lookup);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error == 0)
        pthread_detach(thread);
    else
        lookup->users--;
    return error;
}

static int
lookup_result(struct lookup *lookup, const struct wire *wire, struct addrinfo **found,
              dibs_error *err)
{
    int code = DIBS_OK;
    pthread_mutex_lock(&lookup->mutex);
    if (!lookup->done)
        code = dibs__wire_fail_connect(wire, "looking up the name took too long", err);
    else if (lookup->error == EAI_SYSTEM)
        code = dibs__wire_fail_connect(wire, strerror(lookup->system_error), err);
    else if (lookup->error != 0)
        code = dibs__wire_fail_connect(wire, gai_strerror(lookup->error), err);
    *found = lookup->found;
    lookup->found = NULL;
    pthread_mutex_unlock(&lookup->mutex);
    return code;
}

static int
look_up(const struct wire *wire, const resp_address *address, dibs_time deadline,
        struct addrinfo **found, dibs_error *err)
{
    char port[8];
    (void)snprintf(port, sizeof(port), "%u", (unsigned)address->port);
    /* a number needs no asking */
    if (look_up_now(address->host, port, AI_NUMERICHOST | AI_NUMERICSERV, found) == 0)
        return DIBS_OK;
    struct lookup *lookup = lookup_new(address->host, port);
    if (lookup == NULL || lookup_start(lookup) != 0) {
        if (lookup != NULL)
            lookup_leave(lookup);
        return wire->access->host->fail(err, DIBS_ENOMEM, "out of memory, or of threads");
    }
    struct wire wait = { .access = wire->access,
                         .fd = lookup->done_fd,
                         .wake_fd = wire->wake_fd };
    (void)dibs__wire_wait(&wait, POLLIN, deadline);
    int code = lookup_result(lookup, wire, found, err);
    lookup_leave(lookup);
    return code;
}

/* ---- sockets ---- */

static void
set_number(int fd, int level, int option, int value)
{
    /* none of them is vital */
    (void)setsockopt(fd, level, option, &value, sizeof(value));
}

/* From here on receiving waits, but not for long; see wait_readable in wire.c. A server
 * that died without a word is noticed by the keepalive, or by what it does not confirm. */
static void
set_options(int fd, int is_tcp)
{
    struct timeval slice = { 0, WIRE_SLICE / 1000 };
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &slice, sizeof(slice));
    if (!is_tcp)
        return;
    set_number(fd, IPPROTO_TCP, TCP_NODELAY, 1);
    set_number(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_number(fd, IPPROTO_TCP, TCP_KEEPIDLE, 5);
    set_number(fd, IPPROTO_TCP, TCP_KEEPINTVL, 2);
    set_number(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    set_number(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 10000);
}

/* 0 or an errno */
static int
finish_connect(const struct wire *wire, dibs_time deadline)
{
    int error = 0;
    socklen_t len = sizeof(error);
    if (dibs__wire_wait(wire, POLLIN | POLLOUT, deadline) == 0)
        return ETIMEDOUT;
    if (getsockopt(wire->fd, SOL_SOCKET, SO_ERROR, &error, &len) != 0)
        return errno;
    return error;
}

static int
connect_to(struct wire *wire, const struct sockaddr *to, socklen_t len,
           dibs_time deadline)
{
    int error = 0;
    wire->fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (wire->fd < 0)
        return errno;
    if (connect(wire->fd, to, len) != 0)
        error = errno == EINPROGRESS ? finish_connect(wire, deadline) : errno;
    if (error == 0) {
        set_options(wire->fd, to->sa_family != AF_UNIX);
        return 0;
    }
    int fd = wire->fd;
    wire->fd = -1;
    close(fd);
    return error;
}

static int
connect_unix(struct wire *wire, const char *path, dibs_time deadline, dibs_error *err)
{
    struct sockaddr_un to = { .sun_family = AF_UNIX };
    size_t len = strlen(path);
    if (len >= sizeof(to.sun_path))
        return dibs__wire_fail_connect(wire, "a socket's path cannot be that long", err);
    memcpy(to.sun_path, path, len + 1);
    int error = connect_to(wire, (struct sockaddr *)&to, sizeof(to), deadline);
    return error == 0 ? DIBS_OK : dibs__wire_fail_connect(wire, strerror(error), err);
}

/* one after the other; one that does not answer leaves time for those behind it */
static int
connect_any(struct wire *wire, const struct addrinfo *list, dibs_time deadline)
{
    int error = EADDRNOTAVAIL, count = 0;
    for (const struct addrinfo *each = list; each != NULL; each = each->ai_next)
        count++;
    for (; list != NULL; list = list->ai_next, count--) {
        dibs_time now = wire->access->host->now(), share = deadline;
        if (deadline != DIBS_NEVER && deadline > now)
            share = now + (deadline - now) / count;
        error = connect_to(wire, list->ai_addr, list->ai_addrlen, share);
        if (error == 0)
            return 0;
    }
    return error;
}

int
dibs__wire_connect(struct wire *wire, const resp_address *address, dibs_time deadline,
                   dibs_error *err)
{
    struct addrinfo *list = NULL;
    if (address->port == 0)
        return connect_unix(wire, address->host, deadline, err);
    int code = look_up(wire, address, deadline, &list, err);
    if (code != DIBS_OK)
        return code;
    int error = connect_any(wire, list, deadline);
    freeaddrinfo(list);
    return error == 0 ? DIBS_OK : dibs__wire_fail_connect(wire, strerror(error), err);
}

int
dibs__wire_is_near(const struct wire *wire)
{
    struct tcp_info info;
    socklen_t len = sizeof(info);
    /* a Unix socket is, and knows nothing of this */
    if (getsockopt(wire->fd, IPPROTO_TCP, TCP_INFO, &info, &len) != 0)
        return 1;
    return info.tcpi_rtt < NEAR_US;
}
