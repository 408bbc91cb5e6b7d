/* SPDX-License-Identifier: MIT */
/*
 * The scripts of the queue layout: how a lock is written down, and the one rule of who is
 * next. All of it runs on the server, by the server's clock.
 *
 * A lock has up to four keys, which live and die together:
 *   dibs:{NAME}    a string that is there whenever the lock is in use in any way, so that
 *                  taking a free lock is one SET NX. It begins with its kind:
 *     L ID TICK END INFO   one holder and nobody else: the common case, with no other key
 *     W ID TICK END TILL OBSERVERS INFO   an exclusive holder, and others in line
 *     Q TILL FIRST LIMIT PREVIOUS USED OBSERVERS   holders that share, or none, and others
 *     P PREVIOUS           nobody, but the next holder is to know how the last one ended
 *   dibs:{NAME}:q  everybody but an exclusive holder, in order: holders by minus the tick of
 *                  their grant, observers at 0, waiters by their ticket. Newest holder
 *                  first, then who has waited longest. The name of a waiter there is ID and
 *                  INFO without its first digit, of all others ID.
 *   dibs:{NAME}:e  when the lease of each of them ends, in ms of the server's clock. A
 *                  waiter is there only if it has asked again, a tenth of its lease or more
 *                  after it came; before that its lease counts from its ticket.
 *   dibs:{NAME}:i  INFO of holders that share
 * An END of "+LEASE" counts from the tick. TILL is when the keys go, FIRST a time before
 * which nobody's lease in :e ends, USED counts permits or sharers. An ID is 32 hex digits of
 * the session, ':' and the claim's serial; '+' before it marks a hold that lingers, which is
 * nobody's any more. INFO is a digit and what queue_lua.h says; the digit is how the hold
 * before ended, for who asks again, and 4 more in an offer (below). Ticks count
 * microseconds, so they also say since when.
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
 * In this order: what is free or only one has, the short ways through a crowd, the state of
 * a lock, who is next, and then the scripts: taking, giving back, observing, keeping,
 * sharing, breaking, looking.
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

/* ---- short ways through a crowd ----
 * Where everybody wants a lock for itself, a hand-over is one that lets go (pass) and one
 * that comes back (join). The next two parts do only that and end the script; what they
 * find otherwise they leave to the rest of it. They make no function, read no more than
 * they need and print no number, because all of that costs more than the commands do.
 * Not with a gate: they do not ask it. */

const char dibs__queue_lua_begin[] =
    "local time = redis.call('TIME')\n"
    "local now = time[1] * 1000 + math.floor(time[2] / 1000)\n"
    "local record = redis.pcall('GET', KEYS[1])\n";

/* In a cluster a message reaches all servers, but none knows who listens at another. */
const char dibs__queue_lua_together[] = "local least_ears = 1\n";
const char dibs__queue_lua_apart[] = "local least_ears = 0\n";

/* ARGV as for taking. Also for one who asks again, to stay in line. */
const char dibs__queue_lua_join[] =
    "if type(record) == 'string' and string.sub(record, 1, 2) == 'W ' and "
    "string.find(ARGV[2], '^[01] 1 0 ') then\n"
    "  local owner, t, from, ends_at, till, observers = string.match(record, '^W "
    "(%S+) (%d+) (%+?)(%d+) (%d+) (%d+) ')\n"
    "  local wait = tonumber(ARGV[5])\n"
    "  ends_at = from == '+' and math.floor(t / 1000) + ends_at or "
    "tonumber(ends_at)\n"
    "  if owner ~= ARGV[1] and ends_at > now and till - now >= 2 * wait then\n"
    "    if ARGV[4] == '1' then return {0, 0, 0, ends_at - now} end\n"
    "    local micros = time[2]\n"
    "    if #micros < 6 then micros = string.sub('00000' .. micros, -6) end\n"
    "    local ticket, hint = time[1] .. micros, math.floor(wait / 3)\n"
    "    local last = redis.call('GETSET', KEYS[5], ticket)\n"
    "    if last and (#last ~= #ticket or last >= ticket) then\n"
    "      redis.call('SET', KEYS[5], last)\n"
    "    else\n"
    "      local me, position = ARGV[1] .. ' ' .. ARGV[2], nil\n"
    "      if redis.call('ZADD', KEYS[2], 'NX', ticket, me) == 1 then\n"
    "        position = redis.call('ZCARD', KEYS[2]) - observers\n"
    "        if position == 1 then redis.call('PEXPIRE', KEYS[2], till - now) end\n"
    "      else\n"
    "        ticket = redis.call('ZSCORE', KEYS[2], me)\n"
    "        if (now - math.floor(ticket / 1000)) * 10 > wait then\n"
    "          redis.call('ZADD', KEYS[3], now + wait, me)\n"
    "          redis.call('PEXPIRE', KEYS[3], till - now)\n"
    "        end\n"
    "        position = redis.call('ZRANK', KEYS[2], me) + 1 - observers\n"
    "      end\n"
    "      if position == 1 then hint = math.min(hint, ends_at - now) end\n"
    "      return {0, ticket, position, hint}\n"
    "    end\n"
    "  end\n"
    "end\n";

