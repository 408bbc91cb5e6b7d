/* SPDX-License-Identifier: MIT */
/* Who belongs to the quorum, who is let in, and servers that come back without their
 * memory. */
#include "stage.h"

static int
open_code(const char *url)
{
    dibs *client = NULL;
    int code = dibs_open(&client, url, NULL, &oops);
    if (code == DIBS_OK) {
        dibs_close(client);
    }
    return code;
}

static void
misconfigured(void)
{
    char url[512];
    int port;
    start(NODES, NULL);
    port = set.servers[0].port;
    GIVES(DIBS_ECONFIG, open_code("redlock://"));
    GIVES(DIBS_ECONFIG, open_code("redlock://a:1,a:1"));
    GIVES(DIBS_ECONFIG, open_code("redlock://a:99999"));
    GIVES(DIBS_ECONFIG, open_code("redlock://a:1,,b:1"));
    GIVES(DIBS_ECONFIG, open_code("redlock://a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p"));
    (void)snprintf(url, sizeof(url), "redlock://127.0.0.1:%d,localhost:%d", port, port);
    GIVES(DIBS_ECONFIG, open_code(url));
    CHECK(strstr(oops.text, "two votes") != NULL);
    static const char *const bad[] = { "?db=x",
                                       "?guard=x",
                                       "?node_timeout=x",
                                       "?ca=x",
                                       "?tls=yes&ca=/no/such/file",
                                       "?layout=plain" };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        url_of(url, sizeof(url), bad[i]);
        GIVES(DIBS_ECONFIG, open_code(url));
    }
    dibs *client = open_with("?db=3&node_timeout=100ms");
    dibs_hold *hold = take(client, 0);
    CHECK_SAME(copies(), 0); /* it is in another database */
    give(hold);
    GIVES(DIBS_EINVAL, dibs_trylock(&hold, client, "dibs:token", &oops));
    dibs_close(client);
}

/* one server lets nobody in, then most of them */
static void
denied(void)
{
    char url[512];
    start(NODES, NULL);
    server_do(&set.servers[0], "CONFIG", "SET", "requirepass", "tr0ub4dor");
    dibs *client = open_with("");
    OK(try_for(client));
    dibs_close(client);
    for (int i = 1; i < 3; i++) {
        server_do(&set.servers[i], "CONFIG", "SET", "requirepass", "tr0ub4dor");
    }
    url_of(url, sizeof(url), "");
    GIVES(DIBS_EDENIED, open_code(url));
    CHECK(strstr(oops.text, "tr0ub4dor") == NULL);
}

static void
encrypted(void)
{
    char certs[128], url[640];
    certs_folder(certs, sizeof(certs));
    server_options options = { .certs = certs };
    start(3, &options);
    size_t len = (size_t)snprintf(url, sizeof(url), "redlock://");
    for (int i = 0; i < 3; i++) {
        len += (size_t)snprintf(url + len, sizeof(url) - len, "%s127.0.0.1:%d",
                                i > 0 ? "," : "", set.servers[i].tls_port);
    }
    (void)snprintf(url + len, sizeof(url) - len, "?tls=yes&ca=%s/ca.crt", certs);
    dibs *client = NULL, *other = NULL;
    OK(dibs_open(&client, url, NULL, &oops));
    OK(dibs_open(&other, url, NULL, &oops));
    dibs_hold *hold = take(client, 0);
    GIVES(DIBS_EBUSY, try_for(other));
    CHECK_SAME(copies(), 3);
    give(hold);
    OK(try_for(other));
    dibs_close(other);
    dibs_close(client);
    (void)snprintf(url + len, sizeof(url) - len, "?tls=yes&ca=%s/other.crt", certs);
    CHECK(open_code(url) != DIBS_OK);
    remove_tree(certs);
}

static void
one_server(void)
{
    start(1, NULL);
    dibs *client = open_with(""), *other = open_with("");
    dibs_hold *hold = take(client, 0);
    GIVES(DIBS_EBUSY, try_for(other));
    give(hold);
    OK(try_for(other));
    dibs_close(other);
    dibs_close(client);
}

/* of four, three are needed: two and two must not both win */
static void
even_number(void)
{
    start(4, NULL);
    dibs *client = open_with("");
    dibs_hold *hold = take(client, 0);
    server_kill(&set.servers[0]);
    OK(dibs_renew(hold, 0, &oops));
    give(hold);
    OK(try_for(client));
    server_kill(&set.servers[1]);
    GIVES(DIBS_EUNAVAIL, try_for(client));
    dibs_close(client);
}

/* ---- the guard ---- */

/* try_for with a lease */
static int
try_with(dibs *client, int64_t lease_ms)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold = NULL;
    request.name = NAME;
    request.lease_ms = (uint32_t)lease_ms;
    request.wait_ms = DIBS_WAIT_NONE;
    int code = dibs_acquire(&hold, client, &request, &oops);
    if (code == DIBS_OK) {
        give(hold);
    }
    return code;
}

/* A holder has three of five servers; one of these forgets. Then the forgetful one and the
 * two that never heard of the lock are a majority, too. */
