/* SPDX-License-Identifier: MIT */
/* Who may use what: tokens and certificates. See faults.h. */
#include "faults.h"

static const char rules[] = "key_prefix \"locks/\" { policy = \"write\" } "
                            "session_prefix \"\" { policy = \"write\" }";

static int
try_url(const char *url)
{
    dibs *client = NULL;
    int code = try_open(&client, url, (uint32_t)slowly(2000));
    if (code == DIBS_OK) {
        code = try_take(client, NAME);
        dibs_close(client);
    }
    return code;
}

static int
try_token(const char *token, const char *path)
{
    char url[256];
    (void)snprintf(url, sizeof(url), "consul://:%s@127.0.0.1:%d%s", token, one.port,
                   path);
    return try_url(url);
}

/* who has the token gets in, and nobody else; and only to the keys that it is for */
static void
test_tokens(void)
{
    static const char wrong[] = "11111111-2222-3333-4444-555555555555";
    server_options options = { .acl = rules };
    char url[128];
    start_one(&options);
    OK(try_token(one.token, "/locks"));
    GIVES(DIBS_EDENIED, try_token(one.token, "/elsewhere"));
    CHECK(strstr(oops.text, one.token) == NULL);
    GIVES(DIBS_EDENIED, try_token(wrong, "/locks"));
    CHECK(strstr(oops.text, wrong) == NULL);
    (void)snprintf(url, sizeof(url), "consul://127.0.0.1:%d/locks", one.port);
    GIVES(DIBS_EDENIED, try_url(url));
    /* from the environment, as Consul's own commands have it */
    setenv("CONSUL_HTTP_TOKEN", one.token, 1);
    OK(try_url(url));
    check_nothing_left(&one);
}

static void
test_token_file(void)
{
    server_options options = { .acl = rules };
    char path[96], url[256];
    start_one(&options);
    temp_dir(folder, sizeof(folder), "/tmp");
    (void)snprintf(path, sizeof(path), "%s/token", folder);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fprintf(file, "%s\n", one.token) > 0 && fclose(file) == 0);
    (void)snprintf(url, sizeof(url), "consul://127.0.0.1:%d/locks?token_file=%s",
                   one.port, path);
    OK(try_url(url));
    check_nothing_left(&one);
}

/* ---- TLS ---- */

static int
try_tls(const char *authority, const char *cert)
{
    char url[512], own[256] = "";
    if (cert != NULL) {
        (void)snprintf(own, sizeof(own), "&cert=%s/%s.crt&key=%s/%s.key", folder, cert,
                       folder, cert);
    }
    (void)snprintf(url, sizeof(url), "consuls://127.0.0.1:%d/locks?ca=%s/%s.crt%s",
                   one.tls_port, folder, authority, own);
    return try_url(url);
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

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "tokens", test_tokens },
        { "token_file", test_token_file },
        { "tls", test_tls },
        { "tls_wrong_host", test_tls_wrong_host },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
