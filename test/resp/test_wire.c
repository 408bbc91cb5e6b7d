/* SPDX-License-Identifier: MIT */
/*
 * Getting to a server and being let in: `test_wire CASE`.
 *
 * Parts: addresses; bytes; getting there; being let in; TLS; TLS under load.
 */
#include "resp_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static server one;
static char folder[64];

static void
clean_up(void)
{
    server_stop(&one);
    if (folder[0] != '\0') {
        remove_tree(folder);
    }
}

/* what PING is answered with, over a new connection; and err */
static int
try_once(const resp_access *access, const resp_address *address, int64_t limit_ms,
         dibs_error *err)
{
    redisReply *reply;
    resp_server *to = dibs__resp_server_new(access, address);
    CHECK(to != NULL);
    memset(err, 0, sizeof(*err));
    int64_t began = now_ms();
    int code = ask(to, 1, in_ms(limit_ms), &reply, err, "PING");
    CHECK(now_ms() - began <= limit_ms + slowly(200));
    if (code == DIBS_OK) {
        CHECK(dibs__resp_is_text(reply, "PONG"));
        freeReplyObject(reply);
    } else {
        CHECK_SAME(err->code, code);
    }
    dibs__resp_server_free(to, 0);
    return code;
}

static void
check_says(const dibs_error *err, const char *part)
{
    if (strstr(err->text, part) == NULL) {
        FAIL("no \"%s\" in: %s", part, err->text);
    }
}

/* ---- addresses ---- */

static void
check_address(const char *text, const char *host, int port)
{
    resp_address address;
    if (dibs__resp_address_parse(&address, text, strlen(text), 6379) != 0) {
        FAIL("%s is refused", text);
    }
    if (strcmp(address.host, host) != 0 || address.port != port) {
        FAIL("%s is read as %s and %d", text, address.host, address.port);
    }
}

static void
test_addresses(void)
{
    static const char *const bad[] = { "",     ":1",     "h:",    "h:0",  "h:65536",
                                       "h:1x", "[::1",   "[]:1",  "::1",  "[::1]x",
                                       "h:-1", "[::1]:", "h:1:2", "h: 1", "h:99999" };
    check_address("h", "h", 6379);
    check_address("h:1", "h", 1);
    check_address("10.0.0.1:65535", "10.0.0.1", 65535);
    check_address("[::1]", "::1", 6379);
    check_address("[fe80::1]:7000", "fe80::1", 7000);
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        resp_address address;
        if (dibs__resp_address_parse(&address, bad[i], strlen(bad[i]), 6379) == 0) {
            FAIL("\"%s\" is accepted", bad[i]);
        }
    }
    char longest[257];
    resp_address address;
    memset(longest, 'h', sizeof(longest));
    CHECK_SAME(dibs__resp_address_parse(&address, longest, 255, 1), 0);
    CHECK_SAME(dibs__resp_address_parse(&address, longest, 256, 1), -1);
    /* it ends at its length */
    CHECK_SAME(dibs__resp_address_parse(&address, "a:12,b:3", 4, 1), 0);
    CHECK_SAME(address.port, 12);
}

/* ---- bytes ---- */

/* what we build is what hiredis would */
static void
test_requests(void)
{
    static const int64_t numbers[] = {
        0, 9, 10, -1, -10, 1234567890, INT64_MAX, INT64_MIN
    };
    static const char bytes[] = "a\0\r\n$";
    static char big[100000];
    resp_command command = { 0 };
    resp_request request = { 0 };
    char *want;
    dibs__resp_word(&command, "SET");
    dibs__resp_word(&command, "");
    dibs__resp_bytes(&command, NULL, 0);
    dibs__resp_bytes(&command, bytes, sizeof(bytes));
    memset(big, 'b', sizeof(big));
    dibs__resp_bytes(&command, big, sizeof(big));
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
        char text[32];
        dibs__resp_number(&command, numbers[i]);
        (void)snprintf(text, sizeof(text), "%lld", (long long)numbers[i]);
        CHECK_SAME(command.lengths[command.count - 1], strlen(text));
        CHECK(memcmp(command.words[command.count - 1], text, strlen(text)) == 0);
    }
    int len =
        redisFormatCommandArgv(&want, command.count, command.words, command.lengths);
    for (unsigned i = 0; i < 3; i++) {
        CHECK_SAME(dibs__resp_add(&request, &command), 0);
        CHECK_SAME(request.commands, i + 1);
        CHECK_SAME(request.len, (size_t)len * (i + 1));
        CHECK(memcmp(request.bytes + (size_t)len * i, want, (size_t)len) == 0);
    }
    redisFreeCommand(want);
    dibs__resp_request_free(&request);
}

