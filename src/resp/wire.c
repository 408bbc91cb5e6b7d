/* SPDX-License-Identifier: MIT */
/* Opening, writing, reading, parsing and closing a connection. See wire.h. */
#include "resp/wire.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define REPLY_MAX ((size_t)16 << 20)
#define ELEMENTS_MAX (1 << 20)
#define READ_SIZE 16384
#define WAIT_MOST (3600000 * DIBS_MS)

/* ---- waiting and failing ---- */

/* rounded up, or we would spin in the last one */
int
dibs__wire_timeout(const struct wire *wire, dibs_time deadline)
{
    if (deadline == DIBS_NEVER)
        return -1;
    dibs_time left = deadline - wire->access->host->now();
    if (left <= 0)
        return 0;
    return (int)(((left < WAIT_MOST ? left : WAIT_MOST) + DIBS_MS - 1) / DIBS_MS);
}

short
dibs__wire_wait(const struct wire *wire, short events, dibs_time deadline)
{
    /* who only wants to write has the reader beside it, which will be woken */
    int wake_fd = (events & POLLIN) != 0 ? wire->wake_fd : -1;
    struct pollfd fds[] = { { wire->fd, events, 0 }, { wake_fd, POLLIN, 0 } };
    for (;;) {
        int timeout = dibs__wire_timeout(wire, deadline);
        int n = poll(fds, 2, timeout);
        if (n > 0)
            return fds[0].revents;
        if (n == 0 && timeout == 0)
            return 0;
    }
}

int
dibs__wire_fail(const struct wire *wire, const char *why, dibs_error *err)
{
    (void)wire->access->host->fail(err, DIBS_EUNAVAIL, "%s", why);
    return -1;
}

int
dibs__wire_fail_connect(const struct wire *wire, const char *why, dibs_error *err)
{
    return wire->access->host->fail(err, DIBS_EUNAVAIL, "connect to %s: %s", wire->where,
                                    why);
}

/* ---- opening and closing ---- */

void
dibs__wire_init(struct wire *wire, const resp_access *access, int wake_fd)
{
    memset(wire, 0, sizeof(*wire));
    wire->access = access;
    wire->fd = -1;
    wire->wake_fd = wake_fd;
}

#if HIREDIS_MAJOR < 1
/* An array's elements are allocated when its length was read: a length must not be
 * believed before the elements are there. Newer versions of hiredis have a setting. */
static void *(*create_array)(const redisReadTask *task, int count);

static void *
create_bounded_array(const redisReadTask *task, int count)
{
    return count <= ELEMENTS_MAX ? create_array(task, count) : NULL;
}

static redisReplyObjectFunctions bounded;
static pthread_once_t bounded_once = PTHREAD_ONCE_INIT;

static void
make_bounded(void)
{
    redisReader *reader = redisReaderCreate();
    if (reader == NULL)
        return;
    bounded = *reader->fn;
    create_array = bounded.createArray;
    bounded.createArray = create_bounded_array;
    redisReaderFree(reader);
}

redisReader *
dibs__wire_reader(void)
{
    redisReader *reader = redisReaderCreate();
    pthread_once(&bounded_once, make_bounded);
    if (reader != NULL && create_array != NULL)
        reader->fn = &bounded;
    return reader;
}
#else
redisReader *
dibs__wire_reader(void)
{
    redisReader *reader = redisReaderCreate();
    if (reader != NULL)
        reader->maxelements = ELEMENTS_MAX;
    return reader;
}
#endif

void
dibs__wire_where(char *out, size_t size, const resp_address *address)
{
    if (address->port == 0)
        (void)snprintf(out, size, "%s", address->host);
    else if (strchr(address->host, ':') != NULL)
        (void)snprintf(out, size, "[%s]:%u", address->host, (unsigned)address->port);
    else
        (void)snprintf(out, size, "%s:%u", address->host, (unsigned)address->port);
}

int
dibs__wire_open(struct wire *wire, const resp_address *address,
                const struct wire_self *kill, dibs_time deadline, dibs_error *err)
{
    dibs__wire_init(wire, wire->access, wire->wake_fd);
    dibs__wire_where(wire->where, sizeof(wire->where), address);
    wire->reader = dibs__wire_reader();
    if (wire->reader == NULL)
        return wire->access->host->fail(err, DIBS_ENOMEM, "out of memory");
    int code = dibs__wire_connect(wire, address, deadline, err);
    /* a Unix socket stays on the machine, and no server speaks TLS there */
    if (code == DIBS_OK && wire->access->tls != NULL && address->port != 0)
        code = dibs__tls_start(wire, address->host, deadline, err);
    if (code == DIBS_OK)
        code = dibs__wire_hello(wire, kill, deadline, err);
    if (code == DIBS_OK)
        wire->is_near = dibs__wire_is_near(wire);
    else
        dibs__wire_close(wire, 0);
    return code;
}