/* ARGV as for giving back. The next one gets it if it is surely there; else it is put back
 * in line. */
const char dibs__queue_lua_pass[] =
    "local mark = 'W ' .. ARGV[1] .. ' '\n"
    "if type(record) == 'string' and ARGV[2] == '0' and string.sub(record, 1, #mark) "
    "== mark then\n"
    "  local t, from, ends_at, till = string.match(record, '^(%d+) (%+?)(%d+) (%d+) "
    "0 ', #mark + 1)\n"
    "  if t and (from == '+' and math.floor(t / 1000) + ends_at or "
    "tonumber(ends_at)) > now then\n"
    "    local head = redis.call('ZPOPMIN', KEYS[2])\n"
    "    local who, ticket = head[1], head[2]\n"
    "    if not who then return redis.call('DEL', KEYS[1]) end\n"
    "    local id, info, lease, wait = string.match(who, '^(%S+) (0 1 0 (%d+) (%d+) "
    ".*)$')\n"
    "    if id and (now - math.floor(ticket / 1000)) * 10 <= tonumber(wait) and till "
    "- now >= 2 * lease then\n"
    "      local micros = time[2]\n"
    "      if #micros < 6 then micros = string.sub('00000' .. micros, -6) end\n"
    "      t = time[1] .. micros\n"
    "      local last = redis.call('GETSET', KEYS[5], t)\n"
    "      if last and (#last ~= #t or last >= t) then\n"
    "        redis.call('SET', KEYS[5], last)\n"
    "      elseif redis.call('PUBLISH', 'dibs:c:' .. string.sub(id, 1, 32), 'g ' .. "
    "string.sub(id, 34) .. ' ' .. ticket .. ' ' .. t .. ' 0') >= least_ears then\n"
    "        redis.call('SET', KEYS[1], 'W ' .. id .. ' ' .. t .. ' +' .. lease .. ' "
    "' .. till .. ' 0 0 ' .. info, 'PX', till - now)\n"
    "        return 1\n"
    "      end\n"
    "    end\n"
    "    redis.call('ZADD', KEYS[2], ticket, who)\n"
    "    redis.call('PEXPIRE', KEYS[2], till - now)\n"
    "  end\n"
    "end\n";

/* ---- the state of a lock ---- */

/* All the other scripts go on with the clock, the gate, the state and the turns. This is
 * dibs__redis_lua_tick, but for its ticks, which are text here as well. */
const char dibs__queue_lua_clock[] =
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

