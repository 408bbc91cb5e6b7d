/* SPDX-License-Identifier: MIT */
/*
 * The scripts of the redisson layout, in our own words; the steps are Redisson's, and what
 * its clients find is what Redisson would have left behind. Where we do more, a comment
 * says so. In this order: parts that scripts share, taking, renewing, giving back, looking
 * and breaking, and which script is made of what.
 *
 * Key 1 is the lock; of scripts that take, 2 is the clock. Then come the keys of the form.
 */
#include "redisson.h"

#include <string.h>

/* how long readers stand back for a writer that has not come back to look */
#define TURN_MS "3000"

/* ---- parts ---- */

static const char lua_common[] =
    "local lock = KEYS[1]\n"
    /* an expiry is moved forwards only: a late copy of a request does no harm */
    "local function keep(key, ms)\n"
    "  if redis.call('PTTL', key) < ms then redis.call('PEXPIRE', key, ms) end\n"
    "end\n";

/* pcall: who may not publish can still lock, and the others look now and then */
static const char lua_tell[] = "local function tell(channel, message)\n"
                               "  redis.pcall('PUBLISH', channel, message)\n"
                               "end\n";

/* In a cluster Redisson listens to the sharded channel from 3.22 on, if the server has
 * such (from 7.0 on), else to the common one. */
static const char lua_tell_sharded[] = "local function tell(channel, message)\n"
                                       "  redis.pcall('PUBLISH', channel, message)\n"
                                       "  redis.pcall('SPUBLISH', channel, message)\n"
                                       "end\n";

/* Who waits for a fair lock and is past its deadline goes, as long as it is the head. */
static const char lua_purge[] =
    "local function purge(queue, timeouts, wall)\n"
    "  while true do\n"
    "    local head = redis.call('LINDEX', queue, 0)\n"
    "    local score = head and redis.call('ZSCORE', timeouts, head)\n"
    "    if not score or tonumber(score) > wall then return end\n"
    "    redis.call('ZREM', timeouts, head)\n"
    "    redis.call('LPOP', queue)\n"
    "  end\n"
    "end\n";

static const char lua_tell_head[] =
    "local function tell_head(queue, channel)\n"
    "  local head = redis.call('LINDEX', queue, 0)\n"
    "  if head then tell(channel .. ':' .. head, '0') end\n"
    "end\n";

/* The longest lease of all who read; their keys begin with `prefix`. */
static const char lua_reads[] =
    "local function each_read(prefix, visit)\n"
    "  local fields = redis.call('HGETALL', lock)\n"
    "  for i = 1, #fields, 2 do\n"
    "    local count = tonumber(fields[i + 1])\n"
    "    if count and not string.find(fields[i], ':write$') then\n"
    /* what we do not know to be a count is no reason to keep the server busy */
    "      for n = math.min(count, 1000), 1, -1 do\n"
    "        visit(prefix .. fields[i] .. ':rwlock_timeout:' .. n)\n"
    "      end\n"
    "    end\n"
    "  end\n"
    "end\n"
    "local function longest_read(prefix)\n"
    "  local longest = 0\n"
    "  each_read(prefix, function(key)\n"
    "    longest = math.max(longest, redis.call('PTTL', key))\n"
    "  end)\n"
    "  return longest\n"
    "end\n";

/* ---- taking: returns {1, number}, {0, ms to wait, position}, {-1} ---- */

static const char lua_take[] =
    "local me, lease, waits = ARGV[1], tonumber(ARGV[2]), ARGV[3] == '1'\n"
    "local function busy(ms, position) return {0, ms, position or 0} end\n";

static const char lua_token_tick[] = "local function next_token()\n"
                                     "  return tick(KEYS[2])\n"
                                     "end\n";

/* Redisson's own counter. Nobody raises it while we hold the lock, so a repeated request
 * gets the number that the first one got. */
static const char lua_token_counter[] =
    "local function next_token(again)\n"
    "  if again then return tonumber(redis.call('GET', KEYS[3]) or 0) end\n"
    "  return redis.call('INCR', KEYS[3])\n"
    "end\n";

/* Our field can be there by an earlier copy of this request only: each claim has its own.
 * So the count stays 1, and only the lease is armed anew. */
