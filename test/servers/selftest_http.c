/* SPDX-License-Identifier: MIT */
/* Tests of the servers of etcd and Consul, so that a test that uses them can rely on what
 * it is told: `test_http_servers CASE`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "cases.h"
#include "servers.h"

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

/* runs a command and says whether it worked */
static int
works(const char *const *words)
{
    int status = reap(spawn_program(words, "/dev/null"), slowly(10000));
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
#define WORKS(...) works((const char *const[]){ __VA_ARGS__, NULL })

/* waits until it holds, for at most that long */
#define EVENTUALLY(limit_ms, condition)                                                  \
    for (int64_t until_ms = now_ms() + (limit_ms); !(condition); sleep_ms(10)) {         \
        if (now_ms() > until_ms) {                                                       \
            FAIL("this does not come true: %s", #condition);                             \
        }                                                                                \
    }

/* ---- etcd ---- */

static int64_t
etcd_grant(const server *to, int seconds)
{
    char *answer = etcd_do(to, "/v3/lease/grant", "{\"TTL\":\"%d\"}", seconds);
    const char *id = strstr(answer, "\"ID\":\"");
    CHECK(id != NULL);
    int64_t lease = strtoll(id + 6, NULL, 10);
    free(answer);
    return lease;
}

static void
etcd_put_leased(const server *to, const char *key, int64_t lease)
{
    free(etcd_do(to, "/v3/kv/put", "{\"key\":\"%s\",\"lease\":\"%lld\"}", etcd_key(key),
                 (long long)lease));
}

/* what is there is counted, found, and taken away; and is there after kill -9 */
static void
check_etcd(server *of)
{
    char key[64];
    int64_t lease = etcd_grant(of, 600);
    CHECK_SAME(etcd_count_keys(of, ""), 0);
    CHECK_SAME(etcd_count_leases(of), 1);
    etcd_put(of, "a", "");
    etcd_put_leased(of, "b/c", lease);
    etcd_put_leased(of, "b/d", lease);
    etcd_put(of, "b/%cells/x", "1");
    CHECK_SAME(etcd_count_keys(of, ""), 3);
    CHECK_SAME(etcd_count_keys(of, "b/"), 2);
    CHECK(etcd_find_key(key, sizeof(key), of, "", 0) == 0 && strcmp(key, "a") == 0);
    CHECK(etcd_find_key(key, sizeof(key), of, "b/", 0) == lease);
    CHECK(strcmp(key, "b/c") == 0);
    CHECK(etcd_find_key(key, sizeof(key), of, "", 1) == lease && strcmp(key, "b/d") == 0);
    server_kill(of);
    server_restart(of);
    CHECK_SAME(etcd_count_keys(of, ""), 3);
    etcd_compact(of);
    etcd_delete(of, "b/c");
    CHECK_SAME(etcd_count_keys(of, "b/"), 1);
    etcd_revoke(of, lease);
    CHECK_SAME(etcd_count_keys(of, ""), 1);
    CHECK_SAME(etcd_count_leases(of), 0);
}

static void
test_etcd_one(void)
{
    etcd_start(&one, NULL);
    check_etcd(&one);
    server_pause(&one);
    server_resume(&one);
    etcd_put(&one, "a", "");
}

static void
test_etcd_users(void)
{
    server_options options = { .acl = "app/" };
    char at[64];
    etcd_start(&one, &options);
    check_etcd(&one);
    etcd_change_users(&one);
    (void)snprintf(at, sizeof(at), "--endpoints=127.0.0.1:%d", one.port);
    setenv("ETCDCTL_API", "3", 1);
    CHECK(!WORKS("etcdctl", at, "put", "app/a", "1"));
    CHECK(!WORKS("etcdctl", at, "--user=app:guess", "put", "app/a", "1"));
    CHECK(WORKS("etcdctl", at, "--user=app:secret", "put", "app/a", "1"));
    CHECK(!WORKS("etcdctl", at, "--user=app:secret", "put", "b", "1"));
}

static void
test_etcd_tls(void)
{
    server_options options = { .certs = folder };
    char at[64], ca[96], cert[96], key[96];
    certs_folder(folder, sizeof(folder));
    etcd_start(&one, &options);
    etcd_put(&one, "a", "");
    (void)snprintf(at, sizeof(at), "--endpoints=https://127.0.0.1:%d", one.tls_port);
    (void)snprintf(ca, sizeof(ca), "--cacert=%s/ca.crt", folder);
    (void)snprintf(cert, sizeof(cert), "--cert=%s/client.crt", folder);
    (void)snprintf(key, sizeof(key), "--key=%s/client.key", folder);
    setenv("ETCDCTL_API", "3", 1);
    CHECK(WORKS("etcdctl", at, ca, cert, key, "get", "a"));
    CHECK(!WORKS("etcdctl", at, ca, "get", "a"));
}

/* what a member says that need not ask the others */
static int
etcd_has_stale(const server *of, const char *key)
{
    char *answer = etcd_do(of, "/v3/kv/range", "{\"key\":\"%s\",\"serializable\":true}",
                           etcd_key(key));
    int found = strstr(answer, "kvs") != NULL;
    free(answer);
    return found;
}

/* the leader is killed, and the others elect; a leader is cut off from the others, which
 * elect another while clients still reach the old one */
static void
test_etcd_cluster(void)
{
    etcd_start_cluster(&set, NULL, &lines);
    int leader = etcd_leader(&set);
    check_etcd(&set.servers[(leader + 1) % 3]);
    leader = etcd_leader(&set);
    server_kill(&set.servers[leader]);
    CHECK(etcd_leader(&set) != leader);
    server_restart(&set.servers[leader]);
    set_await(&set);

    leader = etcd_leader(&set);
    server *old = &set.servers[leader], *other = &set.servers[(leader + 1) % 3];
    etcd_cut_off(&set, &lines, leader);
    EVENTUALLY(slowly(20000), etcd_leader(&set) != leader);
    etcd_put(other, "after", "");
    CHECK(!etcd_has_stale(old, "after"));
    wires_flow(&lines, WIRES_ALL);
    set_await(&set);
    EVENTUALLY(slowly(10000), etcd_count_keys(old, "after") == 1);
}

/* ---- Consul ---- */

static void
make_session(char *out, size_t size, const server *to, const char *ttl)
{
    char body[128];
    (void)snprintf(body, sizeof(body), "{\"TTL\":\"%s\",\"LockDelay\":\"0s\"}", ttl);
    char *answer = consul_do(to, "PUT", "session/create", body);
    const char *id = strstr(answer, "\"ID\":\"");
    CHECK(id != NULL);
    (void)snprintf(out, size, "%.36s", id + 6);
    free(answer);
}

static void
put_held(const server *to, const char *key, const char *session)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "kv/%s?acquire=%s", key, session);
    char *answer = consul_do(to, "PUT", path, "");
    CHECK(strncmp(answer, "true", 4) == 0);
    free(answer);
}

