/* SPDX-License-Identifier: MIT */
/*
 * Opening a client of the zookeeper engine: what URLs say, and what is said when it cannot
 * be opened. Most of it needs no server.
 */
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/mem.h"
#include "link_drive.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

static server one;
static drive client;

static void
clean_up(void)
{
    server_stop(&one);
}

/* ---- without a server ---- */

static const struct {
    const char *url;
    int code;
    const char *said;
} refused[] = {
    { "zk://h/?layout=other", DIBS_ECONFIG, "has curator, node" },
    { "zk://h/?naming=x", DIBS_ECONFIG,
      "parameter 'naming' is 'x': there are curator, kazoo, bare" },
    { "zk://h/?form=x", DIBS_ECONFIG, "parameter 'form' is 'x': there are mutex, rw" },
    { "zk://h/?layout=node&form=rw", DIBS_ECONFIG, "layout=curator" },
    { "zk://h/?acl=x", DIBS_ECONFIG,
      "parameter 'acl' is 'x': there are open, creator, read" },
    { "zk://h/?acl=creator", DIBS_ECONFIG, "needs a user and a password" },
    { "zk://user@h/", DIBS_ECONFIG, "a password" },
    { "zk://h/?tick=0ms", DIBS_ECONFIG, "tick=" },
    { "zk://h/?session=48h", DIBS_ECONFIG, "session=" },
    { "zk://h:0/", DIBS_ECONFIG, "h:0" },
    { "zk://h:99999/", DIBS_ECONFIG, "h:99999" },
    { "zk://h:1,,g/", DIBS_ECONFIG, "[IPv6]:port" },
    { "zk://::1/", DIBS_ECONFIG, "[IPv6]:port" },
    { "zk://[::1/", DIBS_ECONFIG, "[IPv6]:port" },
    { "zk://h/a//b", DIBS_ECONFIG, "no path of a node" },
    { "zk://h/a/../b", DIBS_ECONFIG, "no path of a node" },
    { "zk://h/zookeeper/quota", DIBS_ECONFIG, "the servers' own" },
    { "zk://h/?ca=x", DIBS_ECONFIG, "use zks:" },
#ifdef DIBS_ZK_TLS
    { "zks://h/", DIBS_ECONFIG, "needs ca=" },
#else
    { "zks://h/", DIBS_EUNSUPPORTED, "without TLS" },
#endif
    { "zk://no-such-host.invalid/", DIBS_EUNAVAIL, "no-such-host.invalid" },
};

static void
urls_refused(void)
{
    for (size_t i = 0; i < LENGTH(refused); i++) {
        int code = drive_try_open(&client, "%s", refused[i].url);
        if (code != refused[i].code || !strstr(client.err.text, refused[i].said))
            FAIL("%s gives %s: %s", refused[i].url, dibs_errname(code), client.err.text);
    }
}

/* nobody is there: said at once */
static void
nobody(void)
{
    int64_t before = now_ms();
    CHECK_SAME(drive_try_open(&client, "zk://127.0.0.1:1,[::1]:1/"), DIBS_EUNAVAIL);
    CHECK(strstr(client.err.text, "refused") || strstr(client.err.text, "nreachable") ||
          strstr(client.err.text, "assign"));
    CHECK_WITHIN(now_ms() - before, 0, slowly(1000));
}

/* somebody is there and does not answer: said when the time is up */
static void
silence(void)
{
    struct sockaddr_in at = { .sin_family = AF_INET };
    socklen_t size = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&at, size) == 0 && listen(fd, 100) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&at, &size) == 0);
    int64_t before = now_ms();
    CHECK_SAME(drive_try_open(&client, "zk://127.0.0.1:%d/?connect_timeout=700ms",
                              ntohs(at.sin_port)),
               DIBS_EUNAVAIL);
    CHECK_WITHIN(now_ms() - before, 690, 700 + slowly(500));
    close(fd);
}

/* ---- with one ---- */

/* a list in which only one host is good, by its name */
static void
one_of_many(void)
{
    int rc;
    zookeeper_start(&one, NULL);
    drive_open(&client,
               "zk://127.0.0.1:1,no-such-host.invalid,localhost:%d/a/b?tick=%dms",
               one.port, TICK_MS);
    struct session *session = drive_session(&client, 1000);
    CHECK_SAME(drive_is(&client, session, "/", slowly(3000), &rc), DIBS_OK);
    CHECK(strcmp(client.zk.root, "/a/b") == 0);
    drive_close(&client);
    server_stop(&one);
}