/* `sole` is the exclusive holder, if there is one; it is never in line. */
const char dibs__queue_lua_state[] =
    "local lock, line, ends, infos, clock = KEYS[1], KEYS[2], KEYS[3], KEYS[4], "
    "KEYS[5]\n"
    "local till, limit, previous, used, observers = now, 0, 0, 0, 0\n"
    "local first, longer, changed = now + 86400000, false, false\n"
    "local sole, granted, failed = nil, nil, nil\n"

    "local function read(info)\n"
    "  local was, mode, permits, most, lease, wait = string.match(info, '^(%d) (%d) "
    "(%d+) (%d+) (%d+) (%d+) ')\n"
    "  return tonumber(was), tonumber(mode), tonumber(permits), tonumber(most), "
    "tonumber(lease), tonumber(wait)\n"
    "end\n"
    /* of one whose info somebody has deleted */
    "local no_info = '0 0 1 0 1 1 '\n"

    "local function tell(id, kind, more)\n"
    "  if string.sub(id, 1, 1) == '+' then return 0 end\n"
    "  return redis.call('PUBLISH', 'dibs:c:' .. string.sub(id, 1, 32), kind .. ' ' "
    ".. string.sub(id, 34) .. (more or ''))\n"
    "end\n"

    /* the keys must live for that long; not each time anew, which would cost three calls */
    "local function cover(ms)\n"
    "  if now + ms <= till then return end\n"
    "  till = now + ms + math.floor(ms / 4)\n"
    "  longer = true\n"
    "end\n"

    "local function put(who, place, ends_at, info)\n"
    "  redis.call('ZADD', line, place, who)\n"
    "  redis.call('ZADD', ends, ends_at, who)\n"
    "  if info then redis.call('HSET', infos, who, info) end\n"
    "  first, longer = math.min(first, ends_at), true\n"
    "end\n"

    "local function forget(whos)\n"
    "  redis.call('ZREM', line, unpack(whos))\n"
    "  redis.call('ZREM', ends, unpack(whos))\n"
    "  redis.call('HDEL', infos, unpack(whos))\n"
    "end\n"

    /* a hold has ended; an offer that was never taken up leaves no trace */
    "local function ended(info, how)\n"
    "  local was = tonumber(string.sub(info, 1, 1))\n"
    "  if was >= 4 then how = was - 4 end\n"
    "  if how > 0 then previous = how end\n"
    "  changed = true\n"
    "end\n"
    "local function uncount(id, how)\n"
    "  local info = redis.call('HGET', infos, id) or no_info\n"
    "  local _, _, permits = read(info)\n"
    "  used = used - permits\n"
    "  ended(info, how)\n"
    "end\n"
    "local function end_of(id) return string.sub(id, 1, 1) == '+' and 0 or 1 end\n"

    /* the holder in a record of kind L, or nil */
    "local function read_lone(text)\n"
    "  local id, t, from, ends_at, info = string.match(text, '^L (%S+) (%d+) "
    "(%+?)(%d+) (.*)$')\n"
    "  ends_at = tonumber(ends_at)\n"
    "  if from == '+' then ends_at = ends_at + math.floor(t / 1000) end\n"
    "  return id, ends_at, t, info\n"
    "end\n"
    "local function write_lone(id, t, ends_at, info, live)\n"
    "  redis.call('SET', lock, 'L ' .. id .. ' ' .. t .. ' ' .. ends_at .. ' ' .. "
    "info, 'PX', live)\n"
    "end\n"

    /* restore reads what it finds; nil: this is not ours */
    "local function restore(text)\n"
    "  if not text then return true end\n"
    "  local kind = string.sub(text, 1, 2)\n"
    "  if kind == 'W ' then\n"
    "    local id, t, from, ends_at, a, b, info = string.match(text, '^W (%S+) (%d+) "
    "(%+?)(%d+) (%d+) (%d+) (.*)$')\n"
    "    if not id then return nil end\n"
    "    till, observers, first = tonumber(a), tonumber(b), 0\n"
    "    ends_at = tonumber(ends_at)\n"
    "    if from == '+' then ends_at = ends_at + math.floor(t / 1000) end\n"
    "    sole = {id = id, t = t, ends_at = ends_at, info = info}\n"
    "    return true\n"
    "  elseif kind == 'Q ' then\n"
    "    local a, b, c, d, e, f = string.match(text, '^Q (%d+) (%d+) (%d+) (%d+) "
    "(%d+) (%d+)$')\n"
    "    till, first, limit, previous = tonumber(a), tonumber(b), tonumber(c), "
    "tonumber(d)\n"
    "    used, observers = tonumber(e), tonumber(f)\n"
    "    return f\n"
    "  elseif kind == 'P ' then\n"
    "    previous = tonumber(string.sub(text, 3))\n"
    "    till = now + math.max(redis.call('PTTL', lock), 1)\n"
    "    return previous\n"
    "  end\n"
    "  local id, ends_at, t, info = read_lone(text)\n"
    "  if not id then return nil end\n"
    "  local _, mode, permits, most, lease = read(info)\n"
    "  cover(math.max(ends_at - now + lease, 1))\n"
    "  if ends_at <= now then\n"
    "    previous, changed = end_of(id), true\n"
    "    return true\n"
    "  end\n"
    "  limit = most\n"
    "  if mode == 0 then\n"
    "    sole = {id = id, t = t, ends_at = ends_at, info = info}\n"
    "  else\n"
    "    put(id, '-' .. t, ends_at, info)\n"
    "    used = permits\n"
    "  end\n"
    "  return true\n"
    "end\n";

