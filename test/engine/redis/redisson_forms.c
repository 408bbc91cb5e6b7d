/* SPDX-License-Identifier: MIT */
/* The layout redisson, byte for byte: the forms fair, fenced and rw. */
#include "redisson_play.h"

#include <stdlib.h>

/* ---- fair ---- */

static int64_t
score_of(const char *owner)
{
    char *score = server_ask(&one, "ZSCORE", TIMEOUTS, owner);
    CHECK(score != NULL && strcmp(score, "(nil)") != 0);
    int64_t number = strtoll(score, NULL, 10);
    free(score);
    return number;
}

/* who is at that place of the queue; waits until there is somebody */
static void
await_queued(char *out, size_t size, const char *place)
{
    int64_t until = now_ms() + slowly(2000);
    for (;;) {
        char *owner = server_ask(&one, "LINDEX", QUEUE, place);
        CHECK(owner != NULL && now_ms() < until);
        (void)snprintf(out, size, "%s", owner);
        free(owner);
        if (strcmp(out, "(nil)") != 0) {
            return;
        }
        sleep_ms(5);
    }
}

static void
fair_enqueues(void)
{
    char owner[80], channel[160];
    server_start(&one, NULL);
    dibs *client = open_form("fair");
    they_take();
    server_do(&one, "RPUSH", QUEUE, THEM_TOO);
    server_do(&one, "ZADD", TIMEOUTS, "9000000000000", THEM_TOO);
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    await_queued(owner, sizeof(owner), "1");
    /* behind the last one, by the time a waiter may wait */
    CHECK_SAME(score_of(owner), 9000000300000);
    CHECK(!has_ended(op, slowly(300)));
    CHECK_SAME(server_number(&one, "LLEN", QUEUE), 2);

    /* free, but it is not our turn */
    server_do(&one, "DEL", NAME);
    (void)snprintf(channel, sizeof(channel), CHANNEL ":%s", owner);
    server_do(&one, "PUBLISH", channel, "0");
    CHECK(!has_ended(op, slowly(100)));
    server_do(&one, "LPOP", QUEUE);
    server_do(&one, "ZREM", TIMEOUTS, THEM_TOO);
    server_do(&one, "RPUSH", QUEUE, THEM);
    server_do(&one, "ZADD", TIMEOUTS, "9000000600000", THEM);
    server_do(&one, "PUBLISH", channel, "0");
    dibs_hold *hold = end_wait(op, AT_ONCE);
    /* whoever is behind comes forward by one turn */
    CHECK_SAME(score_of(THEM), 9000000300000);
    CHECK_SAME(server_number(&one, "LLEN", QUEUE), 1);
    redisContext *ear = subscribe(CHANNEL ":" THEM);
    give(hold);
    expect_message(ear, "0");
    redisFree(ear);
    dibs_close(client);
}

static void
fair_stays_out(void)
{
    server_start(&one, NULL);
    dibs *client = open_form("fair");
    server_do(&one, "RPUSH", QUEUE, THEM);
    server_do(&one, "ZADD", TIMEOUTS, "9000000000000", THEM);
    GIVES(DIBS_EBUSY, try_take(client, NAME));
    CHECK_SAME(server_number(&one, "LLEN", QUEUE), 1);
    CHECK_SAME(server_number(&one, "ZCARD", TIMEOUTS), 1);
    dibs_close(client);
}

