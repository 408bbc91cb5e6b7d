/* SPDX-License-Identifier: MIT */
/*
 * interop INCUMBENT SETTING: all checks of one incumbent in one setting, because starting
 * a Java machine is most of the work. SETTING is plain or getset (one server), redisson
 * (the same, all forms), cluster (redisson there), redlock (three servers); on one
 * ZooKeeper curator (locks), recipes (Curator's other recipes) or kazoo; on one etcd etcd
 * (locks and elections), rw or single; on one Consul lock, key, semaphore, or slow (what takes
 * `consul lock` long); on one database postgres or mariadb.
 * interop dibs: the peer that is dibs. See interop.h.
 */
#include "interop.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TIME_LIMIT_S 170

static struct stage the_stage;

void
done(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    putchar('\n');
    fflush(stdout);
}

static void
clean_up(void)
{
    kill_all_peers();
    set_stop(&the_stage.servers);
}

/* What a setting needs: which servers, and how the URLs begin and end. */
struct setting {
    const char *name;
    enum store store;
    int servers; /* how many of Redis */
    const char *scheme;
    const char *our_end, *their_end;
    void (*check)(struct stage *stage);
    const char *user; /* NULL: none */
};

static void
check_string(struct stage *stage, const char *kind, int rounds)
{
    check_exclusion(stage, kind);
    check_count(stage, kind, rounds);
    check_late_release(stage, kind);
    check_wake(stage, kind);
    check_death(stage, kind);
}

static void
check_plain(struct stage *stage)
{
    check_string(stage, "plain", 100);
    check_shape(stage, "plain");
}

static void
check_getset(struct stage *stage)
{
    check_string(stage, "getset", 25);
}

static void
check_redlock(struct stage *stage)
{
    check_string(stage, "plain", 15);
    check_minority_down(stage);
}

static void
check_redisson(struct stage *stage)
{
    static const char *const kinds[] = { "lock", "fair", "write" };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        check_shape(stage, kinds[i]);
        check_exclusion(stage, kinds[i]);
        check_count(stage, kinds[i], 50);
        check_late_release(stage, kinds[i]);
        check_wake(stage, kinds[i]);
        check_death(stage, kinds[i]);
    }
    check_shape(stage, "read");
    check_order(stage, "fair");
    check_sharing(stage);
    /* otherwise it is as kind lock */
    check_shape(stage, "fenced");
    check_count(stage, "fenced", 50);
    check_tokens(stage, "fenced");
    check_dialect(stage);
}

static void
check_cluster(struct stage *stage)
{
    static const char *const kinds[] = { "lock", "fair", "write" };
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        check_exclusion(stage, kinds[i]);
        check_wake(stage, kinds[i]);
        check_count(stage, kinds[i], 20);
    }
    check_sharing(stage);
}

static void
check_line(struct stage *stage, const char *kind)
{
    check_nodes(stage, kind);
    check_exclusion(stage, kind);
    check_count(stage, kind, 25);
    check_order(stage, kind);
    check_wake(stage, kind);
    check_death(stage, kind);
    check_dead_waiter(stage, kind);
}

static void
check_curator(struct stage *stage)
{
    check_line(stage, "mutex");
    check_line(stage, "write");
    check_nodes(stage, "read");
    check_sharing(stage);
    check_read_in_write(stage);
    check_parents(stage, 1);
}

static void
check_recipes(struct stage *stage)
{
    check_line(stage, "latch");
    check_leader(stage);
    check_line(stage, "sem1");
    check_permits(stage);
}

static void
check_kazoo(struct stage *stage)
{
    check_line(stage, "mutex");
    check_line(stage, "write");
    check_nodes(stage, "read");
    check_sharing(stage);
    check_parents(stage, 0);
}

static void
check_etcd(struct stage *stage)
{
    int has_tokens = strcmp(stage->theirs[0].program->name, "etcdctl") != 0;
    static const char *const kinds[] = { "mutex", "latch" };
    for (int i = 0; i < 2; i++) {
        check_entries(stage, kinds[i]);
        check_exclusion(stage, kinds[i]);
        check_order(stage, kinds[i]);
        check_wake(stage, kinds[i]);
    }
    check_count(stage, "mutex", 15);
    check_death(stage, "mutex");
    check_dead_waiter(stage, "mutex");
    check_ended(stage, "mutex");
    check_leader(stage);
    if (has_tokens) {
        check_tokens(stage, "mutex");
    }
    check_nothing_left(stage);
}

