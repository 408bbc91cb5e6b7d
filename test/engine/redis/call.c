/* SPDX-License-Identifier: MIT */
/* Calls to one server: scripts it does not know, many at once, order, refusals, WAIT. */
#include "drive.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/sys.h"

#define MANY 300

static server one;

static void
start(drive *client, const char *more)
{
    server_start(&one, NULL);
    drive_open(client, "redis://127.0.0.1:%d?layout=plain%s", one.port, more);
}

static void
stop(drive *client)
{
    drive_close(client);
    server_stop(&one);
}

/* how often the server has run a command, by its own count */
static int64_t
calls_of(const server *of, const char *command)
{
    char line[64];
    char *answer = server_ask(of, "INFO", "commandstats");
    snprintf(line, sizeof line, "cmdstat_%s:calls=", command);
    const char *at = answer ? strstr(answer, line) : NULL;
    int64_t calls = at ? strtoll(at + strlen(line), NULL, 10) : 0;
    free(answer);
    return calls;
}

static dibs_time
soon(void)
{
    return dibs__now() + slowly(3000) * DIBS_MS;
}

static void
done(void)
{
    drive client;
    struct key key;
    start(&client, "");
    drive_key(&key, 1);
    CHECK_COUNT(&client, &key, 1);
    CHECK_COUNT(&client, &key, 2);
    CHECK_SAME(calls_of(&one, "eval"), 1); /* the second time the name was enough */
    stop(&client);
}

static void
unknown_script(void)
{
    drive client;
    struct key key;
    start(&client, "");
    drive_key(&key, 1);
    for (int i = 1; i <= 20; i++) {
        CHECK_COUNT(&client, &key, i);
        server_do(&one, "SCRIPT", "FLUSH");
    }
    stop(&client);
}

static void
run_all(drive *client, struct call *calls, size_t n, int64_t want)
{
    redisReply *replies[MANY];
    int codes[MANY];
    dibs__redis_run_many(&client->redis, calls, n, soon(), replies, codes, &client->err);
    for (size_t i = 0; i < n; i++) {
        if (codes[i])
            FAIL("call %zu: %d, %s", i, codes[i], client->err.text);
        CHECK_SAME(dibs__resp_integer(replies[i], -1), want);
        freeReplyObject(replies[i]);
    }
}

/* A server that knows no script is told each one once per request, of which there
 * are at most 64 (one per lane), not 300 times. */
static void
many(void)
{
    static struct call calls[MANY];
    static struct key keys[MANY];
    drive client;
    start(&client, "");
    for (int i = 0; i < MANY; i++) {
        drive_key(&keys[i], i);
        count_call(&client, &calls[i], &keys[i]);
    }
    run_all(&client, calls, MANY, 1);
    run_all(&client, calls, MANY, 2);
    CHECK_WITHIN(calls_of(&one, "eval"), 1, 64);
    server_do(&one, "SCRIPT", "FLUSH");
    run_all(&client, calls, MANY, 3);
    CHECK_WITHIN(calls_of(&one, "eval"), 2, 128);
    stop(&client);
}

/* GET behind a script of the same name must see what the script did, also if the script
 * had to be sent again. */
static void
in_order(void)
{
    drive client;
    struct key key;
    start(&client, "");
    drive_key(&key, 1);
    for (int round = 1; round <= 20; round++) {
        struct call calls[3] = { { .script = NULL } };
        redisReply *replies[3];
        int codes[3];
        for (int i = 0; i < 2; i++)
            count_call(&client, &calls[i], &key);
        calls[2] = (struct call){ .key = &key, .hash = calls[0].hash };
        dibs__resp_word(&calls[2].command, "GET");
        dibs__resp_bytes(&calls[2].command, key.text, key.len);
        dibs__redis_run_many(&client.redis, calls, 3, soon(), replies, codes,
                             &client.err);
        for (int i = 0; i < 3; i++)
            CHECK_SAME(codes[i], DIBS_OK);
        int64_t seen = dibs__resp_integer(replies[2], -1);
        CHECK(seen >= 2 * round);
        CHECK_SAME(dibs__resp_integer(replies[1], -1), seen);
        for (int i = 0; i < 3; i++)
            freeReplyObject(replies[i]);
        server_do(&one, "SCRIPT", "FLUSH");
    }
    stop(&client);
}

/* Each refusal, provoked for real: its code, and the words of the server. */
static void
check_refused(drive *client, int want, const char *said)
{
    struct key key;
    int code;
    drive_key(&key, 1);
    (void)drive_count(client, &key, slowly(1000), &code);
    CHECK_SAME(code, want);
    if (!strstr(client->err.text, said))
        FAIL("no '%s' in: %s", said, client->err.text);
}

static void
refused(void)
{
    drive client;
    struct key key;
    start(&client, "");
    drive_key(&key, 1);
    key.text[key.len] = '\0';

    server_do(&one, "LPUSH", key.text, "x");
    check_refused(&client, DIBS_EMISMATCH, "WRONGTYPE");
    server_do(&one, "DEL", key.text);

    server_do(&one, "CONFIG", "SET", "min-replicas-to-write", "1");
    check_refused(&client, DIBS_EUNAVAIL, "NOREPLICAS");
    server_do(&one, "CONFIG", "SET", "min-replicas-to-write", "0");

    server_do(&one, "CONFIG", "SET", "maxmemory", "1");
    check_refused(&client, DIBS_EUNAVAIL, "OOM");
    server_do(&one, "CONFIG", "SET", "maxmemory", "0");

    server_do(&one, "REPLICAOF", "127.0.0.1", "1");
    check_refused(&client, DIBS_EUNAVAIL, "READONLY");
    server_do(&one, "CONFIG", "SET", "replica-serve-stale-data", "no");
    check_refused(&client, DIBS_EUNAVAIL, "MASTERDOWN");
    server_do(&one, "REPLICAOF", "NO", "ONE");

    server_do(&one, "ACL", "SETUSER", "default", "-eval", "-evalsha");
    check_refused(&client, DIBS_EDENIED, "NOPERM");
    server_do(&one, "ACL", "SETUSER", "default", "+eval", "+evalsha", "-incr");
    check_refused(&client, DIBS_EDENIED, "can't run this command");
    server_do(&one, "ACL", "SETUSER", "default", "+incr", "resetkeys", "~other:*");
    check_refused(&client, DIBS_EDENIED, "");
    server_do(&one, "ACL", "SETUSER", "default", "~*");

    CHECK_COUNT(&client, &key, 1); /* none of them counted */
    stop(&client);
}

