/* SPDX-License-Identifier: MIT */
/* What checks ask about the servers, whichever they are. See interop.h. */
#include "interop.h"

#include <stdio.h>
#include <string.h>

int64_t
asked(const struct stage *stage)
{
    const server *on = &stage->servers.servers[0];
    switch (stage->store) {
    case ZOOKEEPER:
        return nodes_asked(on);
    case ETCD:
    case CONSUL:
        return entries_asked(stage);
    default:
        return count_scripts(&stage->servers);
    }
}

static int64_t
redis_queue(const server *on, const char *name)
{
    char key[96];
    snprintf(key, sizeof(key), "redisson_lock_queue:{%s}", name);
    return server_number(on, "LLEN", key);
}

/* on ZooKeeper and etcd all stand in one queue with the holder, but for ZooKeeper's
 * semaphores, where a queue of its own has who waits */
static int64_t
line_length(const struct stage *stage, const char *kind, const char *name)
{
    const server *on = &stage->servers.servers[0];
    switch (stage->store) {
    case ZOOKEEPER:
        return strncmp(kind, "sem", 3) == 0 ? nodes_count(on, name, "/locks")
                                            : nodes_count(on, name, "") - 1;
    case ETCD:
        return entries_count(stage, name) - 1;
    default:
        return redis_queue(on, name);
    }
}

void
wait_for_length(const struct stage *stage, const char *kind, const char *name, int length)
{
    int64_t until = now_ms() + slowly(5000) + stage->outlasts_ms;
    while (line_length(stage, kind, name) != length) {
        if (now_ms() > until) {
            FAIL("the queue of '%s' does not get %d long", name, length);
        }
        sleep_ms(10);
    }
}
