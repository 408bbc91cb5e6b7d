/* SPDX-License-Identifier: MIT */
/*
 * A replica takes over that has not heard of what the master granted last: the replicas stand
 * still for a while, then all die at once, and the replicas come back with what they had
 * before. That is what a master does that is cut off with its clients and then lost, or two
 * machines that lose power. Here those of Redis; strikes_promote.c has PostgreSQL. See lab.h.
 */
#include "lab.h"

#include <stdlib.h>
#include <string.h>

/* with quarantine, what is lost must be less old than the lag that the URL says (2 s), and a
 * master that stands still must wake before; else the more is lost the better can be seen what
 * comes of it */
#define UNHEARD_MS 4000
#define UNHEARD_QUARANTINED_MS 1500
#define FAILOVER_LIMIT_MS 30000

/* The port of its master; 0: it is one. "slave", the address and the port of the master are on
 * a line each. */
static int
master_port_of(const server *one)
{
    char *role = server_ask(one, "ROLE");
    const char *port = role != NULL ? strchr(role, '\n') : NULL;
    port = port != NULL ? strchr(port + 1, '\n') : NULL;
    int is_replica = port != NULL && strncmp(role, "slave", 5) == 0;
    int found = is_replica ? atoi(port + 1) : 0;
    free(role);
    return found;
}

static int
find_replicas(server **out, const server *master)
{
    int count = 0;
    for (int i = 0; i < lab.set.count - lab.set.sentinels; i++) {
        if (master_port_of(&lab.set.servers[i]) == server_port(master)) {
            out[count++] = &lab.set.servers[i];
        }
    }
    return count;
}

static int
count_masters(void)
{
    int count = 0;
    while (set_master(&lab.set, count) != NULL) {
        count++;
    }
    return count;
}

static int
masters_wanted(void)
{
    return lab.set.sentinels > 0 ? 1 : 3;
}

/* ---- what others need as well ---- */

/* those of a Cluster have a file that says so */
void
lab_kill(server *one)
{
    int is_of_sentinels = one - lab.set.servers < lab.set.count - lab.set.sentinels &&
                          lab.set.sentinels > 0;
    one->replica_of = is_of_sentinels ? master_port_of(one) : 0;
    server_kill(one);
}

int64_t
lab_still_ms(int64_t ms)
{
    int is_limited = (lab.stage->is & IS_QUARANTINED) != 0 && ms > UNHEARD_QUARANTINED_MS;
    return is_limited ? UNHEARD_QUARANTINED_MS : ms;
}

/* A master that was replaced believes to be one until it is told, by Sentinels after 8 s. */
void
lab_settle(void)
{
    int64_t until = now_ms() + slowly(FAILOVER_LIMIT_MS);
    if ((lab.stage->family->can & CAN_FAIL_OVER) == 0) {
        return;
    }
    set_wait_ready(&lab.set);
    while (count_masters() != masters_wanted()) {
        CHECK(now_ms() < until);
        sleep_ms(20);
        set_wait_ready(&lab.set);
    }
}

/* ---- the strike ---- */

/* with Sentinels, a server that starts is told whom to follow */
static void
restart_as_replica(server *one, const server *master)
{
    one->replica_of = lab.set.sentinels > 0 ? server_port(master) : 0;
    server_restart(one);
}

static void
lose_the_last(server *master, server **replicas, int count)
{
    for (int i = 0; i < count; i++) {
        server_pause(replicas[i]);
    }
    sleep_ms((lab.stage->is & IS_QUARANTINED) != 0 ? UNHEARD_QUARANTINED_MS : UNHEARD_MS);
    server_kill(master);
    for (int i = 0; i < count; i++) {
        server_kill(replicas[i]);
        restart_as_replica(replicas[i], master);
    }
}

/* a failover that nobody asked for may still be under way: the machine is slow */
static server *
choose_master(uint64_t random, server **replicas, int *count)
{
    set_wait_ready(&lab.set);
    int masters = count_masters();
    server *master = set_master(&lab.set, (int)((random >> 8) % (uint64_t)masters));
    *count = master != NULL ? find_replicas(replicas, master) : 0;
    return *count > 0 ? master : NULL;
}

static void
await_masters(void)
{
    int64_t until = now_ms() + slowly(FAILOVER_LIMIT_MS);
    while (count_masters() < masters_wanted()) {
        CHECK(now_ms() < until);
        sleep_ms(20);
    }
}

int
fail_over_redis(uint64_t random, int64_t ms)
{
    server *replicas[SET_MAX], *next = NULL;
    int count;
    server *master = choose_master(random, replicas, &count);
    (void)ms;
    if (master == NULL) {
        return -1;
    }
    lose_the_last(master, replicas, count);
    await_masters();
    for (int i = 0; i < count; i++) {
        next = server_is_master(replicas[i]) ? replicas[i] : next;
    }
    restart_as_replica(master, next != NULL ? next : replicas[0]);
    set_wait_ready(&lab.set);
    return 0;
}
