/* SPDX-License-Identifier: MIT */
/* Ports nobody listens at, and one that swallows connections. See servers.h. */
#include "servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* Below the range from which the system gives ports to outgoing connections: one of these
 * could take the port of a server that is just being restarted. */
#define PORT_LOW 15000
#define PORT_HIGH 32000
#define PORT_TRIES 200
#define CLAIMS_MAX 64

static struct sockaddr_in
loopback(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* a socket that listens there, or -1 */
static int
listen_at(int port, int backlog)
{
    struct sockaddr_in address = loopback(port);
    int yes = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(fd, backlog) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* Two tests must not choose the same port before either listens at it. A name that only
 * one process can have, and that goes away with it, stands for each. */
static struct {
    int port, fd;
} claims[CLAIMS_MAX];

static int
claim(int port)
{
    struct sockaddr_un name = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    /* it begins with NUL: no file */
    (void)snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "dibs-test-port-%d",
                   port);
    if (bind(fd, (struct sockaddr *)&name, sizeof(name)) != 0) {
        close(fd);
        return 0;
    }
    for (int i = 0; i < CLAIMS_MAX; i++) {
        if (claims[i].port == 0) {
            claims[i].port = port;
            claims[i].fd = fd;
            return 1;
        }
    }
    FAIL("more than %d ports at once", CLAIMS_MAX);
}

void
port_give_back(int port)
{
    for (int i = 0; i < CLAIMS_MAX; i++) {
        if (port != 0 && claims[i].port == port) {
            close(claims[i].fd);
            claims[i].port = 0;
        }
    }
}

/* listens at some port nobody has */
static int
listen_somewhere(int *port, int backlog)
{
    for (int i = 0; i < PORT_TRIES; i++) {
        uint32_t random;
        CHECK(getrandom(&random, sizeof(random), 0) == (ssize_t)sizeof(random));
        *port = PORT_LOW + (int)(random % (PORT_HIGH - PORT_LOW));
        if (!claim(*port)) {
            continue;
        }
        int fd = listen_at(*port, backlog);
        if (fd >= 0) {
            return fd;
        }
        port_give_back(*port);
    }
    FAIL("no port is free after %d tries", PORT_TRIES);
}

int
port_take(void)
{
    int port, fd = listen_somewhere(&port, 1);
    close(fd);
    return port;
}

/* one more connection; says whether it was completed */
static int
connect_once(blackhole *hole)
{
    struct sockaddr_in address = loopback(hole->port);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    hole->fds[hole->count++] = fd;
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0) {
        return 1;
    }
    CHECK(errno == EINPROGRESS);
    sleep_ms(50);
    return connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0 ||
           errno == EISCONN;
}

void
blackhole_open(blackhole *out, int port)
{
    const int most = (int)(sizeof(out->fds) / sizeof(out->fds[0]));
    out->port = port;
    out->is_ours = port == 0;
    out->fds[0] = port != 0 ? listen_at(port, 0) : listen_somewhere(&out->port, 0);
    CHECK(out->fds[0] >= 0);
    out->count = 1;
    /* nobody accepts: when the queue is full, the kernel answers no more */
    while (connect_once(out)) {
        CHECK(out->count < most);
    }
}

void
blackhole_close(blackhole *hole)
{
    for (int i = 0; i < hole->count; i++) {
        close(hole->fds[i]);
    }
    if (hole->is_ours) {
        port_give_back(hole->port);
    }
    hole->count = 0;
}
