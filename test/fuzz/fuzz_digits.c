/* SPDX-License-Identifier: MIT */
/* Numbers (util/digits.h): what is written is read again, and nothing else is a number. */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "util/digits.h"

static void
check_written(uint64_t number)
{
    char digits[DIGITS_MAX + 1];
    const char *at = digits;
    uint64_t back = 0;
    size_t len = put_digits(digits, number);
    HOLDS(len > 0 && len <= DIGITS_MAX);
    digits[len] = '\0';
    HOLDS(get_digits(&at, &back) == 0 && back == number && at == digits + len);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    const char *at = text;
    uint64_t number = 7;
    memcpy(&number, data, size < sizeof number ? size : sizeof number);
    check_written(number);
    number = 7;
    if (get_digits(&at, &number) == 0) {
        HOLDS(at > text && at <= text + strlen(text) && at[-1] >= '0' && at[-1] <= '9');
        HOLDS(at - text <= DIGITS_MAX + 1);
        check_written(number);
    } else {
        HOLDS(at == text && number == 7);
    }
    free(text);
    return 0;
}
