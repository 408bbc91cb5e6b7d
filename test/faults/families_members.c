/* SPDX-License-Identifier: MIT */
/* Kinds of servers that elect, or would if there were several: ZooKeeper, etcd and Consul. See
 * families.c. */
#include "lab.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* how soon the members of a set miss each other */
#define MISSED_MS 1000

static server *const first = &lab.set.servers[0];

/* ---- ZooKeeper ---- */

static void
start_ensemble(void)
{
    static char config[32];
    (void)snprintf(config, sizeof(config), "syncLimit=%d", MISSED_MS / ZOOKEEPER_TICK_MS);
    server_options options = options_of_stage();
    options.config = config;
    zookeeper_start_ensemble(&lab.set, &options, &lab.between);
}

static void
cut_off_zookeeper(const server_set *set, struct wires *between, int index)
{
    for (int i = 0; i < set->count; i++) {
        if (i != index) {
            wires_hold(between, set->count * index + i);
            wires_hold(between, set->count * i + index);
        }
    }
}

static int
count_nodes(void)
{
    return tree_count(first, "/lab");
}

static void
show_nodes(void)
{
    tree_show(first, "/lab");
}

/* a session is up to 1.75 times as long as the lease and a tick, ends with a tick, and begins
 * anew with a leader, whom it takes some seconds to find */
static int64_t
heal_zookeeper(int64_t lease_ms)
{
    return 4 * (lease_ms + ZOOKEEPER_TICK_MS) + MISSED_MS + slowly(1000);
}

#define OF_ZOOKEEPER                                                                     \
    .engine = "zookeeper", .title = "zookeeper", .is_present = zookeeper_present,        \
    .scheme = "zk://", .path = "/lab", .count_left = count_nodes,                        \
    .show_left = show_nodes, .heal_ms = heal_zookeeper

const struct family family_zookeeper = { OF_ZOOKEEPER, .start_one = zookeeper_start,
                                         .can = CAN_KILL | CAN_CUT | CAN_WIRE |
                                                CAN_CLOCK | CAN_CLOCK_BACK };

/* a leader that is cut off still votes, and wins with what it alone has written: see
 * test/engine/zookeeper/ensemble.c */
const struct family family_ensemble = { OF_ZOOKEEPER, .start = start_ensemble,
                                        .leader = zookeeper_leader,
                                        .cut_off = cut_off_zookeeper,
                                        .can = CAN_KILL | CAN_CUT | CAN_WIRE |
                                               CAN_MEMBER | CAN_LEADER | CAN_PART |
                                               CAN_CLOCK | CAN_CLOCK_BACK };

/* ---- etcd and Consul ---- */

/* a class of leases: a lease and a third, and some more, rounded up to one of 1, 1.5, 2, 3,
 * 4, 6, ... seconds */
static int64_t
life_ms(int64_t lease_ms, int64_t more_ms, int64_t least_ms)
{
    int64_t wanted = lease_ms * 4 / 3 + more_ms, step = 1000;
    while (step < wanted && step * 3 / 2 < wanted) {
        step *= 2;
    }
    wanted = step < wanted ? step * 3 / 2 : step;
    return wanted > least_ms ? wanted : least_ms;
}

static void
start_etcd_cluster(void)
{
    etcd_start_cluster(&lab.set, NULL, &lab.between);
}

static int
count_etcd(void)
{
    return etcd_count_keys(first, "/lab/") + etcd_count_leases(first);
}

static void
show_etcd(void)
{
    etcd_show(first);
}

/* a life and two seconds, and another life if the leader changes */
static int64_t
heal_etcd(int64_t lease_ms)
{
    return 2 * life_ms(lease_ms, 1000, 2000) + 2000 + slowly(1000);
}

#define OF_ETCD                                                                          \
    .engine = "etcd", .title = "etcd", .is_present = etcd_present, .scheme = "etcd://",  \
    .path = "/lab", .count_left = count_etcd, .show_left = show_etcd,                    \
    .heal_ms = heal_etcd

const struct family family_etcd = { OF_ETCD, .start_one = etcd_start,
                                    .can = CAN_KILL | CAN_CUT | CAN_WIRE };

const struct family family_etcd_cluster = {
    OF_ETCD, .start = start_etcd_cluster, .leader = etcd_leader, .cut_off = etcd_cut_off,
    .can = CAN_KILL | CAN_CUT | CAN_WIRE | CAN_MEMBER | CAN_LEADER | CAN_PART
};

/* one that is dead is still one of them */
static void
start_consul_cluster(void)
{
    static const server_options patient = {
        .config = "autopilot { cleanup_dead_servers = false }"
    };
    consul_start_cluster(&lab.set, &patient, &lab.between);
}

/* The entries of a semaphore or of sharers stay when the last holder was killed, as they do
 * with `consul lock`, and count as free; one that is locked has a session. */
static int
count_free(void)
{
    char *keys = consul_do(first, "GET", "kv/lab/?keys", NULL);
    int count = 0;
    for (const char *at = keys; (at = strstr(at, "/.")) != NULL; at += 2) {
        count++;
    }
    free(keys);
    return count;
}

static int
count_consul(void)
{
    int keys = consul_count_keys(first, "lab/");
    return consul_count_sessions(first) + (keys > 0 ? keys - count_free() : 0);
}

static void
show_consul(void)
{
    consul_show(first);
}

/* twice the TTL, which is counted anew by a new leader, and then the lock-delay */
static int64_t
heal_consul(int64_t lease_ms)
{
    return 4 * life_ms(lease_ms, 300, 1000) + lease_ms + slowly(2000);
}

#define OF_CONSUL                                                                        \
    .engine = "consul", .title = "consul", .is_present = consul_present,                 \
    .scheme = "consul://", .path = "/lab", .count_left = count_consul,                   \
    .show_left = show_consul, .heal_ms = heal_consul

const struct family family_consul = { OF_CONSUL, .start_one = consul_start,
                                      .can = CAN_KILL | CAN_CUT | CAN_WIRE };

const struct family family_consul_cluster = { OF_CONSUL, .start = start_consul_cluster,
                                              .leader = consul_leader,
                                              .cut_off = consul_cut_off,
                                              .can = CAN_KILL | CAN_CUT | CAN_WIRE |
                                                     CAN_MEMBER | CAN_LEADER | CAN_PART };