/* a script that never ends: BUSY for others; killed, it did nothing */
static void
run_forever(void *arg, int index)
{
    drive *client = arg;
    static const char *const parts[] = { "while true do end", NULL };
    struct script script;
    struct call call;
    redisReply *reply;
    (void)index;
    CHECK_SAME(dibs__redis_script_new(&script, "forever", parts, client->redis.host),
               DIBS_OK);
    dibs__redis_script_call(&call, &script, 0, NULL, 7);
    int code = dibs__redis_run(&client->redis, &call, dibs__now() + 60000 * DIBS_MS,
                               &reply, &client->err);
    CHECK_SAME(code, DIBS_EUNAVAIL);
    CHECK(strstr(client->err.text, "killed by user") != NULL);
    dibs__redis_script_free(&script, client->redis.host);
}

static void
killed_script(void)
{
    drive client, other;
    start(&client, "");
    server_do(&one, "CONFIG", "SET", "busy-reply-threshold", "50");
    drive_open(&other, "redis://127.0.0.1:%d?layout=plain", one.port);
    gang *hanging = gang_start(1, run_forever, &other);
    int64_t until = now_ms() + slowly(5000);
    while (!server_answers(&one, "BUSY", "GET", "x")) {
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
    check_refused(&client, DIBS_EUNAVAIL, "SCRIPT KILL may end it");
    server_do(&one, "SCRIPT", "KILL");
    gang_join(hanging);
    drive_close(&other);
    stop(&client);
}

/* What only reads goes again after a lost answer; what writes does not. */
static void
repeated(void)
{
    static const char *const ping[] = { "PING", NULL };
    drive client;
    struct key key;
    redisReply *reply;
    int code;
    start(&client, "");
    drive_key(&key, 1);
    for (int i = 1; i <= 20; i++) {
        struct call call = { .flags = CALL_READS };
        server_cut(&one);
        for (size_t j = 0; ping[j]; j++)
            dibs__resp_word(&call.command, ping[j]);
        CHECK_SAME(dibs__redis_run(&client.redis, &call, soon(), &reply, &client.err),
                   DIBS_OK);
        freeReplyObject(reply);
    }
    server_pause(&one);
    (void)drive_count(&client, &key, 100, &code);
    CHECK_SAME(code, DIBS_EUNKNOWN);
    server_resume(&one);
    CHECK_WITHIN(drive_count_until(&client, &key, 3000), 1, 2); /* once at most */
    server_kill(&one);
    (void)drive_count(&client, &key, 500, &code);
    (void)drive_count(&client, &key, 500, &code);
    CHECK_SAME(code, DIBS_EUNAVAIL);
    CHECK(strstr(client.err.text, "refused") != NULL);
    server_restart(&one);
    CHECK_SAME(drive_count_until(&client, &key, 3000), 1);
    stop(&client);
}

/* ---- replicas ---- */

static server_set pair;

static void
start_pair(drive *client, const char *more)
{
    char port[16];
    set_start_apart(&pair, 2, NULL);
    snprintf(port, sizeof port, "%d", pair.servers[0].port);
    server_do(&pair.servers[1], "REPLICAOF", "127.0.0.1", port);
    set_wait_ready(&pair);
    drive_open(client, "redis://127.0.0.1:%d?layout=plain%s", pair.servers[0].port, more);
}

/* What was confirmed is at the replica. */
static void
waited(void)
{
    drive client;
    struct key key;
    start_pair(&client, "&replicas=1");
    drive_key(&key, 1);
    key.text[key.len] = '\0';
    for (int i = 1; i <= 50; i++) {
        CHECK_COUNT(&client, &key, i);
        char *value = server_ask(&pair.servers[1], "GET", key.text);
        CHECK_SAME(atoi(value), i);
        free(value);
    }
    drive_close(&client);
    set_stop(&pair);
}

static void
waited_for_too_few(void)
{
    drive client;
    struct key key;
    int code;
    start_pair(&client, "&replicas=1&replicas_wait=100ms");
    drive_key(&key, 1);
    server_pause(&pair.servers[1]);
    (void)drive_count(&client, &key, slowly(2000), &code);
    CHECK_SAME(code, DIBS_EUNKNOWN);
    CHECK(strstr(client.err.text, "0 of 1 replicas") != NULL);
    server_resume(&pair.servers[1]);
    CHECK(drive_count_until(&client, &key, 3000) >= 2);
    drive_close(&client);
    set_stop(&pair);
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        { "done", done },
        { "unknown_script", unknown_script },
        { "many", many },
        { "in_order", in_order },
        { "refused", refused },
        { "killed_script", killed_script },
        { "repeated", repeated },
        { "waited", waited },
        { "waited_for_too_few", waited_for_too_few },
    };
    return run_case(argc, argv, cases, LENGTH(cases));
}
