/* SPDX-License-Identifier: MIT */
/* core/error.c: the one list of outcomes, and how messages are put together. */
#include "unit.h"

#include <limits.h>

#include "core/error.h"

static const struct {
    const char *name;
    int number;
    const char *text;
    int exit_code, retryable;
} map[] = {
#define ROW(name, number, text, exit_code, retryable)                                    \
    { #name, number, text, exit_code, retryable },
    DIBS_ERR_MAP(ROW)
#undef ROW
};

CASE(every_code_has_its_facts)
{
    for (size_t i = 0; i < COUNT(map); i++) {
        int code = map[i].number;
        assert_int_equal(code, -(int)i - 1); /* no gap, none twice */
        assert_string_equal(dibs_errname(code), map[i].name);
        assert_string_equal(dibs_strerror(code), map[i].text);
        assert_int_equal(dibs_exit_code(code), map[i].exit_code);
        assert_int_equal(dibs_retryable(code), map[i].retryable);
        assert_true(map[i].text[0] != '\0' && map[i].name[0] == 'E');
        assert_true(map[i].exit_code >= 64 && map[i].exit_code <= 79);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(map[i].name, map[j].name);
    }
}

/* programs and scripts rely on these */
CASE(numbers_never_change)
{
    assert_int_equal(COUNT(map), 18);
    assert_int_equal(DIBS_EBUSY, -1);
    assert_int_equal(DIBS_ETIMEDOUT, -2);
    assert_int_equal(DIBS_ELOST, -4);
    assert_int_equal(DIBS_EINVAL, -9);
    assert_int_equal(DIBS_ENOMEM, -12);
    assert_int_equal(DIBS_ECONFIG, -18);
    assert_int_equal(dibs_exit_code(DIBS_EBUSY), 75);
    assert_int_equal(dibs_exit_code(DIBS_ELOST), 79);
    assert_int_equal(dibs_exit_code(DIBS_EINVAL), 64);
}

CASE(any_number_is_accepted)
{
    const int odd[] = { 1, 77, -19, INT_MIN, INT_MAX };
    assert_string_equal(dibs_errname(DIBS_OK), "OK");
    assert_string_equal(dibs_strerror(DIBS_OK), "success");
    assert_int_equal(dibs_exit_code(DIBS_OK), 0);
    for (size_t i = 0; i < COUNT(odd); i++) {
        assert_string_equal(dibs_errname(odd[i]), "E?");
        assert_string_equal(dibs_strerror(odd[i]), "unknown code");
        assert_int_not_equal(dibs_exit_code(odd[i]), 0);
        assert_int_equal(dibs_retryable(odd[i]), 0);
    }
    assert_string_equal(dibs_version(), DIBS_VERSION);
}

CASE(fail_fills_in)
{
    dibs_error err;
    memset(&err, 'x', sizeof err);
    assert_int_equal(dibs__fail(&err, DIBS_EDENIED, "no %s for %d", "entry", 7),
                     DIBS_EDENIED);
    assert_int_equal(err.code, DIBS_EDENIED);
    assert_int_equal(err.engine_code, 0);
    assert_string_equal(err.engine, "");
    assert_string_equal(err.text, "no entry for 7");
    assert_int_equal(dibs__fail(NULL, DIBS_EDENIED, "%s", "nobody hears"), DIBS_EDENIED);
    assert_int_equal(dibs__fail_memory(&err), DIBS_ENOMEM);
    assert_says(&err, DIBS_ENOMEM, "out of memory");
    assert_int_equal(dibs__fail_memory(NULL), DIBS_ENOMEM);
}

CASE(fail_cuts_what_is_too_long)
{
    char long_text[1000];
    dibs_error err;
    memset(long_text, 'l', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    (void)dibs__fail(&err, DIBS_EINVAL, "%s", long_text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
}

CASE(wrap_keeps_what_the_engine_said)
{
    dibs_error err = { .code = DIBS_EUNAVAIL, .engine_code = 111, .text = "refused" };
    dibs__error_wrap(&err, DIBS_EUNAVAIL, "redis", "cannot lock '%s' at %s", "x", "r:1");
    assert_string_equal(err.text, "cannot lock 'x' at r:1: refused");
    assert_string_equal(err.engine, "redis");
    assert_int_equal(err.code, DIBS_EUNAVAIL);
    assert_int_equal(err.engine_code, 111);
    /* also if it was not heard, and the engine says that it could not be asked */
    err = (dibs_error){ .code = DIBS_EUNKNOWN, .text = "cut" };
    dibs__error_wrap(&err, DIBS_EUNAVAIL, "redis", "cannot list");
    assert_string_equal(err.text, "cannot list: cut");
    assert_int_equal(err.code, DIBS_EUNAVAIL);
    /* what it says stays when the caller is told another code */
    assert_int_equal(dibs__fail_as(&err, DIBS_EUNKNOWN), DIBS_EUNKNOWN);
    assert_string_equal(err.text, "cannot list: cut");
    assert_int_equal(err.code, DIBS_EUNKNOWN);
    assert_int_equal(dibs__fail_as(NULL, DIBS_EUNKNOWN), DIBS_EUNKNOWN);
}

CASE(wrap_without_a_text_says_what_the_code_means)
{
    dibs_error err = { .code = 0 };
    dibs__error_wrap(&err, DIBS_EDENIED, "redis", "cannot %s", "renew");
    assert_string_equal(err.text, "cannot renew: permission denied");
    /* what is left of an older failure is not this one's */
    err = (dibs_error){ .code = DIBS_EUNAVAIL, .text = "long ago" };
    dibs__error_wrap(&err, DIBS_EDENIED, "redis", "cannot %s", "renew");
    assert_string_equal(err.text, "cannot renew: permission denied");
    assert_int_equal(err.code, DIBS_EDENIED);
    dibs__error_wrap(NULL, DIBS_EDENIED, "redis", "cannot %s", "renew");
}

CASE(wrap_of_long_texts_ends)
{
    char long_text[1000];
    dibs_error err = { .code = DIBS_EDENIED, .text = "said" };
    memset(long_text, 'l', sizeof long_text - 1);
    long_text[sizeof long_text - 1] = '\0';
    dibs__error_wrap(&err, DIBS_EDENIED, "an engine with a long name", "%s", long_text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_string_equal(err.engine, "an engine with ");
    err.code = DIBS_EDENIED;
    memset(err.text, 's', sizeof err.text - 1);
    dibs__error_wrap(&err, DIBS_EDENIED, "e", "%.480s", long_text);
    assert_int_equal(strlen(err.text), sizeof err.text - 1);
    assert_memory_equal(err.text + 480, ": sssss", 8);
}
