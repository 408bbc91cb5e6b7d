/* SPDX-License-Identifier: MIT */
/* Numbers as decimal digits, for what is made and read with every request: printf and scanf
 * would take longer than the rest of it. In a header, so that modules have them too. */
#ifndef DIBS_UTIL_DIGITS_H
#define DIBS_UTIL_DIGITS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DIGITS_MAX 20

/* put_digits writes a number without a NUL, and returns its length. */
static inline size_t
put_digits(char *out, uint64_t number)
{
    char digits[DIGITS_MAX];
    size_t at = sizeof digits;
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    memcpy(out, digits + at, sizeof digits - at);
    return sizeof digits - at;
}

/* get_digits reads a number behind at most one space and moves *at behind it. Returns 0, or
 * -1 if there is none or it is too large. */
static inline int
get_digits(const char **at, uint64_t *number)
{
    const char *digit = *at + (**at == ' ');
    uint64_t sum = 0;
    size_t count = 0;
    for (; *digit >= '0' && *digit <= '9' && count < DIGITS_MAX; digit++, count++) {
        uint64_t value = (uint64_t)(*digit - '0');
        if (sum > (UINT64_MAX - value) / 10)
            return -1;
        sum = sum * 10 + value;
    }
    if (count == 0)
        return -1;
    *at = digit;
    *number = sum;
    return 0;
}

#endif /* DIBS_UTIL_DIGITS_H */
