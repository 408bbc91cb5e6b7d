/* SPDX-License-Identifier: MIT */
/* Getting in: passwords, certificates, and addresses where nobody answers. */
#include "faults.h"

#include <stdlib.h>
#include <unistd.h>

#define NAME "access"
#define SECRET "tr0ub4dor"
#define WRONG_SECRET "c0rrecth0rse"

/* ---- passwords ---- */

/* Neither password may stand in what people see. */
static void
check_discreet(const char *text)
{
    if (strstr(text, SECRET) != NULL || strstr(text, WRONG_SECRET) != NULL) {
        FAIL("a password is shown: %s", text);
    }
}

static void
check_trace(const dibs_trace_event *event, void *arg)
{
    ++*(_Atomic int *)arg;
    check_discreet(event->text);
    check_discreet(event->name);
}

/* opens as a user; every call is traced */
static int
open_as(dibs **out, const char *who, const char *host)
{
    static _Atomic int traced;
    char url[256];
    dibs_options options = DIBS_OPTIONS_INIT;
    options.open_wait_ms = (uint32_t)slowly(2000);
    options.trace = check_trace;
    options.trace_arg = &traced;
    (void)snprintf(url, sizeof(url), "redis://%s%s:%d?layout=%s", who, host, one.port,
                   layout);
    int code = dibs_open(out, url, &options, &oops);
    check_discreet(code != DIBS_OK ? oops.text : dibs_url(*out));
    return code;
}

/* "limited" may not touch our keys, "reader" may not run scripts nor write */
static const char users[] =
    "user default on nopass ~* &* -@all +ping\n"
    "user app on >" SECRET " ~* &* +@all -@dangerous\n"
    "user limited on >" SECRET " ~nothing:* &* +@all\n"
    "user reader on >" SECRET " ~* &* +@read +@connection -@scripting";

static void
passwords(void)
{
    dibs *client = NULL;
    server_options options = { .acl = users };
    server_start(&one, &options);
    OK(open_as(&client, "app:" SECRET "@", "127.0.0.1"));
    give(take(client, NAME, LEASE_MS));
    dibs_close(client);
    GIVES(DIBS_EDENIED, open_as(&client, "app:" WRONG_SECRET "@", "127.0.0.1"));
    CHECK_SAYS("WRONGPASS");
    GIVES(DIBS_EDENIED, open_as(&client, "nobody:" SECRET "@", "127.0.0.1"));
}

/* what a user may not do is refused, when opening or when it is tried */
static void
check_refused(const char *who)
{
    dibs *client = NULL;
    int code = open_as(&client, who, "127.0.0.1");
    if (code == DIBS_OK) {
        code = try_take(client, NAME);
        dibs_close(client);
    }
    GIVES(DIBS_EDENIED, code);
    CHECK_SAYS("NOPERM");
    check_discreet(oops.text);
}

static void
permissions(void)
{
    server_options options = { .acl = users };
    server_start(&one, &options);
    check_refused("limited:" SECRET "@");
    check_refused("reader:" SECRET "@");
    check_refused("");
    CHECK_SAME(server_count_keys(&one), 0);
}

/* a server that wants a password, and we give none */
static void
no_password(void)
{
    dibs *client = NULL;
    server_options options = { .acl = "user default off" };
    server_start(&one, &options);
    GIVES(DIBS_EDENIED, open_as(&client, "", "127.0.0.1"));
    CHECK_SAYS("NOAUTH");
}

/* the password is changed while we are in: those who are stay, who must reconnect is
 * denied, and told so */
static void
password_changed(void)
{
    dibs *client = NULL;
    server_options options = { .acl = users };
    server_start(&one, &options);
    OK(open_as(&client, "app:" SECRET "@", "127.0.0.1"));
    give(take(client, NAME, LEASE_MS));
    server_do(&one, "ACL", "SETUSER", "app", "resetpass", ">" WRONG_SECRET);
    server_cut(&one);
    GIVES(DIBS_EDENIED, try_take(client, NAME));
    check_discreet(oops.text);
    server_do(&one, "ACL", "SETUSER", "app", ">" SECRET);
    give(take(client, NAME, LEASE_MS));
    dibs_close(client);
}

static void
password_in_file(void)
{
    char path[96];
    dibs *client = NULL;
    server_options options = { .acl = users };
    server_start(&one, &options);
    make_folder();
    (void)snprintf(path, sizeof(path), "%s/password", folder);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fputs(SECRET "\n", file) >= 0 && fclose(file) == 0);
    setenv("DIBS_PASSWORD_FILE", path, 1);
    OK(open_as(&client, "app@", "127.0.0.1"));
    give(take(client, NAME, LEASE_MS));
    dibs_close(client);
    (void)unlink(path);
    int code = open_as(&client, "app@", "127.0.0.1");
    CHECK(code == DIBS_ECONFIG || code == DIBS_EDENIED);
}

/* ---- TLS ---- */

static void
start_tls(const char *cert, const char *const *more)
{
    static server_options options;
    make_folder();
    if (certs_make(folder) != 0) {
        printf("skipped: there is no openssl command\n");
        exit(EXIT_SKIPPED);
    }
    options = (server_options){ .certs = folder, .cert = cert, .more = more };
    server_start(&one, &options);
}

static int
open_tls(dibs **out, const char *ca, const char *more)
{
    char url[512];
    (void)snprintf(url, sizeof(url), "rediss://127.0.0.1:%d?ca=%s/%s.crt%s", one.tls_port,
                   folder, ca, more);
    return try_open(out, url, (uint32_t)slowly(2000));
}