/* ---- who is next ---- */

const char dibs__queue_lua_turns[] =
    "local function expire()\n"
    "  if sole and sole.ends_at <= now then\n"
    "    ended(sole.info, end_of(sole.id))\n"
    "    tell(sole.id, 'b')\n"
    "    sole = nil\n"
    "  end\n"
    "  if now < first then return end\n"
    "  local whos\n"
    "  repeat\n"
    "    whos = redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 1000)\n"
    "    for _, who in ipairs(whos) do\n"
    "      local place = tonumber(redis.call('ZSCORE', line, who) or 1)\n"
    "      if place == 0 then observers = observers - 1 end\n"
    "      if place < 0 then\n"
    "        uncount(who, end_of(who))\n"
    "        tell(who, 'b')\n"
    "      end\n"
    "    end\n"
    "    if #whos > 0 then forget(whos) end\n"
    "  until #whos < 1000\n"
    "  first = tonumber(redis.call('ZRANGE', ends, 0, 0, 'WITHSCORES')[2] or now + "
    "86400000)\n"
    "end\n"

    /* Until when has it the lock, and how is it told? `stays` is when its place in line ends;
     * it is surely there if it asked shortly before and listens. */
    "local function offer(id, ticket, t, lease, wait, stays)\n"
    "  if (now + wait - stays) * 10 <= wait and tell(id, 'g', ' ' .. ticket .. ' ' "
    ".. t .. ' ' .. previous) >= least_ears then\n"
    "    return now + lease, previous\n"
    "  end\n"
    "  tell(id, 'o')\n"
    "  return math.min(stays, now + lease), previous + 4\n"
    "end\n"

    /* when the place in line of a waiter ends */
    "local function stays_till(who, ticket, wait)\n"
    "  local stays = math.floor(ticket / 1000) + wait\n"
    "  if (now + wait - stays) * 10 <= wait then return stays end\n"
    "  return tonumber(redis.call('ZSCORE', ends, who) or stays)\n"
    "end\n"

    /* nil: the next one does not fit, or there is none; it ends the line, so nobody is
     * overtaken */
    "local function next_in_line(me)\n"
    "  local head = redis.call('ZRANGEBYSCORE', line, '(0', '+inf', 'WITHSCORES', "
    "'LIMIT', 0, 1)\n"
    "  if not head[1] then return nil end\n"
    "  local id, info = string.match(head[1], '^(%S+) (.*)$')\n"
    "  local w = {who = head[1], ticket = head[2], id = id, info = '0 ' .. (info or "
    "'')}\n"
    "  local _\n"
    "  _, w.mode, w.permits, _, w.lease, w.wait = read(w.info)\n"
    "  w.stays = w.wait and stays_till(w.who, w.ticket, w.wait) or 0\n"
    "  if w.stays <= now and w.who ~= me then return w end\n"
    "  if (w.mode == 0 and used > 0) or (w.mode == 2 and used + w.permits > limit) "
    "then return nil end\n"
    "  return w\n"
    "end\n"

    "local function grant(w, me)\n"
    "  local went, t = pcall(tick, clock)\n"
    "  if not went then\n"
    "    failed = type(t) == 'table' and t.err or t\n"
    "    return false\n"
    "  end\n"
    "  local ends_at, was = now + w.lease, previous\n"
    "  if w.who == me then\n"
    "    granted = {t, was}\n"
    "  else\n"
    "    ends_at, was = offer(w.id, w.ticket, t, w.lease, w.wait, w.stays)\n"
    "  end\n"
    "  w.info = was .. string.sub(w.info, 2)\n"
    "  if w.mode == 0 then\n"
    "    sole = {id = w.id, t = t, ends_at = ends_at, info = w.info}\n"
    "  else\n"
    "    put(w.id, '-' .. t, ends_at, w.info)\n"
    "    used = used + w.permits\n"
    "  end\n"
    "  previous, changed = 0, true\n"
    "  cover(2 * w.lease)\n"
    "  return true\n"
    "end\n"

    /* grants to those who are next, and forgets those who went without a word */
    "local function promote(me)\n"
    "  while not sole and gate() == 0 do\n"
    "    local w = next_in_line(me)\n"
    "    if not w then return end\n"
    "    if (w.who == me or w.stays > now) and not grant(w, me) then return end\n"
    "    forget({w.who})\n"
    "  end\n"
    "end\n"

    "local function save()\n"
    "  if changed and observers > 0 then\n"
    "    for _, id in ipairs(redis.call('ZRANGEBYSCORE', line, 0, 0)) do tell(id, "
    "'w') end\n"
    "  end\n"
    "  local left, others = math.max(till - now, 1), redis.call('ZCARD', line)\n"
    "  if sole and others == 0 and tonumber(string.sub(sole.info, 1, 1)) < 4 then\n"
    "    write_lone(sole.id, sole.t, sole.ends_at, sole.info, left)\n"
    "  elseif sole then\n"
    "    redis.call('SET', lock, table.concat({'W', sole.id, sole.t, sole.ends_at, "
    "till, observers, sole.info}, ' '), 'PX', left)\n"
    "  elseif others > 0 then\n"
    "    redis.call('SET', lock, table.concat({'Q', till, first, limit, previous, "
    "used, observers}, ' '), 'PX', left)\n"
    "  elseif previous > 0 then\n"
    "    redis.call('SET', lock, 'P ' .. previous, 'PX', left)\n"
    "  else\n"
    "    redis.call('DEL', lock)\n"
    "  end\n"
    "  if longer and others > 0 then\n"
    "    for i = 2, 4 do redis.call('PEXPIRE', KEYS[i], left) end\n"
    "  end\n"
    "end\n";

