/* SPDX-License-Identifier: MIT */
/* The layout plain: what it writes down, and how it lives with other programs that write
 * the same. Those are played by single commands here; test/interop has the real ones. */
#include "faults.h"

#include <stdlib.h>
#include <unistd.h>

#define NAME "job {7}"
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))
/* no look at a foreign holder is later than this */
#define LOOK_MS slowly(600)

static char *
value_of(const char *name)
{
    char *value = server_ask(&one, "GET", name);
    CHECK(value != NULL);
    return value;
}

static int
has_value(const char *name, const char *wanted)
{
    char *value = value_of(name);
    int same = strcmp(value, wanted) == 0;
    free(value);
    return same;
}

static int64_t
number_at(const char *command, const char *name)
{
    char *answer = server_ask(&one, command, name);
    CHECK(answer != NULL);
    int64_t number = strtoll(answer, NULL, 10);
    free(answer);
    return number;
}

static int64_t
key_count(void)
{
    return server_number(&one, "DBSIZE");
}

static void
written_down(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    dibs_request request = want(NAME, LEASE_MS);
    request.note = "for\tpeople";
    request.lease_ms = 30000;
    dibs_hold *hold = NULL;
    OK(dibs_acquire(&hold, client, &request, &oops));
    char *value = value_of(NAME);
    CHECK_SAME(strspn(value, "0123456789abcdef"), 32);
    CHECK(value[32] == ':' && strstr(value, "for\tpeople") != NULL);
    free(value);
    CHECK_WITHIN(number_at("PTTL", NAME), 30000 - slowly(5000), 30000);
    CHECK_SAME(key_count(), 1);
    give(hold);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

/* as redis-py has it by default: without any lease */
static void
foreign_holder(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    server_do(&one, "SET", NAME, "6a3f");
    GIVES(DIBS_EBUSY, try_take(client, NAME));
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    CHECK(!has_ended(op, 300));
    CHECK(has_value(NAME, "6a3f"));
    server_do(&one, "DEL", NAME);
    give(end_wait(op, LOOK_MS));
    dibs_close(client);
}

static void
foreign_lease(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    server_do(&one, "SET", NAME, "6a3f", "PX", "320");
    int64_t from = now_ms();
    dibs_hold *hold = end_wait(begin_wait(client, NAME, LEASE_MS), 320 + slowly(200));
    CHECK(now_ms() - from >= 300);
    give(hold);
    dibs_close(client);
}

/* somebody overwrites the key, as ShedLock does: what is not ours is not touched */
static void
stolen(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    server_do(&one, "SET", NAME, "thief");
    CHECK(is_lost(hold, LEASE_MS));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK(has_value(NAME, "thief"));
    CHECK_SAME(number_at("PTTL", NAME), -1);

    server_do(&one, "DEL", NAME);
    hold = take(client, NAME, LEASE_MS);
    server_do(&one, "DEL", NAME);
    server_do(&one, "HSET", NAME, "field", "1");
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK_SAME(number_at("HLEN", NAME), 1);
    dibs_close(client);
}

static void
woken(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_one();
    for (int i = 0; i < 5; i++) {
        dibs_hold *hold = take(client, NAME, LEASE_MS);
        dibs_op *op = begin_wait(other, NAME, LEASE_MS);
        CHECK(!has_ended(op, slowly(40)));
        give(hold);
        give(end_wait(op, slowly(60)));
    }
    dibs_close(client);
    dibs_close(other);
}

/* one that waits for one of us does not ask and ask */
static void
not_polled(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_one();
    dibs_request request = want(NAME, LEASE_MS);
    request.lease_ms = 60000;
    dibs_hold *hold = NULL;
    dibs_stats stats;
    OK(dibs_acquire(&hold, client, &request, &oops));
    dibs_op *op = begin_wait(other, NAME, LEASE_MS);
    CHECK(!has_ended(op, 800));
    give(hold);
    give(end_wait(op, slowly(60)));
    dibs_stats_read(&stats, other);
    /* asked, watched, asked; woken and asked; released; one look to spare */
    CHECK_WITHIN(stats.engine_calls, 3, 7);
    dibs_close(client);
    dibs_close(other);
}

static void
expect_mismatch(dibs *client, const char *says)
{
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold = NULL;
    dibs_report *report = NULL;
    GIVES(DIBS_EMISMATCH, try_take(client, NAME));
    CHECK_SAYS(says);
    GIVES(DIBS_EMISMATCH, dibs_acquire(&hold, client, &request, &oops));
    CHECK_SAYS(says);
    GIVES(DIBS_EMISMATCH, dibs_inspect(&report, client, NAME, &oops));
    CHECK_SAYS(says);
    GIVES(DIBS_EMISMATCH, dibs_break(NULL, client, NAME, "a test", &oops));
    CHECK_SAYS(says);
}

static void
wrong_type(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    server_do(&one, "HSET", NAME, "4f8a:1", "1");
    expect_mismatch(client, "Redisson");
    CHECK_SAME(number_at("HLEN", NAME), 1);
    server_do(&one, "DEL", NAME);
    server_do(&one, "RPUSH", NAME, "x");
    expect_mismatch(client, "is a list");
    CHECK_SAME(number_at("LLEN", NAME), 1);
    dibs_close(client);
}

/* what docs/engines/redis.md says a token is */
static void
token_is_time(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    char *answer = server_ask(&one, "TIME");
    CHECK(answer != NULL);
    uint64_t before = strtoull(answer, NULL, 10) * 1000000 * 64;
    free(answer);
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    CHECK(dibs_token(hold) > before);
    CHECK(dibs_token(hold) < before + (uint64_t)slowly(10) * 1000000 * 64);
    give(hold);
    dibs_close(client);
}

/* the server has done what it was asked for, but its answer came too late: the next
 * attempt recognises it */
static void
reply_lost(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    give(take(client, NAME, LEASE_MS)); /* it is connected now */
    server_pause(&one);
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    sleep_ms(LEASE_MS); /* several attempts */
    server_resume(&one);
    dibs_hold *hold = end_wait(op, slowly(2000));
    CHECK(dibs_held(hold));
    sleep_ms(2 * LEASE_MS);
    CHECK(dibs_held(hold));
    CHECK_SAME(key_count(), 1);
    give(hold);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

/* one who gives up while the outcome is unknown leaves nothing, long before its lease */
static void
given_up(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold = NULL;
    give(take(client, NAME, LEASE_MS));
    server_pause(&one);
    request.lease_ms = 60000;
    request.wait_ms = 100;
    int code = dibs_acquire(&hold, client, &request, &oops);
    CHECK(code == DIBS_ETIMEDOUT || code == DIBS_EUNAVAIL);
    server_resume(&one);
    /* the reaper may have to come a second time */
    for (int64_t until = now_ms() + slowly(5000); key_count() > 0;) {
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
    give(take(client, NAME, LEASE_MS));
    dibs_close(client);
}

/* ---- looking ---- */

static int
note_name(const dibs_report *report, void *arg)
{
    char *seen = arg;
    CHECK_SAME(report->holder_count, 1);
    (void)strncat(seen, report->name, 63);
    (void)strncat(seen, ";", 2);
    return 0;
}

static void
listed(void)
{
    char seen[256] = "", key[32];
    server_start(&one, NULL);
    dibs *client = open_one();
    for (int i = 0; i < 1500; i++) {
        (void)snprintf(key, sizeof(key), "foreign %d", i);
        server_do(&one, "SET", key, i % 2 ? "data" : "9a\t1\thost\tapp\tnote");
    }
    server_do(&one, "HSET", "hash", "field", "1");
    dibs_request request = want(NAME, LEASE_MS);
    request.note = "a note";
    dibs_hold *hold = NULL;
    OK(dibs_acquire(&hold, client, &request, &oops));
    OK(dibs_list(client, NULL, note_name, seen, &oops));
    CHECK(strcmp(seen, NAME ";") == 0);

    dibs_report *report = NULL;
    OK(dibs_inspect(&report, client, NAME, &oops));
    CHECK_SAME(report->holder_count, 1);
    CHECK_SAME(report->holders[0].pid, getpid());
    CHECK(strcmp(report->holders[0].note, "a note") == 0);
    CHECK(report->holders[0].host[0] != '\0' && report->holders[0].app[0] != '\0');
    dibs_report_free(report);

    OK(dibs_inspect(&report, client, "foreign 1", &oops));
    CHECK_SAME(report->holder_count, 1);
    CHECK_SAME(report->holders[0].pid, 0);
    CHECK_SAME(report->holders[0].lease_left_ms, -1);
    CHECK(strcmp(report->holders[0].note, "data") == 0);
    dibs_report_free(report);
    give(hold);
    dibs_close(client);
}

static int
count_locks(const dibs_report *report, void *arg)
{
    (void)report;
    ++*(int *)arg;
    return 0;
}

/* a release is published only if somebody waits; who does says so in the holder's value,
 * which the holder still knows as its own */
static void
told_if_wanted(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_one();
    for (int i = 0; i < 10; i++) {
        give(take(client, NAME, LEASE_MS));
    }
    CHECK(!server_answers(&one, "cmdstat_publish", "INFO", "commandstats"));
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    CHECK(server_answers(&one, ":", "GETRANGE", NAME, "32", "32"));
    dibs_op *op = begin_wait(other, NAME, LEASE_MS);
    for (int i = 0; !server_answers(&one, ";", "GETRANGE", NAME, "32", "32"); i++) {
        CHECK(i < 500);
        CHECK(!has_ended(op, 10));
    }
    int locks = 0;
    OK(dibs_renew(hold, 0, &oops));
    OK(dibs_list(other, NULL, count_locks, &locks, &oops));
    CHECK_SAME(locks, 1);
    give(hold);
    give(end_wait(op, slowly(90)));
    CHECK(server_answers(&one, "cmdstat_publish:calls=1,", "INFO", "commandstats"));
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
    dibs_close(other);
}

/* a user of the server who may neither publish nor subscribe can lock all the same */
static void
without_channels(void)
{
    static const char acl[] = "user default on nopass ~* &* +@all\n"
                              "user mute on >secret ~* resetchannels +@all\n";
    const server_options options = { .acl = acl };
    char url[128];
    server_start(&one, &options);
    (void)snprintf(url, sizeof(url), "redis://mute:secret@127.0.0.1:%d?layout=plain",
                   one.port);
    dibs *client = open_url("%s", url), *other = open_url("%s", url);
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    dibs_op *op = begin_wait(other, NAME, LEASE_MS);
    CHECK(!has_ended(op, 150));
    give(hold);
    give(end_wait(op, LOOK_MS));
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
    dibs_close(other);
}

/* with an amnesia guard nothing is granted at first: the server may have forgotten */
static void
guarded(void)
{
    char url[256];
    server_start(&one, NULL);
    url_of(url, sizeof(url), "guard=2s");
    dibs *client = open_url("%s", url);
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold = NULL;
    request.lease_ms = 1500;
    int64_t from = now_ms();
    OK(dibs_acquire(&hold, client, &request, &oops));
    CHECK_WITHIN(now_ms() - from, 1800, 2000 + slowly(700));
    give(hold);
    from = now_ms();
    OK(dibs_acquire(&hold, client, &request, &oops));
    CHECK_WITHIN(now_ms() - from, 0, slowly(300));
    give(hold);
    dibs_close(client);
}

/* ---- in a cluster ---- */

/* names of all slots, whatever is in them; a waiter hears of a release on any server */
static void
clustered(void)
{
    static const char *const names[] = {
        "a", "b", "c", "{a}", "a}b", "{}x", "x{y}z", "d"
    };
    char hosts[256], url[320];
    dibs_hold *holds[LENGTH(names)];
    int listed_count = 0;
    set_start_cluster(&set, NULL);
    set_hosts(hosts, sizeof(hosts), &set);
    (void)snprintf(url, sizeof(url), "redis+cluster://%s?layout=plain", hosts);
    dibs *client = open_url("%s", url), *other = open_url("%s", url);
    for (size_t i = 0; i < LENGTH(names); i++) {
        holds[i] = take(client, names[i], LEASE_MS);
    }
    OK(dibs_list(other, NULL, count_locks, &listed_count, &oops));
    CHECK_SAME(listed_count, LENGTH(names));
    for (size_t i = 0; i < LENGTH(names); i++) {
        GIVES(DIBS_EBUSY, try_take(other, names[i]));
        dibs_op *op = begin_wait(other, names[i], LEASE_MS);
        CHECK(!has_ended(op, slowly(30)));
        give(holds[i]);
        give(end_wait(op, slowly(90)));
    }
    CHECK_SAME(set_count_keys(&set), 0);
    dibs_close(client);
    dibs_close(other);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "written_down", written_down },
        { "foreign_holder", foreign_holder },
        { "foreign_lease", foreign_lease },
        { "stolen", stolen },
        { "woken", woken },
        { "not_polled", not_polled },
        { "wrong_type", wrong_type },
        { "token_is_time", token_is_time },
        { "reply_lost", reply_lost },
        { "given_up", given_up },
        { "listed", listed },
        { "told_if_wanted", told_if_wanted },
        { "without_channels", without_channels },
        { "guarded", guarded },
        { "clustered", clustered },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
