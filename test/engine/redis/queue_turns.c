/* SPDX-License-Identifier: MIT */
/*
 * The layout queue, driven slot by slot: whose turn it is, what a lost reply, a dead
 * waiter or a clock that is wrong does to that, and what it costs with very many. Two
 * clients play all parts, with as many claims as a case needs.
 *
 * In this order: claims, whose turn it is, the dead, clocks, damage, very many.
 */
#include <stdlib.h>
#include <string.h>

#include "core/name.h"
#include "core/sys.h"
#include "drive.h"

#define NAME "turns"
#define LOCK "dibs:{turns}"
#define CALL_LIMIT (slowly(3000) * DIBS_MS)
/* how often a waiter comes back when it is not told: well within the lease it waits by */
#define LOOK_MS 5

static server one;
static drive here, there;
static uint64_t last_serial;

static void
stop_server(void)
{
    server_stop(&one);
}

static void
begin(const char *params)
{
    on_failure(stop_server);
    server_start(&one, NULL);
    drive_open(&here, "redis://127.0.0.1:%d%s", one.port, params);
    drive_open(&there, "redis://127.0.0.1:%d%s", one.port, params);
}

/* nothing but the clock may be left of any case */
static void
end(void)
{
    CHECK_SAME(server_count_keys(&one), 0);
    drive_close(&here);
    drive_close(&there);
    server_stop(&one);
}

/* ---- claims ---- */

static dibs_claim
claim_of(int mode, uint32_t lease_ms)
{
    dibs_claim claim = {
        .name = NAME,
        .name_len = sizeof NAME - 1,
        .name_hash = dibs__hash(NAME, sizeof NAME - 1),
        .mode = (uint8_t)mode,
        .permits = 1,
        .lease_ms = lease_ms,
        .serial = ++last_serial,
        .note = "",
    };
    return claim;
}

static int
attempt(drive *client, dibs_claim *claim)
{
    claim->bell = &claim->own_bell;
    claim->hint_ms = claim->position = 0;
    claim->sent = dibs__now();
    return client->engine->attempt(&client->redis, claim, dibs__now() + CALL_LIMIT,
                                   &client->err);
}

static int
release(drive *client, dibs_claim *claim)
{
    return client->engine->release(&client->redis, claim, 0, dibs__now() + CALL_LIMIT,
                                   &client->err);
}

static int
renew(drive *client, dibs_claim *claim)
{
    dibs_claim *claims[] = { claim };
    int result;
    client->engine->renew(&client->redis, claims, &result, 1, dibs__now() + CALL_LIMIT,
                          &client->err);
    return result;
}

static size_t
evict(drive *client)
{
    size_t broken = 0;
    CHECK_SAME(client->engine->evict(&client->redis, NAME, sizeof NAME - 1,
                                     dibs__hash(NAME, sizeof NAME - 1), &broken,
                                     dibs__now() + CALL_LIMIT, &client->err),
               DIBS_OK);
    return broken;
}

/* take_within attempts again and again, as core does, and returns how long it took. */
static int64_t
take_within(drive *client, dibs_claim *claim, int64_t limit_ms)
{
    int64_t from = now_ms();
    while (attempt(client, claim) != DIBS_OK) {
        CHECK(now_ms() - from <= limit_ms);
        sleep_ms(LOOK_MS);
    }
    return now_ms() - from;
}

/* ---- whose turn it is ---- */

/* a writer, two readers, a writer: the readers come together, and nobody is overtaken */
static void
order(void)
{
    begin("");
    dibs_claim holder = claim_of(DIBS_EXCLUSIVE, 20000);
    dibs_claim line[] = { claim_of(DIBS_EXCLUSIVE, 20000), claim_of(DIBS_SHARED, 20000),
                          claim_of(DIBS_SHARED, 20000), claim_of(DIBS_EXCLUSIVE, 20000),
                          claim_of(DIBS_SHARED, 20000) };
    dibs_claim try = claim_of(DIBS_SHARED, 20000);
    try.flags = DIBS_CLAIM_NOQUEUE;
    CHECK_SAME(attempt(&here, &holder), DIBS_OK);
    for (uint32_t i = 0; i < LENGTH(line); i++) {
        CHECK_SAME(attempt(i % 2 ? &here : &there, &line[i]), DIBS_EBUSY);
        CHECK_SAME(line[i].position, i + 1);
        CHECK_WITHIN(line[i].hint_ms, 1, 1000);
    }
    CHECK_SAME(release(&here, &holder), DIBS_OK);
    CHECK_SAME(attempt(&there, &line[0]), DIBS_OK);
    CHECK(line[0].token > holder.token);
    CHECK_SAME(attempt(&here, &line[1]), DIBS_EBUSY);
    CHECK_SAME(release(&there, &line[0]), DIBS_OK);
    CHECK_SAME(attempt(&here, &line[1]), DIBS_OK);
    CHECK_SAME(attempt(&there, &line[2]), DIBS_OK);
    CHECK_SAME(attempt(&here, &line[3]), DIBS_EBUSY);
    /* a reader who comes now would fit, but a writer is before it */
    CHECK_SAME(attempt(&here, &try), DIBS_EBUSY);
    CHECK_SAME(attempt(&there, &line[4]), DIBS_EBUSY);
    CHECK_SAME(line[4].position, 2);
    CHECK_SAME(release(&here, &line[1]), DIBS_OK);
    CHECK_SAME(attempt(&here, &line[3]), DIBS_EBUSY);
    /* the writer gives up: the reader behind it goes with the one who is in */
    CHECK_SAME(release(&here, &line[3]), DIBS_ENOTHELD);
    CHECK_SAME(attempt(&there, &line[4]), DIBS_OK);
    CHECK_SAME(release(&there, &line[2]), DIBS_OK);
    CHECK_SAME(release(&there, &line[4]), DIBS_OK);
    end();
}

