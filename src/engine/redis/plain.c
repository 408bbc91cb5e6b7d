/* SPDX-License-Identifier: MIT */
/*
 * The layout plain: SET name value NX PX, as redis-py, node-redlock, redsync and many
 * others write a lock down, so that we and they exclude each other. Releasing and renewing
 * compare the value first, in a script. plain.h says what our values look like.
 *
 * The usual way in is one write of two commands, SET and TIME. The server's microseconds
 * after our SET are the token: while the server's clock does not go back they are larger
 * than those of every grant of this name before, because whoever had it asked for the time
 * before it could let go. (A reply so late that the lease was over by then is not used.)
 * A name that was busy, or an attempt whose reply was lost, is asked for by a script, which
 * also recognises what is ours already. So does every attempt with an amnesia guard, a
 * quarantine or replicas that must confirm, which are matters of scripts.
 *
 * What this layout cannot do: it keeps no queue (notice.h says how one waits), does not
 * know how the hold before ended, and tokens are known to their holders only.
 */
#include <stdio.h>
#include <string.h>

#include "notice.h"
#include "plain.h"
#include "renewal.h"

/* ---- scripts ---- */

/* Each begins by reading the key, and ends there if it is of another type. `held` is the
 * value as its owner wrote it; `wanted` says that somebody waits. */
static const char lua_get[] = "local held, wanted = redis.call('GET', KEYS[1]), false\n";
static const char lua_wanted[] = "if held and string.find(held, '^%x+;%d+\t') then\n"
                                 "  held, wanted = string.gsub(held, ';', ':', 1), true\n"
                                 "end\n";

/* ARGV: value, lease, 1 if it waits. Returns {1, microseconds} or {0, ms left, is it one of
 * ours}. What an attempt before this one got is kept, and its lease never made shorter. Who
 * waits says so in the value, if it is one of ours, and who may not do that looks now and
 * then. */
static const char lua_acquire[] =
    "if held == ARGV[1] then\n"
    "  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then\n"
    "    redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
    "  end\n"
    "  return {1, micros}\n"
    "end\n"
    "if held then\n"
    "  local ours = string.find(held, '^%x+:%d+\\t')\n"
    "  if ours and ARGV[3] == '1' and not wanted then\n"
    "    local said = redis.pcall('SETRANGE', KEYS[1], 32, ';')\n"
    "    ours = type(said) == 'number'\n"
    "  end\n"
    "  return {0, redis.call('PTTL', KEYS[1]), ours and 1 or 0}\n"
    "end\n"
    "local closed = gate()\n"
    "if closed > 0 then return {0, closed, 0} end\n"
    "redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n"
    "return {1, micros}\n";

/* ARGV: value, lease. */
static const char lua_renew[] = "if held ~= ARGV[1] then return 0 end\n"
                                "return redis.call('PEXPIRE', KEYS[1], ARGV[2])\n";

/* ARGV: value, channel, maybe how long to stay. Mostly nobody waits, and then this is all
 * that the other programs do. Who may not publish can still release. */
static const char lua_release_unwanted[] =
    "if held == ARGV[1] and not ARGV[3] then return redis.call('DEL', KEYS[1]) end\n";
static const char lua_release[] =
    "if held ~= ARGV[1] then return 0 end\n"
    "if ARGV[3] then redis.call('PEXPIRE', KEYS[1], ARGV[3])\n"
    "else redis.call('DEL', KEYS[1]) end\n"
    "redis.pcall('PUBLISH', ARGV[2], '" NOTICE "')\n"
    "return 1\n";

/* ARGV: channel. */
static const char lua_evict[] = "if not held then return 0 end\n"
                                "redis.call('DEL', KEYS[1])\n"
                                "redis.pcall('PUBLISH', ARGV[1], '" NOTICE "')\n"
                                "return 1\n";

