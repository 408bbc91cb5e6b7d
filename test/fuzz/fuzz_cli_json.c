/* SPDX-License-Identifier: MIT */
/* What --json prints (cli/json.c): one line, in which a name of any bytes is found again: as
 * itself, or in hex where it is no UTF-8. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "json.h"

/* for free() */
static char *
print(const void *bytes, size_t len)
{
    struct json json;
    char *text = NULL;
    size_t size = 0;
    FILE *out = open_memstream(&text, &size);
    json_begin(&json);
    json_bytes(&json, "name", bytes, len);
    json_open(&json, "list", '[');
    json_uint(&json, NULL, len);
    json_text(&json, NULL, "text");
    json_close(&json, ']');
    HOLDS(json_end(&json, out) == 0 && fclose(out) == 0);
    HOLDS(strlen(text) == size && strchr(text, '\n') == text + size - 1);
    return text;
}

static const char *
expect(const char *at, const char *words)
{
    HOLDS(strncmp(at, words, strlen(words)) == 0);
    return at + strlen(words);
}

/* one byte of a string, which may be written in several ways; U+FFFD counts as a '?' */
static const char *
read_byte(const char *at, char *out)
{
    unsigned code = (unsigned char)*at++;
    HOLDS(code >= 0x20 && code != 0x7f);
    if (code == '\\' && *at == 'u') {
        HOLDS(sscanf(at + 1, "%4x", &code) == 1);
        HOLDS(code < 0x20 || code == 0x7f || code == 0xfffd);
        at += 5;
    } else if (code == '\\') {
        HOLDS(*at && strchr("\"\\nt", *at));
        code = *at == 'n' ? '\n' : *at == 't' ? '\t' : (unsigned char)*at;
        at++;
    }
    *out = (char)(code == 0xfffd ? '?' : code);
    return at;
}

/* returns what is behind the string */
static const char *
read_string(const char *at, char *out, size_t *len)
{
    at = expect(at, "\"");
    for (*len = 0; *at != '"'; ++*len)
        at = read_byte(at, out + *len);
    return at + 1;
}

static void
check_hex(const char *at, const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++, at += 2) {
        unsigned byte;
        HOLDS(sscanf(at, "%2x", &byte) == 1 && byte == bytes[i]);
    }
    (void)expect(at, "\"");
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint8_t *bytes = fuzz_copy(data, size);
    char *text = print(bytes, size), *back = malloc(strlen(text) + 1), rest[64];
    size_t len;
    const char *at = read_string(expect(text, "{\"name\":"), back, &len);
    HOLDS(len <= size);
    if (strncmp(at, ",\"name_hex\":", 12) == 0) {
        check_hex(expect(at, ",\"name_hex\":\""), bytes, size);
        at = strchr(at + 13, '"') + 1;
    } else {
        HOLDS(fuzz_same(back, len, bytes, size));
    }
    (void)snprintf(rest, sizeof rest, ",\"list\":[%zu,\"text\"]}\n", size);
    HOLDS(strcmp(at, rest) == 0);
    free(back);
    free(text);
    free(bytes);
    return 0;
}
