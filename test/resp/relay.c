/* SPDX-License-Identifier: MIT */
/* A relay between clients and a server, in a thread. See resp_test.h. */
#include "resp_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS 32
#define KEPT_MAX 65536

struct pair {
    int client, server; /* -1: closed */
    int held;
    size_t kept_len;
    char kept[KEPT_MAX];
};

struct relay {
    pthread_t thread;
    pthread_mutex_t mutex; /* for all below; the thread gives it up to poll only */
    int listener, port, to_port, wake;
    int stopping;
    int count; /* of pairs */
    struct pair pairs[PAIRS];
};

static struct sockaddr_in
loopback(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void
shut(int *fd)
{
    if (*fd >= 0) {
        close(*fd);
    }
    *fd = -1;
}

static void
send_all(int *fd, const char *bytes, size_t len)
{
    while (*fd >= 0 && len > 0) {
        ssize_t n = send(*fd, bytes, len, MSG_NOSIGNAL);
        if (n <= 0) {
            shut(fd);
            return;
        }
        bytes += n;
        len -= (size_t)n;
    }
}

static void
take_client(struct relay *relay)
{
    struct sockaddr_in address = loopback(relay->to_port);
    CHECK(relay->count < PAIRS);
    struct pair *pair = &relay->pairs[relay->count++];
    pair->client = accept4(relay->listener, NULL, NULL, SOCK_CLOEXEC);
    pair->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(pair->client >= 0 && pair->server >= 0);
    CHECK(connect(pair->server, (struct sockaddr *)&address, sizeof(address)) == 0);
}

/* from the client */
static void
pass_up(struct pair *pair)
{
    char bytes[16384];
    ssize_t n = recv(pair->client, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        shut(&pair->client);
        /* what is held is still to arrive */
        if (!pair->held) {
            shut(&pair->server);
        }
    } else if (pair->held) {
        CHECK(pair->kept_len + (size_t)n <= KEPT_MAX);
        memcpy(pair->kept + pair->kept_len, bytes, (size_t)n);
        pair->kept_len += (size_t)n;
    } else {
        send_all(&pair->server, bytes, (size_t)n);
    }
}

static void
pass_down(struct pair *pair)
{
    char bytes[16384];
    ssize_t n = recv(pair->server, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN) {
        return;
    }
    if (n <= 0) {
        shut(&pair->server);
        shut(&pair->client);
    } else {
        send_all(&pair->client, bytes, (size_t)n);
    }
}

static void
serve(struct relay *relay, const struct pollfd *fds, int count)
{
    uint64_t rings;
    if (fds[0].revents != 0) {
        (void)!read(relay->wake, &rings, sizeof(rings));
    }
    for (int i = 0; i < count; i++) {
        struct pair *pair = &relay->pairs[i];
        if (fds[2 + 2 * i].revents != 0 && pair->client == fds[2 + 2 * i].fd) {
            pass_up(pair);
        }
        if (fds[3 + 2 * i].revents != 0 && pair->server == fds[3 + 2 * i].fd) {
            pass_down(pair);
        }
    }
    if (fds[1].revents != 0) {
        take_client(relay);
    }
}

static void *
run(void *argument)
{
    struct relay *relay = argument;
    pthread_mutex_lock(&relay->mutex);
    while (!relay->stopping) {
        struct pollfd fds[2 + 2 * PAIRS] = { { relay->wake, POLLIN, 0 },
                                             { relay->listener, POLLIN, 0 } };
        int count = relay->count;
        for (int i = 0; i < count; i++) {
            fds[2 + 2 * i] = (struct pollfd){ relay->pairs[i].client, POLLIN, 0 };
            fds[3 + 2 * i] = (struct pollfd){ relay->pairs[i].server, POLLIN, 0 };
        }
        pthread_mutex_unlock(&relay->mutex);
        CHECK(poll(fds, (nfds_t)(2 + 2 * count), 1000) >= 0);
        pthread_mutex_lock(&relay->mutex);
        serve(relay, fds, count);
    }
    pthread_mutex_unlock(&relay->mutex);
    return NULL;
}

struct relay *
relay_start(int to_port)
{
    struct relay *new = calloc(1, sizeof(*new));
    CHECK(new != NULL);
    new->port = port_take();
    new->to_port = to_port;
    struct sockaddr_in address = loopback(new->port);
    int yes = 1;
    new->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    new->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    CHECK(new->listener >= 0 && new->wake >= 0);
    setsockopt(new->listener, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    CHECK(bind(new->listener, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(new->listener, 16) == 0);
    pthread_mutex_init(&new->mutex, NULL);
    CHECK(pthread_create(&new->thread, NULL, run, new) == 0);
    return new;
}

static void
wake_up(struct relay *relay)
{
    const uint64_t one = 1;
    CHECK(write(relay->wake, &one, sizeof(one)) == (ssize_t)sizeof(one));
}

void
relay_stop(struct relay *old)
{
    pthread_mutex_lock(&old->mutex);
    old->stopping = 1;
    pthread_mutex_unlock(&old->mutex);
    wake_up(old);
    pthread_join(old->thread, NULL);
    for (int i = 0; i < old->count; i++) {
        shut(&old->pairs[i].client);
        shut(&old->pairs[i].server);
    }
    close(old->listener);
    close(old->wake);
    port_give_back(old->port);
    pthread_mutex_destroy(&old->mutex);
    free(old);
}

int
relay_port(const struct relay *relay)
{
    return relay->port;
}

void
relay_hold(struct relay *relay)
{
    pthread_mutex_lock(&relay->mutex);
    for (int i = 0; i < relay->count; i++) {
        relay->pairs[i].held = 1;
    }
    pthread_mutex_unlock(&relay->mutex);
}

void
relay_let_go(struct relay *relay, size_t bytes)
{
    pthread_mutex_lock(&relay->mutex);
    for (int i = 0; i < relay->count; i++) {
        struct pair *pair = &relay->pairs[i];
        size_t len = bytes != 0 ? bytes : pair->kept_len;
        if (!pair->held) {
            continue;
        }
        CHECK(len <= pair->kept_len);
        send_all(&pair->server, pair->kept, len);
        pair->kept_len -= len;
        memmove(pair->kept, pair->kept + len, pair->kept_len);
        pair->held = bytes != 0;
    }
    pthread_mutex_unlock(&relay->mutex);
    wake_up(relay);
}

void
relay_hang_up(struct relay *relay)
{
    pthread_mutex_lock(&relay->mutex);
    for (int i = 0; i < relay->count; i++) {
        struct pair *pair = &relay->pairs[i];
        if (pair->held) {
            pass_up(pair);
            shut(&pair->client);
        }
    }
    pthread_mutex_unlock(&relay->mutex);
    wake_up(relay);
}

int
relay_count(struct relay *relay)
{
    pthread_mutex_lock(&relay->mutex);
    int count = relay->count;
    pthread_mutex_unlock(&relay->mutex);
    return count;
}