/* what comes back, as hiredis parses it */
static redisReply *
parse(const char *text)
{
    redisReader *reader = redisReaderCreate();
    void *reply = NULL;
    CHECK(reader != NULL);
    CHECK_SAME(redisReaderFeed(reader, text, strlen(text)), REDIS_OK);
    CHECK_SAME(redisReaderGetReply(reader, &reply), REDIS_OK);
    CHECK(reply != NULL);
    redisReaderFree(reader);
    return reply;
}

static void
check_trouble(const char *text, enum resp_trouble want)
{
    redisReply *reply = parse(text);
    if (dibs__resp_trouble(reply) != want) {
        FAIL("%s is taken for %d", text, (int)dibs__resp_trouble(reply));
    }
    freeReplyObject(reply);
}

static void
check_integer(const char *text, int64_t want)
{
    redisReply *reply = parse(text);
    CHECK_SAME(dibs__resp_integer(reply, -7), want);
    freeReplyObject(reply);
}

static void
test_replies(void)
{
    check_trouble("+OK\r\n", RESP_FINE);
    check_trouble("$5\r\nMOVED\r\n", RESP_FINE);
    check_trouble("-NOSCRIPT No matching script.\r\n", RESP_NOSCRIPT);
    check_trouble("-MOVED 3999 127.0.0.1:6381\r\n", RESP_MOVED);
    check_trouble("-ASK 3999 127.0.0.1:6381\r\n", RESP_ASK);
    check_trouble("-ASKING is something else\r\n", RESP_OTHER);
    check_trouble("-LOADING\r\n", RESP_NOT_NOW);
    check_trouble("-BUSY Redis is busy\r\n", RESP_NOT_NOW);
    check_trouble("-BUSYKEY Target key name already exists.\r\n", RESP_OTHER);
    check_trouble("-OOM command not allowed\r\n", RESP_NOT_NOW);
    check_trouble("-READONLY You can't write\r\n", RESP_NOT_HERE);
    check_trouble("-NOPERM no\r\n", RESP_DENIED);
    check_trouble("-WRONGTYPE Operation\r\n", RESP_WRONGTYPE);
    check_trouble("-\r\n", RESP_OTHER);
    CHECK_SAME(dibs__resp_trouble(NULL), RESP_FINE);
    check_integer(":42\r\n", 42);
    check_integer("$2\r\n42\r\n", 42);
    check_integer("+-42\r\n", -42);
    check_integer("$3\r\n 42\r\n", -7);
    check_integer("$3\r\n42x\r\n", -7);
    check_integer("$0\r\n\r\n", -7);
    check_integer("$1\r\n-\r\n", -7);
    check_integer("$20\r\n99999999999999999999\r\n", -7);
    check_integer("$-1\r\n", -7);
    CHECK_SAME(dibs__resp_integer(NULL, -7), -7);
    redisReply *reply = parse("*2\r\n$2\r\nab\r\n*0\r\n");
    CHECK(dibs__resp_is_text(dibs__resp_element(reply, 0), "ab"));
    CHECK(!dibs__resp_is_text(dibs__resp_element(reply, 0), "a"));
    CHECK(!dibs__resp_is_text(dibs__resp_element(reply, 1), ""));
    CHECK(dibs__resp_element(reply, 2) == NULL);
    CHECK(dibs__resp_element(dibs__resp_element(reply, 0), 0) == NULL);
    freeReplyObject(reply);
}

