/* SPDX-License-Identifier: MIT */
/*
 * The layout getset: a lock as it was made before SET had NX and PX, for fleets that still
 * have it. The key is the lock's name, its value the time at which the lock runs out, by
 * the wall clock. The recipe of those fleets: SETNX; if that fails GET, and if the time is
 * over GETSET a new one; who gets the old time back has won. They release by DEL.
 *
 * We do each step in one script on the server's clock, which is more than the recipe asks
 * for and looks the same from outside: nobody can come between our reading and our writing,
 * and our own clients agree about the time. Beside the key stands one of our own,
 * "dibs:getset:{name}", with the claim's ID and the time it wrote: a time alone does not
 * say whose it is. Both expire with the lock. (Nobody minds: a key that is gone is free to
 * take, and GETSET ends the expiry.)
 *
 * Who loses the race of the recipe has already overwritten the winner's time with its own,
 * a little earlier or later. This happens all the time, so a time that is not ours does not
 * yet mean a new holder. When can it? Only if a time under the key had run out before: ours,
 * or that of a loser since we last looked. Neither can within half a lease of our last look
 * if the others' time-outs are at least that long. So until then a foreign time that is not
 * over is a loser's, and we put ours back or delete it; later it is a stranger's, and our
 * hold is lost. Hence the rule for users: leases not longer than twice the shortest time-out
 * in the fleet.
 *
 * What is weak here, and cannot be helped: the others go by their own clocks, and who is
 * ahead takes our lock too early; and some of them delete the key without looking whether
 * it is still theirs.
 *
 * Times are in milliseconds, or with ?unit=s in seconds, as the others have them. Of the
 * two mistakes that can be made the default is the harmless one: read as seconds, our
 * milliseconds mean "held", while our seconds read as milliseconds would mean "long over".
 *
 * In this order: the scripts; open and close; attempt; renew; release and evict; the table.
 */
#include <string.h>

#include "notice.h"
#include "renewal.h"

#define OUR_KEY "dibs:getset:"

struct getset {
    struct script acquire, renew, release, evict;
};

/* ---- scripts ---- */

/* stamp(ms) is the time in so many ms, left(at) how many ms are left of a time, and
 * is_other_unit(at) says that nobody who counts as we do wrote it. */
static const char lua_milliseconds[] =
    "local function stamp(ms) return string.format('%.0f', now + ms) end\n"
    "local function left(at) return at - now end\n"
    "local function is_other_unit(at) return at >= 1e8 and at < 1e11 end\n";
static const char lua_seconds[] =
    "local function stamp(ms)\n"
    "  return string.format('%.6f', (micros + ms * 1000) / 1e6)\n"
    "end\n"
    "local function left(at) return at * 1000 - micros / 1000 end\n"
    "local function is_other_unit(at) return at >= 1e11 end\n";

/* KEYS: the lock, ours. ARGV[1]: the claim's ID and a tab. Our key has an ID, the time
 * that was written under the lock's, and until when (in ms) another live time there is a
 * loser's. `stands`: the lock is still the one that our key speaks of; `mine`: and that is
 * this claim's. rewrite may be used where there is something of ours already: it begins
 * with a command that a server without memory allows, and then allows the rest as well. */
static const char lua_read[] =
    "local held = redis.call('GET', KEYS[1])\n"
    "local ours = redis.call('GET', KEYS[2])\n"
    "local id, wrote, sure = string.match(ours or '', '^(.-\\t)(.-)\\t(.*)$')\n"
    "local mine = id == ARGV[1]\n"
    "local function is_live(text)\n"
    "  local at = tonumber(text)\n"
    "  return at and left(at) >= 0\n"
    "end\n"
    "local stands = held and wrote and\n"
    "  (held == wrote or (now < tonumber(sure) and is_live(held)))\n"
    "local function write(ms)\n"
    "  local at = stamp(ms + 1)\n"
    "  local note = string.format('%s%s\\t%.0f', ARGV[1], at, now + ms / 2)\n"
    "  redis.call('SET', KEYS[1], at, 'PX', ms + 1)\n"
    "  redis.call('SET', KEYS[2], note, 'PX', ms + 1)\n"
    "end\n"
    "local function rewrite(ms)\n"
    "  redis.call('PEXPIRE', KEYS[2], ms + 1)\n"
    "  write(ms)\n"
    "end\n";

