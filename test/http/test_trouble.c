/* SPDX-License-Identifier: MIT */
/*
 * Servers that are not there, that stand still, and connections that are lost:
 * `test_http_trouble CASE`. What counts is what was done: the version of a key tells how
 * often it was put.
 */
#include "http_test.h"

#include <stdio.h>
#include <string.h>

static server_set set;
static wires between;
static blackhole hole;

static void
clean_up(void)
{
    wires_stop(&between);
    set_stop(&set);
}

/* servers that know nothing of each other, a wire in front of each; a client of all */
static http *
start(int count)
{
    char hosts[200];
    int ports[SET_MAX], len = 0;
    need(etcd_present(), "etcd");
    for (int i = 0; i < count; i++) {
        etcd_start(&set.servers[i], NULL);
        set.count++;
        ports[i] = set.servers[i].port;
    }
    wires_start(&between, ports, count);
    for (int i = 0; i < count; i++) {
        len += snprintf(hosts + len, sizeof(hosts) - (size_t)len, "%s127.0.0.1:%d",
                        i > 0 ? "," : "", between.ports[i]);
    }
    return client_of(hosts);
}

static int
versions(void)
{
    int sum = 0;
    for (int i = 0; i < set.count; i++) {
        sum += version_of(&set.servers[i]);
    }
    return sum;
}

static void
must_put(http *client)
{
    dibs_error err = { 0 };
    int code = put(client, far(), &err);
    if (code != DIBS_OK) {
        FAIL("%d: %s", code, err.text);
    }
}

/* asks what may be asked twice; returns the code */
static int
look(http *client, dibs_time deadline, int *may_be_repeated, dibs_error *err)
{
    http_answer answer = { 0 };
    int code = post(client, "/v3/kv/range", "{'key':'" PUT_KEY "'}", HTTP_REPEATABLE,
                    deadline, &answer, err);
    *may_be_repeated = answer.may_be_repeated;
    dibs__http_answer_free(&answer);
    return code;
}

static int
port_of_first(http *client)
{
    char where[64];
    int port = 0;
    dibs__http_server(client, where, sizeof(where));
    CHECK(sscanf(where, "127.0.0.1:%d", &port) == 1);
    return port;
}

/* ---- not there ---- */

static void
test_nobody(void)
{
    char hosts[80];
    int ports[2] = { port_take(), port_take() };
    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1:%d,127.0.0.1:%d", ports[0], ports[1]);
    http *client = client_of(hosts);
    dibs_error err = { 0 };
    int64_t before = now_ms();
    int ignored;
    CHECK_SAME(put(client, in_ms(60000), &err), DIBS_EUNAVAIL);
    CHECK(strstr(err.text, "Connection refused") != NULL);
    CHECK_SAME(look(client, in_ms(60000), &ignored, &err), DIBS_EUNAVAIL);
    CHECK(now_ms() - before < slowly(2000));
    dibs__http_free(client, 0);
}

static void
test_no_name(void)
{
    http *client = client_of("no-such-host.invalid:1");
    dibs_error err = { 0 };
    CHECK_SAME(put(client, far(), &err), DIBS_EUNAVAIL);
    CHECK(strstr(err.text, "no-such-host.invalid") != NULL);
    dibs__http_free(client, 0);
}

/* one that neither accepts nor refuses does not use up the time of the others */
static void
test_hole(void)
{
    char hosts[80];
    need(etcd_present(), "etcd");
    etcd_start(&set.servers[0], NULL);
    set.count = 1;
    blackhole_open(&hole, 0);
    (void)snprintf(hosts, sizeof(hosts), "127.0.0.1:%d,127.0.0.1:%d", hole.port,
                   set.servers[0].port);
    http *client = client_of(hosts);
    CHECK_SAME(port_of_first(client), hole.port);
    must_put(client);
    CHECK_SAME(versions(), 1);
    CHECK_SAME(port_of_first(client), set.servers[0].port);
    dibs__http_free(client, 0);
    dibs_error err = { 0 };
    client = client_at(hole.port);
    int64_t before = now_ms();
    CHECK_SAME(put(client, in_ms(300), &err), DIBS_EUNAVAIL);
    CHECK_WITHIN(now_ms() - before, 290, 300 + slowly(500));
    CHECK(strstr(err.text, "no connection in time") != NULL);
    dibs__http_free(client, 0);
    blackhole_close(&hole);
}

