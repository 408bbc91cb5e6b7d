/* SPDX-License-Identifier: MIT */
/*
 * The scripts of the queue layout: how a lock is written down, and the one rule of who is
 * next. All of it runs on the server, by the server's clock.
 *
 * A lock has up to four keys, which live and die together:
 *   dibs:{NAME}    a string that is there whenever the lock is in use in any way, so that
 *                  taking a free lock is one SET NX. It begins with its kind:
 *     L ID TICK END INFO   one holder and nobody else: the common case, with no other key
 *     Q TILL FIRST LIMIT PREVIOUS ALONE USED OBSERVERS   see below
 *     P PREVIOUS           nobody, but the next holder is to know how the last one ended
 *   dibs:{NAME}:q  (kind Q) everybody, in order: holders by minus the tick of their grant,
 *                  observers at 0, waiters by their ticket. Newest holder first, then who
 *                  has waited longest.
 *   dibs:{NAME}:e  when the lease of each of them ends, in ms of the server's clock
 *   dibs:{NAME}:i  INFO of each of them
 * TILL is when the keys go, FIRST a time before which nobody's lease ends, ALONE says that
 * the holder is exclusive, USED counts permits or sharers. An ID is 32 hex digits of the session, ':' and the claim's serial; '+' before
 * it marks a hold that lingers, which is nobody's any more. INFO is a digit and what
 * queue_lua.h says; the digit is how the hold before ended, for who asks again, and 4 more
 * in an offer (below). Ticks count microseconds, so they also say since when.
 *
 * Who comes waits in line unless all before it are holders it can be together with; so
 * nobody is overtaken. Whoever changes something grants to those who are next (promote) and
 * publishes that to the channel of each one's client:
 *   g SERIAL TICKET TICK PREVIOUS   granted, with its full lease
 *   o SERIAL                        offered: come and take it
 *   w SERIAL                        to observers: look again
 *   b SERIAL                        to a holder: it is not yours any more
 * A grant is final only for one who is surely there: it asked shortly before, and listens.
 * Others get an offer, which ends with the short lease they wait by. So any number of dead
 * waiters cost the others one such lease in all. A ticket is never used twice, so a message
 * that comes late cannot be taken for an answer to something newer.
 *
 * In this order: what is free or only one has, the state of a lock, who is next, and then
 * the scripts: taking, giving back, observing, keeping, sharing, breaking, looking.
 */
#include "queue_lua.h"

/* ---- what is free, and what only one has ----
 * Most locks are free when they are taken, and nobody waits when they are given back. These
 * two scripts do only that, with as few calls and arguments as can be; they reply nil if
 * it is not so, and then the full ones are asked. */

/* ARGV: "L ID ", what comes behind the tick, twice the lease. Replies: TICK. The tick is
 * made as text, because numbers are slow to print; the end is written as "+LEASE", which
 * counts from the tick. If the clock of tokens is ahead of the server's, this must not be
 * so, and the clock is put back to where it was. */
const char dibs__queue_lua_take_free[] =
    "local time = redis.call('TIME')\n"
    "local micros = time[2]\n"
    "if #micros < 6 then micros = string.sub('00000' .. micros, -6) end\n"
    "local tick = time[1] .. micros\n"
    "local last = redis.call('GETSET', KEYS[2], tick)\n"
    "if last and (#last ~= #tick or last >= tick) then\n"
    "  redis.call('SET', KEYS[2], last)\n"
    "elseif redis.call('SET', KEYS[1], ARGV[1] .. tick .. ARGV[2], 'NX', 'PX', ARGV[3]) "
    "then\n"
    "  return tick\n"
    "end\n"
    "return false\n";

/* ARGV: "L ID ". Replies: 1 it was held, 0 it was not. */
const char dibs__queue_lua_give_lone[] =
    "local record = redis.call('GET', KEYS[1])\n"
    "if not record then return 0 end\n"
    "if string.sub(record, 1, #ARGV[1]) == ARGV[1] then\n"
    "  return redis.call('DEL', KEYS[1])\n"
    "end\n"
    "return false\n";

/* ---- the state of a lock ---- */

/* All the other scripts begin with the clock, the gate, the state and the turns. This is
 * dibs__redis_lua_tick, but for its ticks, which are text here as well. */