/* ARGV: mark, lease. Returns {1, microseconds}, {0, ms left, will there be a notice}, {-1}:
 * not a time, {-2}: a time in another unit. A hold of ours that a loser made look over is
 * respected: its owner knows nothing of it. */
static const char lua_acquire[] =
    "if mine and stands then\n"
    "  rewrite(tonumber(ARGV[2]))\n"
    "  return {1, micros}\n"
    "end\n"
    "if wrote and not mine and is_live(wrote) then\n"
    "  return {0, left(tonumber(wrote)), 1}\n"
    "end\n"
    "if held then\n"
    "  local at = tonumber(held)\n"
    "  if not at then return {-1} end\n"
    "  if is_other_unit(at) then return {-2} end\n"
    "  if left(at) >= 0 then return {0, math.min(left(at), 1e12), 0} end\n"
    "end\n"
    "local closed = gate()\n"
    "if closed > 0 then return {0, closed, 0} end\n"
    "write(tonumber(ARGV[2]))\n"
    "return {1, micros}\n";

/* ARGV: mark, lease. */
static const char lua_renew[] = "if not (mine and stands) then return 0 end\n"
                                "rewrite(tonumber(ARGV[2]))\n"
                                "return 1\n";

/* ARGV: mark, channel, maybe how long to stay. */
static const char lua_release[] = "if not mine then return 0 end\n"
                                  "if not stands then\n"
                                  "  redis.call('DEL', KEYS[2])\n"
                                  "  return 0\n"
                                  "end\n"
                                  "if ARGV[3] then rewrite(tonumber(ARGV[3]))\n"
                                  "else redis.call('DEL', KEYS[1], KEYS[2]) end\n"
                                  "redis.pcall('PUBLISH', ARGV[2], '" NOTICE "')\n"
                                  "return 1\n";

/* ARGV: nothing's mark, channel. */
static const char lua_evict[] = "if held and not tonumber(held) then return -1 end\n"
                                "if not (held or ours) then return 0 end\n"
                                "redis.call('DEL', KEYS[1], KEYS[2])\n"
                                "redis.pcall('PUBLISH', ARGV[2], '" NOTICE "')\n"
                                "return 1\n";

static int
make_script(struct redis *redis, struct script *script, const char *name,
            const char *unit, const char *body)
{
    const char *const parts[] = {
        dibs__redis_lua_tick, dibs__redis_gate_lua(redis), unit, lua_read, body, NULL
    };
    return dibs__redis_script_new(script, name, parts, redis->host);
}

static int
make_scripts(struct redis *redis, struct getset *getset, const char *unit)
{
    int rc = make_script(redis, &getset->acquire, "acquire", unit, lua_acquire);
    if (!rc)
        rc = make_script(redis, &getset->renew, "renew", unit, lua_renew);
    if (!rc)
        rc = make_script(redis, &getset->release, "release", unit, lua_release);
    return rc ? rc : make_script(redis, &getset->evict, "evict", unit, lua_evict);
}

/* ---- open and close ---- */

static int
getset_open(struct redis *redis, const dibs_url_parts *url, dibs_error *err)
{
    const char *unit = redis->host->param(url, "unit");
    int seconds = unit && strcmp(unit, "s") == 0;
    if (unit && !seconds && strcmp(unit, "ms") != 0)
        return redis->host->fail(err, DIBS_ECONFIG,
                                 "unit=%s: times are in ms or in s, please", unit);
    struct getset *getset = redis->host->alloc(sizeof *getset);
    if (!getset)
        return DIBS_ENOMEM;
    redis->layout_state = getset;
    return make_scripts(redis, getset, seconds ? lua_seconds : lua_milliseconds);
}

static void
getset_close(struct redis *redis)
{
    struct getset *getset = redis->layout_state;
    if (!getset)
        return;
    dibs__redis_script_free(&getset->acquire, redis->host);
    dibs__redis_script_free(&getset->renew, redis->host);
    dibs__redis_script_free(&getset->release, redis->host);
    dibs__redis_script_free(&getset->evict, redis->host);
    redis->host->free(getset);
    redis->layout_state = NULL;
}

/* ---- calls ---- */

/* The two keys of a name. */
static void
make_keys(struct key keys[2], const char *name, size_t len)
{
    memcpy(keys[0].text, name, len);
    keys[0].len = len;
    dibs__redis_key_set(&keys[1], OUR_KEY, name, len, "");
}

