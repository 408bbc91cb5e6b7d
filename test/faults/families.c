/* SPDX-License-Identifier: MIT */
/* Kinds of servers: how they are started, what can be done to them, what is left there. Here
 * files and Redis; families_members.c and families_sql.c have the others. See lab.h. */
#include "lab.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* how soon replicas take over; and where they are not to: less than the lag of a quarantine */
#define DOWN_AFTER_MS 500
#define DOWN_AFTER_CALM_MS 1500

server_options
options_of_stage(void)
{
    return (server_options){ .durable = (lab.stage->is & IS_DURABLE) != 0,
                             .everysec = (lab.stage->is & IS_EVERYSEC) != 0,
                             .more = lab.more,
                             .clock = (lab.needs & CAN_CLOCK) != 0,
                             .power = (lab.needs & CAN_POWER) != 0 };
}

/* ---- files ---- */

static void
start_local(void)
{
    temp_dir(lab.folder, sizeof(lab.folder),
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
}

static void
start_sqlite(void)
{
    temp_dir(lab.folder, sizeof(lab.folder), "/tmp");
}

/* it keeps one file, whatever happens */
static int
count_local(void)
{
    return count_entries(lab.folder) - 1;
}

const struct family family_local = { .engine = "local",
                                     .scheme = "local:",
                                     .path = "",
                                     .start = start_local,
                                     .count_left = count_local };

const struct family family_sqlite = {
    .engine = "sqlite", .scheme = "sqlite:", .path = "/locks", .start = start_sqlite
};

/* ---- Redis ---- */

static int
redis_present(void)
{
    return server_present("redis-server");
}

static int
valkey_present(void)
{
    return server_present("valkey-server");
}

static void
valkey_start(server *out, const server_options *options)
{
    server_options own = *options;
    own.program = "valkey-server";
    server_start(out, &own);
}

/* A replica that comes back alone takes over in a Cluster all the same, however long it has
 * not heard of its master. */
static const char *const eager[] = { "--cluster-replica-validity-factor", "0", NULL };
/* what a quarantine asks for */
static const char *const careful[] = { "--min-replicas-to-write", "1",
                                       "--min-replicas-max-lag", "2", NULL };

static set_options
options_of_set(void)
{
    return (set_options){ .down_after_ms =
                              lab.by_wires ? DOWN_AFTER_CALM_MS : DOWN_AFTER_MS,
                          .before = lab.by_wires ? &lab.lines : NULL,
                          .each = options_of_stage() };
}

static void
start_sentinel(void)
{
    set_options options = options_of_set();
    options.each.more = (lab.stage->is & IS_QUARANTINED) != 0 ? careful : NULL;
    set_start_sentinel(&lab.set, &options);
    lab.door = lab.set.count - lab.set.sentinels;
}

/* whom the Sentinels call the master */
static int
sentinel_leader(const server_set *set)
{
    int index = 0;
    char *told = server_ask(&set->servers[set->count - 1], "SENTINEL",
                            "GET-MASTER-ADDR-BY-NAME", SET_MASTER_NAME);
    const char *port = told != NULL ? strchr(told, '\n') : NULL;
    CHECK(port != NULL);
    while (server_port(&set->servers[index]) != atoi(port + 1)) {
        CHECK(++index < set->count - set->sentinels);
    }
    free(told);
    return index;
}

static void
start_cluster(void)
{
    set_options options = options_of_set();
    options.each.more = eager;
    set_start_cluster(&lab.set, &options);
}

/* there are three: each in turn */
static int
cluster_leader(const server_set *set)
{
    static int turn;
    const server *master = set_master(&lab.set, turn++ % 3);
    CHECK(master != NULL);
    return (int)(master - set->servers);
}

static void
start_redlock(void)
{
    server_options options = options_of_stage();
    set_start_apart(&lab.set, 5, &options);
}

/* Redisson's fair locks keep the place of a waiter that was killed until somebody comes; when its
 * time is over that is nobody's place. */
static int
count_dead(const server *master)
{
    static const char script[] =
        "local time, count = redis.call('TIME'), 0 "
        "local now = time[1] * 1000 + time[2] / 1000 "
        "for _, key in ipairs(redis.call('KEYS', 'redisson_lock_timeout:*')) do "
        "  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2] "
        "  local queue = key:gsub('_timeout:', '_queue:', 1) "
        "  if tonumber(last) < now then "
        "    count = count + redis.call('EXISTS', key, queue) "
        "  end "
        "end "
        "return count";
    return (int)server_number(master, "EVAL", script, "0");
}

static int
count_redis(void)
{
    int count = set_count_keys(&lab.set);
    if (strstr(lab.stage->parameters, "form=fair") != NULL) {
        count -= count_dead(set_master(&lab.set, 0));
    }
    return count;
}

static void
show_redis(void)
{
    for (int i = 0; set_master(&lab.set, i) != NULL; i++) {
        server_show_keys(set_master(&lab.set, i));
    }
}

/* a replica takes over some seconds after the strike at the latest; then a gate is closed */
static int64_t
heal_failover(int64_t lease_ms)
{
    (void)lease_ms;
    return slowly(2000);
}

#define OF_REDIS                                                                         \
    .engine = "redis", .title = "redis-server", .is_present = redis_present,             \
    .count_left = count_redis, .show_left = show_redis

const struct family family_redis = { OF_REDIS, .scheme = "redis://",
                                     .start_one = server_start,
                                     .can = CAN_KILL | CAN_CUT | CAN_WIRE | CAN_SCRIPT |
                                            CAN_CLOCK };

const struct family family_valkey = { .engine = "redis",
                                      .title = "valkey-server",
                                      .is_present = valkey_present,
                                      .scheme = "redis://",
                                      .start_one = valkey_start,
                                      .count_left = count_redis,
                                      .show_left = show_redis,
                                      .can = CAN_KILL | CAN_CUT | CAN_WIRE | CAN_SCRIPT |
                                             CAN_CLOCK };

#define OF_A_SET                                                                         \
    (CAN_KILL | CAN_CUT | CAN_WIRE | CAN_MEMBER | CAN_LEADER | CAN_SCRIPT | CAN_FAIL_OVER)

const struct family family_sentinel = { OF_REDIS,
                                        .scheme = "redis+sentinel://",
                                        .path = "/" SET_MASTER_NAME,
                                        .start = start_sentinel,
                                        .leader = sentinel_leader,
                                        .heal_ms = heal_failover,
                                        .fail_over = fail_over_redis,
                                        .can = OF_A_SET };

const struct family family_cluster = { OF_REDIS,
                                       .scheme = "redis+cluster://",
                                       .start = start_cluster,
                                       .leader = cluster_leader,
                                       .heal_ms = heal_failover,
                                       .fail_over = fail_over_redis,
                                       .can = OF_A_SET };

const struct family family_redlock = { .engine = "redlock",
                                       .title = "redis-server",
                                       .is_present = redis_present,
                                       .scheme = "redlock://",
                                       .start = start_redlock,
                                       .count_left = count_redis,
                                       .show_left = show_redis,
                                       .can = CAN_KILL | CAN_CUT | CAN_WIRE | CAN_SCRIPT |
                                              CAN_MEMBER | CAN_CLOCK | CAN_CLOCK_BACK };
