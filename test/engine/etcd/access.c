/* SPDX-License-Identifier: MIT */
/* Who may use what: users, tokens that end, certificates. See faults.h. */
#include "faults.h"

#include <sys/wait.h>

static dibs *
open_as(const char *user)
{
    return open_url("etcd://%s127.0.0.1:%d/locks?layout=%s", user, one.port, layout);
}

static int
try_open_as(const char *user, const char *path)
{
    char url[256];
    dibs *client = NULL;
    (void)snprintf(url, sizeof(url), "etcd://%s127.0.0.1:%d%s?layout=%s", user, one.port,
                   path, layout);
    int code = try_open(&client, url, (uint32_t)slowly(2000));
    if (code == DIBS_OK) {
        code = try_take(client, NAME);
        dibs_close(client);
    }
    return code;
}

static void
check_no_password(void)
{
    if (strstr(oops.text, ETCD_PASSWORD) != NULL || strstr(oops.text, "guess") != NULL) {
        FAIL("'%s' has a password in it", oops.text);
    }
}

/* servers that may end live leases are told of, by their version, and no others */
static void
test_version(void)
{
    unsigned minor = 0, patch = 0;
    char first[128] = "";
    FILE *said = popen("etcd --version", "r");
    CHECK(said != NULL && fgets(first, sizeof(first), said) != NULL);
    (void)pclose(said);
    CHECK_SAME(sscanf(first, "etcd Version: 3.%u.%u", &minor, &patch), 2);
    int is_old = minor < 4 || (minor == 4 && patch < 31) || (minor == 5 && patch < 13);
    start_one(NULL);
    dibs *client = open_as("");
    printf("etcd 3.%u.%u: '%s'\n", minor, patch, dibs_notice(client));
    CHECK_SAME(strstr(dibs_notice(client), "#15247") != NULL, is_old);
    dibs_close(client);
    check_nothing_left(&one);
}

/* who has the password gets in, and nobody else; and only to the keys that are for it */
static void
test_users(void)
{
    server_options options = { .acl = ROOT };
    start_one(&options);
    dibs *user = open_as("app:secret@"), *same = open_as("app:secret@");
    dibs_hold *hold = take(user, NAME, LEASE_MS);
    GIVES(DIBS_EBUSY, try_take(same, NAME));
    GIVES(DIBS_EDENIED, try_open_as("", "/locks"));
    GIVES(DIBS_EDENIED, try_open_as("app:guess@", "/locks"));
    check_no_password();
    give(hold);
    OK(try_take(same, NAME));
    GIVES(DIBS_EDENIED, try_open_as("app:secret@", "/elsewhere"));
    CHECK_SAYS("permission denied");
    check_no_password();
    dibs_close(user);
    dibs_close(same);
    check_nothing_left(&one);
}

/* a hold and a wait go on, whatever happens to the tokens they began with */
static void
live_through(void (*harm)(void))
{
    dibs *holder = open_as("app:secret@"), *waiter = open_as("app:secret@");
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
    sleep_ms(slowly(200));
    harm();
    int64_t until = now_ms() + LONG_MS + slowly(1000);
    while (now_ms() < until) {
        CHECK(dibs_held(hold));
        CHECK(!has_ended(wait, 10));
    }
    give(take(holder, "other", LEASE_MS));
    give(hold);
    give(end_wait(wait, slowly(5000)));
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(&one);
}

/* tokens are kept in memory only: a server that comes back knows none of them */
static void
restart(void)
{
    server_kill(&one);
    server_restart(&one);
}

static void
test_token_forgotten(void)
{
    server_options options = { .acl = ROOT };
    start_one(&options);
    live_through(restart);
}

