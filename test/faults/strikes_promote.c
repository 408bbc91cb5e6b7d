/* SPDX-License-Identifier: MIT */
/*
 * The standby of a PostgreSQL is promoted. It is cut off from its primary for a while, which
 * goes on with its clients; then it takes over with what it has, and the other follows it,
 * with all its data anew. Clients know both, and ask whichever can be written to.
 *
 * Without synchronous replication the primary dies first, as it must: where both live, each
 * would grant on its own. What the standby knows of is older than a lease then, so that
 * whatever was granted meanwhile is free to it.
 *
 * With it, the primary cannot commit any more as soon as it is cut off; so in every second
 * strike it goes on, still asked by clients, while the other grants. See lab.h.
 */
#include "lab.h"

static void
take_over(int from, int lives_on, int64_t ms)
{
    server *old = &lab.set.servers[from];
    if (!lives_on) {
        server_kill(old);
    }
    postgres_promote(&lab.set.servers[1 - from]);
    if (lives_on) {
        sleep_ms(ms);
        server_kill(old);
    }
}

int
fail_over_postgres(uint64_t random, int64_t ms)
{
    int is_synced = (lab.stage->is & IS_SYNCED) != 0;
    int from = postgres_primary(&lab.set);
    wires_hold(&lab.between, from);
    sleep_ms(is_synced ? ms : lab.lease_ms + ms);
    take_over(from, is_synced && (random >> 8 & 1) != 0, ms);
    wires_cut(&lab.between, WIRES_ALL);
    wires_flow(&lab.between, WIRES_ALL);
    postgres_follow(&lab.set, from, &lab.between);
    return 0;
}