/* leases that the servers' sessions are too short for, and one session for all leases */
static void
lengths(void)
{
    struct session *session, *other;
    zookeeper_start(&one, NULL);
    drive_open(&client, "zk://127.0.0.1:%d/?tick=%dms", one.port, TICK_MS);
    session = drive_session(&client, 1000);
    CHECK(drive_session(&client, 990) == session);
    other = drive_session(&client, 5000);
    CHECK(other != session && other->granted_ms > session->granted_ms);
    drive_close(&client);
    drive_open(&client, "zk://127.0.0.1:%d/?tick=%dms&session=5s", one.port, TICK_MS);
    session = drive_session(&client, 1000);
    CHECK(drive_session(&client, 4000) == session);
    CHECK_SAME(dibs__zk_session_for(&client.zk, 5000, in_ms(slowly(2000)), &session,
                                    &client.err),
               DIBS_EINVAL);
    CHECK(strstr(client.err.text, "session="));
    drive_close(&client);
    server_stop(&one);
}

/* nodes that only their makers may touch */
static void
denied(void)
{
    drive other;
    int rc;
    zookeeper_start(&one, NULL);
    drive_open(&client, "zk://me:secret@127.0.0.1:%d/?tick=%dms", one.port, TICK_MS);
    drive_open(&other, "zk://me:wrong@127.0.0.1:%d/?tick=%dms", one.port, TICK_MS);
    struct session *session = drive_session(&client, 10000);
    CHECK_SAME(drive_make(&client, session, "/mine", 0, slowly(2000), &rc), DIBS_OK);
    struct op op = { .kind = OP_GET, .path = "/mine" };
    CHECK_SAME(dibs__zk_run(session, &op, 1, in_ms(slowly(2000)), &client.err), DIBS_OK);
    CHECK_SAME(op.rc, ZOK);
    dibs__zk_ops_free(&op, 1);
    session = drive_session(&other, 10000);
    CHECK_SAME(dibs__zk_run(session, &op, 1, in_ms(slowly(2000)), &other.err), DIBS_OK);
    CHECK_SAME(op.rc, ZNOAUTH);
    CHECK_SAME(dibs__zk_refused(&other.zk, &op, &other.err), DIBS_EDENIED);
    dibs__zk_ops_free(&op, 1);
    drive_close(&client);
    drive_close(&other);
    server_stop(&one);
}

/* out of descriptors at each of the places where one is needed: an error, no hang */
static void
no_descriptors(void)
{
    struct rlimit limit, less;
    zookeeper_start(&one, NULL);
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    int opened = 0;
    for (int room = 0; room < 8 && !opened; room++) {
        less = limit;
        less.rlim_cur = (rlim_t)count_fds() + (rlim_t)room;
        CHECK(setrlimit(RLIMIT_NOFILE, &less) == 0);
        int code =
            drive_try_open(&client, "zk://127.0.0.1:%d/?connect_timeout=300ms", one.port);
        CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
        CHECK(code == DIBS_OK || code == DIBS_EUNAVAIL);
        opened = code == DIBS_OK;
        if (opened)
            drive_close(&client);
    }
    server_stop(&one);
    CHECK(opened);
}

/* out of memory at each place where some is needed: ENOMEM, and nothing is left */
static void
no_memory(void)
{
    int code = DIBS_ENOMEM;
    zookeeper_start(&one, NULL);
    int fds = count_fds();
    for (int room = 2; room < 60 && code; room++) {
        dibs__alloc_fail_after(room);
        code = drive_try_open(&client, "zk://u:p@127.0.0.1:%d/?tick=%dms", one.port,
                              TICK_MS);
        dibs__alloc_fail_after(-1);
        CHECK(code == DIBS_OK || code == DIBS_ENOMEM);
    }
    CHECK_SAME(code, DIBS_OK);
    struct session *session = drive_session(&client, 1000);
    for (int room = 0; room < 3; room++) {
        int rc;
        dibs__alloc_fail_after(room);
        code = drive_make(&client, session, "/x", ZOO_EPHEMERAL, slowly(2000), &rc);
        dibs__alloc_fail_after(-1);
        CHECK(code == (room < 2 ? DIBS_ENOMEM : DIBS_OK));
    }
    drive_close(&client);
    CHECK_SAME(count_fds(), fds);
    server_stop(&one);
}