void
dibs__wire_close(struct wire *wire, int forked)
{
    /* first forgotten, then closed: a child must never close what has its number next */
    int fd = wire->fd;
    if (!forked && wire->tls != NULL)
        dibs__tls_end(wire);
    wire->fd = -1;
    if (fd >= 0)
        close(fd);
    if (!forked && wire->reader != NULL) {
        redisReaderFree(wire->reader);
        wire->reader = NULL;
    }
}

void
dibs__wire_break_off(struct wire *wire)
{
    (void)shutdown(wire->fd, SHUT_RDWR);
}

/* ---- writing ---- */

ssize_t
dibs__wire_send(struct wire *wire, const char *bytes, size_t len)
{
    if (wire->tls != NULL)
        return dibs__tls_send(wire, bytes, len);
    for (;;) {
        ssize_t n = send(wire->fd, bytes, len, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            return n;
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            return 0;
        if (errno != EINTR)
            return -1;
    }
}

int
dibs__wire_has_rest(const struct wire *wire)
{
    return wire->tls != NULL && dibs__tls_has_rest(wire->tls);
}

int
dibs__wire_write(struct wire *wire, const char *bytes, size_t len, dibs_time deadline)
{
    size_t done = 0;
    for (;;) {
        ssize_t n = dibs__wire_send(wire, bytes + done, len - done);
        if (n < 0)
            return -1;
        done += (size_t)n;
        if (done == len && !dibs__wire_has_rest(wire))
            return 0;
        if (dibs__wire_wait(wire, POLLOUT, deadline) == 0) {
            errno = ETIMEDOUT;
            return -1;
        }
    }
}

/* ---- reading ---- */

/* A caller that has time simply receives: one system call, which the socket's own time
 * limit ends. Else it polls. Returns the flags to receive with, or -1: not yet. */
static int
wait_readable(struct wire *wire, int or_room, dibs_time deadline)
{
    dibs_time slice = deadline;
    if (or_room || wire->wake_fd < 0) {
        dibs_time now = wire->access->host->now();
        if (deadline == DIBS_NEVER || deadline - now >= WIRE_SLICE) {
            if (!or_room)
                return 0;
            slice = now + WIRE_SLICE;
        }
    }
    short events = dibs__wire_wait(wire, or_room ? POLLIN | POLLOUT : POLLIN, slice);
    return (events & ~POLLOUT) != 0 ? MSG_DONTWAIT : -1;
}

int
dibs__wire_feed(struct wire *wire, const char *bytes, size_t len, dibs_error *err)
{
    wire->unparsed += len;
    if (redisReaderFeed(wire->reader, bytes, len) != REDIS_OK)
        return dibs__wire_fail(wire, wire->reader->errstr, err);
    return 0;
}

static int
receive(struct wire *wire, int flags, dibs_error *err)
{
    char bytes[READ_SIZE];
    ssize_t n = recv(wire->fd, bytes, sizeof(bytes), flags);
    wire->is_closed = n == 0;
    if (n == 0)
        return dibs__wire_fail(wire, "the server closed the connection", err);
    if (n < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK))
        return 0;
    if (n < 0)
        return dibs__wire_fail(wire, strerror(errno), err);
    if (wire->tls != NULL)
        return dibs__tls_take(wire, bytes, (size_t)n, err);
    return dibs__wire_feed(wire, bytes, (size_t)n, err) == 0 ? 1 : -1;
}

int
dibs__wire_receive(struct wire *wire, dibs_error *err)
{
    return receive(wire, MSG_DONTWAIT, err);
}

int
dibs__wire_read(struct wire *wire, int or_room, dibs_time deadline, dibs_error *err)
{
    int flags = wait_readable(wire, or_room, deadline);
    return flags < 0 ? 0 : receive(wire, flags, err);
}

int
dibs__wire_parse(struct wire *wire, redisReply **reply, dibs_error *err)
{
    void *got = NULL;
    if (redisReaderGetReply(wire->reader, &got) != REDIS_OK)
        return dibs__wire_fail(wire, wire->reader->errstr, err);
    if (got != NULL) {
        *reply = got;
        wire->unparsed = wire->reader->len - wire->reader->pos;
        return 1;
    }
    if (wire->unparsed > REPLY_MAX)
        return dibs__wire_fail(wire, "a reply of more than 16 MiB", err);
    return 0;
}

int
dibs__wire_is_quiet(struct wire *wire)
{
    redisReply *reply;
    if (dibs__wire_wait(wire, POLLIN, 0) == 0)
        return 1;
    /* with TLS there is more than replies: read it, and see whether it was one */
    if (dibs__wire_read(wire, 0, 0, NULL) < 0)
        return 0;
    int n = dibs__wire_parse(wire, &reply, NULL);
    if (n > 0)
        freeReplyObject(reply);
    return n == 0 && wire->unparsed == 0;
}
