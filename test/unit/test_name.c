/* SPDX-License-Identifier: MIT */
/* core/name.c: the hash that engines write down, the check, how people see a name. */
#include "unit.h"

#include <stdio.h>

#include "core/name.h"

/* engines store these: they may never change */
CASE(hash_is_fixed_for_ever)
{
    char ff[512];
    memset(ff, 0xff, sizeof ff);
    assert_true(dibs__hash("", 0) == UINT64_C(0x145794f355e00834));
    assert_true(dibs__hash("a", 1) == UINT64_C(0xf0c2ca426dfdd341));
    assert_true(dibs__hash("deploy", 6) == UINT64_C(0xbd82c38029fc68a4));
    assert_true(dibs__hash("\0", 1) == UINT64_C(0xa1c66d2241ca7eca));
    assert_true(dibs__hash(ff, sizeof ff) == UINT64_C(0xc88a107892fb1df1));
    assert_true(dibs__hash("The quick brown fox jumps over the lazy dog", 43) ==
                UINT64_C(0x40557d751f0e9d36));
}

CASE(check_bounds)
{
    char name[DIBS_NAME_MAX + 2];
    size_t len = 77;
    dibs_error err = { 0 };
    memset(name, 'n', sizeof name);
    name[DIBS_NAME_MAX + 1] = '\0';
    assert_int_equal(dibs__name_check(&len, NULL, 0, "name", &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "name is NULL");
    assert_int_equal(dibs__name_check(&len, "", 0, "resource", &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "resource is empty");
    assert_int_equal(dibs__name_check(&len, name, 0, "name", &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "name is longer than 512 bytes");
    assert_int_equal(dibs__name_check(&len, name, 513, "name", &err), DIBS_EINVAL);
    assert_int_equal(dibs__name_check(&len, name, SIZE_MAX, "name", NULL), DIBS_EINVAL);
    assert_int_equal(dibs__name_check(&len, "a\0b", 3, "name", &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "name contains a NUL");
    assert_int_equal(len, 77);
    assert_int_equal(dibs__name_check(&len, name, 512, "name", NULL), DIBS_OK);
    assert_int_equal(len, 512);
    name[DIBS_NAME_MAX] = '\0';
    assert_int_equal(dibs__name_check(&len, name, 0, "name", NULL), DIBS_OK);
    assert_int_equal(len, 512);
    assert_int_equal(dibs__name_check(&len, "ab", 1, "name", NULL), DIBS_OK);
    assert_int_equal(len, 1);
    assert_int_equal(dibs__name_check(&len, "\xff\x01", 0, "name", NULL), DIBS_OK);
    assert_int_equal(len, 2);
}

static void
prints(const char *name, size_t len, const char *want)
{
    char out[64];
    memset(out, 'x', sizeof out);
    size_t need = dibs_name_print(out, sizeof out, name, len);
    if (strcmp(out, want) != 0)
        fail_msg("printed '%s' instead of '%s'", out, want);
    assert_int_equal(need, strlen(want));
    assert_int_equal(dibs_name_print(NULL, 0, name, len), strlen(want));
}

CASE(print_escapes)
{
    prints("deploy/prod #1 ~", 16, "deploy/prod #1 ~");
    prints("", 0, "");
    prints("a\\b", 3, "a\\\\b");
    prints("\n\t\x1b[31m", 7, "\\x0a\\x09\\x1b[31m");
    prints("\x7f\0z", 3, "\\x7f\\x00z");
    prints("\x80\xff", 2, "\\x80\\xff");
}

CASE(print_keeps_good_utf8)
{
    prints("caf\xc3\xa9", 5, "caf\xc3\xa9");
    prints("\xe2\x82\xac", 3, "\xe2\x82\xac");
    prints("\xf0\x9f\x94\x92", 4, "\xf0\x9f\x94\x92");
    prints("\xf4\x8f\xbf\xbd", 4, "\xf4\x8f\xbf\xbd");
    prints("\xc2\xa0", 2, "\xc2\xa0"); /* the first beyond the C1 controls */
}

CASE(print_escapes_bad_utf8)
{
    prints("\xc0\xaf", 2, "\\xc0\\xaf");                   /* overlong '/' */
    prints("\xe0\x80\xaf", 3, "\\xe0\\x80\\xaf");          /* overlong, 3 bytes */
    prints("\xf0\x82\x82\xac", 4, "\\xf0\\x82\\x82\\xac"); /* overlong, 4 bytes */
    prints("\xed\xa0\x80", 3, "\\xed\\xa0\\x80");          /* a surrogate */
    prints("\xf4\x90\x80\x80", 4, "\\xf4\\x90\\x80\\x80"); /* beyond U+10FFFF */
    prints("\xf5\x80\x80\x80", 4, "\\xf5\\x80\\x80\\x80");
    prints("\xc3", 1, "\\xc3"); /* cut off */
    prints("\xe2\x82", 2, "\\xe2\\x82");
    prints("\xe2\x82z", 3, "\\xe2\\x82z");
    prints("\xc2\x85", 2, "\\xc2\\x85"); /* a C1 control: next line */
    prints("\xc2\x9b", 2, "\\xc2\\x9b"); /* a C1 control: CSI */
}

CASE(print_escapes_direction_marks)
{
    prints("\xe2\x80\xae", 3, "\\xe2\\x80\\xae"); /* right-to-left override */
    prints("\xe2\x80\x8b", 3, "\\xe2\\x80\\x8b"); /* zero width space */
    prints("\xe2\x80\x8f", 3, "\\xe2\\x80\\x8f"); /* right-to-left mark */
    prints("\xe2\x80\xa8", 3, "\\xe2\\x80\\xa8"); /* line separator */
    prints("\xe2\x81\xa6", 3, "\\xe2\\x81\\xa6"); /* left-to-right isolate */
    prints("\xef\xbb\xbf", 3, "\\xef\\xbb\\xbf"); /* byte order mark */
    prints("\xd8\x9c", 2, "\\xd8\\x9c");          /* arabic letter mark */
    prints("\xe2\x80\x90", 3, "\xe2\x80\x90");    /* a hyphen is none */
}

CASE(print_truncates_between_characters)
{
    const char name[] = "ab\xe2\x82\xac\n";
    const char *const want[] = { "",
                                 "a",
                                 "ab",
                                 "ab",
                                 "ab",
                                 "ab\xe2\x82\xac",
                                 "ab\xe2\x82\xac",
                                 "ab\xe2\x82\xac",
                                 "ab\xe2\x82\xac",
                                 "ab\xe2\x82\xac\\x0a" };
    for (size_t i = 0; i < COUNT(want); i++) {
        char out[16];
        memset(out, 'x', sizeof out);
        assert_int_equal(dibs_name_print(out, i + 1, name, 6), 9);
        assert_string_equal(out, want[i]);
        assert_int_equal(out[i + 1], 'x');
    }
    assert_int_equal(dibs_name_print(NULL, 0, NULL, 0), 0);
}

CASE(print_of_the_longest)
{
    char name[DIBS_NAME_MAX], out[DIBS__NAME_PRINT_MAX];
    memset(name, 1, sizeof name);
    assert_int_equal(dibs_name_print(out, sizeof out, name, sizeof name), 2048);
    assert_int_equal(strlen(out), sizeof out - 1);
}

CASE(stripes_are_fixed_for_ever)
{
    char out[32];
    assert_int_equal(dibs_stripe(out, sizeof out, "u", "user:1", 6, 16, NULL), DIBS_OK);
    assert_string_equal(out, "u#5");
    assert_int_equal(dibs_stripe(out, sizeof out, "u", "user:2", 6, 16, NULL), DIBS_OK);
    assert_string_equal(out, "u#10");
    assert_int_equal(dibs_stripe(out, sizeof out, "", NULL, 0, 16, NULL), DIBS_OK);
    assert_string_equal(out, "#4");
    assert_int_equal(dibs_stripe(out, sizeof out, "u", "k", 1, 1, NULL), DIBS_OK);
    assert_string_equal(out, "u#0");
}

CASE(stripes_are_even)
{
    enum { STRIPES = 16, KEYS = 16000 };
    unsigned count[STRIPES] = { 0 };
    for (int i = 0; i < KEYS; i++) {
        char key[16], out[16];
        unsigned stripe;
        int len = snprintf(key, sizeof key, "user:%d", i);
        assert_int_equal(
            dibs_stripe(out, sizeof out, "s", key, (size_t)len, STRIPES, NULL), DIBS_OK);
        assert_int_equal(sscanf(out, "s#%u", &stripe), 1);
        assert_in_range(stripe, 0, STRIPES - 1);
        count[stripe]++;
    }
    /* a thousand each, plus or minus six standard deviations */
    for (int i = 0; i < STRIPES; i++)
        assert_in_range(count[i], 810, 1190);
}

CASE(stripe_bounds)
{
    char out[8] = "before", long_prefix[DIBS_NAME_MAX + 8], long_out[600];
    dibs_error err = { 0 };
    assert_int_equal(dibs_stripe(out, 8, "p", "k", 1, 0, &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "stripes is 0");
    assert_int_equal(dibs_stripe(NULL, 8, "p", "k", 1, 1, &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "NULL");
    assert_int_equal(dibs_stripe(out, 8, NULL, "k", 1, 1, &err), DIBS_EINVAL);
    assert_int_equal(dibs_stripe(out, 8, "p", NULL, 1, 1, &err), DIBS_EINVAL);
    assert_int_equal(dibs_stripe(out, 3, "p", "k", 1, 1, &err), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "fit");
    assert_int_equal(dibs_stripe(out, 0, "p", "k", 1, 1, NULL), DIBS_EINVAL);
    assert_string_equal(out, "before");
    assert_int_equal(dibs_stripe(out, 4, "p", "k", 1, 1, NULL), DIBS_OK);
    assert_string_equal(out, "p#0");
    /* what it makes must be a name */
    memset(long_prefix, 'p', sizeof long_prefix);
    long_prefix[DIBS_NAME_MAX - 2] = '\0';
    assert_int_equal(dibs_stripe(long_out, 600, long_prefix, "k", 1, 1, NULL), DIBS_OK);
    long_prefix[DIBS_NAME_MAX - 2] = 'p';
    long_prefix[DIBS_NAME_MAX - 1] = '\0';
    assert_int_equal(dibs_stripe(long_out, 600, long_prefix, "k", 1, 1, NULL),
                     DIBS_EINVAL);
}
