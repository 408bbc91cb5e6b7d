/* SPDX-License-Identifier: MIT */
/* util/duration.c: what people may write, what they may not, and what they are shown. */
#include "unit.h"

#include "util/duration.h"

#define UNTOUCHED INT64_C(-77)

static void
parses(const char *text, int64_t want)
{
    int64_t ms = UNTOUCHED;
    if (dibs__duration_parse(&ms, text) || ms != want)
        fail_msg("'%s' gives %lld instead of %lld", text, (long long)ms, (long long)want);
}

static void
refuses(const char *text)
{
    int64_t ms = UNTOUCHED;
    if (dibs__duration_parse(&ms, text) != -1 || ms != UNTOUCHED)
        fail_msg("'%s' gives %lld instead of being refused", text, (long long)ms);
}

CASE(parses_what_people_write)
{
    static const struct {
        const char *text;
        int64_t ms;
    } table[] = {
        { "0", 0 },
        { "30", 30000 },
        { "0.5", 500 },
        { "250ms", 250 },
        { "1m30s", 90000 },
        { "2h", 7200000 },
        { "1d", 86400000 },
        { "1d2h3m4s5ms", 93784005 },
        { "000030", 30000 },
        { "1.5h", 5400000 },
        { "0.25d", 21600000 },
        { "0.001", 1 },
        { "1.999s", 1999 },
        { "0.0s", 0 },
        { "1s500ms", 1500 },
    };
    for (size_t i = 0; i < COUNT(table); i++)
        parses(table[i].text, table[i].ms);
}

CASE(fractions_of_large_units)
{
    parses("0.0001d", 8640);
    parses("0.0005h", 1800);
    parses("1.00001d", 86400864);
    parses("0.0000000000000000000000000001d", 0);
    parses("0.9999999999999999999999999999s", 999);
}

CASE(refuses_what_is_none)
{
    static const char *const table[] = {
        "",    " ",   "-1",  "+1",  "s",    "ms",    ".5",      "1.",      "1.s",
        "1x",  "1 s", "1s ", " 1s", "1..2", "-0",    "1ss",     "0x10",    "1e3",
        "nan", "inf", "1S",  "1,5", "--",   "1m-3s", "forever", "\xd9\xa3"
    };
    for (size_t i = 0; i < COUNT(table); i++)
        refuses(table[i]);
}

CASE(refuses_more_than_a_century)
{
    parses("36600d", INT64_C(3162240000000));
    parses("3162240000", INT64_C(3162240000000));
    parses("3162240000000ms", INT64_C(3162240000000));
    refuses("36600d1ms");
    refuses("36600.001d");
    refuses("3162240001");
    refuses("3162240000001ms");
    refuses("36600d36600d");
    refuses("9223372036854775807ms");
    refuses("9223372036854775808");
    refuses("99999999999999999999999999999999999999999d");
    refuses("18446744073709551617"); /* 1, if it wrapped around */
}

CASE(prints_two_units)
{
    static const struct {
        int64_t ms;
        const char *text;
    } table[] = {
        { -1, "?" },           { INT64_MIN, "?" },    { 0, "0ms" },
        { 250, "250ms" },      { 999, "999ms" },      { 1000, "1s" },
        { 59999, "59s" },      { 60000, "1m00s" },    { 252000, "4m12s" },
        { 3599999, "59m59s" }, { 3600000, "1h00m" },  { 86399999, "23h59m" },
        { 86400000, "1d0h" },  { 273600000, "3d4h" },
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        char text[32];
        dibs__duration_print(text, sizeof text, table[i].ms);
        assert_string_equal(text, table[i].text);
    }
}

CASE(prints_into_little_room)
{
    char text[8];
    memset(text, 'x', sizeof text);
    dibs__duration_print(text, 4, 252000);
    assert_memory_equal(text, "4m1\0xxxx", 8);
    dibs__duration_print(text, 1, INT64_MAX);
    assert_memory_equal(text, "\0m1\0xxxx", 8);
    char large[32];
    dibs__duration_print(large, sizeof large, INT64_MAX);
    assert_string_equal(large, "106751991167d7h");
}