const char dibs__queue_lua_clock[] =
    "local time = redis.call('TIME')\n"
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
    "local function tick(clock)\n"
    "  local t = time[1] .. string.sub('00000' .. time[2], -6)\n"
    "  local last = redis.call('GETSET', clock, t)\n"
    "  if not last or #last < #t or (#last == #t and last < t) then return t end\n"
    "  t = string.format('%.0f', last + 1)\n"
    "  redis.call('SET', clock, t)\n"
    "  if last + 1 >= 9007199254740991 then\n"
    "    error('the clock of tokens, ' .. clock .. ', is at its end: ' .. last)\n"
    "  end\n"
    "  return t\n"
    "end\n";

/* In a cluster a message reaches all servers, but none knows who listens at another. */
const char dibs__queue_lua_together[] =
    "local function listens(id)\n"
    "  return tonumber(redis.call('PUBSUB', 'NUMSUB', 'dibs:c:' .. string.sub(id, 1, "
    "32))[2]) > 0\n"
    "end\n";
const char dibs__queue_lua_apart[] = "local function listens() return true end\n";

/* Functions are made anew in each run, so there are not too many of them. */
const char dibs__queue_lua_state[] =
    "local lock, line, ends, infos, clock = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]\n"
    "local till, limit, previous, alone, used, observers = now, 0, 0, 0, 0, 0\n"
    "local first, longer, changed = now + 86400000, false, false\n"
    "local granted, failed = nil, nil\n"

    "local function read(info)\n"
    "  local was, mode, permits, most, lease, wait = string.match(info, "
    "'^(%d) (%d) (%d+) (%d+) (%d+) (%d+) ')\n"
    "  return tonumber(was), tonumber(mode), tonumber(permits), tonumber(most), "
    "tonumber(lease), tonumber(wait)\n"
    "end\n"
    /* of one whose info somebody has deleted */
    "local no_info = '0 0 1 0 1 1 '\n"

    "local function tell(id, kind, more)\n"
    "  if string.sub(id, 1, 1) == '+' then return end\n"
    "  redis.call('PUBLISH', 'dibs:c:' .. string.sub(id, 1, 32), kind .. ' ' .. "
    "string.sub(id, 34) .. (more or ''))\n"
    "end\n"

    /* the keys must live for that long; not each time anew, which would cost three calls */
    "local function cover(ms)\n"
    "  if now + ms <= till then return end\n"
    "  till = now + ms + math.floor(ms / 4)\n"
    "  longer = true\n"
    "end\n"

    "local function put(id, place, ends_at, info)\n"
    "  redis.call('ZADD', line, place, id)\n"
    "  redis.call('ZADD', ends, ends_at, id)\n"
    "  if info then redis.call('HSET', infos, id, info) end\n"
    "  first = math.min(first, ends_at)\n"
    "end\n"

    "local function forget(ids)\n"
    "  redis.call('ZREM', line, unpack(ids))\n"
    "  redis.call('ZREM', ends, unpack(ids))\n"
    "  redis.call('HDEL', infos, unpack(ids))\n"
    "end\n"

    /* takes a holder off the counts; an offer that was never taken up leaves no trace */
    "local function uncount(id, how)\n"
    "  local was, mode, permits = read(redis.call('HGET', infos, id) or no_info)\n"
    "  used = used - permits\n"
    "  if mode == 0 then alone = 0 end\n"
    "  if was >= 4 then how = was - 4 end\n"
    "  if how > 0 then previous = how end\n"
    "  changed = true\n"
    "end\n"
    "local function end_of(id) return string.sub(id, 1, 1) == '+' and 0 or 1 end\n"

    /* the holder in a record of kind L, or nil */
    "local function read_lone(record)\n"
    "  local id, t, from, ends_at, info = string.match(record, "
    "'^L (%S+) (%d+) (%+?)(%d+) (.*)$')\n"
    "  ends_at = tonumber(ends_at)\n"
    "  if from == '+' then ends_at = ends_at + math.floor(t / 1000) end\n"
    "  return id, ends_at, t, info\n"
    "end\n"
    "local function write_lone(id, t, ends_at, info, live)\n"
    "  redis.call('SET', lock, 'L ' .. id .. ' ' .. t .. ' ' .. ends_at .. ' ' .. info, "
    "'PX', live)\n"
    "end\n"

    /* restore makes what it finds the kind Q, or nothing; nil: this is not ours */
    "local function restore(record)\n"
    "  if not record then return true end\n"
    "  local kind = string.sub(record, 1, 2)\n"
    "  if kind == 'Q ' then\n"
    "    local a, b, c, d, e, f, g = string.match(record, "
    "'^Q (%d+) (%d+) (%d+) (%d+) (%d+) (%d+) (%d+)$')\n"
    "    till, first, limit, previous = tonumber(a), tonumber(b), tonumber(c), "
    "tonumber(d)\n"
    "    alone, used, observers = tonumber(e), tonumber(f), tonumber(g)\n"
    "    return g\n"
    "  elseif kind == 'P ' then\n"
    "    previous = tonumber(string.sub(record, 3))\n"
    "    till = now + math.max(redis.call('PTTL', lock), 1)\n"
    "    return previous\n"
    "  end\n"
    "  local id, ends_at, t, info = read_lone(record)\n"
    "  if not id then return nil end\n"
    "  local _, mode, permits, most, lease = read(info)\n"
    "  cover(math.max(ends_at - now + lease, 1))\n"
    "  if ends_at <= now then\n"
    "    previous, changed = end_of(id), true\n"
    "    return true\n"
    "  end\n"
    "  put(id, '-' .. t, ends_at, info)\n"
    "  limit, used, alone = most, permits, mode == 0 and 1 or 0\n"
    "  return true\n"
    "end\n";

