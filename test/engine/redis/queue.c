/* SPDX-License-Identifier: MIT */
/* The layout queue, as its users see it: what it writes down, how few commands it takes to
 * wait, and that nobody is told what is not so. */
#include "faults.h"

#include <stdlib.h>

#define NAME "queue"
#define LOCK "dibs:{queue}"

static int64_t
calls_of(const char *command)
{
    char part[64], *stats = server_ask(&one, "INFO", "commandstats");
    (void)snprintf(part, sizeof(part), "cmdstat_%s:calls=", command);
    const char *at = stats != NULL ? strstr(stats, part) : NULL;
    int64_t calls = at != NULL ? strtoll(at + strlen(part), NULL, 10) : 0;
    free(stats);
    return calls;
}

/* what clients sent: scripts, and what has to do with channels */
static int64_t
client_commands(void)
{
    return calls_of("evalsha") + calls_of("eval") + calls_of("subscribe") +
           calls_of("unsubscribe");
}

static void
written_down(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    dibs_request request = want(NAME, LEASE_MS);
    request.note = "for\tpeople";
    dibs_hold *hold = NULL;
    OK(dibs_acquire(&hold, client, &request, &oops));
    CHECK_SAME(server_count_keys(&one), 1);
    CHECK(server_answers(&one, "for\tpeople", "GET", LOCK));
    CHECK_WITHIN(server_number(&one, "PTTL", LOCK), LEASE_MS, 2 * LEASE_MS);
    give(hold);
    CHECK_SAME(server_count_keys(&one), 0);
    /* one command each, when the scripts are known */
    int64_t before = client_commands();
    for (int i = 0; i < 10; i++) {
        give(take(client, NAME, LEASE_MS));
    }
    CHECK_SAME(client_commands() - before, 20);
    dibs_close(client);
}

/* ---- hand-overs ---- */

#define CLIENTS 16
#define EACH 50

static _Atomic int inside, passed;

static void
pass_through(void *arg, int index)
{
    dibs *const *clients = arg;
    for (int i = 0; i < EACH; i++) {
        dibs_hold *hold = take(clients[index], NAME, LEASE_MS);
        CHECK_SAME(atomic_fetch_add(&inside, 1), 0);
        atomic_fetch_add(&passed, 1);
        atomic_fetch_sub(&inside, 1);
        give(hold);
    }
}

/* each client is another process as far as the server can tell */
static void
few_commands(void)
{
    dibs *clients[CLIENTS];
    server_start(&one, NULL);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_one();
    }
    gang_join(gang_start(CLIENTS, pass_through, clients)); /* now they listen */
    int64_t before = client_commands();
    gang_join(gang_start(CLIENTS, pass_through, clients));
    int64_t sent = client_commands() - before;
    CHECK_SAME(atomic_load(&passed), 2 * CLIENTS * EACH);
    printf("%lld commands for %d hand-overs\n", (long long)sent, CLIENTS * EACH);
    CHECK_WITHIN(sent, 2 * CLIENTS * EACH, 5 * CLIENTS * EACH / 2);
    for (int i = 0; i < CLIENTS; i++) {
        dibs_close(clients[i]);
    }
    CHECK_SAME(server_count_keys(&one), 0);
}

/* who waits sends a word now and then, to stay in line, and no more than that */
static void
not_polled(void)
{
    char url[256];
    server_start(&one, NULL);
    url_of(url, sizeof(url), "waiter=3s");
    dibs *holder = open_one(), *client = open_url("%s", url);
    dibs_request request = want(NAME, LEASE_MS);
    request.lease_ms = 30000;
    dibs_hold *hold = NULL;
    OK(dibs_acquire(&hold, holder, &request, &oops));
    dibs_op *op = NULL;
    OK(dibs_acquire_async(&op, client, &request, NULL, NULL, &oops));
    CHECK(!has_ended(op, 300));
    int64_t before = client_commands();
    CHECK(!has_ended(op, 2500));
    CHECK_WITHIN(client_commands() - before, 1, 4);
    int64_t from = now_ms();
    give(hold);
    give(end_wait(op, slowly(200)));
    CHECK_WITHIN(now_ms() - from, 0, slowly(200));
    dibs_close(client);
    dibs_close(holder);
}