/* ---- taking ----
 * ARGV: id, info without its digit, lease, 1 if it does not queue, how long it waits without
 * a word. Replies: {TICK, PREVIOUS, 1 if nobody else is there}; busy: {0, TICKET, POSITION,
 * HINT}; {-1, LIMIT} in use in another way; {-2, TYPE} not ours. */

const char dibs__queue_lua_take[] =
    "if type(record) == 'table' then return {-2, redis.call('TYPE', lock).ok} end\n"
    "local id, lease = ARGV[1], tonumber(ARGV[3])\n"
    "local me = id .. ' ' .. ARGV[2]\n"
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
    "  elseif ends_at > now and ARGV[4] == '1' and its_limit == most and (mode == 0 "
    "or its_mode == 0) then\n"
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
    "local is_sole = sole and sole.id == id\n"
    "local shares = redis.call('ZSCORE', line, id)\n"
    "local place = redis.call('ZSCORE', line, me)\n"
    "local is_new = not (is_sole or shares or place)\n"
    "if is_new and most ~= limit then\n"
    "  if sole or redis.call('ZCARD', line) > observers then\n"
    "    save()\n"
    "    return {-1, limit}\n"
    "  end\n"
    "  limit = most\n"
    "end\n"
    "if is_new then\n"
    "  place = ticket\n"
    "  redis.call('ZADD', line, place, me)\n"
    "  longer = true\n"
    "elseif place and (now - math.floor(place / 1000)) * 10 > wait then\n"
    "  put(me, place, now + wait)\n"
    "end\n"
    "cover(2 * wait)\n"
    "promote(me)\n"
    /* should somebody have deleted the holders, those in line find that out */
    "if not is_new and not sole and not shares and not granted and "
    "redis.call('ZCOUNT', line, '-inf', '(0') == 0 then\n"
    "  used = 0\n"
    "  promote(me)\n"
    "end\n"

    /* granted before: to be told again, or an offer that is taken up now */
    "if is_sole then\n"
    "  local was = read(sole.info) % 4\n"
    "  sole.ends_at = math.max(sole.ends_at, now + lease)\n"
    "  sole.info = was .. string.sub(sole.info, 2)\n"
    "  cover(2 * lease)\n"
    "  granted = {sole.t, was}\n"
    "elseif shares then\n"
    "  local info = redis.call('HGET', infos, id) or '0 ' .. ARGV[2]\n"
    "  local was = read(info) % 4\n"
    "  local ends_at = tonumber(redis.call('ZSCORE', ends, id) or 0)\n"
    "  put(id, shares, math.max(ends_at, now + lease), was .. string.sub(info, 2))\n"
    "  cover(2 * lease)\n"
    "  granted = {string.sub(shares, 2), was}\n"
    "end\n"
    "if granted then\n"
    "  save()\n"
    "  return granted\n"
    "end\n"

    /* the first in line comes back when somebody's lease ends; the others to stay in it */
    "local hint, position = math.floor(wait / 3), 1\n"
    "if ARGV[4] == '1' then\n"
    "  forget({me})\n"
    "  place = 0\n"
    "else\n"
    "  position = 1 + redis.call('ZCOUNT', line, '(0', '(' .. place)\n"
    "end\n"
    "if position == 1 then\n"
    "  hint = math.min(hint, (sole and math.min(sole.ends_at, first) or first) - "
    "now)\n"
    "end\n"
    "local closed = gate()\n"
    "if closed > 0 then hint = math.min(hint, closed) end\n"
    "save()\n"
    "if failed then return redis.error_reply(failed) end\n"
    "return {0, place, position, hint}\n";

