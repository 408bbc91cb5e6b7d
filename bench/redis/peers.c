/* SPDX-License-Identifier: MIT */
/* The lock libraries for Redis that run beside dibs: pairs of theirs. */
#include "redis.h"

static const peer_program known[] = {
    { "redis-py", "redis-py", NULL, { "/usr/bin/python3", "%S/pairs.py", "%P" } },
    { "node-redlock",
      "node-redlock",
      "node/node_modules/redlock",
      { "env", "NODE_PATH=%D/node/node_modules", "node", "%S/pairs.js", "redlock",
        "%P" } },
    { "redis-semaphore",
      "redis-semaphore",
      "node/node_modules/redis-semaphore",
      { "env", "NODE_PATH=%D/node/node_modules", "node", "%S/pairs.js", "redis-semaphore",
        "%P" } },
    { "redisson",
      "Redisson",
      "redisson/jars",
      { "java", "-cp", "%D/redisson/jars/*", "%S/Pairs.java", "%P" } },
};

int
redis_peers_start(peer *out, int most, int place)
{
    const peer_place where = { PEERS_SOURCE, server_port(0), place };

    return peers_start(out, most, known, sizeof known / sizeof known[0], &where);
}