static void
test_no_time(void)
{
    http *client = start(1);
    dibs_error err = { 0 };
    CHECK_SAME(put(client, in_ms(0), &err), DIBS_EUNAVAIL);
    CHECK_SAME(put(client, in_ms(-1000), &err), DIBS_EUNAVAIL);
    CHECK_SAME(versions(), 0);
    CHECK_SAME(wires_passed(&between, 0), 0);
    must_put(client);
    dibs__http_free(client, 0);
}

/* ---- failover ---- */

/* servers that are killed one after the other, between calls */
static void
test_killed(void)
{
    char hosts[100];
    dibs__http_free(start(3), 0);
    set_hosts(hosts, sizeof(hosts), &set);
    http *client = client_of(hosts);
    for (int i = 0; i < 3; i++) {
        must_put(client);
        CHECK_SAME(port_of_first(client), set.servers[i].port);
        server_kill(&set.servers[i]);
    }
    dibs_error err = { 0 };
    CHECK_SAME(put(client, far(), &err), DIBS_EUNAVAIL);
    server_restart(&set.servers[1]);
    must_put(client);
    CHECK_SAME(port_of_first(client), set.servers[1].port);
    CHECK_SAME(version_of(&set.servers[1]), 2);
    server_restart(&set.servers[0]);
    server_restart(&set.servers[2]);
    CHECK_SAME(versions(), 4);
    dibs__http_free(client, 0);
}

static void
test_avoid(void)
{
    http *client = start(2);
    must_put(client);
    dibs__http_avoid(client);
    CHECK_SAME(port_of_first(client), between.ports[1]);
    /* threads that say so at the same time mean the same server */
    dibs__http_avoid(client);
    CHECK_SAME(port_of_first(client), between.ports[1]);
    must_put(client);
    CHECK_SAME(version_of(&set.servers[1]), 1);
    dibs__http_free(client, 0);
}

/* ---- standing still ---- */

static void
test_paused(void)
{
    http *client = start(2);
    dibs_error err = { 0 };
    int may_be_repeated;
    must_put(client);
    server_pause(&set.servers[0]);
    int64_t before = now_ms();
    CHECK_SAME(look(client, far(), &may_be_repeated, &err), DIBS_OK);
    CHECK(may_be_repeated);
    CHECK_WITHIN(now_ms() - before, 900, slowly(4000));
    CHECK_SAME(look(client, far(), &may_be_repeated, &err), DIBS_OK);
    CHECK(!may_be_repeated);
    server_resume(&set.servers[0]);
    dibs__http_free(client, 0);
}

/* a short deadline leaves time for another one, too */
static void
test_paused_short(void)
{
    http *client = start(2);
    dibs_error err = { 0 };
    int may_be_repeated;
    must_put(client);
    server_pause(&set.servers[0]);
    int64_t limit_ms = slowly(400);
    CHECK_SAME(look(client, in_ms(limit_ms), &may_be_repeated, &err), DIBS_OK);
    server_resume(&set.servers[0]);
    dibs__http_free(client, 0);
}

/* what may not be done twice is waited for, and is done in the end */
static void
test_paused_once(void)
{
    http *client = start(2);
    dibs_error err = { 0 };
    must_put(client);
    server_pause(&set.servers[0]);
    int64_t before = now_ms();
    CHECK_SAME(put(client, in_ms(400), &err), DIBS_EUNKNOWN);
    CHECK_WITHIN(now_ms() - before, 390, 400 + slowly(500));
    CHECK(strstr(err.text, "no answer in time") != NULL);
    CHECK_SAME(port_of_first(client), between.ports[1]);
    server_resume(&set.servers[0]);
    must_put(client);
    CHECK_SAME(version_of(&set.servers[1]), 1);
    dibs__http_free(client, 0);
}

