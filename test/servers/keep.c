/* SPDX-License-Identifier: MIT */
/*
 * Runs a set of servers while several tests use it:
 *
 *   servers_keep start KIND FILE    returns when the set is in order
 *   servers_keep stop FILE          returns when it is gone
 *
 * KIND is sentinel, cluster, zookeeper (one server), ensemble (three of these), etcd,
 * etcd_cluster, consul, consul_cluster, postgres, pgbouncer (a PostgreSQL, and it) or
 * mariadb. Of etcd and Consul, to stop them fails if the tests have left anything there but
 * cells: leases, sessions or keys.
 *
 * Between the two a process in the background has the set. It ends, and the set with it,
 * at the latest with the program that started us (ctest, however that ends) or after half
 * an hour.
 */
#include "servers.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "parts.h"

#define LIFE_MS (30 * 60 * 1000)
#define START_LIMIT_MS 60000
#define STOP_LIMIT_MS 10000
/* What those had who were killed goes with their leases: some had the usual one, of which
 * a server may keep a session for three times as long. */
#define LEFT_LIMIT_MS 100000

static server_set set;

static void
end_set(void)
{
    set_stop(&set);
}

/* ---- the sets ---- */

static int
has_redis(void)
{
    return server_present("redis-server");
}

static void
begin_sentinel(void)
{
    set_start_sentinel(&set, NULL);
}

static void
begin_cluster(void)
{
    set_start_cluster(&set, NULL);
}

static void
begin_zookeeper(void)
{
    set.count = 1;
    zookeeper_start(&set.servers[0], NULL);
}

static void
begin_ensemble(void)
{
    zookeeper_start_ensemble(&set, NULL, NULL);
}

static void
begin_etcd(void)
{
    set.count = 1;
    etcd_start(&set.servers[0], NULL);
}

static void
begin_etcd_cluster(void)
{
    etcd_start_cluster(&set, NULL, NULL);
}

static void
begin_consul(void)
{
    set.count = 1;
    consul_start(&set.servers[0], NULL);
}

static void
begin_consul_cluster(void)
{
    consul_start_cluster(&set, NULL, NULL);
}

static void
begin_postgres(void)
{
    set.count = 1;
    postgres_start(&set.servers[0], NULL);
}

static void
begin_pgbouncer(void)
{
    begin_postgres();
    set.count = 2;
    pgbouncer_start(&set.servers[1], &set.servers[0], NULL);
}

static void
begin_mariadb(void)
{
    set.count = 1;
    mariadb_start(&set.servers[0], NULL);
}

static const struct kind {
    const char *name, *program;
    int (*is_present)(void);
    void (*begin)(void);
} kinds[] = {
    { "sentinel", "redis-server", has_redis, begin_sentinel },
    { "cluster", "redis-server", has_redis, begin_cluster },
    { "zookeeper", "zookeeper", zookeeper_present, begin_zookeeper },
    { "ensemble", "zookeeper", zookeeper_present, begin_ensemble },
    { "etcd", "etcd", etcd_present, begin_etcd },
    { "etcd_cluster", "etcd", etcd_present, begin_etcd_cluster },
    { "consul", "consul", consul_present, begin_consul },
    { "consul_cluster", "consul", consul_present, begin_consul_cluster },
    { "postgres", "postgres", postgres_present, begin_postgres },
    { "pgbouncer", "pgbouncer", pgbouncer_present, begin_pgbouncer },
    { "mariadb", "mariadb", mariadb_present, begin_mariadb },
};

static const struct kind *
find_kind(const char *name)
{
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    return NULL;
}

/* ---- the process in the background ---- */

/* as its own session, with its output in a file next to the other */
static void
detach(const char *path)
{
    char log[4096];
    (void)snprintf(log, sizeof(log), "%s.log", path);
    int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
    int output = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    CHECK(nothing >= 0 && output >= 0);
    CHECK(dup2(nothing, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 &&
          dup2(output, STDERR_FILENO) >= 0);
    setsid();
}

static int
open_signals(void)
{
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    sigaddset(&ends, SIGHUP);
    CHECK(sigprocmask(SIG_BLOCK, &ends, NULL) == 0);
    int fd = signalfd(-1, &ends, SFD_CLOEXEC);
    CHECK(fd >= 0);
    return fd;
}

static int
run_set(void (*begin)(void), const char *path, int starter, int ready)
{
    detach(path);
    on_failure(end_set);
    struct pollfd ends[] = { { .fd = open_signals(), .events = POLLIN },
                             { .fd = starter, .events = POLLIN } };
    begin();
    keep(&set, path);
    CHECK(write(ready, "", 1) == 1);
    close(ready);
    (void)poll(ends, 2, LIFE_MS);
    end_set();
    (void)unlink(path);
    return 0;
}

/* ---- what tests have left ---- */

static int
count_left(const server *of)
{
    switch (of->kind) {
    case KIND_ETCD:
        return etcd_count_leases(of) + etcd_count_keys(of, "");
    case KIND_CONSUL:
        return consul_count_sessions(of) + consul_count_keys(of, "");
    default:
        return 0;
    }
}

/* 0: nothing. It is asked for while the servers are still there. */
static int
check_left(const char *path)
{
    int64_t until = now_ms() + LEFT_LIMIT_MS;
    if (set_attach(&set, path) != 0) {
        return 0;
    }
    const server *first = &set.servers[0];
    while (count_left(first) > 0 && now_ms() < until) {
        sleep_ms(50);
    }
    if (count_left(first) == 0) {
        return 0;
    }
    fprintf(stderr, "this is left:\n");
    (first->kind == KIND_ETCD ? etcd_show : consul_show)(first);
    return 1;
}

/* ---- the commands ---- */

static int
stop(const char *path)
{
    int64_t until = now_ms() + slowly(STOP_LIMIT_MS);
    pid_t pid = kept_by(path);
    if (pid > 0) {
        kill(pid, SIGTERM);
    }
    while (pid > 0 && kept_by(path) == pid) {
        if (now_ms() > until) {
            fprintf(stderr, "process %d does not end\n", (int)pid);
            return 1;
        }
        sleep_ms(10);
    }
    return 0;
}

static int
start(void (*begin)(void), const char *path)
{
    int ends[2];
    char byte;
    /* a leftover of a run that was killed */
    if (stop(path) != 0) {
        return 1;
    }
    CHECK(pipe2(ends, O_CLOEXEC) == 0);
    int starter = (int)syscall(SYS_pidfd_open, getppid(), 0);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        return run_set(begin, path, starter, ends[1]);
    }
    close(ends[1]);
    struct pollfd look = { .fd = ends[0], .events = POLLIN };
    if (poll(&look, 1, (int)slowly(START_LIMIT_MS)) == 1 &&
        read(ends[0], &byte, 1) == 1) {
        return 0;
    }
    kill(pid, SIGTERM);
    fprintf(stderr, "the set does not start; see %s.log\n", path);
    return 1;
}

int
main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "stop") == 0) {
        int left = check_left(argv[2]);
        return stop(argv[2]) != 0 || left != 0;
    }
    const struct kind *kind = argc == 4 ? find_kind(argv[2]) : NULL;
    if (kind == NULL || strcmp(argv[1], "start") != 0) {
        fprintf(stderr, "usage: servers_keep start KIND FILE | stop FILE\n");
        return 2;
    }
    if (!kind->is_present()) {
        printf("skipped: there is no %s\n", kind->program);
        return EXIT_SKIPPED;
    }
    return start(kind->begin, argv[3]);
}