static const char lua_take_lock[] =
    "local again = false\n"
    "if redis.call('EXISTS', lock) == 1 then\n"
    "  again = redis.call('HEXISTS', lock, me) == 1\n"
    "  if not again then\n"
    "    if redis.call('HEXISTS', lock, 'mode') == 1 then return {-1} end\n"
    "    return busy(redis.call('PTTL', lock))\n"
    "  end\n"
    "else\n"
    "  local pause = gate()\n"
    "  if pause > 0 then return busy(pause) end\n"
    "end\n"
    "local number = next_token(again)\n"
    "if not again then redis.call('HINCRBY', lock, me, 1) end\n"
    "keep(lock, lease)\n"
    "return {1, number}\n";

/* Keys 3 the queue, 4 the deadlines; arguments 4 the client's clock, 5 how long a waiter
 * stays without being served. */
static const char lua_take_fair[] =
    "local queue, timeouts = KEYS[3], KEYS[4]\n"
    "local wall, wait = tonumber(ARGV[4]), tonumber(ARGV[5])\n"
    "purge(queue, timeouts, wall)\n"
    "local head = redis.call('LINDEX', queue, 0)\n"
    "local free = redis.call('EXISTS', lock) == 0\n"
    "local again = not free and redis.call('HEXISTS', lock, me) == 1\n"
    "local pause = 0\n"
    "if free and (not head or head == me) then pause = gate() end\n"
    "if again or (free and (not head or head == me) and pause == 0) then\n"
    "  local number = next_token(again)\n"
    "  if not again then\n"
    "    redis.call('LPOP', queue)\n"
    "    redis.call('ZREM', timeouts, me)\n"
    "    for _, other in ipairs(redis.call('ZRANGE', timeouts, 0, -1)) do\n"
    "      redis.call('ZINCRBY', timeouts, -wait, other)\n"
    "    end\n"
    "    redis.call('HSET', lock, me, 1)\n"
    "  end\n"
    "  keep(lock, lease)\n"
    "  return {1, number}\n"
    "end\n"
    "if not free and redis.call('HEXISTS', lock, 'mode') == 1 then return {-1} end\n"
    "local left = redis.call('PTTL', lock)\n"
    "if waits and not redis.call('ZSCORE', timeouts, me) then\n"
    "  local tail = redis.call('LINDEX', queue, -1)\n"
    "  local score = tail and tail ~= me and redis.call('ZSCORE', timeouts, tail)\n"
    "  local before = score and tonumber(score) - wall or left\n"
    "  redis.call('ZADD', timeouts, before + wait + wall, me)\n"
    "  redis.call('RPUSH', queue, me)\n"
    "end\n"
    /* deadlines rise along the queue: our rank by them is our place in it */
    "local place = redis.call('ZRANK', timeouts, me)\n"
    "if pause > 0 then left = pause\n"
    "elseif free then\n"
    /* free, but the head is another, who may be dead: come back for its deadline */
    "  local score = head and redis.call('ZSCORE', timeouts, head)\n"
    "  left = math.max(1, math.min(1000, (tonumber(score or 0)) - wall))\n"
    "end\n"
    "return busy(left, place and place + 1)\n";

/* Keys 3 our read's lease, 4 the turn. A hash without a mode is an RLock, which Redisson's
 * own readers would walk into; we refuse. Redisson's readers can starve a writer. Ours
 * stand back for a writer of ours: while it waits it keeps a key, the turn, alive. */
static const char lua_take_read[] =
    "local mode = redis.call('HGET', lock, 'mode')\n"
    "if not mode and redis.call('EXISTS', lock) == 1 then return {-1} end\n"
    "local again = mode and redis.call('HEXISTS', lock, me) == 1\n"
    "if not again then\n"
    "  if mode == 'write' then return busy(redis.call('PTTL', lock)) end\n"
    "  local pause = redis.call('PTTL', KEYS[4])\n"
    "  if pause < 0 then pause = gate() end\n"
    "  if pause > 0 then return busy(pause) end\n"
    "end\n"
    "local number = next_token(again)\n"
    "if not again then\n"
    "  if not mode then redis.call('HSET', lock, 'mode', 'read') end\n"
    "  redis.call('HINCRBY', lock, me, 1)\n"
    "end\n"
    "if redis.call('PTTL', KEYS[3]) < lease then\n"
    "  redis.call('SET', KEYS[3], '1', 'PX', lease)\n"
    "end\n"
    "keep(lock, lease)\n"
    "return {1, number}\n";