/* the dead at the head of the queue, past their deadlines */
static void
fair_purges(void)
{
    server_start(&one, NULL);
    dibs *client = open_form("fair");
    server_do(&one, "RPUSH", QUEUE, THEM, THEM_TOO);
    server_do(&one, "ZADD", TIMEOUTS, "1000", THEM, "2000", THEM_TOO);
    give(take(client, NAME, LEASE_MS));
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

static void
fair_gives_up(void)
{
    char owner[80];
    server_start(&one, NULL);
    dibs *client = open_form("fair");
    dibs_hold *hold = NULL;
    they_take();
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    await_queued(owner, sizeof(owner), "0");
    server_do(&one, "RPUSH", QUEUE, THEM_TOO);
    server_do(&one, "ZADD", TIMEOUTS, "9000000600000", THEM_TOO);
    /* it was free when we gave up: the next one must hear of it */
    redisContext *ear = subscribe(CHANNEL ":" THEM_TOO);
    server_do(&one, "DEL", NAME);
    dibs_op_cancel(op);
    int code = dibs_op_finish(&hold, op, &oops);
    if (code == DIBS_OK) {
        give(hold); /* it was looking just then */
    } else {
        GIVES(DIBS_ECANCELED, code);
    }
    expect_message(ear, "0");
    redisFree(ear);
    CHECK_SAME(score_of(THEM_TOO), 9000000300000);
    CHECK_SAME(server_number(&one, "LLEN", QUEUE), 1);
    CHECK_SAME(server_number(&one, "ZCARD", TIMEOUTS), 1);
    dibs_close(client);
}

/* ---- fenced ---- */

static void
fenced(void)
{
    server_start(&one, NULL);
    dibs *client = open_form("fenced");
    server_do(&one, "SET", TOKEN, "41");
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    CHECK_SAME(dibs_token(hold), 42);
    dibs_report *report = NULL;
    OK(dibs_inspect(&report, client, NAME, &oops));
    CHECK_SAME(report->holders[0].token, 42);
    dibs_report_free(report);
    GIVES(DIBS_EBUSY, try_take(client, NAME));
    give(hold);
    server_do(&one, "INCR", TOKEN); /* one of theirs */
    hold = take(client, NAME, LEASE_MS);
    CHECK_SAME(dibs_token(hold), 44);
    give(hold);
    expect_answer("-1", server_ask(&one, "PTTL", TOKEN));
    dibs_close(client);
}

static void
fenced_reply_lost(void)
{
    server_start(&one, NULL);
    dibs *client = open_form("fenced");
    lose_replies(client);
    dibs_close(client);
}

/* ---- rw ---- */

static dibs_hold *
take_read(dibs *client)
{
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold = NULL;
    request.mode = DIBS_SHARED;
    OK(dibs_acquire(&hold, client, &request, &oops));
    return hold;
}

static void
check_read(char *owner, size_t size)
{
    char key[160];
    read_owner(owner, size);
    expect_answer("read", server_ask(&one, "HGET", NAME, "mode"));
    expect_answer("1", server_ask(&one, "HGET", NAME, owner));
    CHECK_SAME(server_number(&one, "HLEN", NAME), 2);
    (void)snprintf(key, sizeof(key), "{" NAME "}:%s:rwlock_timeout:1", owner);
    expect_answer("1", server_ask(&one, "GET", key));
    CHECK_WITHIN(ttl_of(key), 1, LEASE_MS);
    CHECK_WITHIN(ttl_of(NAME), 1, LEASE_MS);
    CHECK_SAME(key_count(), 2);
}

static void
read_written_down(void)
{
    char owner[80];
    server_start(&one, NULL);
    dibs *client = open_form("rw");
    redisContext *ear = subscribe(RW_CHANNEL);
    dibs_hold *hold = take_read(client);
    check_read(owner, sizeof(owner));
    sleep_ms(2 * LEASE_MS); /* it is renewed */
    check_read(owner, sizeof(owner));
    CHECK(dibs_held(hold));
    give(hold);
    expect_message(ear, "0");
    redisFree(ear);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

static void
read_leaves_others(void)
{
    server_start(&one, NULL);
    dibs *client = open_form("rw");
    server_do(&one, "HSET", NAME, "mode", "read", THEM, "2");
    server_do(&one, "SET", "{" NAME "}:" THEM ":rwlock_timeout:1", "1", "PX", "20000");
    server_do(&one, "SET", "{" NAME "}:" THEM ":rwlock_timeout:2", "1", "PX", "40000");
    server_do(&one, "PEXPIRE", NAME, "300");
    dibs_hold *hold = take_read(client);
    CHECK_WITHIN(ttl_of(NAME), 300, LEASE_MS);
    give(hold);
    /* it stays for as long as the longest read that is left */
    CHECK_WITHIN(ttl_of(NAME), 20001, 40000);
    expect_answer("2", server_ask(&one, "HGET", NAME, THEM));
    GIVES(DIBS_EBUSY, try_take(client, NAME));

    /* its reads are over, only the field is left: the last one who leaves clears up */
    hold = take_read(client);
    server_do(&one, "DEL", "{" NAME "}:" THEM ":rwlock_timeout:1",
              "{" NAME "}:" THEM ":rwlock_timeout:2");
    dibs_report *report = NULL;
    OK(dibs_inspect(&report, client, NAME, &oops));
    CHECK_SAME(report->holder_count, 1);
    CHECK_SAME(report->mode, DIBS_SHARED);
    dibs_report_free(report);
    give(hold);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

static void
write_published(void)
{
    char owner[80], field[96];
    server_start(&one, NULL);
    dibs *client = open_form("rw");
    redisContext *ear = subscribe(RW_CHANNEL);
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    read_owner(owner, sizeof(owner));
    (void)snprintf(field, sizeof(field), "%s:write", owner);
    expect_answer("write", server_ask(&one, "HGET", NAME, "mode"));
    expect_answer("1", server_ask(&one, "HGET", NAME, field));
    CHECK_SAME(server_number(&one, "HLEN", NAME), 2);
    CHECK_SAME(key_count(), 1);
    give(hold);
    expect_message(ear, "1");
    CHECK_SAME(key_count(), 0);
    redisFree(ear);
    dibs_close(client);
}

static void
downgraded(void)
{
    char before[80], after[80];
    server_start(&one, NULL);
    dibs *client = open_form("rw");
    redisContext *ear = subscribe(RW_CHANNEL);
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    read_owner(before, sizeof(before));
    OK(dibs_downgrade(hold, &oops));
    check_read(after, sizeof(after));
    CHECK(strcmp(before, after) == 0);
    expect_message(ear, "1");
    sleep_ms(2 * LEASE_MS);
    CHECK(dibs_held(hold));
    check_read(after, sizeof(after));
    give(hold);
    expect_message(ear, "0");
    redisFree(ear);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

/* a writer waits: readers of ours let it go first, and go on when it gives up */
static void
writer_first(void)
{
    dibs_request reading = try_for(NAME);
    dibs_hold *hold = NULL;
    server_start(&one, NULL);
    dibs *client = open_form("rw"), *other = open_form("rw"), *third = open_form("rw");
    reading.mode = DIBS_SHARED;
    dibs_hold *reader = take_read(client);
    OK(dibs_acquire(&hold, third, &reading, &oops));
    give(hold);
    dibs_op *op = begin_wait(other, NAME, LEASE_MS);
    for (int64_t until = now_ms() + slowly(2000); key_count() < 3;) {
        CHECK(now_ms() < until);
        sleep_ms(2);
    }
    CHECK_WITHIN(ttl_of("dibs:turn:{" NAME "}"), 1, 3000);
    GIVES(DIBS_EBUSY, dibs_acquire(&hold, third, &reading, &oops));
    dibs_op *second = NULL;
    reading.wait_ms = slowly(10000);
    OK(dibs_acquire_async(&second, third, &reading, NULL, NULL, &oops));
    CHECK(!has_ended(second, slowly(100)));
    dibs_op_cancel(op);
    GIVES(DIBS_ECANCELED, dibs_op_finish(&hold, op, &oops));
    hold = end_wait(second, AT_ONCE);
    give(hold);
    give(reader);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
    dibs_close(other);
    dibs_close(third);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "fair_enqueues", fair_enqueues },
        { "fair_stays_out", fair_stays_out },
        { "fair_purges", fair_purges },
        { "fair_gives_up", fair_gives_up },
        { "fenced", fenced },
        { "fenced_reply_lost", fenced_reply_lost },
        { "read_written_down", read_written_down },
        { "read_leaves_others", read_leaves_others },
        { "write_published", write_published },
        { "downgraded", downgraded },
        { "writer_first", writer_first },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