static void
check_consul(server *of)
{
    char session[64], found[64];
    make_session(session, sizeof(session), of, "600s");
    CHECK_SAME(consul_count_keys(of, ""), 0);
    CHECK_SAME(consul_count_sessions(of), 1);
    put_held(of, "a/b", session);
    free(consul_do(of, "PUT", "kv/c", "1"));
    free(consul_do(of, "PUT", "kv/a/%25cells/x,%22%20[y]", "1"));
    CHECK_SAME(consul_count_keys(of, ""), 2);
    CHECK_SAME(consul_count_keys(of, "a/"), 1);
    consul_session_of(found, sizeof(found), of, "a/b");
    CHECK(strcmp(found, session) == 0);
    consul_session_of(found, sizeof(found), of, "c");
    CHECK(found[0] == '\0');
    server_kill(of);
    server_restart(of);
    CHECK_SAME(consul_count_keys(of, ""), 2);
    consul_end_session(of, session);
    CHECK_SAME(consul_count_sessions(of), 0);
    consul_session_of(found, sizeof(found), of, "a/b");
    CHECK(found[0] == '\0');
    consul_delete(of, "a/b");
    CHECK_SAME(consul_count_keys(of, ""), 1);
}

/* sessions may be short here */
static void
test_consul_one(void)
{
    char session[64];
    consul_start(&one, NULL);
    check_consul(&one);
    make_session(session, sizeof(session), &one, "1s");
    CHECK_SAME(consul_count_sessions(&one), 1);
    EVENTUALLY(slowly(5000), consul_count_sessions(&one) == 0);
}