static int
make_scripts(struct redis *redis, struct plain *plain)
{
    const dibs_host *host = redis->host;
    const char *const acquire[] = { dibs__redis_lua_tick,
                                    dibs__redis_gate_lua(redis),
                                    lua_get,
                                    lua_wanted,
                                    lua_acquire,
                                    NULL };
    const char *const renew[] = { lua_get, lua_wanted, lua_renew, NULL };
    const char *const release[] = { lua_get, lua_release_unwanted, lua_wanted,
                                    lua_release, NULL };
    const char *const evict[] = { lua_get, lua_evict, NULL };
    int rc = dibs__redis_script_new(&plain->acquire, "acquire", acquire, host);
    if (!rc)
        rc = dibs__redis_script_new(&plain->renew, "renew", renew, host);
    if (!rc)
        rc = dibs__redis_script_new(&plain->release, "release", release, host);
    return rc ? rc : dibs__redis_script_new(&plain->evict, "evict", evict, host);
}

/* ---- open and close ---- */

static int
plain_open(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    (void)url;
    (void)err;
    struct plain *plain = redis->host->alloc(sizeof *plain);
    if (!plain)
        return DIBS_ENOMEM;
    redis->layout_state = plain;
    int len = snprintf(plain->about, sizeof plain->about, "%lld\t%.64s\t%.64s\t",
                       (long long)redis->session->pid, redis->session->machine,
                       redis->session->app);
    plain->about_len = (size_t)len;
    return make_scripts(redis, plain);
}

static void
plain_close(struct redis *redis)
{
    struct plain *plain = redis->layout_state;
    if (!plain)
        return;
    dibs__redis_script_free(&plain->acquire, redis->host);
    dibs__redis_script_free(&plain->renew, redis->host);
    dibs__redis_script_free(&plain->release, redis->host);
    dibs__redis_script_free(&plain->evict, redis->host);
    redis->host->free(plain);
    redis->layout_state = NULL;
}

/* ---- keys and values ---- */

void
dibs__redis_plain_key(struct key *key, const char *name, size_t len)
{
    memcpy(key->text, name, len);
    key->len = len;
}

static void
append(struct value *value, const char *text, size_t len)
{
    if (len > sizeof value->text - value->len)
        len = sizeof value->text - value->len;
    memcpy(value->text + value->len, text, len);
    value->len += len;
}

/* a claim's value is the same each time */
static void
set_value(struct value *value, const struct redis *redis, const dibs_claim *claim)
{
    const struct plain *plain = redis->layout_state;
    value->len = mark_of(redis, claim, value->text);
    append(value, plain->about, plain->about_len);
    append(value, claim->note, strlen(claim->note));
}

/* ---- attempt ---- */

static int
granted(struct redis *redis, dibs_claim *claim, int64_t micros)
{
    dibs__redis_waiter_done(redis, claim);
    claim->token = token_of_tick(micros);
    claim->token_room = TICK_ROOM - 1;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
    return DIBS_OK;
}

/* TIME's reply in microseconds, or -1 */
static int64_t
micros_of(const redisReply *time)
{
    int64_t seconds = dibs__resp_integer(dibs__resp_element(time, 0), -1);
    int64_t micros = dibs__resp_integer(dibs__resp_element(time, 1), -1);
    return seconds < 0 || micros < 0 ? -1 : seconds * 1000000 + micros;
}

/* The commands of the usual way in. GET is for who will not come again: it finds out that
 * the key is something else. */
enum { SET, TIME, GET, COMMANDS };

static void
make_commands(struct call *calls, const struct key *key, const struct value *value,
              const dibs_claim *claim)
{
    for (int i = 0; i < COMMANDS; i++) {
        calls[i].script = NULL;
        calls[i].key = key;
        calls[i].hash = claim->name_hash;
        calls[i].flags = i == SET ? CALL_WRITES : CALL_READS;
        calls[i].command.count = calls[i].command.number_count = 0;
    }
    dibs__resp_word(&calls[SET].command, "SET");
    dibs__resp_bytes(&calls[SET].command, key->text, key->len);
    dibs__resp_bytes(&calls[SET].command, value->text, value->len);
    dibs__resp_word(&calls[SET].command, "NX");
    dibs__resp_word(&calls[SET].command, "PX");
    dibs__resp_number(&calls[SET].command, claim->lease_ms);
    dibs__resp_word(&calls[TIME].command, "TIME");
    dibs__resp_word(&calls[GET].command, "GET");
    dibs__resp_bytes(&calls[GET].command, key->text, key->len);
}