static const char lua_take_write[] =
    "local mode = redis.call('HGET', lock, 'mode')\n"
    "if not mode and redis.call('EXISTS', lock) == 1 then return {-1} end\n"
    "local again = mode and redis.call('HEXISTS', lock, me .. ':write') == 1\n"
    "if not again then\n"
    "  local pause = mode and redis.call('PTTL', lock) or gate()\n"
    "  if mode or pause > 0 then\n"
    "    if waits then\n"
    "      redis.call('SET', KEYS[4], me, 'PX', " TURN_MS ")\n"
    "    end\n"
    "    return busy(pause)\n"
    "  end\n"
    "end\n"
    "local number = next_token(again)\n"
    "if not again then\n"
    "  redis.call('HSET', lock, 'mode', 'write')\n"
    "  redis.call('HINCRBY', lock, me .. ':write', 1)\n"
    "end\n"
    "if redis.call('GET', KEYS[4]) == me then redis.call('DEL', KEYS[4]) end\n"
    "keep(lock, lease)\n"
    "return {1, number}\n";

/* ---- renewing: returns 1, or 0 if it is lost ---- */

static const char lua_renew[] =
    "if redis.call('HEXISTS', lock, ARGV[1]) == 0 then return 0 end\n"
    "redis.call('PEXPIRE', lock, ARGV[2])\n"
    "return 1\n";

/* Key 2: our read's lease. What we hold is seen here, not said by the caller: a downgrade
 * may have come between. */
static const char lua_renew_rw[] =
    "local lease = tonumber(ARGV[2])\n"
    "if redis.call('HEXISTS', lock, ARGV[1] .. ':write') == 1 then\n"
    "  redis.call('PEXPIRE', lock, lease)\n"
    "elseif redis.call('HEXISTS', lock, ARGV[1]) == 1 then\n"
    /* SET is refused by a server that is out of memory, PEXPIRE is not */
    "  if redis.call('PEXPIRE', KEYS[2], lease) == 0 then\n"
    "    redis.call('SET', KEYS[2], '1', 'PX', lease)\n"
    "  end\n"
    "  keep(lock, lease)\n"
    "else\n"
    "  return 0\n"
    "end\n"
    "return 1\n";

/* ---- giving back: returns 1, or 0 if it was not held ---- */

/* `afterglow` owns what is to linger, so that nobody releases or renews it. */
static const char lua_give[] = "local me, linger, afterglow, channel = ARGV[1], "
                               "tonumber(ARGV[2]), ARGV[3], ARGV[4]\n";

/* Key 2: the queue. A fair lock's head hears of it too: the forms may be mixed. Who waits
 * is told of a lock that lingers as well, because it will now be free sooner. */
static const char lua_give_lock[] =
    "if redis.call('HDEL', lock, me) == 0 then return 0 end\n"
    "if linger > 0 then\n"
    "  redis.call('HSET', lock, afterglow, 1)\n"
    "  redis.call('PEXPIRE', lock, linger)\n"
    "end\n"
    "tell(channel, '0')\n"
    "tell_head(KEYS[2], channel)\n"
    "return 1\n";

/* Keys 2 the queue, 3 the deadlines; arguments 5 the client's clock, 6 how long a waiter
 * stays. The common channel hears of it too, for RLocks of that name. A head that gives up
 * wakes the next one, if the lock is free. */