/* a cluster keeps them together only if the name has no braces */
static int
check_slots(const struct redis *redis, const struct key keys[2], dibs_error *err)
{
    if (!redis->is_cluster || dibs__redis_slot(keys[0].text, keys[0].len) ==
                                  dibs__redis_slot(keys[1].text, keys[1].len))
        return DIBS_OK;
    return redis->host->fail(err, DIBS_EINVAL,
                             "with layout=getset in a cluster a name may not contain "
                             "braces");
}

/* one of the two is of another type: which, and what is it? */
static int
mismatch(struct redis *redis, const struct key keys[2], uint64_t hash, dibs_time deadline,
         dibs_error *err)
{
    int rc = dibs__redis_notice_mismatch(redis, &keys[0], hash, deadline, err);
    if (rc == DIBS_EUNAVAIL)
        rc = dibs__redis_notice_mismatch(redis, &keys[1], hash, deadline, err);
    return rc;
}

/* what all scripts want first; more: further keys */
static void
begin_call(struct call *call, const struct script *script, const struct key keys[2],
           unsigned more, uint64_t hash)
{
    dibs__redis_script_call(call, script, 2 + more, &keys[0], hash);
    for (int i = 0; i < 2; i++)
        dibs__resp_bytes(&call->command, keys[i].text, keys[i].len);
}

/* ---- attempt ---- */

/* The script's answer. */
struct answer {
    int64_t what, number, is_ours;
};

static int
ask(struct redis *redis, const dibs_claim *claim, const struct key keys[2],
    dibs_time deadline, struct answer *answer, dibs_error *err)
{
    const struct getset *getset = redis->layout_state;
    struct call call;
    struct key born;
    char mark[MARK_MAX];
    redisReply *reply;
    begin_call(&call, &getset->acquire, keys, dibs__redis_gate_keys(redis),
               claim->name_hash);
    call.flags |= CALL_LASTS;
    dibs__redis_gate_key(redis, &call, &keys[0], &born);
    dibs__resp_bytes(&call.command, mark, mark_of(redis, claim, mark));
    dibs__resp_number(&call.command, claim->lease_ms);
    dibs__redis_gate_args(redis, &call);
    int rc = dibs__redis_run(redis, &call, deadline, &reply, err);
    if (rc == DIBS_EMISMATCH)
        return mismatch(redis, keys, claim->name_hash, deadline, err);
    if (rc)
        return rc;
    answer->what = dibs__resp_integer(dibs__resp_element(reply, 0), 0);
    answer->number = dibs__resp_integer(dibs__resp_element(reply, 1), 0);
    answer->is_ours = dibs__resp_integer(dibs__resp_element(reply, 2), 0);
    freeReplyObject(reply);
    return DIBS_OK;
}

static int
granted(struct redis *redis, dibs_claim *claim, int64_t micros)
{
    dibs__redis_waiter_done(redis, claim);
    claim->token = token_of_tick(micros);
    claim->token_room = TICK_ROOM - 1;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
    return DIBS_OK;
}

static int
wrong_value(const struct redis *redis, int64_t what, dibs_error *err)
{
    if (what == -2)
        return redis->host->fail(err, DIBS_EMISMATCH,
                                 "the time under the key is not in our unit: see unit= "
                                 "(ms or s)");
    return redis->host->fail(err, DIBS_EMISMATCH,
                             "what is under the key is not a time: it may be a lock of "
                             "layout=plain");
}

static int
ask_and_tell(struct redis *redis, dibs_claim *claim, const struct key keys[2],
             dibs_time deadline, dibs_error *err)
{
    struct answer answer = { 0 };
    int rc = ask(redis, claim, keys, deadline, &answer, err);
    if (rc)
        return rc;
    if (answer.what > 0)
        return granted(redis, claim, answer.number);
    if (answer.what == 0)
        return dibs__redis_notice_busy(claim, answer.number, answer.is_ours == 1);
    return wrong_value(redis, answer.what, err);
}

