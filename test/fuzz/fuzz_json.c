/* SPDX-License-Identifier: MIT */
/* JSON (http/json.c): what the library reads is read the same, and integers that are too
 * large for it keep their digits. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "http/http.h"

#define FLAGS (JSON_DECODE_ANY | JSON_ALLOW_NUL)

/* what is written down again is the same */
static void
check_again(json_t *json)
{
    char *text = json_dumps(json, JSON_ENCODE_ANY);
    HOLDS(text != NULL);
    json_t *again = dibs__http_json(text, strlen(text));
    HOLDS(again && json_equal(json, again));
    json_decref(again);
    free(text);
}

/* a number of that many digits stands for itself, or for a string of them */
static void
check_number(const uint8_t *data, size_t size)
{
    char digits[40];
    size_t len = 0;
    for (; len < size && len + 1 < sizeof digits; len++)
        digits[len] = (char)(len ? '0' + data[len] % 10 : '1' + data[0] % 9);
    if (len == 0)
        return;
    digits[len] = '\0';
    json_t *json = dibs__http_json(digits, len);
    HOLDS(json != NULL);
    if (json_is_string(json))
        HOLDS(len >= 19 && strcmp(json_string_value(json), digits) == 0);
    else
        HOLDS(json_is_integer(json) && json_integer_value(json) == atoll(digits));
    json_decref(json);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    json_t *ours = dibs__http_json(text, size),
           *plain = json_loadb(text, size, FLAGS, NULL);
    HOLDS(!plain || json_equal(ours, plain));
    if (ours)
        check_again(ours);
    json_decref(plain);
    json_decref(ours);
    free(text);
    check_number(data, size);
    return 0;
}