/* the listening connection is cut: nobody misses its turn by that */
static void
cut_off(void)
{
    server_start(&one, NULL);
    dibs *holder = open_one(), *client = open_one();
    for (int i = 0; i < 3; i++) {
        dibs_hold *hold = take(holder, NAME, LEASE_MS);
        dibs_op *op = begin_wait(client, NAME, LEASE_MS);
        CHECK(!has_ended(op, 50));
        server_cut(&one);
        (void)dibs_unlock(hold, &oops); /* what is unknown is tried again behind us */
        give(end_wait(op, slowly(1500)));
    }
    CHECK_SAME(server_count_keys(&one), 0);
    dibs_close(client);
    dibs_close(holder);
}

/* ---- messages ---- */

/* waits until a client listens, which it does from its first wait on */
static void
await_listener(void)
{
    int64_t until = now_ms() + slowly(2000);
    while (!server_answers(&one, "dibs:c:", "PUBSUB", "CHANNELS", "dibs:c:*")) {
        CHECK(now_ms() < until);
        sleep_ms(2);
    }
}

static void
forge(const char *id, const char *format, const char *ticket)
{
    char channel[64], message[128];
    (void)snprintf(channel, sizeof(channel), "dibs:c:%.32s", id);
    (void)snprintf(message, sizeof(message), format, id + 33, ticket);
    CHECK_SAME(server_number(&one, "PUBLISH", channel, message), 1);
}

/* a message about an older place in line, or nonsense, is no grant */
static void
stale_message(void)
{
    server_start(&one, NULL);
    dibs *holder = open_one(), *client = open_one();
    dibs_hold *hold = take(holder, NAME, LEASE_MS);
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    await_listener();
    CHECK(!has_ended(op, 100));
    char *id = server_ask(&one, "ZRANGE", LOCK ":q", "-1", "-1");
    CHECK(id != NULL && strlen(id) > 33);
    forge(id, "g %s %s 9000000000000000 0", "1700000000000000");
    CHECK(!has_ended(op, 100));
    forge(id, "g %s%s", "");
    forge(id, "o %s%s", "");
    forge(id, "x%.0s%s", "");
    CHECK(!has_ended(op, 100));
    CHECK(dibs_held(hold));
    give(hold);
    give(end_wait(op, slowly(300)));
    free(id);
    dibs_close(client);
    dibs_close(holder);
}

/* a client that listens is told at once that its lock was broken */
static void
broken_is_told(void)
{
    server_start(&one, NULL);
    dibs *holder = open_one(), *client = open_one();
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    dibs_op *op = begin_wait(holder, NAME, LEASE_MS);
    await_listener();
    give(hold);
    dibs_request request = want(NAME " 2", LEASE_MS);
    request.lease_ms = 60000; /* its next renewal is far away */
    give(end_wait(op, slowly(300)));
    OK(dibs_acquire(&hold, holder, &request, &oops));
    OK(dibs_break(NULL, client, NAME " 2", NULL, &oops));
    CHECK(is_lost(hold, slowly(500)));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    dibs_close(client);
    dibs_close(holder);
}

static void
await_one_waiter(dibs *client)
{
    int64_t until = now_ms() + slowly(2000);
    size_t count = 0;
    while (count == 0) {
        dibs_report *report = NULL;
        CHECK(now_ms() < until);
        OK(dibs_inspect(&report, client, NAME, &oops));
        count = report->waiter_count;
        dibs_report_free(report);
    }
}

