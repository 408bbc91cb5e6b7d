/* SPDX-License-Identifier: MIT */
/*
 * What runs on the servers. All of them work on one server's keys alone, and all may be
 * repeated. They need Redis 5 or Valkey.
 */
#include "redlock.h"

/* KEYS: the name, dibs:token. ARGV: our value, lease in ms, tick, bucket, guard in ms.
 * token.c explains the ticks. A lease is lengthened here, never shortened. */
static const char take[] =
    "local time = redis.call('TIME')\n"
    "local us = time[1] * 1000000 + time[2]\n"
    "local last = tonumber(redis.call('HGET', KEYS[2], ARGV[4]))\n"
    "if not last then\n"
    "  last = us\n"
    "  redis.call('HSET', KEYS[2], ARGV[4], string.format('%.0f', us))\n"
    "end\n"
    "local value = redis.pcall('GET', KEYS[1])\n"
    "if type(value) == 'table' then return {3, last, us} end\n"
    "if value and value ~= ARGV[1] then\n"
    "  return {2, last, us, redis.call('PTTL', KEYS[1]), string.sub(value, 1, 80)}\n"
    "end\n"
    "local guard = tonumber(ARGV[5])\n"
    "if guard > 0 and not value then\n"
    "  local ms = math.floor(us / 1000)\n"
    "  local born = tonumber(redis.call('HGET', KEYS[2], 'born'))\n"
    "  if not born or born > ms then\n"
    "    born = ms\n"
    "    redis.call('HSET', KEYS[2], 'born', string.format('%.0f', ms))\n"
    "  end\n"
    "  if ms < born + guard then return {4, last, us, born + guard - ms} end\n"
    "end\n"
    "if not value then\n"
    "  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])\n"
    "elseif redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then\n"
    "  redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
    "end\n"
    "if tonumber(ARGV[3]) > last then\n"
    "  redis.call('HSET', KEYS[2], ARGV[4], ARGV[3])\n"
    "end\n"
    "return {1, last, us}\n";

/* KEYS: the name. ARGV: our value, lease in ms. */
static const char renew[] = "local value = redis.pcall('GET', KEYS[1])\n"
                            "if value == ARGV[1] then\n"
                            "  redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
                            "  return 1\n"
                            "end\n"
                            "return value and 0 or 2\n";

/* KEYS: the name. ARGV: our value, linger in ms, channel, 1 to ring whatever we find.
 * Who rings says whether the key was freed here. Without the right to publish, those who
 * wait find out by themselves. */
static const char end[] = "local ours = redis.pcall('GET', KEYS[1]) == ARGV[1]\n"
                          "local linger = tonumber(ARGV[2])\n"
                          "if ours and linger > 0 then\n"
                          "  redis.call('PEXPIRE', KEYS[1], ARGV[2])\n"
                          "elseif ours then\n"
                          "  redis.call('DEL', KEYS[1])\n"
                          "end\n"
                          "if linger == 0 and ARGV[4] == '1' then\n"
                          "  redis.pcall('PUBLISH', ARGV[3], ours and '1' or '0')\n"
                          "end\n"
                          "return ours and 1 or 0\n";

/* KEYS: the name. ARGV: channel. Leaves alone what is no lock of this kind. */
static const char evict[] =
    "if redis.call('TYPE', KEYS[1]).ok ~= 'string' then return 0 end\n"
    "redis.call('DEL', KEYS[1])\n"
    "redis.pcall('PUBLISH', ARGV[1], '1')\n"
    "return 1\n";

/* KEYS: the name. Nothing if it is no string. */
static const char look[] = "local value = redis.pcall('GET', KEYS[1])\n"
                           "if type(value) ~= 'string' then return {} end\n"
                           "return {value, redis.call('PTTL', KEYS[1])}\n";

int
dibs__redlock_scripts_init(resp_script scripts[SCRIPT_COUNT])
{
    static const char *const texts[SCRIPT_COUNT] = { [SCRIPT_TAKE] = take,
                                                     [SCRIPT_RENEW] = renew,
                                                     [SCRIPT_END] = end,
                                                     [SCRIPT_EVICT] = evict,
                                                     [SCRIPT_LOOK] = look };
    int rc = DIBS_OK;
    for (int i = 0; i < SCRIPT_COUNT && !rc; i++)
        rc = dibs__resp_script_init(&scripts[i], texts[i]);
    return rc;
}

void
dibs__redlock_command(const struct redlock *redlock, resp_command *command,
                      enum script script, const char *name, size_t name_len)
{
    dibs__resp_script_begin(command, &redlock->scripts[script],
                            script == SCRIPT_TAKE ? 2 : 1);
    dibs__resp_bytes(command, name, name_len);
}

void
dibs__redlock_take_command(const struct redlock *redlock, resp_command *command,
                           const dibs_claim *claim, const char *value, int64_t tick,
                           int64_t guard_ms)
{
    dibs__redlock_command(redlock, command, SCRIPT_TAKE, claim->name, claim->name_len);
    dibs__resp_word(command, TOKEN_KEY);
    dibs__resp_word(command, value);
    dibs__resp_number(command, claim->lease_ms);
    dibs__resp_number(command, tick);
    dibs__resp_number(command, bucket_of(claim));
    dibs__resp_number(command, guard_ms);
}