/* ---- who is next ---- */

const char dibs__queue_lua_turns[] =
    "local function expire()\n"
    "  if now < first then return end\n"
    "  local ids\n"
    "  repeat\n"
    "    ids = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 1000)\n"
    "    for _, id in ipairs(ids) do\n"
    "      local place = tonumber(redis.call('ZSCORE', line, id) or 1)\n"
    "      if place == 0 then observers = observers - 1 end\n"
    "      if place < 0 then\n"
    "        uncount(id, end_of(id))\n"
    "        tell(id, 'b')\n"
    "      end\n"
    "    end\n"
    "    if #ids > 0 then forget(ids) end\n"
    "  until #ids < 1000\n"
    "  first = tonumber(redis.call('ZRANGE', ends, 0, 0, 'WITHSCORES')[2] or "
    "now + 86400000)\n"
    "end\n"

    /* Until when has it the lock, and how is it told? It is surely there if it asked
     * shortly before and listens. */
    "local function offer(id, ticket, t, lease, wait)\n"
    "  local stays = math.floor(ticket / 1000) + wait\n"
    "  if (now + wait - stays) * 10 > wait then\n"
    "    stays = tonumber(redis.call('ZSCORE', ends, id) or now)\n"
    "  end\n"
    "  if (now + wait - stays) * 10 <= wait and listens(id) then\n"
    "    tell(id, 'g', ' ' .. ticket .. ' ' .. t .. ' ' .. previous)\n"
    "    return now + lease, previous\n"
    "  end\n"
    "  tell(id, 'o')\n"
    "  return math.min(stays, now + lease), previous + 4\n"
    "end\n"

    /* the first in line who does not fit ends it, so nobody is overtaken */
    "local function promote(me)\n"
    "  while alone == 0 and gate() == 0 do\n"
    "    local head = redis.call('ZRANGEBYSCORE', line, '(0', '+inf', 'WITHSCORES', "
    "'LIMIT', 0, 1)\n"
    "    local id = head[1]\n"
    "    if not id then return end\n"
    "    local info = redis.call('HGET', infos, id) or no_info\n"
    "    local _, mode, permits, _, lease, wait = read(info)\n"
    "    if (mode == 0 and used > 0) or (mode == 2 and used + permits > limit) then "
    "return "
    "end\n"
    "    local went, t = pcall(tick, clock)\n"
    "    if not went then\n"
    "      failed = type(t) == 'table' and t.err or t\n"
    "      return\n"
    "    end\n"
    "    local ends_at, was = now + lease, previous\n"
    "    if id == me then\n"
    "      granted = {t, was}\n"
    "    else\n"
    "      ends_at, was = offer(id, head[2], t, lease, wait)\n"
    "    end\n"
    "    put(id, '-' .. t, ends_at, was > 0 and was .. string.sub(info, 2))\n"
    "    previous, used, alone, changed = 0, used + permits, mode == 0 and 1 or 0, true\n"
    "    cover(2 * lease)\n"
    "  end\n"
    "end\n"

    "local function save()\n"
    "  if changed and observers > 0 then\n"
    "    for _, id in ipairs(redis.call('ZRANGEBYSCORE', line, 0, 0)) do tell(id, 'w') "
    "end\n"
    "  end\n"
    "  local left = math.max(till - now, 1)\n"
    "  if used > 0 or observers > 0 or redis.call('EXISTS', line) == 1 then\n"
    "    redis.call('SET', lock, table.concat({'Q', till, first, limit, previous, alone, "
    "used, observers}, ' '), 'PX', left)\n"
    "    if longer then\n"
    "      for i = 2, 4 do redis.call('PEXPIRE', KEYS[i], left) end\n"
    "    end\n"
    "  elseif previous > 0 then\n"
    "    redis.call('SET', lock, 'P ' .. previous, 'PX', left)\n"
    "  else\n"
    "    redis.call('DEL', lock)\n"
    "  end\n"
    "end\n";

