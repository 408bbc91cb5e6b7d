/* SPDX-License-Identifier: MIT */
/* Durations (util/duration.c): what is printed is read again, as no more than it was. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "util/duration.h"

#define LONGEST_MS (INT64_C(100) * 366 * 86400 * 1000)
#define UNTOUCHED INT64_C(-42)

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    char shown[32], again[32];
    int64_t ms = UNTOUCHED, back;
    if (dibs__duration_parse(&ms, text) != 0) {
        HOLDS(ms == UNTOUCHED);
    } else {
        HOLDS(ms >= 0 && ms <= LONGEST_MS);
        dibs__duration_print(shown, sizeof shown, ms);
        HOLDS(dibs__duration_parse(&back, shown) == 0);
        HOLDS(back <= ms && ms - back < 3600000 && (ms >= 1000 || back == ms));
        dibs__duration_print(again, sizeof again, back);
        HOLDS(strcmp(shown, again) == 0);
    }
    free(text);
    return 0;
}
