/* SPDX-License-Identifier: MIT */
/* Requests as text (http/text.c, easy.c): a string in JSON is read as the same, base64 as the
 * same bytes; a part of a path has nothing in it that ends it. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "http/http.h"

static json_t *
read_back(http_text *text)
{
    size_t len;
    const char *words = dibs__http_text_get(text, &len);
    HOLDS(words && strlen(words) == len);
    json_t *json = dibs__http_json(words, len);
    dibs__http_text_free(text);
    return json;
}

/* what is no UTF-8 is no JSON either, and the only reason not to be */
static void
check_string(const char *bytes, size_t len)
{
    http_text *text = dibs__http_text_new();
    dibs__http_text_string(text, bytes, len);
    json_t *json = read_back(text), *string = json_stringn(bytes, len);
    HOLDS((json == NULL) == (string == NULL));
    HOLDS(!json || json_equal(json, string));
    json_decref(string);
    json_decref(json);
}

static void
check_base64(const char *bytes, size_t len)
{
    http_text *text = dibs__http_text_new(), *inner = dibs__http_text_new();
    dibs__http_text_add(text, "{\"a\":");
    dibs__http_text_base64(inner, bytes, len);
    dibs__http_text_move(text, inner);
    dibs__http_text_add(text, ",\"n\":");
    dibs__http_text_number(text, len);
    dibs__http_text_add(text, "}");
    json_t *json = read_back(text), *value = json_object_get(json, "a");
    char *back = malloc(json_string_length(value) + 1);
    int64_t got =
        dibs__http_unbase64(back, json_string_value(value), json_string_length(value));
    HOLDS(got >= 0 && fuzz_same(back, (size_t)got, bytes, len));
    HOLDS((size_t)json_integer_value(json_object_get(json, "n")) == len);
    free(back);
    json_decref(json);
}

static void
check_escape(const char *bytes, size_t len)
{
    char *out = malloc(3 * len + 1);
    dibs__http_escape(out, bytes, len);
    HOLDS(strlen(out) >= len && strlen(out) <= 3 * len);
    HOLDS(!strpbrk(out, " /?#&=+:@\r\n\"\\"));
    free(out);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = fuzz_copy(data, size);
    check_string(bytes, size);
    check_base64(bytes, size);
    check_escape(bytes, size);
    free(bytes);
    return 0;
}
