/* SPDX-License-Identifier: MIT */
/*
 * The floor: create and delete one ephemeral node, by hand, with the C client. Reads how
 * many pairs to do, and prints their median in nanoseconds. Compiled twice: with the
 * single-threaded client, which we drive ourselves, and with THREADED for the other one.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include <zookeeper/zookeeper.h>

#include "../bench.h"

enum { SESSION_MS = 30000, CONNECT_MS = 10000, IDLE_MS = 1000 };

static void
check(int rc)
{
    if (rc != ZOK)
        bench_die("ZooKeeper: %s", zerror(rc));
}

/* turn drives the client, for so long at most, and says whether there is an order. */
#ifdef THREADED

static int
turn(zhandle_t *zh, int most_ms)
{
    struct pollfd orders = { .fd = 0, .events = POLLIN };

    (void)zh;
    return poll(&orders, 1, most_ms) == 1;
}

static void
create_node(zhandle_t *zh, const char *path)
{
    check(zoo_create(zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0));
}

static void
delete_node(zhandle_t *zh, const char *path)
{
    check(zoo_delete(zh, path, -1));
}

#else

enum { WAITING = 1 };

static int
turn(zhandle_t *zh, int most_ms)
{
    struct pollfd polled[] = { { .fd = -1 }, { .fd = 0, .events = POLLIN } };
    struct timeval limit;
    int interest, events, limit_ms;

    (void)zookeeper_interest(zh, &polled[0].fd, &interest, &limit);
    polled[0].events = (short)((interest & ZOOKEEPER_READ ? POLLIN : 0) |
                               (interest & ZOOKEEPER_WRITE ? POLLOUT : 0));
    limit_ms = (int)(limit.tv_sec * 1000 + limit.tv_usec / 1000);
    /* who waits for an answer does not look for orders */
    (void)poll(polled, most_ms > 0 ? 2 : 1,
               most_ms > 0 && most_ms < limit_ms ? most_ms : limit_ms);
    events = (polled[0].revents & POLLOUT ? ZOOKEEPER_WRITE : 0) |
             (polled[0].revents & ~POLLOUT ? ZOOKEEPER_READ : 0);
    (void)zookeeper_process(zh, events);
    return polled[1].revents != 0;
}

static void
created(int rc, const char *path, const void *answer)
{
    (void)path;
    *(int *)(intptr_t)answer = rc;
}

static void
deleted(int rc, const void *answer)
{
    *(int *)(intptr_t)answer = rc;
}

static void
await(zhandle_t *zh, const int *rc)
{
    while (*rc == WAITING)
        (void)turn(zh, 0);
    check(*rc);
}

static void
create_node(zhandle_t *zh, const char *path)
{
    int rc = WAITING;

    check(
        zoo_acreate(zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, created, &rc));
    await(zh, &rc);
}

static void
delete_node(zhandle_t *zh, const char *path)
{
    int rc = WAITING;

    check(zoo_adelete(zh, path, -1, deleted, &rc));
    await(zh, &rc);
}

#endif

static zhandle_t *
connect_to(const char *port)
{
    char hosts[64];
    double start = bench_now_ns();
    zhandle_t *zh;

    zoo_set_debug_level((ZooLogLevel)0);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%s", port);
    zh = zookeeper_init(hosts, NULL, SESSION_MS, NULL, NULL, 0);
    if (zh == NULL)
        bench_die("cannot reach ZooKeeper");
    while (zoo_state(zh) != ZOO_CONNECTED_STATE) {
        if (bench_now_ns() - start > CONNECT_MS * 1e6)
            bench_die("cannot connect to ZooKeeper");
        (void)turn(zh, 1);
    }
    return zh;
}

/* next_order returns NULL at the end. The session is kept alive until then. */
static char *
next_order(zhandle_t *zh, char *order, int size)
{
    while (!turn(zh, IDLE_MS))
        continue;
    return fgets(order, size, stdin);
}

int
main(int argc, char **argv)
{
    char order[32], path[64];
    zhandle_t *zh = connect_to(argc > 1 ? argv[1] : "2181");

    snprintf(path, sizeof path, "/bench-floor-%ld", (long)getpid());
    while (next_order(zh, order, sizeof order) != NULL) {
        series took = { NULL, 0, 0 };

        for (long left = strtol(order, NULL, 10); left > 0; left--) {
            double start = bench_now_ns();

            create_node(zh, path);
            delete_node(zh, path);
            series_add(&took, bench_now_ns() - start);
        }
        printf("%.0f\n", series_median(&took));
        fflush(stdout);
        series_free(&took);
    }
    zookeeper_close(zh);
    return 0;
}