/* ---- giving back ----
 * ARGV: id, how long it lingers, its permits if the client knows that it has them, or 0; its
 * info without the digit. Replies: 1 it was held, 0 it was not. */

const char dibs__queue_lua_give[] =
    "if type(record) ~= 'string' then return 0 end\n"
    "local id, linger, held = ARGV[1], tonumber(ARGV[2]), 0\n"
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
    "if sole and sole.id == id then\n"
    "  held, changed = 1, true\n"
    "  if linger > 0 then\n"
    "    sole.id, sole.ends_at = '+' .. id, now + linger\n"
    "    cover(linger)\n"
    "  else\n"
    "    ended(sole.info, 0)\n"
    "    sole = nil\n"
    "  end\n"
    "elseif linger > 0 and sole and sole.id == '+' .. id then\n"
    "  held = 1\n"
    "else\n"
    "  local place = tonumber(redis.call('ZSCORE', line, id) or 1)\n"
    "  held = place < 0 and 1 or 0\n"
    "  if held == 1 and linger > 0 then\n"
    "    put('+' .. id, place, now + linger, redis.call('HGET', infos, id) or "
    "no_info)\n"
    "    cover(linger)\n"
    "    changed = true\n"
    "  elseif held == 1 and ARGV[3] ~= '0' then\n"
    "    used, changed = used - ARGV[3], true\n"
    "  elseif held == 1 then\n"
    "    uncount(id, 0)\n"
    "  elseif place == 0 then\n"
    "    observers = observers - 1\n"
    "  elseif linger > 0 and redis.call('ZSCORE', line, '+' .. id) then\n"
    "    held = 1\n"
    "  end\n"
    "  forget({id, id .. ' ' .. ARGV[4]})\n"
    "end\n"
    "promote()\n"
    "save()\n"
    "return held\n";

/* ---- observing ----
 * ARGV: id, the tick it has seen, wait. Replies: the tick of the newest holder, or 0; it
 * is in line for a message if that is the one it has seen. */