/* a key for tokens that end by themselves */
static void
make_signing_key(void)
{
    static char private_key[96], public_key[96];
    const char *const make[] = { "openssl", "genrsa", "-out", private_key, "2048", NULL };
    const char *const show[] = { "openssl", "rsa",  "-in",      private_key,
                                 "-pubout", "-out", public_key, NULL };
    temp_dir(folder, sizeof(folder), "/tmp");
    (void)snprintf(private_key, sizeof(private_key), "%s/jwt.key", folder);
    (void)snprintf(public_key, sizeof(public_key), "%s/jwt.pub", folder);
    CHECK_SAME(reap(spawn_program(make, "/dev/null"), slowly(20000)), 0);
    CHECK_SAME(reap(spawn_program(show, "/dev/null"), slowly(10000)), 0);
}

static void
do_nothing(void)
{
}

static void
test_token_expires(void)
{
    char kind[256];
    const char *const more[] = { "--auth-token", kind, NULL };
    server_options options = { .acl = ROOT, .more = more };
    if (!server_present("openssl")) {
        printf("skipped: there is no openssl command\n");
        exit(EXIT_SKIPPED);
    }
    make_signing_key();
    (void)snprintf(kind, sizeof(kind),
                   "jwt,pub-key=%s/jwt.pub,priv-key=%s/jwt.key,sign-method=RS256,ttl=3s",
                   folder, folder);
    start_one(&options);
    live_through(do_nothing);
}

/* a change of users makes older tokens worthless */
static void
change_users(void)
{
    etcd_change_users(&one);
}

static void
test_users_changed(void)
{
    server_options options = { .acl = ROOT };
    start_one(&options);
    live_through(change_users);
}

/* ---- TLS ---- */

/* opens over TLS, with the authority and the certificate of that name */
static int
try_tls(const char *authority, const char *cert)
{
    char url[512], own[256] = "";
    dibs *client = NULL;
    if (cert != NULL) {
        (void)snprintf(own, sizeof(own), "&cert=%s/%s.crt&key=%s/%s.key", folder, cert,
                       folder, cert);
    }
    (void)snprintf(url, sizeof(url),
                   "etcds://127.0.0.1:%d/locks?layout=%s&ca=%s/%s.crt%s", one.tls_port,
                   layout, folder, authority, own);
    int code = try_open(&client, url, (uint32_t)slowly(2000));
    if (code == DIBS_OK) {
        code = try_take(client, NAME);
        dibs_close(client);
    }
    return code;
}

static void
test_tls(void)
{
    server_options options = { .certs = folder };
    make_certs();
    start_one(&options);
    OK(try_tls("ca", "client"));
    GIVES(DIBS_EDENIED, try_tls("other", "client"));
    int code = try_tls("ca", NULL);
    CHECK(code == DIBS_EDENIED || code == DIBS_EUNAVAIL);
    check_nothing_left(&one);
}

static void
test_tls_wrong_host(void)
{
    server_options options = { .certs = folder, .cert = "elsewhere" };
    make_certs();
    start_one(&options);
    GIVES(DIBS_EDENIED, try_tls("ca", "client"));
}

/* a hold and a wait over TLS, with watches */
static void
test_tls_waits(void)
{
    server_options options = { .certs = folder };
    make_certs();
    start_one(&options);
    dibs *clients[2];
    for (int i = 0; i < 2; i++) {
        clients[i] = open_url("etcds://127.0.0.1:%d/locks?layout=%s&ca=%s/ca.crt"
                              "&cert=%s/client.crt&key=%s/client.key",
                              one.tls_port, layout, folder, folder, folder);
    }
    for (int i = 0; i < 20; i++) {
        dibs_hold *hold = take(clients[i % 2], NAME, LEASE_MS);
        dibs_op *wait = begin_wait(clients[1 - i % 2], NAME, LEASE_MS);
        EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
        give(hold);
        give(end_wait(wait, slowly(5000)));
    }
    dibs_close(clients[0]);
    dibs_close(clients[1]);
    check_nothing_left(&one);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "version", test_version },
        { "users", test_users },
        { "token_forgotten", test_token_forgotten },
        { "token_expires", test_token_expires },
        { "users_changed", test_users_changed },
        { "tls", test_tls },
        { "tls_wrong_host", test_tls_wrong_host },
        { "tls_waits", test_tls_waits },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