/* ---- getting there ---- */

static void
test_unreachable(void)
{
    resp_access access = plain_access(1);
    resp_address address = { .host = "127.0.0.1", .port = (uint16_t)port_take() };
    dibs_error err;
    char where[64];
    (void)snprintf(where, sizeof(where), "connect to 127.0.0.1:%d: Connection refused",
                   address.port);
    CHECK_SAME(try_once(&access, &address, 5000, &err), DIBS_EUNAVAIL);
    check_says(&err, where);
    blackhole hole;
    blackhole_open(&hole, 0);
    address.port = (uint16_t)hole.port;
    CHECK_SAME(try_once(&access, &address, 300, &err), DIBS_EUNAVAIL);
    check_says(&err, "timed out");
    CHECK_SAME(try_once(&access, &address, 0, &err), DIBS_EUNAVAIL);
    blackhole_close(&hole);
    (void)snprintf(address.host, sizeof(address.host), "no-such-host.invalid");
    CHECK_SAME(try_once(&access, &address, 5000, &err), DIBS_EUNAVAIL);
    check_says(&err, "connect to no-such-host.invalid:");
    (void)snprintf(address.host, sizeof(address.host), "/no/such/socket");
    address.port = 0;
    CHECK_SAME(try_once(&access, &address, 5000, &err), DIBS_EUNAVAIL);
    check_says(&err, "connect to /no/such/socket: No such file");
}

struct waiters {
    resp_server *to;
    int64_t limits[8];
};

static void
wait_in_vain(void *arg, int index)
{
    struct waiters *waiters = arg;
    redisReply *reply;
    int64_t began = now_ms(), limit = waiters->limits[index];
    CHECK_SAME(ask(waiters->to, 1, in_ms(limit), &reply, NULL, "PING"), DIBS_EUNAVAIL);
    CHECK_WITHIN(now_ms() - began, limit - 1, limit + slowly(200));
}

/* One connects, the others wait for it; each goes when its own time is up. */
static void
test_together(void)
{
    resp_access access = plain_access(1);
    blackhole hole;
    blackhole_open(&hole, 0);
    resp_address address = { .host = "127.0.0.1", .port = (uint16_t)hole.port };
    struct waiters waiters = { .limits = { 300, 100, 700, 500, 200, 600, 400, 800 } };
    waiters.to = dibs__resp_server_new(&access, &address);
    CHECK(waiters.to != NULL);
    gang_join(gang_start(8, wait_in_vain, &waiters));
    dibs__resp_server_free(waiters.to, 0);
    blackhole_close(&hole);
}

static void
test_names(void)
{
    resp_access access = plain_access(1);
    dibs_error err;
    static const server_options options = { .unix_socket = 1 };
    server_start(&one, &options);
    resp_address address = { .host = "localhost", .port = (uint16_t)one.port };
    if (try_once(&access, &address, slowly(5000), &err) != DIBS_OK) {
        FAIL("%s", err.text);
    }
    /* the threads that look up the name do not stay */
    sleep_ms(slowly(100));
    int threads = count_threads();
    for (int i = 0; i < 5; i++) {
        CHECK_SAME(try_once(&access, &address, slowly(5000), &err), DIBS_OK);
    }
    CHECK(threads_settle(threads, slowly(2000)) <= threads);
    (void)snprintf(address.host, sizeof(address.host), "%s", one.socket_path);
    address.port = 0;
    CHECK_SAME(try_once(&access, &address, slowly(5000), &err), DIBS_OK);
}

/* ---- being let in ---- */