static void
check_rw(struct stage *stage)
{
    check_entries(stage, "read");
    check_entries(stage, "write");
    check_exclusion(stage, "write");
    check_count(stage, "write", 15);
    check_order(stage, "write");
    check_wake(stage, "write");
    check_death(stage, "write");
    check_sharing(stage);
    check_downgraded_order(stage);
    check_nothing_left(stage);
}

/* where nobody stands in line */
static void
check_crowd(struct stage *stage, const char *kind)
{
    check_entries(stage, kind);
    check_exclusion(stage, kind);
    check_count(stage, kind, 15);
    check_wake(stage, kind);
}

static void
check_single(struct stage *stage)
{
    check_crowd(stage, "single");
    check_death(stage, "single");
    check_ended(stage, "single");
    check_nothing_left(stage);
}

/* deaths of `consul lock` are in check_slow_death */
static int
is_command(const struct stage *stage)
{
    return strcmp(stage->theirs[0].program->name, "consul") == 0;
}

static void
check_lock(struct stage *stage)
{
    check_crowd(stage, "mutex");
    check_refusals(stage);
    if (is_command(stage)) {
        check_nothing_left(stage);
        return;
    }
    check_death(stage, "mutex");
    check_ended(stage, "mutex");
    check_leader(stage);
}

static void
check_key(struct stage *stage)
{
    check_crowd(stage, "key");
    check_death(stage, "key");
}

static void
check_semaphore(struct stage *stage)
{
    check_permits(stage);
    check_entries(stage, "sem2");
    if (is_command(stage)) {
        check_nothing_left(stage);
        return;
    }
    check_crowd(stage, "sem1");
    check_death(stage, "sem1");
}

static int
is_incumbent(const struct stage *stage, const char *name)
{
    return strcmp(stage->theirs[0].program->name, name) == 0;
}

static void
check_sql(struct stage *stage)
{
    const char *kind = stage->theirs[0].program->name;
    int is_table = is_incumbent(stage, "shedlock") || is_incumbent(stage, "spring");
    check_exclusion(stage, kind);
    check_count(stage, kind, 20);
    check_wake(stage, kind);
    check_death(stage, kind);
    if (is_table) {
        check_sql_row(stage, kind);
        check_sql_late(stage, kind);
    }
    if (is_incumbent(stage, "shedlock")) {
        check_sql_kept_row(stage);
    }
}

#define TICK "tick=100ms"

static const struct setting settings[] = {
    { "plain", REDIS, 1, "redis", "", "", check_plain, NULL },
    { "getset", REDIS, 1, "redis", "", "", check_getset, NULL },
    { "redisson", REDIS, 1, "redis", "", "", check_redisson, NULL },
    { "cluster", CLUSTER, 0, "redis+cluster", "", "", check_cluster, NULL },
    { "redlock", REDIS, 3, "redlock", "", "", check_redlock, NULL },
    { "curator", ZOOKEEPER, 1, "zk", NODES_ROOT "?" TICK, NODES_ROOT, check_curator,
      NULL },
    { "recipes", ZOOKEEPER, 1, "zk", NODES_ROOT "?" TICK, NODES_ROOT, check_recipes,
      NULL },
    { "kazoo", ZOOKEEPER, 1, "zk", NODES_ROOT "?naming=kazoo&" TICK, NODES_ROOT,
      check_kazoo, NULL },
    { "etcd", ETCD, 1, "etcd", "", "", check_etcd, NULL },
    { "rw", ETCD, 1, "etcd", "", "", check_rw, NULL },
    { "single", ETCD, 1, "etcd", "", "", check_single, NULL },
    { "lock", CONSUL, 1, "consul", "", "", check_lock, NULL },
    { "key", CONSUL, 1, "consul", "", "", check_key, NULL },
    { "semaphore", CONSUL, 1, "consul", "", "", check_semaphore, NULL },
    { "slow", CONSUL, 1, "consul", "", "", check_slow_death, NULL },
    { "postgres", POSTGRES, 1, "postgres", "/postgres", "/postgres", check_sql,
      "postgres" },
    { "mariadb", MARIADB, 1, "mysql", "/mysql", "/mysql", check_sql, "root" },
};

