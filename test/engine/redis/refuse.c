/* SPDX-License-Identifier: MIT */
/* The server is there and says no: it is a replica, out of memory, busy with a script,
 * full of something else. What cannot be granted now is waited for; what was granted can
 * be given back. */
#include "faults.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define NAME "refuse"

/* Tries, then waits until the server can again; `heal` makes it so. */
static void
refused_until(dibs *client, const char *says, void (*heal)(void))
{
    GIVES(DIBS_EUNAVAIL, try_take(client, NAME));
    CHECK_SAYS(says);
    dibs_op *waiting = begin_wait(client, NAME, LEASE_MS);
    CHECK(!has_ended(waiting, 200));
    heal();
    give(end_wait(waiting, slowly(5000)));
}

static void
become_master(void)
{
    server_do(&one, "REPLICAOF", "NO", "ONE");
}

/* a master that was replaced behind our back says READONLY */
static void
readonly(void)
{
    char port[16];
    int nobody = port_take();
    server_start(&one, NULL);
    dibs *client = open_one();
    give(take(client, NAME, LEASE_MS));
    (void)snprintf(port, sizeof(port), "%d", nobody);
    server_do(&one, "REPLICAOF", "127.0.0.1", port);
    refused_until(client, "READONLY", become_master);
    /* and one that has lost its own master MASTERDOWN, to what it does not refuse anyway */
    server_do(&one, "CONFIG", "SET", "replica-serve-stale-data", "no");
    server_do(&one, "REPLICAOF", "127.0.0.1", port);
    refused_until(client, strcmp(layout, "plain") == 0 ? "READONLY" : "MASTERDOWN",
                  become_master);
    port_give_back(nobody);
    dibs_close(client);
}

static void
have_memory(void)
{
    server_do(&one, "CONFIG", "SET", "maxmemory", "0");
}

/* without memory nothing new is granted, but what is held can be kept and given back */
static void
out_of_memory(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_one();
    dibs_hold *hold = take(client, "other", LEASE_MS);
    server_do(&one, "CONFIG", "SET", "maxmemory", "1");
    CHECK(server_answers(&one, "-OOM", "SET", "a", "1"));
    OK(dibs_renew(hold, 0, &oops));
    CHECK(!is_lost(hold, 2 * LEASE_MS));
    give(hold);
    CHECK_SAME(server_count_keys(&one), 0);
    refused_until(other, "OOM", have_memory);
    dibs_close(client);
    dibs_close(other);
}

static int busy_fd = -1;

static void
start_endless_script(void)
{
    static const char text[] = "EVAL \"while true do end\" 0\r\n";
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)one.port) };
    int64_t until = now_ms() + slowly(5000);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    busy_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(busy_fd >= 0 &&
          connect(busy_fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(write(busy_fd, text, sizeof(text) - 1) == (ssize_t)sizeof(text) - 1);
    while (!server_answers(&one, "-BUSY", "GET", "a")) {
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
}

static void
end_script(void)
{
    server_do(&one, "SCRIPT", "KILL");
    close(busy_fd);
}

/* somebody's script does not end */
static void
busy(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    server_do(&one, "CONFIG", "SET", "lua-time-limit", "20");
    start_endless_script();
    refused_until(client, "BUSY", end_script);
    CHECK_SAME(server_count_keys(&one), 0);
    dibs_close(client);
}

/* the first key of a lock that is held */
static void
key_in_use(char *out, size_t size)
{
    char *keys = server_ask(&one, "KEYS", "*" NAME "*");
    CHECK(keys != NULL && keys[0] != '\0');
    (void)snprintf(out, size, "%.*s", (int)strcspn(keys, "\n"), keys);
    free(keys);
}

/* under the key there is something no layout writes: it stays there untouched */
static void
wrong_type(void)
{
    char key[256];
    server_start(&one, NULL);
    dibs *client = open_one();
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    key_in_use(key, sizeof(key));
    give(hold);
    server_do(&one, "RPUSH", key, "something else");
    GIVES(DIBS_EMISMATCH, try_take(client, NAME));
    CHECK_SAYS(NAME);
    CHECK_SAME(server_number(&one, "LLEN", key), 1);
    server_do(&one, "DEL", key);
    give(take(client, NAME, LEASE_MS));
    dibs_close(client);
}

/* each of the layouts that share names with others sees the other's locks for what they
 * are */
static void
other_layout(void)
{
    char url[128];
    server_start(&one, NULL);
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d?layout=plain", one.port);
    dibs *plain = open_url("%s", url);
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d?layout=redisson", one.port);
    dibs *redisson = open_url("%s", url);
    dibs_hold *hold = take(plain, NAME, LEASE_MS);
    GIVES(DIBS_EMISMATCH, try_take(redisson, NAME));
    CHECK_SAYS("plain");
    give(hold);
    hold = take(redisson, NAME, LEASE_MS);
    GIVES(DIBS_EMISMATCH, try_take(plain, NAME));
    CHECK_SAYS("redisson");
    CHECK(dibs_held(hold));
    give(hold);
    CHECK_SAME(server_count_keys(&one), 0);
    dibs_close(plain);
    dibs_close(redisson);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "readonly", readonly },
        { "out_of_memory", out_of_memory },
        { "busy", busy },
        { "wrong_type", wrong_type },
        { "other_layout", other_layout },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