const char dibs__queue_lua_observe[] =
    "if type(record) == 'table' then return record end\n"
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
    "if sole then newest = sole.t end\n"
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
    "if type(record) ~= 'string' then return 0 end\n"
    "local kind, lease = string.sub(record, 1, 2), tonumber(ARGV[2])\n"
    "local mark = kind .. ARGV[1] .. ' '\n"
    "local longer = 2 * lease + math.floor(lease / 4)\n"
    "if string.sub(record, 1, #mark) == mark then\n"
    "  local t, from, ends_at, info = string.match(record, '^(%d+) (%+?)(%d+)( "
    ".*)$', #mark + 1)\n"
    "  local live = 2 * lease\n"
    "  ends_at = tonumber(ends_at)\n"
    "  if from == '+' then ends_at = ends_at + t / 1000 end\n"
    "  if ends_at <= now then return 0 end\n"
    "  redis.call('PEXPIRE', KEYS[1], live)\n"
    "  if kind == 'W ' then\n"
    "    local till, others = string.match(info, '^ (%d+)( .*)$')\n"
    "    live = till - now\n"
    "    if live < 2 * lease then\n"
    "      live, info = longer, string.format(' %.0f', now + longer) .. others\n"
    "      for i = 2, 4 do redis.call('PEXPIRE', KEYS[i], live) end\n"
    "    end\n"
    "  end\n"
    "  redis.call('SET', KEYS[1], mark .. t .. ' ' .. now + lease .. info, 'PX', "
    "live)\n"
    "  return 1\n"
    "end\n"
    "if kind ~= 'Q ' then return 0 end\n"
    "if tonumber(redis.call('ZSCORE', KEYS[2], ARGV[1]) or 0) >= 0 then return 0 "
    "end\n"
    "if tonumber(redis.call('ZSCORE', KEYS[3], ARGV[1]) or 0) <= now then return 0 "
    "end\n"
    "redis.call('ZREM', KEYS[3], '')\n"
    "redis.call('ZADD', KEYS[3], now + lease, ARGV[1])\n"
    "local till, rest = string.match(record, '^Q (%d+)( .*)$')\n"
    "if now + 2 * lease > tonumber(till) then\n"
    "  redis.call('SET', KEYS[1], string.format('Q %.0f', now + longer) .. rest, "
    "'PX', longer)\n"
    "  for i = 2, 4 do redis.call('PEXPIRE', KEYS[i], longer) end\n"
    "end\n"
    "return 1\n";

/* ---- from exclusive to shared ----
 * ARGV: id. Replies: 1 it is shared now, 0 it is not held. */

const char dibs__queue_lua_share[] =
    "local id, held = ARGV[1], 0\n"
    "if type(record) == 'table' then return record end\n"
    "if not restore(record) then return 0 end\n"
    "expire()\n"
    "if sole and sole.id == id then\n"
    "  put(id, '-' .. sole.t, sole.ends_at, string.sub(sole.info, 1, 2) .. '1' .. "
    "string.sub(sole.info, 4))\n"
    "  sole, used, held = nil, 1, 1\n"
    "elseif tonumber(redis.call('ZSCORE', line, id) or 0) < 0 then\n"
    "  held = 1\n"
    "end\n"
    "promote()\n"
    "save()\n"
    "return held\n";

/* ---- breaking ----
 * Replies: how many holds were ended. */

const char dibs__queue_lua_evict[] =
    "if type(record) == 'table' then return record end\n"
    "if not restore(record) then return 0 end\n"
    "expire()\n"
    "local count, ids = 0, nil\n"
    "if sole then\n"
    "  ended(sole.info, 2)\n"
    "  tell(sole.id, 'b')\n"
    "  sole, count = nil, 1\n"
    "end\n"
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
    "if type(record) ~= 'string' then return {} end\n"
    "local id, ends_at, t, info = read_lone(record)\n"
    "if id and ends_at > now then\n"
    "  local _, _, _, most = read(info)\n"
    "  return {most, now, id, '-' .. t, ends_at, info}\n"
    "end\n"
    "if not restore(record) then return {} end\n"
    "expire()\n"
    "promote()\n"
    "save()\n"
    "local parties, out = redis.call('ZRANGE', line, 0, -1, 'WITHSCORES'), {limit, "
    "now}\n"
    "local function show(...)\n"
    "  for _, word in ipairs({...}) do out[#out + 1] = word end\n"
    "end\n"
    "if sole then show(sole.id, '-' .. sole.t, sole.ends_at, sole.info) end\n"
    "for i = 1, #parties, 2 do\n"
    "  local who, place = parties[i], parties[i + 1]\n"
    "  if string.sub(place, 1, 1) == '-' then\n"
    "    show(who, place, redis.call('ZSCORE', ends, who) or now, redis.call('HGET', "
    "infos, who) or no_info)\n"
    "  elseif place ~= '0' then\n"
    "    local numbers = string.match(who, ' (.*)$') or ''\n"
    "    local _, _, _, _, _, wait = read('0 ' .. numbers)\n"
    "    local stays = wait and stays_till(who, place, wait) or 0\n"
    "    if stays > now then show(who, place, stays, '0 ' .. numbers) end\n"
    "  end\n"
    "end\n"
    "return #out > 2 and out or {}\n";