static void
test_consul_users(void)
{
    server_options options = { .acl = "key_prefix \"app/\" { policy = \"write\" }" };
    char at[64], token[64];
    consul_start(&one, &options);
    check_consul(&one);
    (void)snprintf(at, sizeof(at), "-http-addr=127.0.0.1:%d", one.port);
    (void)snprintf(token, sizeof(token), "-token=%s", one.token);
    CHECK(!WORKS("consul", "kv", "put", at, "app/a", "1"));
    CHECK(WORKS("consul", "kv", "put", at, token, "app/a", "1"));
    CHECK(!WORKS("consul", "kv", "put", at, token, "b", "1"));
}

static void
test_consul_tls(void)
{
    server_options options = { .certs = folder };
    char at[64], ca[96], cert[96], key[96];
    certs_folder(folder, sizeof(folder));
    consul_start(&one, &options);
    (void)snprintf(at, sizeof(at), "-http-addr=https://127.0.0.1:%d", one.tls_port);
    (void)snprintf(ca, sizeof(ca), "-ca-file=%s/ca.crt", folder);
    (void)snprintf(cert, sizeof(cert), "-client-cert=%s/client.crt", folder);
    (void)snprintf(key, sizeof(key), "-client-key=%s/client.key", folder);
    CHECK(WORKS("consul", "kv", "put", at, ca, cert, key, "a", "1"));
    CHECK(!WORKS("consul", "kv", "put", at, ca, "a", "1"));
}

static int
read_stale(const server *of, const char *key)
{
    char *answer = consul_do(of, "GET", "kv/?keys&stale", NULL);
    int found = strstr(answer, key) != NULL;
    free(answer);
    return found;
}

static void
test_consul_cluster(void)
{
    consul_start_cluster(&set, NULL, &lines);
    int leader = consul_leader(&set);
    check_consul(&set.servers[(leader + 1) % 3]);
    leader = consul_leader(&set);
    server_kill(&set.servers[leader]);
    CHECK(consul_leader(&set) != leader);
    server_restart(&set.servers[leader]);
    set_await(&set);

    leader = consul_leader(&set);
    server *old = &set.servers[leader], *other = &set.servers[(leader + 1) % 3];
    consul_cut_off(&set, &lines, leader);
    EVENTUALLY(slowly(20000), consul_leader(&set) != leader);
    free(consul_do(other, "PUT", "kv/after", "1"));
    CHECK(!read_stale(old, "after"));
    wires_flow(&lines, WIRES_ALL);
    set_await(&set);
    EVENTUALLY(slowly(10000), read_stale(old, "after"));
}

static const struct test_case cases[] = {
    { "etcd/one", test_etcd_one },     { "etcd/users", test_etcd_users },
    { "etcd/tls", test_etcd_tls },     { "etcd/cluster", test_etcd_cluster },
    { "consul/one", test_consul_one }, { "consul/users", test_consul_users },
    { "consul/tls", test_consul_tls }, { "consul/cluster", test_consul_cluster },
};

int
main(int argc, char **argv)
{
    int is_etcd = argc == 2 && strncmp(argv[1], "etcd/", 5) == 0;
    need(is_etcd ? etcd_present() : consul_present(), is_etcd ? "etcd" : "consul");
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