/* a request that was answered, but the answer was lost, is simply made again */
static void
repeated(void)
{
    begin("");
    dibs_claim holder = claim_of(DIBS_EXCLUSIVE, 20000);
    dibs_claim waiter = claim_of(DIBS_EXCLUSIVE, 20000);
    CHECK_SAME(attempt(&here, &holder), DIBS_OK);
    uint64_t token = holder.token;
    for (int i = 0; i < 3; i++) {
        CHECK_SAME(attempt(&here, &holder), DIBS_OK);
        CHECK(holder.token == token && holder.previous == DIBS_PREVIOUS_CLEAN);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_SAME(attempt(&there, &waiter), DIBS_EBUSY);
        CHECK_SAME(waiter.position, 1);
        CHECK_SAME(server_number(&one, "ZCARD", LOCK ":q"), 1);
    }
    CHECK_SAME(attempt(&here, &holder), DIBS_OK);
    CHECK(holder.token == token);
    CHECK_SAME(release(&here, &holder), DIBS_OK);
    CHECK_SAME(release(&here, &holder), DIBS_ENOTHELD);
    CHECK_SAME(attempt(&there, &waiter), DIBS_OK);
    token = waiter.token;
    CHECK_SAME(attempt(&there, &waiter), DIBS_OK);
    CHECK(waiter.token == token);
    CHECK_SAME(renew(&there, &waiter), DIBS_OK);
    CHECK_SAME(renew(&here, &holder), DIBS_ELOST);
    CHECK_SAME(release(&there, &waiter), DIBS_OK);
    CHECK_SAME(release(&there, &waiter), DIBS_ENOTHELD);
    CHECK_SAME(renew(&there, &waiter), DIBS_ELOST);
    end();
}

/* what the next one is told of the hold before, and told again if it asks again */
static void
previous(void)
{
    begin("");
    dibs_claim dead = claim_of(DIBS_EXCLUSIVE, 300), next = claim_of(DIBS_SHARED, 20000);
    dibs_claim more = claim_of(DIBS_SHARED, 20000);
    CHECK_SAME(attempt(&here, &dead), DIBS_OK);
    sleep_ms(350);
    CHECK_SAME(attempt(&there, &next), DIBS_OK);
    CHECK_SAME(next.previous, DIBS_PREVIOUS_EXPIRED);
    CHECK_SAME(attempt(&here, &more), DIBS_OK);
    CHECK_SAME(more.previous, DIBS_PREVIOUS_CLEAN);
    CHECK_SAME(attempt(&there, &next), DIBS_OK);
    CHECK_SAME(next.previous, DIBS_PREVIOUS_EXPIRED);
    CHECK_SAME(release(&here, &dead), DIBS_ENOTHELD);
    CHECK_SAME(evict(&here), 2);
    CHECK_SAME(evict(&here), 0);
    CHECK_SAME(renew(&there, &next), DIBS_ELOST);
    CHECK_SAME(release(&there, &next), DIBS_ENOTHELD);
    next = claim_of(DIBS_EXCLUSIVE, 20000);
    CHECK_SAME(attempt(&there, &next), DIBS_OK);
    CHECK_SAME(next.previous, DIBS_PREVIOUS_BROKEN);
    CHECK_SAME(release(&there, &next), DIBS_OK);
    end();
}

/* ---- the dead ---- */

#define CORPSES 40

