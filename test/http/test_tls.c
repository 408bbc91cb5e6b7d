/* SPDX-License-Identifier: MIT */
/* TLS with certificates of all kinds: `test_http_tls CASE`. */
#include "http_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static server one;
static wires between;
static char folder[64];

static void
clean_up(void)
{
    wires_stop(&between);
    server_stop(&one);
    if (folder[0] != '\0') {
        remove_tree(folder);
    }
}

static char *
file(const char *name)
{
    char *path = NULL;
    CHECK(asprintf(&path, "%s/%s", folder, name) > 0);
    return path;
}

static void
make_certs(void)
{
    temp_dir(folder, sizeof(folder), "/tmp");
    need(certs_make(folder) == 0, "openssl");
}

static void
start(const char *cert)
{
    need(etcd_present(), "etcd");
    make_certs();
    server_options options = { .certs = folder, .cert = cert };
    etcd_start(&one, &options);
}

struct files {
    const char *ca, *cert, *key, *name;
    int insecure;
};

/* opens a client and asks once; the text says what went wrong */
static int
ask(int port, const struct files *with, dibs_error *err)
{
    char hosts[40];
    http *client = NULL;
    char *ca = with->ca ? file(with->ca) : NULL;
    char *cert = with->cert ? file(with->cert) : NULL;
    char *key = with->key ? file(with->key) : NULL;
    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1:%d", port);
    http_settings settings = { .host = &test_host,
                               .hosts = hosts,
                               .tls = 1,
                               .ca = ca,
                               .cert = cert,
                               .key = key,
                               .name = with->name,
                               .insecure = with->insecure };
    int code = dibs__http_new(&client, &settings, err);
    if (code == DIBS_OK) {
        code = put(client, far(), err);
        dibs__http_free(client, 0);
    }
    free(ca);
    free(cert);
    free(key);
    return code;
}

static void
expect(int port, const struct files *with, int want, const char *text)
{
    dibs_error err = { 0 };
    int code = ask(port, with, &err);
    if (code != want || (text && !strstr(err.text, text))) {
        FAIL("%d, not %d: %s", code, want, err.text);
    }
}

static void
test_trusted(void)
{
    start(NULL);
    struct files all = { .ca = "ca.crt", .cert = "client.crt", .key = "client.key" };
    expect(one.tls_port, &all, DIBS_OK, NULL);
    all.name = "localhost";
    expect(one.tls_port, &all, DIBS_OK, NULL);
    all.insecure = 1;
    all.ca = NULL;
    expect(one.tls_port, &all, DIBS_OK, NULL);
    CHECK_SAME(version_of(&one), 3);
}

static void
test_not_trusted(void)
{
    start(NULL);
    struct files all = { .ca = "ca.crt", .cert = "client.crt", .key = "client.key" };
    struct files one_of = all;
    one_of.ca = "other.crt";
    expect(one.tls_port, &one_of, DIBS_EDENIED, "do not trust");
    one_of = all;
    one_of.ca = NULL;
    expect(one.tls_port, &one_of, DIBS_EDENIED, "do not trust");
    one_of = all;
    one_of.name = "elsewhere.example";
    expect(one.tls_port, &one_of, DIBS_EDENIED, "do not trust");
    /* they do not trust us */
    one_of = all;
    one_of.cert = one_of.key = NULL;
    expect(one.tls_port, &one_of, DIBS_EDENIED, "cert=FILE");
    CHECK_SAME(version_of(&one), 0);
}

static void
test_other_name(void)
{
    start("elsewhere");
    struct files all = { .ca = "ca.crt", .cert = "client.crt", .key = "client.key" };
    expect(one.tls_port, &all, DIBS_EDENIED, "do not trust");
    all.name = "elsewhere.example";
    expect(one.tls_port, &all, DIBS_OK, NULL);
}

static void
test_expired(void)
{
    start("expired");
    struct files all = { .ca = "ca.crt", .cert = "client.crt", .key = "client.key" };
    expect(one.tls_port, &all, DIBS_EDENIED, "expired");
}

static void
test_files(void)
{
    make_certs();
    struct files all = { .ca = "ca.crt", .cert = "client.crt", .key = "client.key" };
    struct files one_of = all;
    one_of.ca = "none.crt";
    expect(1, &one_of, DIBS_ECONFIG, "none.crt");
    one_of = all;
    one_of.cert = "none.crt";
    expect(1, &one_of, DIBS_ECONFIG, "none.crt");
    one_of = all;
    one_of.key = "client.crt";
    expect(1, &one_of, DIBS_ECONFIG, "there is no key");
    one_of = all;
    one_of.ca = "client.key";
    expect(1, &one_of, DIBS_ECONFIG, "there is no authority");
    one_of = all;
    one_of.cert = NULL;
    expect(1, &one_of, DIBS_ECONFIG, "without a certificate");
    one_of = all;
    one_of.name = "not a name";
    expect(1, &one_of, DIBS_ECONFIG, "not a name");
}

static void
test_wrong_key(void)
{
    start(NULL);
    struct files all = { .ca = "ca.crt", .cert = "client.crt", .key = "server.key" };
    expect(one.tls_port, &all, DIBS_ECONFIG, "TLS");
}

/* we speak TLS, and they do not */
static void
test_plain(void)
{
    start(NULL);
    struct files all = { .ca = "ca.crt", .cert = "client.crt", .key = "client.key" };
    expect(one.port, &all, DIBS_EUNAVAIL, "TLS");
}

/* a child that closes must not say goodbye for its parent */
static void
test_fork(void)
{
    start(NULL);
    wires_start(&between, &one.tls_port, 1);
    char hosts[40];
    dibs_error err = { 0 };
    http *client = NULL;
    char *ca = file("ca.crt"), *cert = file("client.crt"), *key = file("client.key");
    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1:%d", between.ports[0]);
    http_settings settings = {
        .host = &test_host, .hosts = hosts, .tls = 1, .ca = ca, .cert = cert, .key = key
    };
    CHECK_SAME(dibs__http_new(&client, &settings, &err), DIBS_OK);
    CHECK_SAME(put(client, far(), &err), DIBS_OK);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        dibs__http_free(client, 1);
        _exit(0);
    }
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child);
    CHECK_SAME(status, 0);
    sleep_ms(50);
    CHECK_SAME(put(client, far(), &err), DIBS_OK);
    CHECK_SAME(wires_passed(&between, 0), 1);
    dibs__http_free(client, 0);
    free(ca);
    free(cert);
    free(key);
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(trusted), CASE(not_trusted), CASE(other_name), CASE(expired),
        CASE(files),   CASE(wrong_key),   CASE(plain),      CASE(fork),
    };
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
