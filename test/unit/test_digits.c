/* SPDX-License-Identifier: MIT */
/* util/digits.h: numbers to digits and back. */
#include "unit.h"

#include <stdio.h>

#include "util/digits.h"

CASE(there_and_back)
{
    static const uint64_t numbers[] = { 0,         1,          9,
                                        10,        4294967295, 9007199254740991,
                                        INT64_MAX, UINT64_MAX };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
        char text[DIGITS_MAX + 2], want[DIGITS_MAX + 2];
        const char *at = text;
        uint64_t back = 7;
        size_t len = put_digits(text, numbers[i]);
        text[len] = '\0';
        (void)snprintf(want, sizeof want, "%llu", (unsigned long long)numbers[i]);
        assert_string_equal(text, want);
        assert_int_equal(get_digits(&at, &back), 0);
        assert_true(back == numbers[i] && at == text + len);
    }
}

CASE(one_behind_the_other)
{
    const char *at = "12 345x6";
    uint64_t number;
    assert_int_equal(get_digits(&at, &number), 0);
    assert_int_equal(number, 12);
    assert_int_equal(get_digits(&at, &number), 0);
    assert_int_equal(number, 345);
    assert_int_equal(get_digits(&at, &number), -1);
    assert_string_equal(at, "x6");
    assert_int_equal(number, 345);
}

CASE(what_is_no_number)
{
    static const char *const texts[] = {
        "", " ", "  1", "-1", "x", "18446744073709551616", "99999999999999999999"
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        const char *at = texts[i];
        uint64_t number = 7;
        assert_int_equal(get_digits(&at, &number), -1);
        assert_true(at == texts[i] && number == 7);
    }
}
