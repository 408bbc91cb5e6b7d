/* SPDX-License-Identifier: MIT */
/*
 * The programs that run beside dibs: a bare create and delete of one ephemeral node with
 * each of the two C clients (floor.c), and the lock libraries people use. Curator is the
 * one that scripts/get-peers fetched, else Debian's.
 */
#include <string.h>

#include "zookeeper.h"

#define DEBIAN_CURATOR                                                                   \
    "/usr/share/java/curator-recipes.jar:/usr/share/java/curator-framework.jar:"         \
    "/usr/share/java/curator-client.jar:/usr/share/java/guava.jar:"                      \
    "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-nop.jar"

static const peer_program known[] = {
    { PEER_ST, "bare C client st", NULL, { "%B/dibs_bench_zk_st", "%P" } },
    { PEER_MT, "bare C client mt", NULL, { "%B/dibs_bench_zk_mt", "%P" } },
    { PEER_CURATOR,
      "Curator InterProcessMutex",
      NULL,
      { "java", "-XX:+UseSerialGC", "-cp", "%D/curator/jars/*:" DEBIAN_CURATOR,
        "%S/Locks.java", "%P" } },
    { "kazoo",
      "kazoo Lock",
      NULL,
      { "env", "PYTHONPATH=%D/kazoo", "/usr/bin/python3", "%S/pairs.py", "%P" } },
};

int
zookeeper_peers_start(peer *out, int most, const char *id, const server *s, int place)
{
    const peer_place where = { PEERS_SOURCE, s->port, place };
    int running = 0;

    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++)
        if (id == NULL || strcmp(id, known[i].id) == 0)
            running += peers_start(out + running, most - running, &known[i], 1, &where);
    return running;
}