static int
getset_attempt(struct redis *redis, dibs_claim *claim, dibs_time deadline,
               dibs_error *err)
{
    struct key keys[2];
    if (claim->mode == DIBS_OBSERVE)
        return redis->host->fail(err, DIBS_EUNSUPPORTED,
                                 "layout=getset cannot tell one holder from the next");
    if (dibs__redis_notice_same_as_before(redis, claim))
        return DIBS_EBUSY;
    make_keys(keys, claim->name, claim->name_len);
    int rc = check_slots(redis, keys, err);
    if (rc)
        return rc;
    dibs__redis_notice_asking(redis, claim);
    rc = ask_and_tell(redis, claim, keys, deadline, err);
    return notice_remember(claim, rc);
}

static int
getset_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    return dibs__redis_notice_watch(redis, claim, OUR_KEY, deadline, err);
}

/* ---- renew ---- */

static void
make_renewal(struct redis *redis, const dibs_claim *claim, struct renewal *renewal,
             struct call *call)
{
    const struct getset *getset = redis->layout_state;
    make_keys(renewal->keys, claim->name, claim->name_len);
    begin_call(call, &getset->renew, renewal->keys, 0, claim->name_hash);
    call->flags |= CALL_LASTS;
    renewal->value.len = mark_of(redis, claim, renewal->value.text);
    dibs__resp_bytes(&call->command, renewal->value.text, renewal->value.len);
    dibs__resp_number(&call->command, claim->lease_ms);
}

static void
getset_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
             dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    dibs__redis_renew_all(redis, make_renewal, claims, results, n, deadline, err);
}

/* ---- release ---- */

/* runs a script that answers with a number */
static int
run_for_number(struct redis *redis, struct call *call, dibs_time deadline,
               int64_t *number, dibs_error *err)
{
    redisReply *reply;
    int rc = dibs__redis_run(redis, call, deadline, &reply, err);
    if (rc)
        return rc;
    *number = dibs__resp_integer(reply, 0);
    freeReplyObject(reply);
    return DIBS_OK;
}

static int
getset_release(struct redis *redis, dibs_claim *claim, uint32_t linger_ms,
               dibs_time deadline, dibs_error *err)
{
    const struct getset *getset = redis->layout_state;
    struct call call;
    struct key keys[2];
    char mark[MARK_MAX];
    int64_t ended = 0;
    dibs__redis_waiter_done(redis, claim);
    if (!may_be_there(claim))
        return DIBS_ENOTHELD;
    make_keys(keys, claim->name, claim->name_len);
    begin_call(&call, &getset->release, keys, 0, claim->name_hash);
    dibs__resp_bytes(&call.command, mark, mark_of(redis, claim, mark));
    /* the channel is named like our key */
    dibs__resp_bytes(&call.command, keys[1].text, keys[1].len);
    if (linger_ms)
        dibs__resp_number(&call.command, linger_ms);
    int rc = run_for_number(redis, &call, deadline, &ended, err);
    if (rc == DIBS_EMISMATCH || (!rc && ended != 1))
        return DIBS_ENOTHELD;
    return rc;
}

static int
getset_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
             size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct redis *redis = state;
    const struct getset *getset = redis->layout_state;
    struct call call;
    struct key keys[2];
    int64_t ended = 0;
    make_keys(keys, name, name_len);
    int rc = check_slots(redis, keys, err);
    if (rc)
        return rc;
    begin_call(&call, &getset->evict, keys, 0, name_hash);
    dibs__resp_word(&call.command, "\t");
    dibs__resp_bytes(&call.command, keys[1].text, keys[1].len);
    rc = run_for_number(redis, &call, deadline, &ended, err);
    if (rc == DIBS_EMISMATCH)
        return mismatch(redis, keys, name_hash, deadline, err);
    if (!rc && ended < 0)
        return wrong_value(redis, ended, err);
    if (!rc)
        *broken = (size_t)ended;
    return rc;
}

const struct layout dibs__redis_getset_layout = {
    .name = "getset",
    .open = getset_open,
    .close = getset_close,
    .attempt = getset_attempt,
    .release = getset_release,
    .heard = dibs__redis_notice_heard,
};

static const char *const params[] = { "unit", REDIS_PARAMS, NULL };

const dibs_engine dibs__redis_getset = {
    REDIS_ENGINE,
    .layout = "getset",
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_TOKEN | DIBS_CAP_CELL | DIBS_CAP_BREAK |
            DIBS_CAP_LINGER | DIBS_CAP_WAKE,
    .watch = getset_watch,
    .renew = getset_renew,
    .evict = getset_evict,
};
