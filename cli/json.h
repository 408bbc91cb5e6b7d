/* SPDX-License-Identifier: MIT */
/*
 * Writes one line of JSON. The line is built in memory and written at once, so that it is
 * not torn by what others write to the same terminal or pipe.
 */
#ifndef DIBS_CLI_JSON_H
#define DIBS_CLI_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct json {
    FILE *line;
    char *text;
    size_t len;
    bool comma; /* something stands before, at this depth */
};

/* json_begin starts an object; json_end closes it, writes the line and flushes. Returns 0,
 * or -1 if there was no memory or it could not be written. */
void json_begin(struct json *json);
int json_end(struct json *json, FILE *out);

/* Members of an object; with a NULL key, elements of an array. */
void json_int(struct json *json, const char *key, int64_t value);
void json_uint(struct json *json, const char *key, uint64_t value);
void json_bool(struct json *json, const char *key, bool value);
void json_null(struct json *json, const char *key);
void json_text(struct json *json, const char *key, const char *text);

/* json_bytes writes bytes that may be no UTF-8: what is none becomes U+FFFD, and then
 * "KEY_hex" follows with all of them. */
void json_bytes(struct json *json, const char *key, const void *bytes, size_t len);

/* json_open starts an inner '{' or '['; json_close ends it with '}' or ']'. */
void json_open(struct json *json, const char *key, char bracket);
void json_close(struct json *json, char bracket);

#endif /* DIBS_CLI_JSON_H */