/* They never come back. Whoever lives waits for one of them, not for each. */
static void
dead_waiters(void)
{
    const int64_t wait_ms = slowly(300);
    char params[32];
    (void)snprintf(params, sizeof params, "?waiter=%dms", (int)wait_ms);
    begin(params);
    dibs_claim holder = claim_of(DIBS_EXCLUSIVE, 20000), corpses[CORPSES];
    dibs_claim alive = claim_of(DIBS_EXCLUSIVE, 20000);
    CHECK_SAME(attempt(&here, &holder), DIBS_OK);
    for (int i = 0; i < CORPSES; i++) {
        corpses[i] = claim_of(DIBS_EXCLUSIVE, 20000);
        CHECK_SAME(attempt(&there, &corpses[i]), DIBS_EBUSY);
    }
    CHECK_SAME(attempt(&here, &alive), DIBS_EBUSY);
    CHECK_SAME(alive.position, CORPSES + 1);
    CHECK_SAME(release(&here, &holder), DIBS_OK);
    (void)take_within(&here, &alive, wait_ms + slowly(200));
    /* none of them ever knew that it was its turn: nothing was left half done */
    CHECK_SAME(alive.previous, DIBS_PREVIOUS_CLEAN);
    for (int i = 0; i < CORPSES; i++)
        CHECK_SAME(renew(&there, &corpses[i]), DIBS_ELOST);
    CHECK_SAME(release(&here, &alive), DIBS_OK);
    end();
}

/* nobody is there any more: nothing is left after a while */
static void
all_dead(void)
{
    begin("?waiter=100ms");
    dibs_claim holder = claim_of(DIBS_SHARED, 200),
               waiter = claim_of(DIBS_EXCLUSIVE, 200);
    CHECK_SAME(attempt(&here, &holder), DIBS_OK);
    CHECK_SAME(attempt(&there, &waiter), DIBS_EBUSY);
    CHECK_SAME(server_count_keys(&one), 4);
    sleep_ms(200 * 2 + 200 / 2 + 100);
    end();
}

static void
each_key_ends(void)
{
    begin("");
    static const char *const keys[] = { LOCK, LOCK ":q", LOCK ":e", LOCK ":i" };
    dibs_claim holder = claim_of(DIBS_EXCLUSIVE, 2000);
    dibs_claim waiter = claim_of(DIBS_SHARED, 2000),
               observer = claim_of(DIBS_OBSERVE, 2000);
    CHECK_SAME(attempt(&here, &holder), DIBS_OK);
    CHECK_WITHIN(server_number(&one, "PTTL", LOCK), 2000, 4000);
    CHECK_SAME(attempt(&there, &waiter), DIBS_EBUSY);
    observer.token = holder.token;
    CHECK_SAME(attempt(&there, &observer), DIBS_EBUSY);
    for (int i = 0; i < 3; i++) {
        for (size_t k = 0; k < LENGTH(keys); k++)
            CHECK_WITHIN(server_number(&one, "PTTL", keys[k]), 2000, 8000);
        CHECK_SAME(i == 0   ? renew(&here, &holder)
                   : i == 1 ? release(&here, &holder)
                            : attempt(&there, &waiter),
                   DIBS_OK);
    }
    CHECK_SAME(attempt(&there, &observer), DIBS_OK);
    CHECK(observer.token == waiter.token);
    CHECK_SAME(release(&there, &waiter), DIBS_OK);
    (void)release(&there, &observer);
    end();
}

/* ---- clocks ---- */

/* The server's clock went back by an hour, or somebody's wrong one was there before: tokens
 * go on from where they were, and leases are as long as ever. */
static void
clock_ahead(void)
{
    char ahead[32];
    begin("");
    dibs_claim first = claim_of(DIBS_EXCLUSIVE, 100),
               next = claim_of(DIBS_EXCLUSIVE, 100);
    CHECK_SAME(attempt(&here, &first), DIBS_OK);
    CHECK_SAME(release(&here, &first), DIBS_OK);
    int64_t tick = (int64_t)(first.token / TICK_ROOM) + INT64_C(3600000000);
    (void)snprintf(ahead, sizeof ahead, "%lld", (long long)tick);
    server_do(&one, "SET", "dibs:clock", ahead);
    for (int i = 1; i <= 3; i++) {
        first = claim_of(DIBS_EXCLUSIVE, 100);
        CHECK_SAME(attempt(&here, &first), DIBS_OK);
        CHECK(first.token > token_of_tick(tick));
        tick = (int64_t)(first.token / TICK_ROOM);
        CHECK_WITHIN(server_number(&one, "PTTL", LOCK), 1, 200);
        if (i < 3)
            CHECK_SAME(release(&here, &first), DIBS_OK);
    }
    CHECK_WITHIN(take_within(&there, &next, 100 + slowly(200)), 50, 100 + slowly(200));
    CHECK(next.token > first.token);
    CHECK_SAME(release(&there, &next), DIBS_OK);
    end();
}

/* Ticks end where a script can no longer count them. Nothing is granted there, and what is
 * held can still be given back. */
