/* SPDX-License-Identifier: MIT */
/*
 * Scripts: put together from parts when a client opens, and known to servers by their
 * SHA-1. Also the Lua that scripts of several layouts share.
 */
#include <stdio.h>
#include <string.h>

#include <openssl/evp.h>

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

static int
set_sha(struct script *script)
{
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    if (EVP_Digest(script->text, script->len, digest, &len, EVP_sha1(), NULL) != 1)
        return DIBS_ENOMEM;
    for (unsigned i = 0; i < 20; i++)
        (void)snprintf(script->sha + 2 * i, 3, "%02x", digest[i]);
    return DIBS_OK;
}

int
dibs__redis_script_new(struct script *script, const char *name, const char *const *parts,
                       const dibs_host *host)
{
    size_t len = 0, at = 0;
    for (size_t i = 0; parts[i]; i++)
        len += strlen(parts[i]);
    script->name = name;
    script->len = len;
    script->text = host->alloc(len + 1);
    if (!script->text)
        return DIBS_ENOMEM;
    for (size_t i = 0; parts[i]; i++) {
        memcpy(script->text + at, parts[i], strlen(parts[i]));
        at += strlen(parts[i]);
    }
    return set_sha(script);
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
    call->command.count = call->command.number_count = 0;
    dibs__resp_word(&call->command, "EVALSHA");
    dibs__resp_bytes(&call->command, script->sha, 40);
    dibs__resp_number(&call->command, key_count);
}