/* ---- taking ----
 * ARGV: id, info, lease, 1 if it does not queue. Replies: {TICK, PREVIOUS, 1 if nobody else
 * is there}; busy: {0, TICKET, POSITION, HINT}; {-1, LIMIT} in use in another way;
 * {-2, TYPE} not ours. */

const char dibs__queue_lua_take[] =
    "local record = redis.pcall('GET', lock)\n"
    "if type(record) == 'table' then return {-2, redis.call('TYPE', lock).ok} end\n"
    "local id, lease = ARGV[1], tonumber(ARGV[3])\n"
    "local _, mode, permits, most, _, wait = read('0 ' .. ARGV[2])\n"

    /* one holder, or none any more: no need for the other keys if it can stay so */
    "if record and string.sub(record, 1, 2) == 'L ' then\n"
    "  local owner, ends_at, t, info = read_lone(record)\n"
    "  if not owner then return {-2, 'string'} end\n"
    "  local was, its_mode, _, its_limit = read(info)\n"
    "  if ends_at > now and owner == id then\n"
    "    ends_at = math.max(ends_at, now + lease)\n"
    "    write_lone(id, t, ends_at, info, ends_at - now + lease)\n"
    "    return {t, was}\n"
    "  elseif ends_at > now and ARGV[4] == '1' and its_limit == most and "
    "(mode == 0 or its_mode == 0) then\n"
    "    return {0, 0, 0, ends_at - now}\n"
    "  elseif ends_at <= now then\n"
    "    record = 'P ' .. end_of(owner)\n"
    "  end\n"
    "end\n"
    /* before anything is written, because it may fail */
    "local ticket = tick(clock)\n"
    "if (not record or string.sub(record, 1, 2) == 'P ') and gate() == 0 then\n"
    "  local was = record and string.sub(record, 3) or '0'\n"
    "  write_lone(id, ticket, now + lease, was .. ' ' .. ARGV[2], 2 * lease)\n"
    "  return {ticket, tonumber(was), 1}\n"
    "end\n"

    "if not restore(record) then return {-2, 'string'} end\n"
    "expire()\n"
    "local place = redis.call('ZSCORE', line, id)\n"
    "local is_new, has_it = not place, tonumber(place or 0) < 0\n"
    "if is_new and most ~= limit then\n"
    "  if used > 0 or redis.call('ZCARD', line) > observers then\n"
    "    save()\n"
    "    return {-1, limit}\n"
    "  end\n"
    "  limit = most\n"
    "end\n"
    "if not has_it then\n"
    "  place = place or ticket\n"
    "  put(id, place, now + wait, '0 ' .. ARGV[2])\n"
    "  cover(2 * wait)\n"
    "end\n"
    "promote(id)\n"
    /* should somebody have deleted the holders, those in line find that out */
    "if not is_new and not has_it and not granted and redis.call('ZCOUNT', line, '-inf', "
    "'(0') == 0 then\n"
    "  alone, used = 0, 0\n"
    "  promote(id)\n"
    "end\n"

    /* granted before: to be told again, or an offer that is taken up now */
    "if has_it then\n"
    "  local info = redis.call('HGET', infos, id) or '0 ' .. ARGV[2]\n"
    "  local was = read(info) % 4\n"
    "  local ends_at = tonumber(redis.call('ZSCORE', ends, id) or 0)\n"
    "  put(id, place, math.max(ends_at, now + lease), was .. string.sub(info, 2))\n"
    "  cover(2 * lease)\n"
    "  granted = {string.sub(place, 2), was}\n"
    "end\n"
    "if granted then\n"
    "  save()\n"
    "  return granted\n"
    "end\n"

    /* the first in line comes back when somebody's lease ends; the others to stay in it */
    "local hint, position = math.floor(wait / 3), 1\n"
    "if ARGV[4] == '1' then\n"
    "  forget({id})\n"
    "  place = 0\n"
    "else\n"
    "  position = 1 + redis.call('ZCOUNT', line, '(0', '(' .. place)\n"
    "end\n"
    "if position == 1 then hint = math.min(hint, first - now) end\n"
    "local closed = gate()\n"
    "if closed > 0 then hint = math.min(hint, closed) end\n"
    "save()\n"
    "if failed then return redis.error_reply(failed) end\n"
    "return {0, place, position, hint}\n";