/* ---- lost connections ---- */

/* between two calls: the next one notices before it sends */
static void
test_closed(void)
{
    http *client = start(1);
    for (int i = 0; i < 20; i++) {
        must_put(client);
        wires_cut(&between, 0);
        sleep_ms(5);
    }
    CHECK_SAME(versions(), 20);
    CHECK_SAME(wires_passed(&between, 0), 20);
    dibs__http_free(client, 0);
}

static void
test_restarted(void)
{
    http *client = start(1);
    for (int i = 0; i < 3; i++) {
        must_put(client);
        server_kill(&set.servers[0]);
        server_restart(&set.servers[0]);
    }
    must_put(client);
    CHECK_SAME(versions(), 4);
    dibs__http_free(client, 0);
}

static void
cut_soon(void *arg, int index)
{
    (void)index;
    sleep_ms(100);
    wires_cut(arg, 0);
    wires_flow(arg, 0);
}

/* Under way, on a connection that was used before: libcurl would send it again by itself.
 * The wire keeps the request back, so it was surely not done; but who asks cannot know. */
static void
test_cut_under_way(void)
{
    http *client = start(1);
    dibs_error err = { 0 };
    must_put(client);
    wires_hold(&between, 0);
    gang *cutter = gang_start(1, cut_soon, &between);
    CHECK_SAME(put(client, in_ms(slowly(5000)), &err), DIBS_EUNKNOWN);
    CHECK(strstr(err.text, "the connection was lost") != NULL);
    gang_join(cutter);
    CHECK_SAME(versions(), 1);
    must_put(client);
    dibs__http_free(client, 0);
}

/* ... and on its first one */
static void
test_cut_at_first(void)
{
    http *client = start(1);
    dibs_error err = { 0 };
    wires_refuse(&between, 0);
    int code = put(client, far(), &err);
    CHECK(code == DIBS_EUNKNOWN || code == DIBS_EUNAVAIL);
    wires_flow(&between, 0);
    must_put(client);
    CHECK_SAME(versions(), 1);
    dibs__http_free(client, 0);
}

/* the reply is lost: it was done, and must not be done again */
static void
test_reply_lost(void)
{
    http *client = start(2);
    dibs_error err = { 0 };
    must_put(client);
    wires_mute(&between, 0);
    CHECK_SAME(put(client, in_ms(500), &err), DIBS_EUNKNOWN);
    CHECK_SAME(version_of(&set.servers[0]), 2);
    CHECK_SAME(version_of(&set.servers[1]), 0);
    wires_flow(&between, 0);
    must_put(client);
    CHECK_SAME(version_of(&set.servers[1]), 1);
    dibs__http_free(client, 0);
}

/* what may be repeated is, until there is an answer: also when all lose it at first */
static void
test_repeated(void)
{
    http *client = start(2);
    dibs_error err = { 0 };
    int may_be_repeated;
    must_put(client);
    wires_hold(&between, 0);
    gang *cutter = gang_start(1, cut_soon, &between);
    CHECK_SAME(look(client, far(), &may_be_repeated, &err), DIBS_OK);
    CHECK(may_be_repeated);
    gang_join(cutter);
    wires_refuse(&between, WIRES_ALL);
    CHECK_SAME(look(client, in_ms(500), &may_be_repeated, &err), DIBS_EUNAVAIL);
    wires_flow(&between, WIRES_ALL);
    CHECK_SAME(look(client, far(), &may_be_repeated, &err), DIBS_OK);
    dibs__http_free(client, 0);
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(nobody),       CASE(no_name),    CASE(hole),      CASE(no_time),
        CASE(killed),       CASE(avoid),      CASE(paused),    CASE(paused_short),
        CASE(paused_once),  CASE(closed),     CASE(restarted), CASE(cut_under_way),
        CASE(cut_at_first), CASE(reply_lost), CASE(repeated),
    };
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
