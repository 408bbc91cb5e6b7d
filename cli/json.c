/* SPDX-License-Identifier: MIT */
/* Writes one line of JSON; see json.h. */
#include "json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void
json_begin(struct json *json)
{
    memset(json, 0, sizeof *json);
    json->line = open_memstream(&json->text, &json->len);
    if (json->line)
        fputc('{', json->line);
}

int
json_end(struct json *json, FILE *out)
{
    if (!json->line)
        return -1;
    fputs("}\n", json->line);
    int bad = fclose(json->line);
    if (!bad)
        bad = fwrite(json->text, 1, json->len, out) != json->len || fflush(out);
    free(json->text);
    json->line = NULL;
    return bad ? -1 : 0;
}

/* how many bytes the UTF-8 character at `at` has, 0 if it is none (overlong forms,
 * surrogates and what lies past U+10FFFF are none) */
static size_t
utf8_length(const unsigned char *at, size_t left)
{
    unsigned char lead = at[0];
    size_t len = lead < 0x80   ? 1
                 : lead < 0xc2 ? 0
                 : lead < 0xe0 ? 2
                 : lead < 0xf0 ? 3
                               : 4;
    if (len == 0 || len > left || lead > 0xf4)
        return 0;
    for (size_t i = 1; i < len; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    }
    if ((lead == 0xe0 && at[1] < 0xa0) || (lead == 0xed && at[1] > 0x9f) ||
        (lead == 0xf0 && at[1] < 0x90) || (lead == 0xf4 && at[1] > 0x8f))
        return 0;
    return len;
}

static void
put_ascii(FILE *out, unsigned char c)
{
    switch (c) {
    case '"':
        fputs("\\\"", out);
        break;
    case '\\':
        fputs("\\\\", out);
        break;
    case '\n':
        fputs("\\n", out);
        break;
    case '\t':
        fputs("\\t", out);
        break;
    default:
        if (c < 0x20 || c == 0x7f)
            fprintf(out, "\\u%04x", c);
        else
            fputc(c, out);
    }
}

/* returns whether all of it was UTF-8 */
static bool
put_string(FILE *out, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    bool clean = true;
    fputc('"', out);
    while (len > 0) {
        size_t step = utf8_length(at, len);
        if (step == 0) {
            fputs("\\ufffd", out);
            clean = false;
            step = 1;
        } else if (step == 1) {
            put_ascii(out, *at);
        } else {
            fwrite(at, 1, step, out);
        }
        at += step;
        len -= step;
    }
    fputc('"', out);
    return clean;
}

/* starts a member; false if there is no memory to write to */
static bool
member(struct json *json, const char *key)
{
    if (!json->line)
        return false;
    if (json->comma)
        fputc(',', json->line);
    json->comma = true;
    if (key) {
        put_string(json->line, key, strlen(key));
        fputc(':', json->line);
    }
    return true;
}

void
json_int(struct json *json, const char *key, int64_t value)
{
    if (member(json, key))
        fprintf(json->line, "%" PRId64, value);
}

void
json_uint(struct json *json, const char *key, uint64_t value)
{
    if (member(json, key))
        fprintf(json->line, "%" PRIu64, value);
}

void
json_bool(struct json *json, const char *key, bool value)
{
    if (member(json, key))
        fputs(value ? "true" : "false", json->line);
}

void
json_null(struct json *json, const char *key)
{
    if (member(json, key))
        fputs("null", json->line);
}

void
json_text(struct json *json, const char *key, const char *text)
{
    if (member(json, key))
        put_string(json->line, text, strlen(text));
}

void
json_bytes(struct json *json, const char *key, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    if (!member(json, key) || put_string(json->line, bytes, len))
        return;
    fprintf(json->line, ",\"%s_hex\":\"", key);
    for (size_t i = 0; i < len; i++)
        fprintf(json->line, "%02x", at[i]);
    fputc('"', json->line);
}

void
json_open(struct json *json, const char *key, char bracket)
{
    if (member(json, key))
        fputc(bracket, json->line);
    json->comma = false;
}

void
json_close(struct json *json, char bracket)
{
    if (json->line)
        fputc(bracket, json->line);
    json->comma = true;
}