static void
test_passwords(void)
{
    static const server_options options = {
        .acl = "user default off\n"
               "user all on >secret ~* &* +@all\n"
               "user few on >secret ~* &* -@all +ping +select +auth\n"
    };
    server_start(&one, &options);
    resp_access access = plain_access(1);
    resp_address address = address_of(&one);
    dibs_error err;
    CHECK_SAME(try_once(&access, &address, slowly(5000), &err), DIBS_EDENIED);
    check_says(&err, "NOAUTH");
    access.user = "all";
    access.password = "wrong";
    CHECK_SAME(try_once(&access, &address, slowly(5000), &err), DIBS_EDENIED);
    check_says(&err, "WRONGPASS");
    CHECK(strstr(err.text, "wrong ") == NULL);
    access.password = "secret";
    CHECK_SAME(try_once(&access, &address, slowly(5000), &err), DIBS_OK);
    access.db = 3;
    CHECK_SAME(try_once(&access, &address, slowly(5000), &err), DIBS_OK);
    access.db = 99;
    CHECK_SAME(try_once(&access, &address, slowly(5000), &err), DIBS_EDENIED);
    check_says(&err, "DB index");
    /* one that may not say its name, nor ask for its id */
    access.db = 0;
    access.user = "few";
    CHECK_SAME(try_once(&access, &address, slowly(5000), &err), DIBS_OK);
}

/* A server that has as many clients as it wants may have room later. */
static void
test_full(void)
{
    static const char *const more[] = { "--maxclients", "2", NULL };
    static const server_options options = { .more = more };
    server_start(&one, &options);
    resp_access access = plain_access(1);
    resp_address address = address_of(&one);
    resp_server *to[4];
    redisReply *reply;
    dibs_error err = { 0 };
    for (int i = 0; i < 4; i++) {
        to[i] = dibs__resp_server_new(&access, &address);
        CHECK(to[i] != NULL);
        int code = ask(to[i], 1, far(), &reply, &err, "PING");
        CHECK_SAME(code, i < 2 ? DIBS_OK : DIBS_EUNAVAIL);
        if (code == DIBS_OK) {
            freeReplyObject(reply);
        }
    }
    check_says(&err, "max number of clients");
    for (int i = 0; i < 4; i++) {
        dibs__resp_server_free(to[i], 0);
    }
}

/* ---- TLS ---- */

static const char *
certificate(const char *name)
{
    static char paths[4][96];
    static int next;
    char *path = paths[next++ % 4];
    (void)snprintf(path, sizeof(paths[0]), "%s/%s", folder, name);
    return path;
}

static int
try_tls(const resp_tls_files *files, int port, dibs_error *err)
{
    resp_access access = plain_access(1);
    resp_address address = { .host = "127.0.0.1", .port = (uint16_t)port };
    int code = dibs__resp_tls_new(&access.tls, files, &test_host, err);
    if (code == DIBS_OK) {
        code = try_once(&access, &address, slowly(5000), err);
        dibs__resp_tls_free(access.tls, &test_host);
    }
    return code;
}

static void
start_tls(const char *cert, const char *clients)
{
    static server_options options;
    static const char *more[3];
    if (folder[0] == '\0') {
        certs_folder(folder, sizeof(folder));
    }
    more[0] = "--tls-auth-clients";
    more[1] = clients;
    options = (server_options){ .certs = folder, .cert = cert, .more = more };
    server_start(&one, &options);
}

static void
test_tls(void)
{
    dibs_error err;
    start_tls("server", "optional");
    resp_tls_files files = { .ca = certificate("ca.crt") };
    if (try_tls(&files, one.tls_port, &err) != DIBS_OK) {
        FAIL("%s", err.text);
    }
    files.name = "localhost";
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_OK);
    files.name = "elsewhere.example";
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_EDENIED);
    check_says(&err, "hostname mismatch");
    check_says(&err, "sni=NAME");
    files = (resp_tls_files){ .ca = certificate("other.crt") };
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_EDENIED);
    check_says(&err, "ca=FILE");
    /* the system trusts none of ours */
    files = (resp_tls_files){ 0 };
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_EDENIED);
    check_says(&err, "insecure=yes");
    files.insecure = 1;
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_OK);
    /* not TLS over there, or not here */
    CHECK_SAME(try_tls(&files, one.port, &err), DIBS_EUNAVAIL);
    check_says(&err, "TLS");
    resp_access access = plain_access(1);
    resp_address address = { .host = "127.0.0.1", .port = (uint16_t)one.tls_port };
    CHECK_SAME(try_once(&access, &address, slowly(5000), &err), DIBS_EUNAVAIL);
}