static dibs_hold *
hold_and_forget(dibs *client, uint32_t lease_ms)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold = NULL;
    request.name = NAME;
    request.lease_ms = lease_ms;
    request.flags = DIBS_NO_RENEW; /* which would heal it */
    request.wait_ms = slowly(5000);
    OK(dibs_acquire(&hold, client, &request, &oops));
    comes_to(NODES, slowly(1000));
    server_do(&set.servers[3], "DEL", NAME);
    server_do(&set.servers[4], "DEL", NAME);
    server_kill(&set.servers[2]);
    server_restart(&set.servers[2]);
    return hold;
}

/* the weakness that the guard is for */
static void
guard_off(void)
{
    start(NODES, NULL);
    dibs *client = open_with(""), *other = open_with("");
    dibs_hold *hold = hold_and_forget(client, 20000);
    OK(try_for(other));
    CHECK(dibs_held(hold));
    dibs_hold_free(hold);
    dibs_close(other);
    dibs_close(client);
}

static void
guard_on(void)
{
    const int64_t guard_ms = slowly(600);
    char more[64];
    (void)snprintf(more, sizeof(more), "?guard=%lldms", (long long)guard_ms);
    start(NODES, NULL);
    dibs *client = open_with(more), *other = open_with(more);
    /* it cannot be told whether a server is new or has forgotten */
    GIVES(DIBS_EBUSY, try_with(client, guard_ms));
    int64_t from = now_ms();
    give(take(client, (uint32_t)guard_ms));
    CHECK_WITHIN(now_ms() - from, guard_ms / 2, guard_ms + slowly(500));
    dibs_hold *hold = hold_and_forget(client, (uint32_t)guard_ms);
    from = now_ms();
    while (dibs_held(hold)) {
        GIVES(DIBS_EBUSY, try_with(other, guard_ms));
        sleep_ms(5);
    }
    give(take(other, (uint32_t)guard_ms));
    CHECK_WITHIN(now_ms() - from, 0, guard_ms + slowly(500));
    (void)dibs_unlock(hold, NULL);
    dibs_close(other);
    dibs_close(client);
}

/* one server whose clock jumps has no majority; each of them may, if there is a renewal
 * between */
static void
clock_outvoted(void)
{
    static const server_options own = { .clock = 1 };
    start(NODES, &own);
    dibs *client = open_with(""), *other = open_with("");
    dibs_hold *hold = take(client, 0);
    comes_to(NODES, slowly(1000));
    for (int i = 0; i < NODES; i++) {
        server_set_clock(&set.servers[i], 3600 * 1000);
        CHECK_SAME(copies(), NODES - 1);
        GIVES(DIBS_EBUSY, try_for(other));
        OK(dibs_renew(hold, 0, &oops));
        comes_to(NODES, slowly(1000));
    }
    for (int i = 0; i < NODES; i++) {
        server_set_clock(&set.servers[i], -3600 * 1000);
        GIVES(DIBS_EBUSY, try_for(other));
        OK(dibs_renew(hold, 0, &oops));
    }
    give(hold);
    OK(try_for(other));
    dibs_close(other);
    dibs_close(client);
}

static dibs_hold *
take_the_first_three(dibs *client)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold = NULL;
    request.name = NAME;
    request.lease_ms = 20000;
    request.flags = DIBS_NO_RENEW; /* before the first renewal */
    server_do(&set.servers[3], "SET", NAME, "another", "PX", "60000");
    server_do(&set.servers[4], "SET", NAME, "another", "PX", "60000");
    OK(dibs_acquire(&hold, client, &request, &oops));
    server_do(&set.servers[3], "DEL", NAME);
    server_do(&set.servers[4], "DEL", NAME);
    return hold;
}

/* the weakness that is left: who came at the same time had the votes of two servers, and gave
 * them back; the third is the one whose clock jumps */
static void
clock_split(void)
{
    static const server_options own = { .clock = 1 };
    start(NODES, &own);
    dibs *client = open_with(""), *other = open_with("");
    dibs_hold *hold = take_the_first_three(client);
    server_set_clock(&set.servers[0], 3600 * 1000);
    OK(try_for(other));
    CHECK(dibs_held(hold));
    (void)dibs_unlock(hold, NULL);
    /* a renewal gets the others' */
    hold = take_the_first_three(client);
    OK(dibs_renew(hold, 20000, &oops));
    comes_to(NODES, slowly(1000));
    server_set_clock(&set.servers[0], 2 * 3600 * 1000);
    GIVES(DIBS_EBUSY, try_for(other));
    give(hold);
    dibs_close(other);
    dibs_close(client);
}

static void
lease_too_long(void)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold = NULL;
    start(3, NULL);
    dibs *client = open_with("?guard=200ms");
    request.name = NAME;
    request.lease_ms = 201;
    GIVES(DIBS_EINVAL, dibs_acquire(&hold, client, &request, &oops));
    CHECK(strstr(oops.text, "guard") != NULL);
    dibs_close(client);
}

int
main(int argc, char **argv)
{
    static const test_case cases[] = {
        { "misconfigured", misconfigured },
        { "denied", denied },
        { "encrypted", encrypted },
        { "one_server", one_server },
        { "even_number", even_number },
        { "guard_off", guard_off },
        { "guard_on", guard_on },
        { "clock_outvoted", clock_outvoted },
        { "clock_split", clock_split },
        { "lease_too_long", lease_too_long },
        { NULL, NULL },
    };
    return run_case(argc, argv, cases);
}
