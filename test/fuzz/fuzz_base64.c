/* SPDX-License-Identifier: MIT */
/* Base64 and the header line of Consul (http/base64.c, http/easy.c). */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "http/parts.h"

static void
check_there_and_back(const void *bytes, size_t len)
{
    char *text = malloc(HTTP_BASE64_SIZE(len));
    size_t wrote = dibs__http_base64(text, bytes, len);
    HOLDS(wrote + 1 == HTTP_BASE64_SIZE(len) && strlen(text) == wrote);
    char *back = malloc(wrote / 4 * 3 + 1);
    int64_t got = dibs__http_unbase64(back, text, wrote);
    HOLDS(got >= 0 && fuzz_same(back, (size_t)got, bytes, len));
    free(back);
    free(text);
}

static void
check_text(const char *text, size_t len)
{
    char *out = malloc(len / 4 * 3 + (len < 4));
    int64_t got = dibs__http_unbase64(out, text, len);
    HOLDS(got >= -1 && got <= (int64_t)(len / 4 * 3));
    if (got >= 0)
        HOLDS(len % 4 == 0 && !memchr(text, '\0', len));
    free(out);
}

static void
check_header(const char *line, size_t len)
{
    uint64_t a = dibs__http_index_of(line, len, 1), b = dibs__http_index_of(line, len, 2);
    HOLDS(a == b || (a == 1 && b == 2));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *bytes = fuzz_copy(data, size);
    check_there_and_back(bytes, size);
    check_text(bytes, size);
    check_header(bytes, size);
    free(bytes);
    return 0;
}