/* ---- giving back ----
 * ARGV: id, how long it lingers, its permits if the client knows that it has them, or 0.
 * Replies: 1 it was held, 0 it was not. */

const char dibs__queue_lua_give[] =
    "local record = redis.call('GET', lock)\n"
    "local id, linger = ARGV[1], tonumber(ARGV[2])\n"
    "if not record then return 0 end\n"
    "if string.sub(record, 1, 2) == 'L ' then\n"
    "  local owner, ends_at, t, info = read_lone(record)\n"
    "  if linger > 0 and owner == '+' .. id then return 1 end\n"
    "  if owner ~= id or ends_at <= now then return 0 end\n"
    "  if linger == 0 then return redis.call('DEL', lock) end\n"
    "  write_lone('+' .. id, t, now + linger, info, linger)\n"
    "  return 1\n"
    "end\n"
    "if not restore(record) then return 0 end\n"
    "expire()\n"
    "local place = tonumber(redis.call('ZSCORE', line, id) or 1)\n"
    "local held = place < 0 and 1 or 0\n"
    "if held == 1 and linger > 0 then\n"
    "  put('+' .. id, place, now + linger, redis.call('HGET', infos, id) or no_info)\n"
    "  cover(linger)\n"
    "  changed = true\n"
    "elseif held == 1 and ARGV[3] ~= '0' then\n"
    "  used, alone, changed = used - ARGV[3], 0, true\n"
    "elseif held == 1 then\n"
    "  uncount(id, 0)\n"
    "elseif place == 0 then\n"
    "  observers = observers - 1\n"
    "elseif linger > 0 and redis.call('ZSCORE', line, '+' .. id) then\n"
    "  held = 1\n"
    "end\n"
    "forget({id})\n"
    "promote()\n"
    "save()\n"
    "return held\n";

/* ---- observing ----
 * ARGV: id, the tick it has seen, wait. Replies: the tick of the newest holder, or 0; it
 * is in line for a message if that is the one it has seen. */

const char dibs__queue_lua_observe[] =
    "local record = redis.call('GET', lock)\n"
    "local id, seen, wait = ARGV[1], ARGV[2], tonumber(ARGV[3])\n"
    "if record and string.sub(record, 1, 2) == 'L ' then\n"
    "  local owner, ends_at, t = read_lone(record)\n"
    "  if owner and ends_at > now and t ~= seen then return t end\n"
    "end\n"
    "if not restore(record) then return 0 end\n"
    "expire()\n"
    "promote()\n"
    "local top = redis.call('ZRANGE', line, 0, 0, 'WITHSCORES')[2] or '0'\n"
    "local newest = string.sub(top, 1, 1) == '-' and string.sub(top, 2) or '0'\n"
    "if newest == seen then\n"
    "  if not redis.call('ZSCORE', line, id) then observers = observers + 1 end\n"
    "  put(id, 0, now + wait, '')\n"
    "  cover(2 * wait)\n"
    "end\n"
    "save()\n"
    "return newest\n";

/* ---- keeping ----
 * ARGV: id, lease. Replies: 1 it is still held, 0 it is not. A server that is out of memory
 * refuses a script's first write if that may need some; what is held must be kept all the
 * same, so the first write is one that needs none. */

