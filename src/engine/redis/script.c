/* SPDX-License-Identifier: MIT */
/*
 * Scripts: put together from parts when a client opens. Also the Lua that scripts of
 * several layouts share.
 */
#include <string.h>

#include "redis.h"

/* TIME is read once: it stands still within a script. GETSET moves the clock on and says
 * where it stood, in one call; only if it stood ahead must it be set again. */
const char dibs__redis_lua_tick[] =
    "local time = redis.call('TIME')\n"
    "local micros = time[1] * 1000000 + time[2]\n"
    "local now = math.floor(micros / 1000)\n"
    "local function tick(clock)\n"
    "  local last = tonumber(redis.call('GETSET', clock, string.format('%.0f', micros)) "
    "or 0)\n"
    "  if last < micros then return micros end\n"
    "  redis.call('SET', clock, string.format('%.0f', last + 1))\n"
    "  if last + 1 >= 9007199254740991 then\n"
    "    error('the clock of tokens, ' .. clock .. ', is at its end: ' .. last)\n"
    "  end\n"
    "  return last + 1\n"
    "end\n";

int
dibs__redis_script_new(struct script *script, const char *name, const char *const *parts,
                       const dibs_host *host)
{
    size_t len = 0, at = 0;
    for (size_t i = 0; parts[i]; i++)
        len += strlen(parts[i]);
    script->name = name;
    script->text = host->alloc(len + 1);
    if (!script->text)
        return DIBS_ENOMEM;
    for (size_t i = 0; parts[i]; i++) {
        memcpy(script->text + at, parts[i], strlen(parts[i]));
        at += strlen(parts[i]);
    }
    script->text[at] = '\0';
    return dibs__resp_script_init(&script->lua, script->text);
}

void
dibs__redis_script_free(struct script *script, const dibs_host *host)
{
    host->free(script->text);
    script->text = NULL;
}

void
dibs__redis_script_call(struct call *call, const struct script *script,
                        unsigned key_count, const struct key *key, uint64_t hash)
{
    call->script = script;
    call->key = key;
    call->hash = hash;
    call->flags = CALL_WRITES;
    dibs__resp_script_begin(&call->command, &script->lua, key_count);
}
