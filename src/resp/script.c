/* SPDX-License-Identifier: MIT */
/*
 * Scripts in Lua: a server knows them by the SHA-1 of their text, once it has seen that.
 */
#include <string.h>

#include <openssl/evp.h>

#include "resp.h"

int
dibs__resp_script_init(resp_script *script, const char *text)
{
    static const char digits[] = "0123456789abcdef";
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    script->text = text;
    script->len = strlen(text);
    if (EVP_Digest(text, script->len, digest, &len, EVP_sha1(), NULL) != 1)
        return DIBS_ENOMEM;
    for (unsigned i = 0; i < RESP_SHA / 2; i++) {
        script->sha[2 * i] = digits[digest[i] >> 4];
        script->sha[2 * i + 1] = digits[digest[i] & 15];
    }
    return DIBS_OK;
}

void
dibs__resp_script_begin(resp_command *command, const resp_script *script,
                        unsigned key_count)
{
    command->count = command->number_count = 0;
    dibs__resp_word(command, "EVALSHA");
    dibs__resp_bytes(command, script->sha, RESP_SHA);
    dibs__resp_number(command, key_count);
}

static void
set_word(resp_command *command, int at, const char *text, size_t len)
{
    command->words[at] = text;
    command->lengths[at] = len;
}

void
dibs__resp_script_name(resp_command *command, const resp_script *script, int with_text)
{
    if (with_text) {
        set_word(command, 0, "EVAL", 4);
        set_word(command, 1, script->text, script->len);
    } else {
        set_word(command, 0, "EVALSHA", 7);
        set_word(command, 1, script->sha, RESP_SHA);
    }
}