const char dibs__queue_lua_renew[] =
    "local record = redis.call('GET', KEYS[1])\n"
    "if not record then return 0 end\n"
    "local mark, lease = 'L ' .. ARGV[1] .. ' ', tonumber(ARGV[2])\n"
    "if string.sub(record, 1, #mark) == mark then\n"
    "  local t, from, ends_at, info = string.match(record, '^(%d+) (%+?)(%d+)( .*)$', "
    "#mark + 1)\n"
    "  ends_at = tonumber(ends_at)\n"
    "  if from == '+' then ends_at = ends_at + t / 1000 end\n"
    "  if ends_at <= now then return 0 end\n"
    "  redis.call('PEXPIRE', KEYS[1], 2 * lease)\n"
    "  redis.call('SET', KEYS[1], mark .. t .. ' ' .. now + lease .. info, 'PX', "
    "2 * lease)\n"
    "  return 1\n"
    "end\n"
    "if string.sub(record, 1, 2) ~= 'Q ' then return 0 end\n"
    "if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0) >= 0 then return 0 end\n"
    "if tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0) <= now then return 0 end\n"
    "redis.call('ZREM', KEYS[3], '')\n"
    "redis.call('ZADD', KEYS[3], now + lease, ARGV[1])\n"
    "local till, rest = string.match(record, '^Q (%d+)( .*)$')\n"
    "if now + 2 * lease > tonumber(till) then\n"
    "  local left = 2 * lease + math.floor(lease / 4)\n"
    "  redis.call('SET', KEYS[1], string.format('Q %.0f', now + left) .. rest, 'PX', "
    "left)\n"
    "  for i = 2, 4 do redis.call('PEXPIRE', KEYS[i], left) end\n"
    "end\n"
    "return 1\n";

/* ---- from exclusive to shared ----
 * ARGV: id. Replies: 1 it is shared now, 0 it is not held. */

const char dibs__queue_lua_share[] =
    "local id = ARGV[1]\n"
    "if not restore(redis.call('GET', lock)) then return 0 end\n"
    "expire()\n"
    "local held = 0\n"
    "if tonumber(redis.call('ZSCORE', line, id) or 0) < 0 then\n"
    "  local info = redis.call('HGET', infos, id) or no_info\n"
    "  redis.call('HSET', infos, id, string.sub(info, 1, 2) .. '1' .. string.sub(info, "
    "4))\n"
    "  alone, held = 0, 1\n"
    "end\n"
    "promote()\n"
    "save()\n"
    "return held\n";

/* ---- breaking ----
 * Replies: how many holds were ended. */

const char dibs__queue_lua_evict[] =
    "if not restore(redis.call('GET', lock)) then return 0 end\n"
    "expire()\n"
    "local count, ids = 0, nil\n"
    "repeat\n"
    "  ids = redis.call('ZRANGEBYSCORE', line, '-inf', '(0', 'LIMIT', 0, 1000)\n"
    "  for _, id in ipairs(ids) do\n"
    "    uncount(id, 2)\n"
    "    tell(id, 'b')\n"
    "  end\n"
    "  if #ids > 0 then forget(ids) end\n"
    "  count = count + #ids\n"
    "until #ids < 1000\n"
    "promote()\n"
    "save()\n"
    "return count\n";

/* ---- looking ----
 * Replies: nothing, or {LIMIT, now, then for each party ID, PLACE, END, INFO}. Time passes
 * here as well: what has expired is not shown, and who is next by that gets its turn. */

const char dibs__queue_lua_look[] =
    "local record = redis.call('GET', lock)\n"
    "if not record then return {} end\n"
    "local id, ends_at, t, info = read_lone(record)\n"
    "if id and ends_at > now then\n"
    "  local _, _, _, most = read(info)\n"
    "  return {most, now, id, '-' .. t, ends_at, info}\n"
    "end\n"
    "if not restore(record) then return {} end\n"
    "expire()\n"
    "promote()\n"
    "save()\n"
    "local parties = redis.call('ZRANGE', line, 0, -1, 'WITHSCORES')\n"
    "local out = {limit, now}\n"
    "for i = 1, #parties, 2 do\n"
    "  if parties[i + 1] ~= '0' then\n"
    "    out[#out + 1] = parties[i]\n"
    "    out[#out + 1] = parties[i + 1]\n"
    "    out[#out + 1] = redis.call('ZSCORE', ends, parties[i])\n"
    "    out[#out + 1] = redis.call('HGET', infos, parties[i])\n"
    "  end\n"
    "end\n"
    "return #out > 2 and out or {}\n";