static int
ask_first(struct redis *redis, dibs_claim *claim, const struct key *key,
          const struct value *value, dibs_time deadline, dibs_error *err)
{
    struct call calls[COMMANDS];
    redisReply *replies[COMMANDS] = { 0 };
    int codes[COMMANDS] = { 0 };
    size_t count = claim->flags & DIBS_CLAIM_NOQUEUE ? COMMANDS : GET;
    make_commands(calls, key, value, claim);
    dibs__redis_run_many(redis, calls, count, deadline, replies, codes, err);
    int64_t micros = codes[TIME] ? -1 : micros_of(replies[TIME]);
    int rc = codes[SET];
    if (!rc && dibs__resp_is_text(replies[SET], "OK"))
        /* without its token a grant is of no use: ask again, and it will be recognised */
        rc = micros >= 0 ? granted(redis, claim, micros) : DIBS_EUNKNOWN;
    else if (!rc)
        rc = codes[GET] == DIBS_EMISMATCH ? DIBS_EMISMATCH
                                          : dibs__redis_notice_busy(claim, -1, 0);
    for (int i = 0; i < COMMANDS; i++) {
        if (replies[i])
            freeReplyObject(replies[i]);
    }
    return rc;
}

static int
ask_by_script(struct redis *redis, dibs_claim *claim, const struct key *key,
              const struct value *value, dibs_time deadline, dibs_error *err)
{
    const struct plain *plain = redis->layout_state;
    struct call call;
    struct key born;
    redisReply *reply;
    dibs__redis_script_call(&call, &plain->acquire, 1 + dibs__redis_gate_keys(redis), key,
                            claim->name_hash);
    dibs__resp_bytes(&call.command, key->text, key->len);
    call.flags |= CALL_LASTS;
    dibs__redis_gate_key(redis, &call, key, &born);
    dibs__resp_bytes(&call.command, value->text, value->len);
    dibs__resp_number(&call.command, claim->lease_ms);
    dibs__resp_word(&call.command, claim->flags & DIBS_CLAIM_NOQUEUE ? "0" : "1");
    dibs__redis_gate_args(redis, &call);
    int rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc)
        return rc;
    int64_t what = dibs__resp_integer(dibs__resp_element(reply, 0), -1);
    int64_t number = dibs__resp_integer(dibs__resp_element(reply, 1), -1);
    int64_t is_ours = dibs__resp_integer(dibs__resp_element(reply, 2), 0);
    freeReplyObject(reply);
    if (what == 1)
        return granted(redis, claim, number);
    return dibs__redis_notice_busy(claim, number, is_ours == 1);
}

static int
plain_attempt(struct redis *redis, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct key key;
    struct value value;
    if (claim->mode == DIBS_OBSERVE)
        return redis->host->fail(err, DIBS_EUNSUPPORTED,
                                 "layout=plain cannot tell one holder from the next");
    if (dibs__redis_notice_same_as_before(redis, claim))
        return DIBS_EBUSY;
    int by_script =
        was_asked(claim) || redis->replicas || dibs__redis_gate_keys(redis) > 0;
    dibs__redis_plain_key(&key, claim->name, claim->name_len);
    set_value(&value, redis, claim);
    dibs__redis_notice_asking(redis, claim);
    int rc = by_script ? ask_by_script(redis, claim, &key, &value, deadline, err)
                       : ask_first(redis, claim, &key, &value, deadline, err);
    if (rc == DIBS_EMISMATCH)
        rc = dibs__redis_notice_mismatch(redis, &key, claim->name_hash, deadline, err);
    return notice_remember(claim, rc);
}

static int
plain_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    return dibs__redis_notice_watch(redis, claim, PLAIN_CHANNEL, deadline, err);
}

/* ---- renew ---- */

