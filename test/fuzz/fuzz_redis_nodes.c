/* SPDX-License-Identifier: MIT */
/* What Sentinels and nodes of a cluster say of others (engine/redis/sentinel.c, cluster.c):
 * addresses that can be connected to, or none. */
#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "engine/redis/survey.h"
#include "reply.h"

static void
check_address(const resp_address *address)
{
    HOLDS(address->port != 0 && address->host[0]);
    HOLDS(memchr(address->host, '\0', sizeof address->host));
}

static void
check_map(struct redis *redis, const redisReply *reply)
{
    static resp_server *owners[SLOTS];
    const resp_server *last = NULL;
    int ranges = dibs__redis_cluster_map(redis, redis->servers[0], reply, owners);
    HOLDS(ranges >= -1 && ranges <= SLOTS);
    for (size_t slot = 0; reply->elements && slot < SLOTS; slot++) {
        if (owners[slot] != last && owners[slot])
            check_address(dibs__resp_server_address(owners[slot]));
        last = owners[slot] ? owners[slot] : last;
    }
    HOLDS(ranges <= 0 || last);
    memset(owners, 0, reply->elements ? sizeof owners : 0);
}

static void
use(const redisReply *reply, void *context)
{
    struct redis *redis = context;
    resp_address address;
    if (dibs__redis_sentinel_named(&address, reply) == 0)
        check_address(&address);
    check_map(redis, reply);
    if (reply->type != REDIS_REPLY_ERROR)
        return;
    const resp_server *named =
        dibs__redis_cluster.asked(redis, redis->servers[0], reply->str);
    if (named)
        check_address(dibs__resp_server_address(named));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const resp_address teller = { .host = "10.0.0.1", .port = 7000 };
    struct input input = { data, size };
    struct redis redis = { .host = &dibs__host,
                           .access = { .host = &dibs__host, .connections = 1 },
                           .servers_mutex = PTHREAD_MUTEX_INITIALIZER };
    HOLDS(dibs__redis_server_for(&redis, &teller) != NULL);
    each_reply(&input, use, &redis);
    for (size_t i = 0; i < redis.server_count; i++) {
        check_address(dibs__resp_server_address(redis.servers[i]));
        dibs__resp_server_free(redis.servers[i], 0);
    }
    dibs__host.free(redis.servers);
    return 0;
}
