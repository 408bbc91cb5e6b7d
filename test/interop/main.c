/* SPDX-License-Identifier: MIT */
/*
 * interop INCUMBENT SETTING: all checks of one incumbent in one setting, because starting
 * a Java machine is most of the work. SETTING is plain or getset (one server), redisson
 * (the same, all forms), cluster (redisson there), or redlock (three servers).
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

/* What a setting needs: how many servers, and how the URLs begin. */
struct setting {
    const char *name;
    int servers; /* 0: a Cluster */
    const char *our_scheme, *their_scheme;
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
    check_fair_order(stage);
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

static const struct setting settings[] = {
    { "plain", 1, "redis", "redis", check_plain },
    { "getset", 1, "redis", "redis", check_getset },
    { "redisson", 1, "redis", "redis", check_redisson },
    { "cluster", 0, "redis+cluster", "redis+cluster", check_cluster },
    { "redlock", 3, "redlock", "redlock", check_redlock },
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
prepare(struct stage *stage, const struct program *incumbent,
        const struct setting *setting)
{
    char hosts[200], ours[256], theirs[256];
    if (setting->servers == 0) {
        set_start_cluster(&stage->servers, NULL);
    } else {
        set_start_apart(&stage->servers, setting->servers, NULL);
    }
    set_hosts(hosts, sizeof(hosts), &stage->servers);
    snprintf(ours, sizeof(ours), "%s://%s", setting->our_scheme, hosts);
    snprintf(theirs, sizeof(theirs), "%s://%s", setting->their_scheme, hosts);
    for (int i = 0; i < 2; i++) {
        peer_start(&stage->theirs[i], incumbent, theirs);
        peer_start(&stage->ours[i], &program_dibs, ours);
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
    if (missing == NULL && !server_present("redis-server")) {
        missing = "there is no redis-server";
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
