/* SPDX-License-Identifier: MIT */
/*
 * interop INCUMBENT SETTING: all checks of one incumbent in one setting, because starting
 * a Java machine is most of the work. SETTING is plain or getset (one server), redisson
 * (the same, all forms), cluster (redisson there), redlock (three servers), or on one
 * ZooKeeper curator (locks), recipes (Curator's other recipes) or kazoo.
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
enum { CLUSTER = 0, ZOOKEEPER = -1 };

struct setting {
    const char *name;
    int servers; /* how many of Redis, or one of the above */
    const char *scheme;
    const char *our_end, *their_end;
    void (*check)(struct stage *stage);
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
    check_tokens(stage);
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

#define TICK "tick=100ms"

static const struct setting settings[] = {
    { "plain", 1, "redis", "", "", check_plain },
    { "getset", 1, "redis", "", "", check_getset },
    { "redisson", 1, "redis", "", "", check_redisson },
    { "cluster", CLUSTER, "redis+cluster", "", "", check_cluster },
    { "redlock", 3, "redlock", "", "", check_redlock },
    { "curator", ZOOKEEPER, "zk", NODES_ROOT "?" TICK, NODES_ROOT, check_curator },
    { "recipes", ZOOKEEPER, "zk", NODES_ROOT "?" TICK, NODES_ROOT, check_recipes },
    { "kazoo", ZOOKEEPER, "zk", NODES_ROOT "?naming=kazoo&" TICK, NODES_ROOT,
      check_kazoo },
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

static void
start_servers(struct stage *stage, int which)
{
    stage->is_zookeeper = which == ZOOKEEPER;
    if (which == ZOOKEEPER) {
        stage->servers.count = 1;
        zookeeper_start(&stage->servers.servers[0], NULL);
    } else if (which == CLUSTER) {
        set_start_cluster(&stage->servers, NULL);
    } else {
        set_start_apart(&stage->servers, which, NULL);
    }
}

static void
prepare(struct stage *stage, const struct program *incumbent,
        const struct setting *setting)
{
    char hosts[200], ours[256], theirs[256];
    start_servers(stage, setting->servers);
    set_hosts(hosts, sizeof(hosts), &stage->servers);
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
    if (setting->servers == ZOOKEEPER) {
        return zookeeper_present() ? NULL : "there is no ZooKeeper";
    }
    return server_present("redis-server") ? NULL : "there is no redis-server";
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