static void
test_tls_wrong_server(void)
{
    dibs_error err;
    start_tls("elsewhere", "optional");
    resp_tls_files files = { .ca = certificate("ca.crt") };
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_EDENIED);
    check_says(&err, "IP address mismatch");
    files.name = "elsewhere.example";
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_OK);
    server_stop(&one);
    start_tls("expired", "optional");
    files.name = NULL;
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_EDENIED);
    check_says(&err, "expired");
}

static void
test_tls_client(void)
{
    dibs_error err;
    start_tls("server", "yes");
    resp_tls_files files = { .ca = certificate("ca.crt") };
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_EDENIED);
    check_says(&err, "cert=FILE");
    files.cert = certificate("client.crt");
    files.key = certificate("client.key");
    if (try_tls(&files, one.tls_port, &err) != DIBS_OK) {
        FAIL("%s", err.text);
    }
}

static void
test_tls_files(void)
{
    dibs_error err;
    start_tls("server", "optional");
    resp_tls_files files = { .ca = "/no/such/file" };
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_ECONFIG);
    check_says(&err, "/no/such/file");
    files = (resp_tls_files){ .key = certificate("client.key") };
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_ECONFIG);
    check_says(&err, "cert=FILE");
    /* a key that is another's */
    files = (resp_tls_files){ .cert = certificate("client.crt"),
                              .key = certificate("server.key") };
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_ECONFIG);
    files = (resp_tls_files){ .cert = certificate("client.crt") };
    CHECK_SAME(try_tls(&files, one.tls_port, &err), DIBS_ECONFIG);
}

/* ---- TLS under load: readers and writers at once ---- */

static void
work_encrypted(void *arg, int index)
{
    resp_server *to = arg;
    const size_t size = 40000;
    char *word = malloc(size + 1);
    CHECK(word != NULL);
    memset(word, 'a' + index % 26, size);
    word[size] = '\0';
    for (int i = 0; i < 100; i++) {
        redisReply *reply;
        dibs_error err = { 0 };
        word[size - (size_t)i] = '\0';
        int code = ask(to, (uint64_t)index, far(), &reply, &err, "ECHO", word);
        if (code != DIBS_OK) {
            FAIL("%s", err.text);
        }
        CHECK(dibs__resp_is_text(reply, word));
        freeReplyObject(reply);
    }
    free(word);
}

static void
test_tls_load(void)
{
    dibs_error err;
    start_tls("server", "optional");
    resp_access access = plain_access(2);
    resp_address address = { .host = "127.0.0.1", .port = (uint16_t)one.tls_port };
    resp_tls_files files = { .ca = certificate("ca.crt") };
    CHECK_SAME(dibs__resp_tls_new(&access.tls, &files, &test_host, &err), DIBS_OK);
    resp_server *to = dibs__resp_server_new(&access, &address);
    CHECK(to != NULL);
    gang_join(gang_start(16, work_encrypted, to));
    /* a connection that was idle has had tickets, and no end */
    sleep_ms(150);
    int64_t id = must_ask(to, 1, "CLIENT", "ID");
    sleep_ms(150);
    CHECK_SAME(must_ask(to, 1, "CLIENT", "ID"), id);
    dibs__resp_server_free(to, 0);
    dibs__resp_tls_free(access.tls, &test_host);
}

static const struct test_case cases[] = {
    { "addresses", test_addresses },
    { "requests", test_requests },
    { "replies", test_replies },
    { "unreachable", test_unreachable },
    { "together", test_together },
    { "names", test_names },
    { "passwords", test_passwords },
    { "full", test_full },
    { "tls", test_tls },
    { "tls_wrong_server", test_tls_wrong_server },
    { "tls_client", test_tls_client },
    { "tls_files", test_tls_files },
    { "tls_load", test_tls_load },
};

int
main(int argc, char **argv)
{
    need(server_present("redis-server"), "redis-server");
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
