/* SPDX-License-Identifier: MIT */
/* The layout redisson, byte for byte: the form lock, and what all forms have in common. */
#include "redisson_play.h"

static void
written_down(void)
{
    char owner[80];
    server_start(&one, NULL);
    dibs *client = open_one();
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold = NULL;
    request.lease_ms = 30000;
    OK(dibs_acquire(&hold, client, &request, &oops));
    read_owner(owner, sizeof(owner));
    expect_answer("1", server_ask(&one, "HGET", NAME, owner));
    CHECK_SAME(server_number(&one, "HLEN", NAME), 1);
    CHECK_WITHIN(ttl_of(NAME), 30000 - slowly(5000), 30000);
    CHECK_SAME(key_count(), 1);
    give(hold);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

static void
foreign_holder(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    they_take();
    GIVES(DIBS_EBUSY, try_take(client, NAME));
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    CHECK(!has_ended(op, slowly(100)));
    server_do(&one, "DEL", NAME);
    server_do(&one, "PUBLISH", CHANNEL, "0");
    give(end_wait(op, AT_ONCE));

    /* a holder that dies: nobody tells, so the end of its lease has to do */
    server_do(&one, "HSET", NAME, THEM, "2");
    server_do(&one, "PEXPIRE", NAME, "300");
    give(end_wait(begin_wait(client, NAME, LEASE_MS), 300 + slowly(200)));

    /* one without a lease: only a message helps, or a look now and then */
    server_do(&one, "HSET", NAME, THEM, "1");
    op = begin_wait(client, NAME, LEASE_MS);
    CHECK(!has_ended(op, slowly(100)));
    expect_answer("1", server_ask(&one, "HGET", NAME, THEM));
    server_do(&one, "DEL", NAME);
    give(end_wait(op, 1200 + slowly(200)));
    dibs_close(client);
}

static void
published(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    redisContext *ear = subscribe(CHANNEL);
    give(take(client, NAME, LEASE_MS));
    expect_message(ear, "0");
    redisFree(ear);
    dibs_close(client);
}

/* one of them waits for a fair lock of the same name: it is told as well */
static void
foreign_fair_head(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    redisContext *ear = subscribe(CHANNEL ":" THEM);
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    server_do(&one, "RPUSH", QUEUE, THEM);
    server_do(&one, "ZADD", TIMEOUTS, "9999999999999", THEM);
    give(hold);
    expect_message(ear, "0");
    CHECK_SAME(server_number(&one, "LLEN", QUEUE), 1);
    redisFree(ear);
    dibs_close(client);
}

static void
stolen(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    server_do(&one, "DEL", NAME);
    they_take();
    CHECK(is_lost(hold, LEASE_MS));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    expect_answer("1", server_ask(&one, "HGET", NAME, THEM));
    CHECK(ttl_of(NAME) > 30000);

    server_do(&one, "DEL", NAME);
    hold = take(client, NAME, LEASE_MS);
    server_do(&one, "SET", NAME, "thief");
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    expect_answer("thief", server_ask(&one, "GET", NAME));
    dibs_close(client);
}

static void
reply_lost(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    lose_replies(client);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

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
    for (int64_t until = now_ms() + slowly(5000); key_count() > 0;) {
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
    dibs_close(client);
}

static void
expect_mismatch(dibs *client, int mode, const char *says)
{
    dibs_request request = try_for(NAME);
    dibs_hold *hold = NULL;
    request.mode = mode;
    GIVES(DIBS_EMISMATCH, dibs_acquire(&hold, client, &request, &oops));
    CHECK_SAYS(says);
    request.wait_ms = slowly(5000);
    GIVES(DIBS_EMISMATCH, dibs_acquire(&hold, client, &request, &oops));
    CHECK_SAYS(says);
}

static void
wrong_type(void)
{
    dibs_report *report = NULL;
    server_start(&one, NULL);
    dibs *client = open_one();
    server_do(&one, "SET", NAME, "4fa1");
    expect_mismatch(client, DIBS_EXCLUSIVE, "SET NX");
    GIVES(DIBS_EMISMATCH, dibs_inspect(&report, client, NAME, &oops));
    GIVES(DIBS_EMISMATCH, dibs_break(NULL, client, NAME, "a test", &oops));
    expect_answer("4fa1", server_ask(&one, "GET", NAME));
    server_do(&one, "DEL", NAME);
    server_do(&one, "RPUSH", NAME, "x");
    expect_mismatch(client, DIBS_EXCLUSIVE, "is a list");
    dibs_close(client);
}

/* Redisson's own readers would walk into an RLock */
static void
wrong_form(void)
{
    server_start(&one, NULL);
    dibs *lock = open_one(), *fair = open_form("fair"), *rw = open_form("rw");
    they_take();
    expect_mismatch(rw, DIBS_EXCLUSIVE, "form=lock");
    expect_mismatch(rw, DIBS_SHARED, "form=lock");
    CHECK_SAME(server_number(&one, "HLEN", NAME), 1);
    server_do(&one, "DEL", NAME);
    server_do(&one, "HSET", NAME, "mode", "read", THEM, "1");
    expect_mismatch(lock, DIBS_EXCLUSIVE, "form=rw");
    expect_mismatch(fair, DIBS_EXCLUSIVE, "form=rw");
    CHECK_SAME(server_number(&one, "HLEN", NAME), 2);
    CHECK_SAME(server_number(&one, "EXISTS", QUEUE, TIMEOUTS), 0);
    dibs_close(lock);
    dibs_close(fair);
    dibs_close(rw);
    dibs *none = NULL;
    char url[256];
    url_of(url, sizeof(url), "form=sideways");
    GIVES(DIBS_ECONFIG, try_open(&none, url, 1000));
    CHECK_SAYS("fenced");
}

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
    for (int i = 0; i < 1200; i++) {
        (void)snprintf(key, sizeof(key), "data %d", i);
        server_do(&one, i % 2 ? "HSET" : "SADD", key, THEM, i % 2 ? "data" : "x");
    }
    they_take();
    dibs_hold *hold = take(client, "ours", LEASE_MS);
    OK(dibs_list(client, NULL, note_name, seen, &oops));
    CHECK(strcmp(seen, NAME ";ours;") == 0);

    dibs_report *report = NULL;
    OK(dibs_inspect(&report, client, NAME, &oops));
    CHECK_SAME(report->holder_count, 1);
    CHECK_SAME(report->holders[0].mode, DIBS_EXCLUSIVE);
    CHECK_WITHIN(report->holders[0].lease_left_ms, 60000 - slowly(5000), 60000);
    CHECK(strcmp(report->holders[0].note, THEM) == 0);
    dibs_report_free(report);

    server_do(&one, "RPUSH", QUEUE, THEM_TOO);
    OK(dibs_inspect(&report, client, NAME, &oops));
    CHECK_SAME(report->waiter_count, 1);
    CHECK(strcmp(report->waiters[0].note, THEM_TOO) == 0);
    dibs_report_free(report);
    give(hold);
    dibs_close(client);
}

static void
broken(void)
{
    size_t count = 0;
    server_start(&one, NULL);
    dibs *client = open_one();
    they_take();
    redisContext *ear = subscribe(CHANNEL);
    OK(dibs_break(&count, client, NAME, "a test", &oops));
    CHECK_SAME(count, 1);
    expect_message(ear, "0");
    redisFree(ear);
    server_do(&one, "HSET", NAME, "mode", "read", THEM, "2", THEM_TOO, "1");
    server_do(&one, "SET", "{" NAME "}:" THEM ":rwlock_timeout:2", "1");
    ear = subscribe(RW_CHANNEL);
    OK(dibs_break(&count, client, NAME, "a test", &oops));
    CHECK_SAME(count, 2);
    expect_message(ear, "1");
    redisFree(ear);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

/* what lingers is nobody's: a second release does not end it */
static void
lingers(void)
{
    static const char *const forms[] = { "lock", "fair", "rw" };
    server_start(&one, NULL);
    for (int i = 0; i < 3; i++) {
        char before[80], after[80];
        dibs *client = open_form(forms[i]);
        dibs_hold *hold = take(client, NAME, LEASE_MS);
        read_owner(before, sizeof(before));
        OK(dibs_release_after(hold, 5000, &oops));
        dibs_hold_free(hold);
        read_owner(after, sizeof(after));
        CHECK(strcmp(before, after) != 0);
        CHECK_WITHIN(ttl_of(NAME), 5000 - slowly(1000), 5000);
        GIVES(DIBS_EBUSY, try_take(client, NAME));
        dibs_close(client);
        CHECK_SAME(server_number(&one, "EXISTS", NAME), 1);
        server_do(&one, "DEL", NAME);
        CHECK_SAME(key_count(), 0);
    }
}

static void
without_channels(void)
{
    static const char acl[] = "user default on nopass ~* &* +@all\n"
                              "user mute on >secret ~* resetchannels +@all\n";
    const server_options options = { .acl = acl };
    char url[128];
    server_start(&one, &options);
    (void)snprintf(url, sizeof(url), "redis://mute:secret@127.0.0.1:%d?layout=redisson",
                   one.port);
    dibs *client = open_url("%s", url), *other = open_url("%s", url);
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    dibs_op *op = begin_wait(other, NAME, LEASE_MS);
    CHECK(!has_ended(op, slowly(100)));
    give(hold);
    give(end_wait(op, 1200 + slowly(200)));
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
    dibs_close(other);
}

static void
guarded(void)
{
    static const char *const forms[] = { "lock", "fair", "fenced", "rw" };
    for (int i = 0; i < 4; i++) {
        char url[256], more[64];
        server_start(&one, NULL);
        (void)snprintf(more, sizeof(more), "guard=1s&form=%s", forms[i]);
        url_of(url, sizeof(url), more);
        dibs *client = open_url("%s", url);
        dibs_request request = want(NAME, LEASE_MS);
        dibs_hold *hold = NULL;
        request.lease_ms = 900;
        int64_t from = now_ms();
        OK(dibs_acquire(&hold, client, &request, &oops));
        CHECK_WITHIN(now_ms() - from, 800, 1000 + slowly(700));
        give(hold);
        request.wait_ms = DIBS_WAIT_NONE;
        OK(dibs_acquire(&hold, client, &request, &oops));
        give(hold);
        dibs_close(client);
        server_stop(&one);
    }
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "written_down", written_down },
        { "foreign_holder", foreign_holder },
        { "published", published },
        { "foreign_fair_head", foreign_fair_head },
        { "stolen", stolen },
        { "reply_lost", reply_lost },
        { "given_up", given_up },
        { "wrong_type", wrong_type },
        { "wrong_form", wrong_form },
        { "listed", listed },
        { "broken", broken },
        { "lingers", lingers },
        { "without_channels", without_channels },
        { "guarded", guarded },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