static void
make_renewal(struct redis *redis, const dibs_claim *claim, struct renewal *renewal,
             struct call *call)
{
    const struct plain *plain = redis->layout_state;
    struct key *key = &renewal->keys[0];
    dibs__redis_plain_key(key, claim->name, claim->name_len);
    dibs__redis_script_call(call, &plain->renew, 1, key, claim->name_hash);
    call->flags |= CALL_LASTS;
    dibs__resp_bytes(&call->command, key->text, key->len);
    set_value(&renewal->value, redis, claim);
    dibs__resp_bytes(&call->command, renewal->value.text, renewal->value.len);
    dibs__resp_number(&call->command, claim->lease_ms);
}

static void
plain_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
            dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    dibs__redis_renew_all(redis, make_renewal, claims, results, n, deadline, err);
}

/* ---- release ---- */

/* runs a script that answers 1 if it found what it was to end; *found says so */
static int
run_ending(struct redis *redis, struct call *call, dibs_time deadline, int *found,
           dibs_error *err)
{
    redisReply *reply;
    int rc = dibs__redis_run(redis, call, deadline, &reply, err);
    if (rc)
        return rc;
    *found = dibs__resp_integer(reply, 0) == 1;
    freeReplyObject(reply);
    return DIBS_OK;
}

static int
plain_release(struct redis *redis, dibs_claim *claim, uint32_t linger_ms,
              dibs_time deadline, dibs_error *err)
{
    const struct plain *plain = redis->layout_state;
    struct call call;
    struct key key, channel;
    struct value value;
    int found = 0;
    dibs__redis_waiter_done(redis, claim);
    if (!may_be_there(claim))
        return DIBS_ENOTHELD;
    dibs__redis_plain_key(&key, claim->name, claim->name_len);
    notice_channel(&channel, PLAIN_CHANNEL, claim->name, claim->name_len);
    set_value(&value, redis, claim);
    dibs__redis_script_call(&call, &plain->release, 1, &key, claim->name_hash);
    dibs__resp_bytes(&call.command, key.text, key.len);
    dibs__resp_bytes(&call.command, value.text, value.len);
    dibs__resp_bytes(&call.command, channel.text, channel.len);
    if (linger_ms)
        dibs__resp_number(&call.command, linger_ms);
    int rc = run_ending(redis, &call, deadline, &found, err);
    if (rc == DIBS_EMISMATCH || (!rc && !found))
        return DIBS_ENOTHELD;
    return rc;
}

static int
plain_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
            size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    const struct plain *plain = redis->layout_state;
    struct call call;
    struct key key, channel;
    int found = 0;
    dibs__redis_plain_key(&key, name, name_len);
    notice_channel(&channel, PLAIN_CHANNEL, name, name_len);
    dibs__redis_script_call(&call, &plain->evict, 1, &key, name_hash);
    dibs__resp_bytes(&call.command, key.text, key.len);
    dibs__resp_bytes(&call.command, channel.text, channel.len);
    int rc = run_ending(redis, &call, deadline, &found, err);
    if (rc == DIBS_EMISMATCH)
        return dibs__redis_notice_mismatch(redis, &key, name_hash, deadline, err);
    if (!rc)
        *broken = (size_t)found;
    return rc;
}

const struct layout dibs__redis_plain_layout = {
    .name = "plain",
    .open = plain_open,
    .close = plain_close,
    .attempt = plain_attempt,
    .release = plain_release,
    .heard = dibs__redis_notice_heard,
};

static const char *const params[] = { REDIS_PARAMS, NULL };

const dibs_engine dibs__redis_plain = {
    REDIS_ENGINE,
    .layout = "plain",
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_TOKEN | DIBS_CAP_CELL | DIBS_CAP_INSPECT |
            DIBS_CAP_BREAK | DIBS_CAP_LINGER | DIBS_CAP_WAKE,
    .watch = plain_watch,
    .renew = plain_renew,
    .list = dibs__redis_plain_list,
    .inspect = dibs__redis_plain_inspect,
    .evict = plain_evict,
};