static const char lua_give_fair[] =
    "local queue, timeouts = KEYS[2], KEYS[3]\n"
    "local wall, wait = tonumber(ARGV[5]), tonumber(ARGV[6])\n"
    "if redis.call('ZSCORE', timeouts, me) then\n"
    "  local behind = false\n"
    "  for _, other in ipairs(redis.call('LRANGE', queue, 0, -1)) do\n"
    "    if behind and redis.call('ZSCORE', timeouts, other) then\n"
    "      redis.call('ZINCRBY', timeouts, -wait, other)\n"
    "    end\n"
    "    behind = behind or other == me\n"
    "  end\n"
    "  redis.call('ZREM', timeouts, me)\n"
    "  redis.call('LREM', queue, 0, me)\n"
    "end\n"
    "purge(queue, timeouts, wall)\n"
    "local held = redis.call('HDEL', lock, me)\n"
    "if held == 1 and linger > 0 then\n"
    "  redis.call('HSET', lock, afterglow, 1)\n"
    "  redis.call('PEXPIRE', lock, linger)\n"
    "end\n"
    "if held == 1 then tell(channel, '0') end\n"
    "if held == 1 or redis.call('EXISTS', lock) == 0 then tell_head(queue, channel) end\n"
    "return held\n";

/* Keys 2 our read's lease, 3 the same of what lingers, 4 the turn; argument 7: how leases
 * of reads begin. A write that ends and leaves reads behind is published too, which Redisson
 * forgets: its waiting readers would sleep on. */
static const char lua_give_rw[] =
    "local wrote = redis.call('HDEL', lock, me .. ':write') == 1\n"
    "local held = redis.call('HDEL', lock, me) == 1 or wrote\n"
    "redis.call('DEL', KEYS[2])\n"
    "if not held then\n"
    /* a writer that waited lets the readers go that stood back for it */
    "  if redis.call('GET', KEYS[4]) == me then\n"
    "    redis.call('DEL', KEYS[4])\n"
    "    tell(channel, '1')\n"
    "  end\n"
    "  return 0\n"
    "end\n"
    "if linger > 0 and wrote then\n"
    "  redis.call('HSET', lock, afterglow .. ':write', 1)\n"
    "  redis.call('PEXPIRE', lock, linger)\n"
    "  tell(channel, '1')\n"
    "  return 1\n"
    "elseif linger > 0 then\n"
    "  redis.call('HSET', lock, afterglow, 1)\n"
    "  redis.call('SET', KEYS[3], '1', 'PX', linger)\n"
    "end\n"
    "local left = 0\n"
    "if redis.call('HLEN', lock) > 1 then left = longest_read(ARGV[7]) end\n"
    "if left > 0 then\n"
    "  redis.call('PEXPIRE', lock, left)\n"
    "  if wrote then\n"
    "    redis.call('HSET', lock, 'mode', 'read')\n"
    "    tell(channel, '1')\n"
    "  end\n"
    "  return 1\n"
    "end\n"
    "if wrote or redis.call('HGET', lock, 'mode') == 'read' then\n"
    "  redis.call('DEL', lock)\n"
    "  tell(channel, wrote and '1' or '0')\n"
    "end\n"
    "return 1\n";

/* Key 2: our read's lease. Leaves what Redisson leaves after a read inside a write whose
 * write has ended; the message is ours, it lets waiting readers in. */
static const char lua_downgrade[] =
    "local me, lease, channel = ARGV[1], tonumber(ARGV[2]), ARGV[3]\n"
    "if redis.call('HDEL', lock, me .. ':write') == 1 then\n"
    "  redis.call('HSET', lock, me, 1)\n"
    "  redis.call('HSET', lock, 'mode', 'read')\n"
    "elseif redis.call('HEXISTS', lock, me) == 0 then\n"
    "  return 0\n"
    "end\n"
    "redis.call('SET', KEYS[2], '1', 'PX', lease)\n"
    "keep(lock, lease)\n"
    "tell(channel, '1')\n"
    "return 1\n";

/* ---- looking and breaking ---- */

/* Keys 2 the queue, 3 the deadlines; arguments 1 and 2 the channels, 3 how leases of reads
 * begin, 4 the client's clock. Returns how many held it. */
static const char lua_evict[] =
    "local count = redis.call('HLEN', lock)\n"
    "if count == 0 then return 0 end\n"
    "local mode = redis.call('HGET', lock, 'mode')\n"
    "if mode then\n"
    "  count = count - 1\n"
    "  each_read(ARGV[3], function(key) redis.call('DEL', key) end)\n"
    "end\n"
    "redis.call('DEL', lock)\n"
    "if mode then\n"
    "  tell(ARGV[2], '1')\n"
    "else\n"
    "  purge(KEYS[2], KEYS[3], tonumber(ARGV[4]))\n"
    "  tell(ARGV[1], '0')\n"
    "  tell_head(KEYS[2], ARGV[1])\n"
    "end\n"
    "return count\n";