/* it does not open, not even after a while, and says why */
static void
check_not_trusted(const char *ca, const char *more, const char *says)
{
    dibs *client = NULL;
    int64_t from = now_ms();
    int code = open_tls(&client, ca, more);
    if (code != DIBS_EDENIED && code != DIBS_EUNAVAIL && code != DIBS_ECONFIG) {
        FAIL("opening gives %s", dibs_errname(code));
    }
    CHECK_SAYS(says);
    CHECK_WITHIN(now_ms() - from, 0, slowly(2500));
}

static void
check_trusted(const char *ca, const char *more)
{
    dibs *client = NULL;
    OK(open_tls(&client, ca, more));
    give(take(client, NAME, LEASE_MS));
    dibs_close(client);
}

static void
tls_wrong_authority(void)
{
    start_tls("server", NULL);
    check_trusted("ca", "");
    check_not_trusted("other", "", "certificate");
    check_trusted("other", "&insecure=yes");
}

static void
tls_wrong_host(void)
{
    start_tls("elsewhere", NULL);
    check_not_trusted("ca", "", "certificate");
    check_not_trusted("ca", "&sni=nowhere.example", "certificate");
    check_trusted("ca", "&sni=elsewhere.example");
}

static void
tls_expired(void)
{
    start_tls("expired", NULL);
    check_not_trusted("ca", "", "expired");
}

/* the server wants to see a certificate of ours */
static void
tls_client_certificate(void)
{
    static const char *const wanted[] = { "--tls-auth-clients", "yes", NULL };
    char more[256];
    dibs *client = NULL;
    start_tls("server", wanted);
    CHECK(open_tls(&client, "ca", "") != DIBS_OK);
    (void)snprintf(more, sizeof(more), "&cert=%s/client.crt&key=%s/client.key", folder,
                   folder);
    check_trusted("ca", more);
}

/* TLS to a port that does not speak it ends in time */
static void
tls_to_plain_port(void)
{
    char url[256];
    dibs *client = NULL;
    start_tls("server", NULL);
    (void)snprintf(url, sizeof(url), "rediss://127.0.0.1:%d?ca=%s/ca.crt", one.port,
                   folder);
    int64_t from = now_ms();
    CHECK(try_open(&client, url, 500) != DIBS_OK);
    CHECK_WITHIN(now_ms() - from, 0, 500 + slowly(250));
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", one.tls_port);
    from = now_ms();
    CHECK(try_open(&client, url, 500) != DIBS_OK);
    CHECK_WITHIN(now_ms() - from, 0, 500 + slowly(250));
}

/* ---- where nobody answers ---- */

static blackhole hole;

static void
check_open_ends(const char *url, int64_t least_ms)
{
    dibs *client = NULL;
    int64_t from = now_ms();
    int code = try_open(&client, url, 300);
    CHECK(code == DIBS_ETIMEDOUT || code == DIBS_EUNAVAIL);
    CHECK_WITHIN(now_ms() - from, least_ms, 300 + slowly(200));
}

/* limits cover connecting: when opening, and when a connection must be made anew */
static void
swallowed(void)
{
    char url[128];
    blackhole_open(&hole, 0);
    (void)snprintf(url, sizeof(url), "redis://127.0.0.1:%d", hole.port);
    check_open_ends(url, 200);
    blackhole_close(&hole);
    /* and where nobody listens at all */
    check_open_ends(url, 0);

    server_start(&one, NULL);
    dibs *client = open_one();
    dibs_hold *hold = take(client, NAME, LEASE_MS), *none = NULL;
    server_kill(&one);
    blackhole_open(&hole, one.port);
    int64_t from = now_ms();
    int code = dibs_timedlock(&none, client, "another", 300, &oops);
    CHECK(code == DIBS_ETIMEDOUT || code == DIBS_EUNAVAIL);
    CHECK_WITHIN(now_ms() - from, 200, 300 + slowly(200));
    from = now_ms();
    code = try_take(client, "another");
    CHECK(code == DIBS_ETIMEDOUT || code == DIBS_EUNAVAIL);
    CHECK(is_lost(hold, 2 * LEASE_MS));
    blackhole_close(&hole);
    server_restart(&one);
    dibs_hold_free(hold);
    give(take(client, NAME, LEASE_MS));
    dibs_close(client);
}

/* a wait that is cancelled, or whose client is closed, does not sit out a connect */
static void
swallowed_and_cancelled(void)
{
    dibs_canceller *cancel = NULL;
    dibs_hold *none = NULL;
    dibs_op *op = NULL;
    server_start(&one, NULL);
    dibs *client = open_one();
    server_kill(&one);
    blackhole_open(&hole, one.port);
    dibs_request request = want(NAME, LEASE_MS);
    OK(dibs_canceller_new(&cancel, &oops));
    request.cancel = cancel;
    OK(dibs_acquire_async(&op, client, &request, NULL, NULL, &oops));
    CHECK(!has_ended(op, 100));
    int64_t from = now_ms();
    dibs_cancel(cancel);
    GIVES(DIBS_ECANCELED, dibs_op_finish(&none, op, &oops));
    CHECK_WITHIN(now_ms() - from, 0, slowly(1500));
    dibs_canceller_free(cancel);
    from = now_ms();
    dibs_close(client);
    CHECK_WITHIN(now_ms() - from, 0, slowly(2000));
    blackhole_close(&hole);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "passwords", passwords },
        { "permissions", permissions },
        { "no_password", no_password },
        { "password_changed", password_changed },
        { "password_in_file", password_in_file },
        { "tls_wrong_authority", tls_wrong_authority },
        { "tls_wrong_host", tls_wrong_host },
        { "tls_expired", tls_expired },
        { "tls_client_certificate", tls_client_certificate },
        { "tls_to_plain_port", tls_to_plain_port },
        { "swallowed", swallowed },
        { "swallowed_and_cancelled", swallowed_and_cancelled },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
