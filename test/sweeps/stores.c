/* SPDX-License-Identifier: MIT */
/* The servers of each engine. See sweep.h. */
#include "sweep.h"

#define DATABASE "sweeps"
#define ROOT "/sweeps"
#define REDLOCK_SERVERS 5
/* requests of a name stay on one connection, in order, until that is given up */
#define REDIS_SILENT_MS 4000

static server one;
static server_set set;

static void
stop(void)
{
    server_stop(&one);
    set_stop(&set);
}

int
store_port(int index)
{
    return set.count > 0 ? set.servers[index].port : one.port;
}

/* ---- Redis ---- */

static int
redis_present(void)
{
    return server_present("redis-server");
}

static void
redis_begin(void)
{
    server_start(&one, NULL);
}

static void
redis_url(char *out, size_t size, const char *hosts)
{
    (void)snprintf(out, size, "redis://%s?layout=%s", hosts, layout);
}

/* one who waited and is gone keeps its place for no longer than a lease */
static void
redis_queue_url(char *out, size_t size, const char *hosts)
{
    (void)snprintf(out, size, "redis://%s?waiter=%ums", hosts, LEASE_MS);
}

static int
redis_left(void)
{
    return server_count_keys(&one);
}

static void
redis_show(void)
{
    server_show_keys(&one);
}

static void
redlock_begin(void)
{
    set_start_apart(&set, REDLOCK_SERVERS, NULL);
}

static void
redlock_url(char *out, size_t size, const char *hosts)
{
    (void)snprintf(out, size, "redlock://%s?node_timeout=%ums", hosts, LEASE_MS / 6);
}

static int
redlock_left(void)
{
    return set_count_keys(&set);
}

static void
redlock_show(void)
{
    for (int i = 0; i < set.count; i++) {
        server_show_keys(&set.servers[i]);
    }
}

/* ---- ZooKeeper, etcd, Consul ---- */

static void
zookeeper_begin(void)
{
    zookeeper_start(&one, NULL);
}

static void
zookeeper_url(char *out, size_t size, const char *hosts)
{
    (void)snprintf(out, size, "zk://%s" ROOT "?layout=%s&tick=%dms", hosts, layout,
                   ZOOKEEPER_TICK_MS);
}

static int
zookeeper_left(void)
{
    return tree_count(&one, ROOT);
}

static void
zookeeper_show(void)
{
    tree_show(&one, ROOT);
}

static void
etcd_begin(void)
{
    etcd_start(&one, NULL);
}

static void
etcd_url(char *out, size_t size, const char *hosts)
{
    (void)snprintf(out, size, "etcd://%s" ROOT "?layout=%s", hosts, layout);
}

static int
etcd_left(void)
{
    return etcd_count_keys(&one, ROOT) + etcd_count_leases(&one);
}

static void
etcd_show_left(void)
{
    etcd_show(&one);
}

static void
consul_begin(void)
{
    consul_start(&one, NULL);
}

static void
consul_url(char *out, size_t size, const char *hosts)
{
    (void)snprintf(out, size, "consul://%s" ROOT, hosts);
}

static int
consul_left(void)
{
    return consul_count_keys(&one, &ROOT[1]) + consul_count_sessions(&one);
}

static void
consul_show_left(void)
{
    consul_show(&one);
}

/* ---- databases ---- */

static void
postgres_begin(void)
{
    postgres_start(&one, NULL);
    sql_do(&one, NULL, "CREATE DATABASE " DATABASE);
}

static void
mysql_begin(void)
{
    mariadb_start(&one, NULL);
    sql_do(&one, NULL, "CREATE DATABASE " DATABASE);
}

static void
postgres_url(char *out, size_t size, const char *hosts)
{
    (void)snprintf(out, size, "postgres://postgres@%s/" DATABASE "?layout=%s", hosts,
                   layout);
}

static void
postgres_lease_url(char *out, size_t size, const char *hosts)
{
    (void)snprintf(out, size, "postgres://postgres@%s/" DATABASE "?waiter=%ums", hosts,
                   LEASE_MS);
}

static void
mysql_url(char *out, size_t size, const char *hosts)
{
    (void)snprintf(out, size, "mysql://root@%s/" DATABASE "?layout=%s", hosts, layout);
}