/* the amnesia guard keeps everybody waiting at first, in line, and then lets them go on */
static void
guarded(void)
{
    char url[256];
    server_start(&one, NULL);
    url_of(url, sizeof(url), "guard=2s");
    dibs *client = open_url("%s", url), *other = open_url("%s", url);
    int64_t from = now_ms();
    GIVES(DIBS_EBUSY, try_take(client, NAME));
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    await_one_waiter(client);
    dibs_op *second = begin_wait(other, NAME, LEASE_MS);
    dibs_hold *hold = end_wait(op, 2000 + slowly(700));
    CHECK_WITHIN(now_ms() - from, 1800, 2000 + slowly(700));
    CHECK(!has_ended(second, 100));
    give(hold);
    give(end_wait(second, slowly(300)));
    give(take(client, NAME, LEASE_MS));
    CHECK_SAME(server_count_keys(&one), 0);
    dibs_close(client);
    dibs_close(other);
}

/* ---- others under the key ---- */

static void
mismatch(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_one();
    dibs_request semaphore = try_for(NAME);
    dibs_hold *hold = take(client, NAME, LEASE_MS), *none = NULL;
    semaphore.mode = DIBS_PERMITS;
    semaphore.limit = 3;
    GIVES(DIBS_EMISMATCH, dibs_acquire(&none, other, &semaphore, &oops));
    CHECK_SAYS("as a lock");
    give(hold);
    OK(dibs_acquire(&hold, client, &semaphore, &oops));
    GIVES(DIBS_EMISMATCH, try_take(other, NAME));
    CHECK_SAYS("semaphore of 3");
    semaphore.limit = 4;
    GIVES(DIBS_EMISMATCH, dibs_acquire(&none, other, &semaphore, &oops));
    CHECK_SAYS("3 permits");
    give(hold);
    server_do(&one, "SET", LOCK, "6a3f");
    GIVES(DIBS_EMISMATCH, try_take(client, NAME));
    CHECK_SAYS("plain");
    server_do(&one, "DEL", LOCK);
    server_do(&one, "HSET", LOCK, "8743c9c0-0795-4907-87fd-6c719a6b4586:1", "1");
    GIVES(DIBS_EMISMATCH, try_take(client, NAME));
    CHECK_SAYS("Redisson");
    CHECK_SAME(server_number(&one, "HLEN", LOCK), 1);
    dibs_close(client);
    dibs_close(other);
}

/* ---- many locks ---- */

static int
count_lock(const dibs_report *report, void *arg)
{
    CHECK_SAME(report->holder_count, 1);
    ++*(int *)arg;
    return 0;
}

/* more than one SCAN and one batch; and renewals keep all of them */
static void
many_locks(void)
{
    enum { LOCKS = 1500 };
    static dibs_hold *holds[LOCKS];
    int count = 0;
    char name[32];
    server_start(&one, NULL);
    dibs *client = open_one();
    dibs_request request = want(name, LEASE_MS);
    request.lease_ms = (uint32_t)slowly(1500);
    for (int i = 0; i < LOCKS; i++) {
        (void)snprintf(name, sizeof(name), "many {%d}%%", i);
        OK(dibs_acquire(&holds[i], client, &request, &oops));
    }
    OK(dibs_list(client, NULL, count_lock, &count, &oops));
    CHECK_SAME(count, LOCKS);
    sleep_ms(2 * request.lease_ms);
    for (int i = 0; i < LOCKS; i++) {
        CHECK(dibs_held(holds[i]));
        give(holds[i]);
    }
    CHECK_SAME(server_count_keys(&one), 0);
    dibs_close(client);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "written_down", written_down },
        { "few_commands", few_commands },
        { "not_polled", not_polled },
        { "cut_off", cut_off },
        { "stale_message", stale_message },
        { "broken_is_told", broken_is_told },
        { "guarded", guarded },
        { "mismatch", mismatch },
        { "many_locks", many_locks },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