static void
clock_at_its_end(void)
{
    begin("");
    dibs_claim holder = claim_of(DIBS_EXCLUSIVE, 20000);
    dibs_claim waiter = claim_of(DIBS_EXCLUSIVE, 20000);
    CHECK_SAME(attempt(&here, &holder), DIBS_OK);
    CHECK_SAME(attempt(&there, &waiter), DIBS_EBUSY);
    server_do(&one, "SET", "dibs:clock", "9007199254740991");
    CHECK_SAME(renew(&here, &holder), DIBS_OK);
    CHECK_SAME(release(&here, &holder), DIBS_OK);
    CHECK_SAME(attempt(&there, &waiter), DIBS_ECORRUPT);
    CHECK(strstr(there.err.text, "dibs:clock") != NULL);
    CHECK_SAME(release(&there, &waiter), DIBS_ENOTHELD);
    CHECK_SAME(attempt(&here, &holder), DIBS_ECORRUPT);
    CHECK_SAME(server_count_keys(&one), 0);
    server_do(&one, "DEL", "dibs:clock");
    CHECK_SAME(attempt(&here, &holder), DIBS_OK);
    CHECK_SAME(release(&here, &holder), DIBS_OK);
    end();
}

/* ---- damage ---- */

/* somebody deleted keys by hand: waiters get their turn all the same */
static void
damaged(void)
{
    static const char *const keys[] = { LOCK ":q", LOCK ":i", LOCK };
    begin("?waiter=200ms");
    for (size_t i = 0; i < LENGTH(keys); i++) {
        dibs_claim holder = claim_of(DIBS_EXCLUSIVE, 300);
        dibs_claim waiter = claim_of(DIBS_EXCLUSIVE, 300);
        CHECK_SAME(attempt(&here, &holder), DIBS_OK);
        CHECK_SAME(attempt(&there, &waiter), DIBS_EBUSY);
        server_do(&one, "DEL", keys[i]);
        (void)take_within(&there, &waiter, 300 * 3 + slowly(500));
        (void)release(&there, &waiter);
        (void)release(&here, &holder);
    }
    sleep_ms(300 * 3);
    end();
}

/* ---- very many ---- */

static int64_t
script_micros(void)
{
    char *stats = server_ask(&one, "INFO", "commandstats");
    const char *at = stats ? strstr(stats, "cmdstat_evalsha:") : NULL;
    at = at ? strstr(at, "usec=") : NULL;
    CHECK(at != NULL);
    int64_t micros = strtoll(at + 5, NULL, 10);
    free(stats);
    return micros;
}

#define ROUNDS 9
#define TURNS 100

/* The server's time for one turn with `count` in line: one leaves, the next is granted, and
 * the one who left queues up again. The best of some rounds: others use this machine too. */
static int64_t
turn_nanos(int count)
{
    int64_t best = INT64_MAX;
    int at = 0;
    dibs_claim *claims = calloc((size_t)count + 1, sizeof *claims);
    CHECK(claims != NULL);
    for (int i = 0; i <= count; i++) {
        claims[i] = claim_of(DIBS_EXCLUSIVE, 120000);
        CHECK_SAME(attempt(i % 2 ? &here : &there, &claims[i]), i ? DIBS_EBUSY : DIBS_OK);
    }
    for (int round = 0; round < ROUNDS; round++) {
        int64_t from = script_micros();
        for (int i = 0; i < TURNS; i++) {
            drive *client = at % 2 ? &here : &there;
            CHECK_SAME(release(client, &claims[at]), DIBS_OK);
            claims[at] = claim_of(DIBS_EXCLUSIVE, 120000);
            CHECK_SAME(attempt(client, &claims[at]), DIBS_EBUSY);
            at = (at + 1) % (count + 1);
        }
        int64_t took = (script_micros() - from) * 1000 / TURNS;
        best = took < best ? took : best;
    }
    CHECK_SAME(attempt(at % 2 ? &here : &there, &claims[at]), DIBS_OK);
    server_do(&one, "DEL", LOCK, LOCK ":q", LOCK ":e", LOCK ":i");
    free(claims);
    return best;
}

static void
ten_thousand(void)
{
    begin("?waiter=60s");
    int64_t few = turn_nanos(10), many = turn_nanos(10000);
    printf("a turn takes the server %lld ns with 10, %lld ns with 10000 in line\n",
           (long long)few, (long long)many);
    CHECK(many <= 2 * few);
    end();
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        { "order", order },
        { "repeated", repeated },
        { "previous", previous },
        { "dead_waiters", dead_waiters },
        { "all_dead", all_dead },
        { "each_key_ends", each_key_ends },
        { "clock_ahead", clock_ahead },
        { "clock_at_its_end", clock_at_its_end },
        { "damaged", damaged },
        { "ten_thousand", ten_thousand },
    };
    return run_case(argc, argv, cases, LENGTH(cases));
}