/* Keys 2 the queue, 3 the counter; argument 1: how leases of reads begin. Returns the
 * mode, holders as {owner, ms left}, the queue and the counter. A read whose lease is over
 * does not count, though Redisson leaves its field. */
static const char lua_look[] =
    "local fields, holders = redis.call('HGETALL', lock), {}\n"
    "local mode = redis.call('HGET', lock, 'mode')\n"
    "local left = redis.call('PTTL', lock)\n"
    "for i = 1, #fields, 2 do\n"
    "  local owner, ms = fields[i], left\n"
    "  if mode and not string.find(owner, ':write$') then\n"
    "    ms = -2\n"
    "    for n = math.min(tonumber(fields[i + 1]) or 0, 1000), 1, -1 do\n"
    "      ms = math.max(ms, redis.call('PTTL', ARGV[1] .. owner .. "
    "':rwlock_timeout:' .. n))\n"
    "    end\n"
    "  end\n"
    "  if owner ~= 'mode' and ms ~= -2 then\n"
    "    holders[#holders + 1] = {owner, ms}\n"
    "  end\n"
    "end\n"
    "return {mode or '', holders, redis.call('LRANGE', KEYS[2], 0, -1),\n"
    "  redis.call('GET', KEYS[3]) or '0'}\n";

/* ---- which script is made of what ---- */

struct recipe {
    struct script *script;
    const char *name;
    const char *parts[9];
};

static int
make(const struct recipe *recipes, size_t count, const dibs_host *host)
{
    int rc = DIBS_OK;
    for (size_t i = 0; i < count && !rc; i++)
        rc = dibs__redis_script_new(recipes[i].script, recipes[i].name, recipes[i].parts,
                                    host);
    return rc;
}

int
dibs__redisson_scripts_new(struct redisson *redisson, const struct redis *redis)
{
    enum form form = redisson->form;
    const char *tick = dibs__redis_lua_tick, *gate = dibs__redis_gate_lua(redis);
    const char *tell = redis->is_cluster ? lua_tell_sharded : lua_tell;
    const char *token = form == FORM_FENCED ? lua_token_counter : lua_token_tick;
    const char *take = form == FORM_RW     ? lua_take_write
                       : form == FORM_FAIR ? lua_take_fair
                                           : lua_take_lock;
    const char *give = form == FORM_RW     ? lua_give_rw
                       : form == FORM_FAIR ? lua_give_fair
                                           : lua_give_lock;
    const struct recipe recipes[] = {
        { &redisson->take,
          "redisson take",
          { tick, gate, lua_common, lua_purge, lua_take, token, take, NULL } },
        { &redisson->take_shared,
          "redisson take shared",
          { tick, gate, lua_common, lua_take, token, lua_take_read, NULL } },
        { &redisson->renew,
          "redisson renew",
          { lua_common, form == FORM_RW ? lua_renew_rw : lua_renew, NULL } },
        { &redisson->give,
          "redisson give",
          { lua_common, tell, lua_purge, lua_tell_head, lua_reads, lua_give, give,
            NULL } },
        { &redisson->downgrade,
          "redisson downgrade",
          { lua_common, tell, lua_downgrade, NULL } },
        { &redisson->evict,
          "redisson evict",
          { lua_common, tell, lua_purge, lua_tell_head, lua_reads, lua_evict, NULL } },
        { &redisson->look, "redisson look", { lua_common, lua_look, NULL } },
    };
    return make(recipes, sizeof recipes / sizeof *recipes, redis->host);
}

void
dibs__redisson_scripts_free(struct redisson *redisson, const dibs_host *host)
{
    struct script *all[] = { &redisson->take, &redisson->take_shared, &redisson->renew,
                             &redisson->give, &redisson->downgrade,   &redisson->evict,
                             &redisson->look };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        dibs__redis_script_free(all[i], host);
}