static void
mysql_lease_url(char *out, size_t size, const char *hosts)
{
    (void)snprintf(out, size, "mysql://root@%s/" DATABASE "?waiter=%ums", hosts,
                   LEASE_MS);
}

/* where a lock is one of a connection, those are what may be left */
static int
sql_left(void)
{
    return sql_count_locks(&one, DATABASE) + sql_count_clients(&one);
}

static void
sql_show_left(void)
{
    sql_show(&one, DATABASE);
}

/* ---- all ---- */

#define STAGE(what, present, url)                                                        \
    .stage = { .title = what,                                                            \
               .is_present = present,                                                    \
               .nowhere = url,                                                           \
               .limit_s = 25,                                                            \
               .clean_up = stop }

#define REDIS                                                                            \
    .engine = "redis", .servers = 1, .spoiled = 1, .start = redis_begin,                 \
    .count_left = redis_left, .show_left = redis_show, .silent_ms = REDIS_SILENT_MS,     \
    STAGE("redis-server", redis_present, "redis://127.0.0.1:1")
#define POSTGRES                                                                         \
    .engine = "postgres", .servers = 1, .spoiled = 1, .start = postgres_begin,           \
    .count_left = sql_left, .show_left = sql_show_left,                                  \
    STAGE("postgres", postgres_present, "postgres://nobody@127.0.0.1:1/nowhere")
#define MYSQL                                                                            \
    .engine = "mysql", .servers = 1, .spoiled = 1, .start = mysql_begin,                 \
    .count_left = sql_left, .show_left = sql_show_left,                                  \
    STAGE("mariadb", mariadb_present, "mysql://nobody@127.0.0.1:1/nowhere")

/* How much longer than a lease: a session or lease at the store is longer than the lease it
 * is for, and Consul waits twice as long, and then refuses the lock for a while. */
static const store stores[] = {
    { REDIS, .layouts = " queue ", .print_url = redis_queue_url },
    { REDIS, .layouts = " plain redisson ", .print_url = redis_url },
    { .engine = "redlock",
      .layouts = " redlock ",
      .servers = REDLOCK_SERVERS,
      .spoiled = REDLOCK_SERVERS / 2 + 1,
      .start = redlock_begin,
      .print_url = redlock_url,
      .count_left = redlock_left,
      .show_left = redlock_show,
      .silent_ms = REDIS_SILENT_MS,
      STAGE("redis-server", redis_present, "redlock://127.0.0.1:1") },
    { .engine = "zookeeper",
      .layouts = " curator node ",
      .servers = 1,
      .spoiled = 1,
      .start = zookeeper_begin,
      .print_url = zookeeper_url,
      .count_left = zookeeper_left,
      .show_left = zookeeper_show,
      .remains_ms = 1000,
      STAGE("zookeeper", zookeeper_present, "zk://127.0.0.1:1") },
    { .engine = "etcd",
      .layouts = " concurrency single ",
      .servers = 1,
      .spoiled = 1,
      .start = etcd_begin,
      .print_url = etcd_url,
      .count_left = etcd_left,
      .show_left = etcd_show_left,
      .remains_ms = 3500,
      STAGE("etcd", etcd_present, "etcd://127.0.0.1:1") },
    { .engine = "consul",
      .layouts = " lock ",
      .servers = 1,
      .spoiled = 1,
      .start = consul_begin,
      .print_url = consul_url,
      .count_left = consul_left,
      .show_left = consul_show_left,
      .remains_ms = 6000,
      STAGE("consul", consul_present, "consul://127.0.0.1:1") },
    { POSTGRES, .layouts = " lease ", .print_url = postgres_lease_url },
    { POSTGRES, .layouts = " advisory ", .print_url = postgres_url },
    { MYSQL, .layouts = " lease ", .print_url = mysql_lease_url },
    { MYSQL, .layouts = " get_lock ", .print_url = mysql_url },
};

const store *
store_find(const char *engine, const char *layout_name)
{
    char word[32];
    (void)snprintf(word, sizeof(word), " %s ", layout_name);
    for (size_t i = 0; i < sizeof(stores) / sizeof(stores[0]); i++) {
        if (strcmp(stores[i].engine, engine) == 0 &&
            strstr(stores[i].layouts, word) != NULL) {
            return &stores[i];
        }
    }
    return NULL;
}
