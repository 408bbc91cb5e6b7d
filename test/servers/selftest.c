/* SPDX-License-Identifier: MIT */
/* Tests of the servers themselves, so that a test that uses them can rely on what it is
 * told: `test_servers CASE`. */
#include "servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "cases.h"
#include "parts.h"

static server one;
static server_set set;
static wires lines;
static char folder[64];

static void
clean_up(void)
{
    server_stop(&one);
    set_stop(&set);
    wires_stop(&lines);
    if (folder[0] != '\0') {
        remove_tree(folder);
    }
}

static void
check_gone(const char *path)
{
    struct stat info;
    CHECK(stat(path, &info) != 0 && errno == ENOENT);
}

/* a connection that is there until it is cut */
static int
connect_plain(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

static void
check_cut(const server *running, const char *command)
{
    char buffer[256];
    int fd = connect_plain(running->port);
    CHECK(write(fd, command, strlen(command)) == (ssize_t)strlen(command));
    CHECK(read(fd, buffer, sizeof(buffer)) > 0);
    server_cut(running);
    struct pollfd look = { .fd = fd, .events = POLLIN };
    CHECK(poll(&look, 1, (int)slowly(2000)) == 1);
    CHECK(read(fd, buffer, sizeof(buffer)) <= 0);
    close(fd);
}

static void
check_count(const server *running)
{
    CHECK_SAME(server_count_keys(running), 0);
    server_do(running, "SET", "dibs:clock", "1");
    server_do(running, "SET", "dibs:cell:a\nb", "1");
    server_do(running, "SET", "dibs:fence:a", "1");
    CHECK_SAME(server_count_keys(running), 0);
    server_do(running, "SET", "dibs:clocks", "1");
    server_do(running, "SET", "any key", "1", "PX", "60000");
    CHECK_SAME(server_count_keys(running), 2);
    CHECK_SAME(server_number(running, "DBSIZE"), 5);
    server_do(running, "FLUSHALL");
    CHECK_SAME(server_count_keys(running), 0);
}

static void
test_one(void)
{
    server_start(&one, NULL);
    CHECK(server_answers(&one, "PONG", "PING"));
    CHECK(server_answers(&one, "-ERR", "NOSUCHCOMMAND"));
    CHECK(server_answers(&one, "(nil)\n1", "EVAL", "return {false, 1}", "0"));
    CHECK(server_is_master(&one));
    check_cut(&one, "PING\r\n");
    check_cut(&one, "SUBSCRIBE a\r\n");
    check_count(&one);
    server_pause(&one);
    int fd = connect_plain(one.port);
    CHECK(write(fd, "PING\r\n", 6) == 6);
    struct pollfd look = { .fd = fd, .events = POLLIN };
    CHECK_SAME(poll(&look, 1, 100), 0);
    server_resume(&one);
    CHECK_SAME(poll(&look, 1, (int)slowly(2000)), 1);
    close(fd);

    char kept[64];
    int port = one.port;
    server_do(&one, "SET", "a", "1");
    server_kill(&one);
    CHECK(server_ask(&one, "PING") == NULL);
    server_restart(&one);
    CHECK_SAME(one.port, port);
    CHECK(server_answers(&one, "(nil)", "GET", "a"));
    memcpy(kept, one.folder, sizeof(kept));
    server_stop(&one);
    check_gone(kept);
    server_stop(&one);
}

static void
test_durable(void)
{
    server_options options = { .durable = 1 };
    server_start(&one, &options);
    server_do(&one, "SET", "a", "1");
    server_kill(&one);
    server_restart(&one);
    CHECK_SAME(server_number(&one, "GET", "a"), 1);
}

/* off from ours by so much; the server reads its clock when it is asked something */
static void
check_clock(int64_t off_ms)
{
    int64_t seconds =
        server_number(&one, "EVAL", "return redis.call('TIME')[1] + 0", "0");
    CHECK_WITHIN(seconds - time(NULL), off_ms / 1000 - slow_factor(), off_ms / 1000 + 1);
}

/* what lives for a minute is gone in a moment; the clock of other times is not moved */
static void
check_clocks(const char *program)
{
    server_options options = { .program = program, .clock = 1 };
    server_start(&one, &options);
    check_clock(0);
    server_do(&one, "SET", "a", "1", "PX", "60000");
    CHECK_SAME(server_number(&one, "GET", "a"), 1);
    server_set_clock(&one, 3600 * 1000);
    check_clock(3600 * 1000);
    CHECK(server_answers(&one, "(nil)", "GET", "a"));
    server_set_clock(&one, -3600 * 1000);
    check_clock(-3600 * 1000);
    server_kill(&one);
    server_restart(&one);
    check_clock(-3600 * 1000);
    server_stop(&one);
}

static void
test_clock(void)
{
    check_clocks("redis-server");
    if (server_present("valkey-server")) {
        check_clocks("valkey-server");
    }
}

/* counts up to a number, and returns what is left of it without power */
static int64_t
count_and_fail(int upto)
{
    for (int i = (int)server_number(&one, "INCRBY", "a", "0"); i < upto; i++) {
        server_do(&one, "INCR", "a");
    }
    server_lose_power(&one);
    server_restart(&one);
    return server_number(&one, "INCRBY", "a", "0");
}

static void
check_power_kept(const char *program)
{
    server_options options = { .program = program, .durable = 1, .power = 1 };
    server_start(&one, &options);
    for (int upto = 5; upto <= 25; upto += 5) {
        CHECK_SAME(count_and_fail(upto), upto);
    }
    server_stop(&one);
}

/* the last second is lost, unless it was synced just then, and nothing more; by a kill
 * nothing is */
static void
check_power_lost(const char *program)
{
    server_options options = { .program = program, .everysec = 1, .power = 1 };
    int lost = 0;
    server_start(&one, &options);
    server_do(&one, "SET", "b", "1");
    sleep_ms(slowly(2500));
    for (int i = 0; i < 5; i++) {
        lost += count_and_fail(20) < 20;
        CHECK_SAME(server_number(&one, "GET", "b"), 1);
    }
    CHECK(lost > 0);
    server_do(&one, "SET", "a", "30");
    server_kill(&one);
    server_restart(&one);
    CHECK_SAME(server_number(&one, "GET", "a"), 30);
    server_stop(&one);
}

static void
test_power(void)
{
    check_power_kept("redis-server");
    check_power_lost("redis-server");
    if (server_present("valkey-server")) {
        check_power_kept("valkey-server");
        check_power_lost("valkey-server");
    }
}

static void
test_acl(void)
{
    server_options options = { .acl = "user default off\n"
                                      "user app on >secret ~dibs:* &* +@all -@admin" };
    char answer[256] = "";
    server_start(&one, &options);
    CHECK(server_answers(&one, "tests", "ACL", "WHOAMI"));
    int fd = connect_plain(one.port);
    CHECK(write(fd, "GET a\r\n", 7) == 7);
    CHECK(read(fd, answer, sizeof(answer) - 1) > 0);
    CHECK(strstr(answer, "-NOAUTH") != NULL);
    close(fd);
}

static void
test_sockets(void)
{
    certs_folder(folder, sizeof(folder));
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/ca.crt", folder);
    server_options options = { .unix_socket = 1, .certs = folder };
    server_start(&one, &options);
    CHECK(access(one.socket_path, W_OK) == 0);
    close(connect_plain(one.tls_port));
    char port[16], log[96];
    (void)snprintf(port, sizeof(port), "%d", one.tls_port);
    (void)snprintf(log, sizeof(log), "%s/cli.log", folder);
    const char *const ping[] = { "redis-cli", "--tls", "--cacert", path,
                                 "-p",        port,    "ping",     NULL };
    CHECK_SAME(reap(spawn_program(ping, log), slowly(5000)), 0);
    char line[64] = "";
    FILE *output = fopen(log, "re");
    CHECK(output != NULL && fgets(line, sizeof(line), output) != NULL);
    fclose(output);
    CHECK(strcmp(line, "PONG\n") == 0);
}

static void
test_valkey(void)
{
    server_options options = { .program = "valkey-server" };
    if (!server_present("valkey-server")) {
        printf("skipped: there is no valkey-server\n");
        exit(EXIT_SKIPPED);
    }
    server_start(&one, &options);
    CHECK(server_answers(&one, "valkey_version", "INFO", "server"));
    check_count(&one);
}

static void
test_apart(void)
{
    set_start_apart(&set, 5, NULL);
    for (int i = 0; i < 5; i++) {
        CHECK_SAME(server_number(&set.servers[i], "INCR", "a"), 1);
    }
    CHECK_SAME(set_count_keys(&set), 5);
    set_flush(&set);
    CHECK_SAME(set_count_keys(&set), 0);
}

/* waits until the server at hand says so */
static void
await_role(const server *of, int master)
{
    int64_t until = now_ms() + slowly(30000);
    while (server_is_master(of) != master) {
        CHECK(now_ms() < until);
        sleep_ms(20);
    }
}

static void
await_copy(const server *replica)
{
    int64_t until = now_ms() + slowly(5000);
    while (!server_answers(replica, "1", "GET", "a")) {
        CHECK(now_ms() < until);
        sleep_ms(5);
    }
}

static void
test_sentinel(void)
{
    set_options options = { .down_after_ms = 500 };
    set_start_sentinel(&set, &options);
    server *master = &set.servers[0];
    CHECK(set_master(&set, 0) == master && set_master(&set, 1) == NULL);
    server_do(master, "SET", "a", "1");
    await_copy(&set.servers[1]);
    await_copy(&set.servers[2]);
    server_kill(master);
    int64_t until = now_ms() + slowly(30000);
    while (set_master(&set, 0) == NULL) {
        CHECK(now_ms() < until);
        sleep_ms(20);
    }
    CHECK_SAME(server_number(set_master(&set, 0), "GET", "a"), 1);
    server_restart(master);
    await_role(master, 0);
    set_wait_ready(&set);
}

static void
test_cluster(void)
{
    set_options options = { .down_after_ms = 1000 };
    set_start_cluster(&set, &options);
    CHECK(set_master(&set, 2) == &set.servers[2] && set_master(&set, 3) == NULL);
    for (int i = 0; i < set.count; i++) {
        CHECK(
            server_answers(&set.servers[i], "cluster_slots_ok:16384", "CLUSTER", "INFO"));
    }
    /* the slot of "a" is 15495 */
    CHECK(server_answers(&set.servers[0], "-MOVED 15495", "GET", "a"));
    server_do(&set.servers[2], "SET", "a", "1");
    CHECK_SAME(set_count_keys(&set), 1);
    server_kill(&set.servers[2]);
    await_role(&set.servers[5], 1);
    server_restart(&set.servers[2]);
    await_role(&set.servers[2], 0);
    set_wait_ready(&set);
    CHECK_SAME(set_count_keys(&set), 1);
}

/* ---- sets behind wires ---- */

#define DOWN_AFTER_MS 1000

/* whether a client at that wire is answered */
static int
is_answered(int index, int64_t limit_ms)
{
    char answer[64];
    int fd = connect_plain(lines.ports[index]);
    struct pollfd look = { .fd = fd, .events = POLLIN };
    CHECK(write(fd, "PING\r\n", 6) == 6);
    int yes = poll(&look, 1, (int)limit_ms) == 1 && read(fd, answer, sizeof(answer)) > 0;
    close(fd);
    return yes;
}

/* by other commands than those that keep a connection alive */
static int64_t
count_changes(const server *of)
{
    char *info = server_ask(of, "INFO", "commandstats");
    const char *at = info != NULL ? strstr(info, "cmdstat_append:calls=") : NULL;
    int64_t count = at != NULL ? atoi(strchr(at, '=') + 1) : 0;
    free(info);
    return count;
}

static void
await_change(const server *replica, int64_t changes)
{
    int64_t until = now_ms() + slowly(5000);
    while (count_changes(replica) == changes) {
        CHECK(now_ms() < until);
        sleep_ms(5);
    }
}

/* Clients are cut off for longer than it takes to give up a server, and no server notices. */
static void
check_spared(server *master, const server *replica, void (*stop)(wires *all, int index))
{
    char port[32];
    int64_t changes = count_changes(replica);
    (void)snprintf(port, sizeof(port), "master_port:%d\r", server_port(master));
    CHECK(server_answers(replica, port, "INFO", "replication"));
    stop(&lines, WIRES_ALL);
    for (int i = 0; i < set.count; i++) {
        CHECK(!is_answered(i, 50));
    }
    server_do(master, "APPEND", "a", "1");
    await_change(replica, changes);
    sleep_ms(2 * DOWN_AFTER_MS);
    CHECK(server_is_master(master) && !server_is_master(replica));
    CHECK(server_answers(replica, "master_link_status:up", "INFO", "replication"));
    wires_flow(&lines, WIRES_ALL);
    for (int i = 0; i < set.count; i++) {
        CHECK(is_answered(i, slowly(2000)));
    }
}

/* the connection of a client ends, those of servers do not */
static void
check_cut_by_wire(const server *master)
{
    char answer[64];
    char *before = server_ask(master, "CLIENT", "LIST", "TYPE", "replica");
    int fd = connect_plain(server_port(master));
    CHECK(write(fd, "PING\r\n", 6) == 6 && read(fd, answer, sizeof(answer)) > 0);
    wires_cut(&lines, WIRES_ALL);
    CHECK(read(fd, answer, sizeof(answer)) <= 0);
    close(fd);
    char *after = server_ask(master, "CLIENT", "LIST", "TYPE", "replica");
    /* "id=5 addr=..." */
    CHECK(before != NULL && after != NULL && strncmp(before, "id=", 3) == 0);
    CHECK(strncmp(before, after, strcspn(before, " ")) == 0);
    free(before);
    free(after);
}

static void
test_sentinel_wires(void)
{
    char told[64];
    set_options options = { .down_after_ms = DOWN_AFTER_MS, .before = &lines };
    set_start_sentinel(&set, &options);
    (void)snprintf(told, sizeof(told), "127.0.0.1\n%d", lines.ports[0]);
    CHECK(server_answers(&set.servers[5], told, "SENTINEL", "GET-MASTER-ADDR-BY-NAME",
                         SET_MASTER_NAME));
    check_spared(&set.servers[0], &set.servers[1], wires_hold);
    check_spared(&set.servers[0], &set.servers[2], wires_mute);
    check_cut_by_wire(&set.servers[0]);
    server_kill(&set.servers[0]);
    int64_t until = now_ms() + slowly(30000);
    while (set_master(&set, 0) == NULL) {
        CHECK(now_ms() < until);
        sleep_ms(20);
    }
    server *next = set_master(&set, 0);
    set.servers[0].replica_of = server_port(next);
    server_restart(&set.servers[0]);
    set_wait_ready(&set);
    (void)snprintf(told, sizeof(told), "127.0.0.1\n%d", server_port(next));
    CHECK(server_answers(&set.servers[5], told, "SENTINEL", "GET-MASTER-ADDR-BY-NAME",
                         SET_MASTER_NAME));
}

static void
test_cluster_wires(void)
{
    char told[64];
    set_options options = { .down_after_ms = DOWN_AFTER_MS, .before = &lines };
    set_start_cluster(&set, &options);
    (void)snprintf(told, sizeof(told), "-MOVED 15495 127.0.0.1:%d", lines.ports[2]);
    CHECK(server_answers(&set.servers[0], told, "GET", "a"));
    check_spared(&set.servers[2], &set.servers[5], wires_hold);
    check_spared(&set.servers[2], &set.servers[5], wires_mute);
    check_cut_by_wire(&set.servers[2]);
    server_kill(&set.servers[2]);
    await_role(&set.servers[5], 1);
    server_restart(&set.servers[2]);
    await_role(&set.servers[2], 0);
    set_wait_ready(&set);
    (void)snprintf(told, sizeof(told), "-MOVED 15495 127.0.0.1:%d", lines.ports[5]);
    CHECK(server_answers(&set.servers[0], told, "GET", "a"));
}

static void
test_kept(void)
{
    char path[96];
    int status = 0;
    server_set same;
    temp_dir(folder, sizeof(folder), "/tmp");
    (void)snprintf(path, sizeof(path), "%s/set", folder);
    CHECK_SAME(set_attach(&same, path), -1);
    set_start_apart(&set, 2, NULL);
    keep(&set, path);
    pid_t child = fork();
    if (child == 0) {
        /* only another process sees the lock */
        CHECK_SAME(kept_by(path), getppid());
        CHECK_SAME(set_attach(&same, path), 0);
        CHECK(same.count == 2 && same.servers[1].port == set.servers[1].port);
        set_stop(&same);
        _exit(server_answers(&same.servers[1], "PONG", "PING") ? 0 : 1);
    }
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK_SAME(status, 0);
}

static void
test_hole(void)
{
    blackhole hole;
    struct sockaddr_in address = { .sin_family = AF_INET };
    blackhole_open(&hole, 0);
    address.sin_port = htons((uint16_t)hole.port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0);
    struct pollfd look = { .fd = fd, .events = POLLOUT };
    CHECK_SAME(poll(&look, 1, 300), 0);
    close(fd);
    blackhole_close(&hole);
}

static const struct test_case cases[] = {
    { "one", test_one },
    { "durable", test_durable },
    { "acl", test_acl },
    { "clock", test_clock },
    { "power", test_power },
    { "sockets", test_sockets },
    { "valkey", test_valkey },
    { "apart", test_apart },
    { "sentinel", test_sentinel },
    { "cluster", test_cluster },
    { "kept", test_kept },
    { "hole", test_hole },
    { "sentinel_wires", test_sentinel_wires },
    { "cluster_wires", test_cluster_wires },
};

int
main(int argc, char **argv)
{
    int is_valkey = argc == 2 && strcmp(argv[1], "valkey") == 0;
    need(is_valkey || server_present("redis-server"), "redis-server");
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