/* a client that was opened and left alone for longer than a session: works when it is used */
static void
left_alone(void)
{
    int threads, rc;
    struct session *home;
    zookeeper_start(&one, NULL);
    start_first_thread();
    threads = count_threads();
    drive_open(&client, "zk://127.0.0.1:%d/?tick=%dms&session=500ms", one.port, TICK_MS);
    CHECK_SAME(count_threads(), threads);
    sleep_ms(2000);
    CHECK_SAME(dibs__zk_home(&client.zk, in_ms(slowly(3000)), &home, &client.err),
               DIBS_OK);
    CHECK_SAME(drive_is(&client, home, "/", slowly(2000), &rc), DIBS_OK);
    drive_close(&client);
    server_stop(&one);
}

/* ---- how long a session lives ---- */

#define T_MS 10000
#define AT(ms) ((1000000 + (ms)) * DIBS_MS)

static int64_t
safe_ms(struct life *life)
{
    dibs_time margin = life->margin;
    return (atomic_load(&life->safe_until) + margin - AT(0)) / DIBS_MS - T_MS;
}

/* what counts is the newest sign that was answered a tick before a write was sent */
static void
evidence(void)
{
    struct life life;
    memset(&life, 0, sizeof life);
    dibs__zk_life_attach(&life, AT(0), T_MS, 2000, 1);
    CHECK_SAME(safe_ms(&life), 0);
    dibs__zk_life_sign(&life, AT(1000), AT(1010), 0); /* a read: a sign, but no proof */
    CHECK_SAME(safe_ms(&life), 0);
    dibs__zk_life_sign(&life, AT(3000), AT(3010),
                       1); /* a write, too early for that sign */
    CHECK_SAME(safe_ms(&life), 0);
    dibs__zk_life_sign(&life, AT(3500), AT(3510), 1);
    CHECK_SAME(safe_ms(&life), 1000);
    dibs__zk_life_sign(&life, AT(5020), AT(9000),
                       1); /* its own answer is late: no matter */
    CHECK_SAME(safe_ms(&life), 3000);
    dibs__zk_life_sign(&life, AT(10000), AT(10010), 1); /* the sign of 5020 was late */
    CHECK_SAME(safe_ms(&life), 3500);
    for (int ms = 10500; ms < 60000; ms += 500)
        dibs__zk_life_sign(&life, AT(ms), AT(ms + 10), 1);
    CHECK_SAME(safe_ms(&life), 57000);
}

/* another connection: old signs are worth nothing, connecting only after a write */
static void
evidence_moves(void)
{
    struct life life;
    memset(&life, 0, sizeof life);
    dibs__zk_life_attach(&life, AT(0), T_MS, 2000, 1);
    dibs__zk_life_sign(&life, AT(1000), AT(1010), 1);
    dibs__zk_life_detach(&life);
    dibs__zk_life_sign(&life, AT(1500), AT(1510), 1);
    CHECK_SAME(safe_ms(&life), 0);
    dibs__zk_life_attach(&life, AT(4000), T_MS, 2000, 0);
    CHECK_SAME(safe_ms(&life), 0);
    dibs__zk_life_sign(&life, AT(4100), AT(4110), 0);
    CHECK_SAME(safe_ms(&life), 0);
    dibs__zk_life_sign(&life, AT(4200), AT(4210), 1);
    CHECK_SAME(safe_ms(&life), 4000);
}

static const struct {
    const char *name;
    int needs_server;
    void (*run)(void);
} cases[] = { { "urls_refused", 0, urls_refused },
              { "nobody", 0, nobody },
              { "silence", 0, silence },
              { "one_of_many", 1, one_of_many },
              { "lengths", 1, lengths },
              { "denied", 1, denied },
              { "no_descriptors", 1, no_descriptors },
              { "no_memory", 1, no_memory },
              { "left_alone", 1, left_alone },
              { "evidence", 0, evidence },
              { "evidence_moves", 0, evidence_moves } };

int
main(int argc, char **argv)
{
    on_failure(clean_up);
    limit_time(170);
    for (size_t i = 0; i < LENGTH(cases) && argc == 2; i++) {
        if (strcmp(cases[i].name, argv[1]) != 0)
            continue;
        if (cases[i].needs_server && !zookeeper_present()) {
            puts("skipped: there is no ZooKeeper");
            return EXIT_SKIPPED;
        }
        cases[i].run();
        return 0;
    }
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
}
