/* SPDX-License-Identifier: MIT */
/* The layout getset: what it writes down, and how it lives with those who run the old
 * recipe of SETNX, GET and GETSET. They are played by single commands here. */
#include "faults.h"

#include <stdlib.h>
#include <time.h>

#define NAME "job"
#define LOOK_MS slowly(600)

static int64_t
wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* a time as the others would write it, that far from now */
static const char *
stamp(char out[24], int64_t from_now_ms)
{
    (void)snprintf(out, 24, "%lld", (long long)(wall_ms() + from_now_ms));
    return out;
}

static int
has_value(const char *wanted)
{
    char *value = server_ask(&one, "GET", NAME);
    CHECK(value != NULL);
    int same = strcmp(value, wanted) == 0;
    free(value);
    return same;
}

static int64_t
number_at(const char *command)
{
    char *answer = server_ask(&one, command, NAME);
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

static dibs *
open_in_seconds(void)
{
    char url[256];
    url_of(url, sizeof(url), "unit=s");
    return open_url("%s", url);
}

static dibs_hold *
take_for(dibs *client, uint32_t lease_ms)
{
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold = NULL;
    request.lease_ms = lease_ms;
    OK(dibs_acquire(&hold, client, &request, &oops));
    return hold;
}

static void
written_down(void)
{
    server_start(&one, NULL);
    dibs *client = open_one();
    int64_t from = wall_ms();
    dibs_hold *hold = take_for(client, 30000);
    CHECK_WITHIN(number_at("GET"), from + 30000, wall_ms() + 30001);
    CHECK_WITHIN(number_at("PTTL"), 30000 - slowly(5000), 30001);
    give(hold);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

static void
seconds(void)
{
    server_start(&one, NULL);
    dibs *client = open_in_seconds();
    int64_t from = wall_ms();
    dibs_hold *hold = take_for(client, 30000);
    char *value = server_ask(&one, "GET", NAME);
    CHECK(value != NULL);
    CHECK_WITHIN((int64_t)(strtod(value, NULL) * 1000), from + 29999, wall_ms() + 30002);
    free(value);
    OK(dibs_renew(hold, 60000, &oops));
    value = server_ask(&one, "GET", NAME);
    CHECK(value != NULL);
    CHECK_WITHIN((int64_t)(strtod(value, NULL) * 1000), from + 59999, wall_ms() + 60002);
    free(value);
    give(hold);
    CHECK_SAME(key_count(), 0);

    /* what old redis-py writes for "no time-out" */
    server_do(&one, "SET", NAME, "2147483649.0");
    GIVES(DIBS_EBUSY, try_take(client, NAME));
    dibs_close(client);
}

/* a lock of somebody who will not come back is free when its time is over, not before */
static void
foreign_holder(void)
{
    char text[24];
    server_start(&one, NULL);
    dibs *client = open_one();
    server_do(&one, "SET", NAME, stamp(text, 350));
    int64_t from = now_ms();
    GIVES(DIBS_EBUSY, try_take(client, NAME));
    dibs_hold *hold = end_wait(begin_wait(client, NAME, LEASE_MS), 350 + slowly(300));
    CHECK(now_ms() - from >= 300);
    give(hold);
    CHECK_SAME(key_count(), 0);

    /* and one who deletes it is noticed by looking */
    server_do(&one, "SET", NAME, stamp(text, 60000));
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    CHECK(!has_ended(op, 200));
    CHECK(has_value(text));
    server_do(&one, "DEL", NAME);
    give(end_wait(op, LOOK_MS));
    dibs_close(client);
}

static void
dead_lock(void)
{
    char text[24];
    server_start(&one, NULL);
    dibs *client = open_one();
    server_do(&one, "SET", NAME, stamp(text, -5000));
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    CHECK(!has_value(text) && dibs_held(hold));
    give(hold);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
}

/* One who loses a race overwrites our time with its own. Whether that is earlier or later,
 * the lock is ours, and stays so for as long as we like. */
static void
overwritten_by(dibs *client, dibs *rival, int64_t theirs_ms)
{
    char theirs[24];
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    server_do(&one, "GETSET", NAME, stamp(theirs, theirs_ms));
    GIVES(DIBS_EBUSY, try_take(rival, NAME));
    sleep_ms(2 * LEASE_MS);
    CHECK(dibs_held(hold) && !has_value(theirs));
    give(hold);
    CHECK_SAME(key_count(), 0);

    /* also if there was no time to put it right */
    hold = take(client, NAME, LEASE_MS);
    server_do(&one, "GETSET", NAME, stamp(theirs, theirs_ms));
    give(hold);
    CHECK_SAME(key_count(), 0);
}

static void
loser(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *rival = open_one();
    overwritten_by(client, rival, 60000);
    overwritten_by(client, rival, LEASE_MS / 2);
    dibs_close(client);
    dibs_close(rival);
}

/* so long after we last looked, another time may mean a new holder: we never claim it, nor
 * delete it */
static void
stranger(void)
{
    char theirs[24];
    server_start(&one, NULL);
    dibs *client = open_one();
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold = NULL;
    request.flags = DIBS_NO_RENEW;
    OK(dibs_acquire(&hold, client, &request, &oops));
    sleep_ms(LEASE_MS * 6 / 10);
    server_do(&one, "GETSET", NAME, stamp(theirs, 60000));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK(has_value(theirs));
    CHECK_SAME(key_count(), 1);
    dibs_close(client);
}

/* some delete what is not theirs: our owner is told, and the rest of us keep away till then */
static void
deleted(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *rival = open_one();
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    server_do(&one, "DEL", NAME);
    if (dibs_held(hold)) {
        GIVES(DIBS_EBUSY, try_take(rival, NAME));
    }
    CHECK(is_lost(hold, LEASE_MS));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    give(end_wait(begin_wait(rival, NAME, LEASE_MS), LEASE_MS + slowly(200)));
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
    dibs_close(rival);
}

/* ---- the old recipe ---- */

static _Atomic int inside;
static int visits; /* plain on purpose: it comes out right only if the lock excludes */

static void
visit(void)
{
    CHECK(atomic_exchange(&inside, 1) == 0);
    int count = visits;
    sleep_ms(1);
    visits = count + 1;
    CHECK(atomic_exchange(&inside, 0) == 1);
}

#define ROUNDS 25

static int
old_take(char mine[24])
{
    if (server_number(&one, "SETNX", NAME, stamp(mine, 20000)) == 1) {
        return 1;
    }
    char *held = server_ask(&one, "GET", NAME);
    CHECK(held != NULL);
    /* nobody dies here, so nobody's time is ever over */
    CHECK(strcmp(held, "(nil)") == 0 || strtoll(held, NULL, 10) > wall_ms());
    free(held);
    return 0;
}

static void
old_program(void *arg, int index)
{
    char mine[24];
    (void)arg, (void)index;
    for (int i = 0; i < ROUNDS; i++) {
        for (int64_t until = now_ms() + slowly(20000); !old_take(mine); sleep_ms(1)) {
            CHECK(now_ms() < until);
        }
        visit();
        CHECK(has_value(mine));
        server_do(&one, "DEL", NAME);
    }
}

static void
our_program(void *client, int index)
{
    (void)index;
    for (int i = 0; i < ROUNDS; i++) {
        dibs_hold *hold = take_for(client, 20000);
        visit();
        give(hold);
        sleep_ms(3); /* so that those who only poll get their turn */
    }
}

static void
old_recipe(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_one();
    gang *old = gang_start(2, old_program, NULL);
    gang *ours = gang_start(2, our_program, client);
    our_program(other, 0);
    gang_join(ours);
    gang_join(old);
    CHECK_SAME(visits, 5 * ROUNDS);
    CHECK_SAME(key_count(), 0);
    dibs_close(client);
    dibs_close(other);
}

/* ---- what it refuses ---- */

static void
wrong_value(void)
{
    server_start(&one, NULL);
    dibs *client = open_one(), *other = open_in_seconds();
    server_do(&one, "SET", NAME, "1794786072");
    GIVES(DIBS_EMISMATCH, try_take(client, NAME));
    CHECK_SAYS("unit=");
    server_do(&one, "SET", NAME, "1794786072000");
    GIVES(DIBS_EMISMATCH, try_take(other, NAME));
    CHECK_SAYS("unit=");
    server_do(&one, "SET", NAME, "6a3f-value");
    GIVES(DIBS_EMISMATCH, try_take(client, NAME));
    CHECK_SAYS("plain");
    GIVES(DIBS_EMISMATCH, dibs_break(NULL, client, NAME, "a test", &oops));
    CHECK(has_value("6a3f-value"));
    server_do(&one, "DEL", NAME);
    server_do(&one, "HSET", NAME, "4f8a:1", "1");
    GIVES(DIBS_EMISMATCH, try_take(client, NAME));
    CHECK_SAYS("Redisson");
    dibs_close(client);
    dibs_close(other);

    dibs *none = NULL;
    char url[256];
    url_of(url, sizeof(url), "unit=days");
    GIVES(DIBS_ECONFIG, try_open(&none, url, 1000));
    CHECK_SAYS("unit=days");
}

static void
broken(void)
{
    char text[24];
    size_t count = 0;
    server_start(&one, NULL);
    dibs *client = open_one();
    server_do(&one, "SET", NAME, stamp(text, 60000));
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    CHECK(!has_ended(op, slowly(60)));
    OK(dibs_break(&count, client, NAME, "a test", &oops));
    CHECK_SAME(count, 1);
    give(end_wait(op, slowly(60)));
    GIVES(DIBS_ENOTHELD, dibs_break(&count, client, NAME, "a test", &oops));
    dibs_close(client);
}

/* our key is beside the lock's, unless the name has braces that get in the way */
static void
clustered(void)
{
    char hosts[256], url[320], name[16];
    set_start_cluster(&set, NULL);
    set_hosts(hosts, sizeof(hosts), &set);
    (void)snprintf(url, sizeof(url), "redis+cluster://%s?layout=getset", hosts);
    dibs *client = open_url("%s", url), *other = open_url("%s", url);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(name, sizeof(name), "name %d", i);
        dibs_hold *hold = take(client, name, LEASE_MS);
        GIVES(DIBS_EBUSY, try_take(other, name));
        give(hold);
    }
    GIVES(DIBS_EINVAL, try_take(client, "x{y}"));
    CHECK_SAYS("braces");
    GIVES(DIBS_EINVAL, dibs_break(NULL, client, "x{y}", "a test", &oops));
    CHECK_SAME(set_count_keys(&set), 0);
    dibs_close(client);
    dibs_close(other);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "written_down", written_down },
        { "seconds", seconds },
        { "foreign_holder", foreign_holder },
        { "dead_lock", dead_lock },
        { "loser", loser },
        { "stranger", stranger },
        { "deleted", deleted },
        { "old_recipe", old_recipe },
        { "wrong_value", wrong_value },
        { "broken", broken },
        { "clustered", clustered },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