static const struct setting *
setting_find(const char *name)
{
    for (size_t i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
        if (strcmp(settings[i].name, name) == 0) {
            return &settings[i];
        }
    }
    FAIL("there is no setting '%s'", name);
}

/* at etcd a third and a second more than the lease, in whole seconds, and it looks every half
 * second; at Consul twice as much, then the lock-delay, and Go's clients look every 5 s during
 * that */
static const int64_t outlasts[] = {
    [ZOOKEEPER] = 1000, [ETCD] = 3000, [CONSUL] = 14000, [MARIADB] = 1000
};

/* it writes down what it is asked */
static const server_options talkative = { .more = (const char *const[]){
                                              "-log-level=debug", NULL } };

/* in another time zone than UTC, which is to make no difference */
static const server_options far_away = { .more = (const char *const[]){
                                             "--default-time-zone=+05:30", NULL } };

static void
start_servers(struct stage *stage, const struct setting *setting)
{
    server *first = &stage->servers.servers[0];
    stage->store = setting->store;
    stage->outlasts_ms = outlasts[setting->store];
    stage->servers.count = 1;
    switch (setting->store) {
    case REDIS:
        set_start_apart(&stage->servers, setting->servers, NULL);
        break;
    case CLUSTER:
        set_start_cluster(&stage->servers, NULL);
        break;
    case ZOOKEEPER:
        zookeeper_start(first, NULL);
        break;
    case ETCD:
        etcd_start(first, NULL);
        break;
    case CONSUL:
        consul_start(first, &talkative);
        break;
    case POSTGRES:
        postgres_start(first, NULL);
        break;
    case MARIADB:
        mariadb_start(first, &far_away);
        break;
    }
}

static void
prepare(struct stage *stage, const struct program *incumbent,
        const struct setting *setting)
{
    char hosts[200], ours[256], theirs[256];
    start_servers(stage, setting);
    int len = setting->user ? snprintf(hosts, sizeof(hosts), "%s@", setting->user) : 0;
    set_hosts(hosts + len, sizeof(hosts) - (size_t)len, &stage->servers);
    if (setting->check == check_sql) {
        check_sql_tables(stage, strcmp(incumbent->name, "oldspring") == 0);
    }
    snprintf(ours, sizeof(ours), "%s://%s%s", setting->scheme, hosts, setting->our_end);
    snprintf(theirs, sizeof(theirs), "%s://%s%s", setting->scheme, hosts,
             setting->their_end);
    for (int i = 0; i < 2; i++) {
        peer_start(&stage->theirs[i], incumbent, theirs);
        peer_start(&stage->ours[i], &program_dibs, ours);
    }
}

static const char *
server_missing(const struct setting *setting)
{
    switch (setting->store) {
    case ZOOKEEPER:
        return zookeeper_present() ? NULL : "there is no ZooKeeper";
    case ETCD:
        return etcd_present() ? NULL : "there is no etcd or no etcdctl";
    case CONSUL:
        return consul_present() ? NULL : "there is no consul";
    case POSTGRES:
        return postgres_present() ? NULL : "there is no PostgreSQL";
    case MARIADB:
        return mariadb_present() ? NULL : "there is no MariaDB";
    default:
        return server_present("redis-server") ? NULL : "there is no redis-server";
    }
}

static void
finish(struct stage *stage)
{
    for (int i = 0; i < 2; i++) {
        peer_stop(&stage->theirs[i]);
        peer_stop(&stage->ours[i]);
    }
    set_stop(&stage->servers);
}

int
main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "dibs") == 0) {
        return ours_main();
    }
    if (argc != 3) {
        fprintf(stderr, "interop INCUMBENT SETTING\n");
        return 2;
    }
    const struct program *incumbent = program_find(argv[1]);
    const struct setting *setting = setting_find(argv[2]);
    const char *missing = program_missing(incumbent);
    if (missing == NULL) {
        missing = server_missing(setting);
    }
    if (missing != NULL) {
        printf("skipped: %s\n", missing);
        return EXIT_SKIPPED;
    }
    on_failure(clean_up);
    limit_time(TIME_LIMIT_S);
    prepare(&the_stage, incumbent, setting);
    setting->check(&the_stage);
    finish(&the_stage);
    return 0;
}
