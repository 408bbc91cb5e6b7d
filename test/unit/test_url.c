/* SPDX-License-Identifier: MIT */
/* core/url.c: splitting and decoding, and that a password gets nowhere. */
#include "unit.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/url.h"

/* ---- what is given back to the allocator, by the linker's --wrap ---- */

void __real_dibs__free(void *memory);
void __wrap_dibs__free(void *memory);
static const char *forbidden; /* no memory that is freed may contain this */
static int forbidden_seen;

void
__wrap_dibs__free(void *memory)
{
    if (memory && forbidden &&
        memmem(memory, malloc_usable_size(memory), forbidden, strlen(forbidden)))
        forbidden_seen = 1;
    __real_dibs__free(memory);
}

/* ---- the parts ---- */

static dibs__url url;
static dibs_error err;

static void
parse(const char *text)
{
    if (dibs__url_parse(&url, text, &err))
        fail_msg("%s: %s", text, err.text);
}

static void
refuses(const char *text, const char *part)
{
    memset(&err, 0, sizeof err);
    if (dibs__url_parse(&url, text, &err) != DIBS_ECONFIG)
        fail_msg("'%.60s' is not refused", text);
    assert_says(&err, DIBS_ECONFIG, part);
    dibs__url_free(&url);
    assert_int_equal(dibs__url_parse(&url, text, NULL), DIBS_ECONFIG);
    dibs__url_free(&url);
}

CASE(every_part)
{
    parse("redis+tls://me:pw@h1:1,h2:2/0/x?a=1&b=two");
    assert_string_equal(url.parts.scheme, "redis+tls");
    assert_string_equal(url.parts.user, "me");
    assert_string_equal(url.parts.password, "pw");
    assert_string_equal(url.parts.hosts, "h1:1,h2:2");
    assert_string_equal(url.parts.path, "/0/x");
    assert_int_equal(url.parts.param_count, 2);
    assert_string_equal(dibs__url_param(&url.parts, "a"), "1");
    assert_string_equal(dibs__url_param(&url.parts, "b"), "two");
    assert_null(dibs__url_param(&url.parts, "c"));
    assert_string_equal(url.shown, "redis+tls://me:***@h1:1,h2:2/0/x?a=1&b=two");
    dibs__url_free(&url);
}

CASE(parts_that_are_absent)
{
    parse("local:");
    assert_string_equal(url.parts.scheme, "local");
    assert_null(url.parts.user);
    assert_null(url.parts.password);
    assert_string_equal(url.parts.hosts, "");
    assert_string_equal(url.parts.path, "");
    assert_int_equal(url.parts.param_count, 0);
    assert_string_equal(url.shown, "local:");
    dibs__url_free(&url);
    parse("local:/run/dibs");
    assert_string_equal(url.parts.path, "/run/dibs");
    assert_string_equal(url.shown, "local:/run/dibs");
    dibs__url_free(&url);
    parse("etcd://h");
    assert_string_equal(url.parts.hosts, "h");
    assert_string_equal(url.parts.path, "");
    dibs__url_free(&url);
    parse("sqlite:///var/db");
    assert_string_equal(url.parts.hosts, "");
    assert_string_equal(url.parts.path, "/var/db");
    dibs__url_free(&url);
    parse("redis://me@h?x");
    assert_string_equal(url.parts.user, "me");
    assert_null(url.parts.password);
    assert_string_equal(dibs__url_param(&url.parts, "x"), "");
    assert_string_equal(url.shown, "redis://me@h?x=");
    dibs__url_free(&url);
    parse("mock:?");
    assert_int_equal(url.parts.param_count, 0);
    dibs__url_free(&url);
    dibs__url_free(&url); /* once more does no harm */
}

CASE(hosts_stay_as_written)
{
    parse("zk://[::1]:2181,h%41:1/p");
    assert_string_equal(url.parts.hosts, "[::1]:2181,h%41:1");
    dibs__url_free(&url);
}

CASE(percent_escapes)
{
    parse("redis://a%40b:p%3a%2F%3f%40@h/%2Ftmp/%C3%a9?n%61me=v%26%3d");
    assert_string_equal(url.parts.user, "a@b");
    assert_string_equal(url.parts.password, "p:/?@");
    assert_string_equal(url.parts.path, "//tmp/\xc3\xa9");
    assert_string_equal(dibs__url_param(&url.parts, "name"), "v&=");
    dibs__url_free(&url);
    static const char *const broken[] = { "local:/%",   "local:/%4",   "local:/%zz",
                                          "local:/%00", "r://u%g1@h",  "r://u:%@h",
                                          "local:?%=1", "local:?a=%4", "local:?a=%00" };
    for (size_t i = 0; i < COUNT(broken); i++)
        refuses(broken[i], "broken %-escape");
}

CASE(schemes)
{
    static const char *const bad[] = { "",    "local", ":",       "/tmp/x",    "1a:",
                                       "+a:", "Lo:",   "lo cal:", "l\xc3\xa9:" };
    for (size_t i = 0; i < COUNT(bad); i++)
        refuses(bad[i], "scheme");
    parse("a1+-.:");
    assert_string_equal(url.parts.scheme, "a1+-.");
    dibs__url_free(&url);
}

CASE(limits)
{
    char text[DIBS__URL_MAX + 2];
    memset(text, 'p', sizeof text);
    memcpy(text, "local:/", 7);
    text[DIBS__URL_MAX] = '\0';
    parse(text);
    dibs__url_free(&url);
    text[DIBS__URL_MAX] = 'p';
    text[DIBS__URL_MAX + 1] = '\0';
    refuses(text, "longer than 4096");

    size_t used = (size_t)snprintf(text, sizeof text, "mock:?");
    for (int i = 0; i < DIBS__URL_PARAMS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used, "%sp%d=%d",
                                 i ? "&" : "", i, i);
    parse(text);
    assert_string_equal(dibs__url_param(&url.parts, "p31"), "31");
    dibs__url_free(&url);
    (void)snprintf(text + used, sizeof text - used, "&one=more");
    refuses(text, "more than 32 parameters");
}

/* what is shown may be longer than what was given: escapes */
CASE(shown_is_printable)
{
    char text[DIBS__URL_MAX];
    size_t used = (size_t)snprintf(text, sizeof text, "local:/");
    while (used + 4 < sizeof text)
        used += (size_t)snprintf(text + used, sizeof text - used, "%%0a");
    parse(text);
    for (const char *at = url.shown; *at; at++)
        assert_true(*at >= 0x20 && *at < 0x7f);
    assert_memory_equal(url.shown, "local:/\\x0a", 11);
    dibs__url_free(&url);
}

/* ---- passwords ---- */

CASE(password_is_never_shown)
{
    static const char *const texts[] = {
        "redis://u:hunter2@h/0",        "redis://:hunter2@h",
        "redis://u:a:hunter2@h",        "redis://u:a@hunter2@h",
        "redis://u:hunter%32@h?x=1",    "redis://h?password=hunter2",
        "redis://h?auth_token=hunter2", "redis://h?client_secret=hunter2",
        "redis://u:hunter2@",           "redis://h?my_password=hunter2&x=1",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        parse(texts[i]);
        if (strstr(url.shown, "hunter"))
            fail_msg("'%s' shows as '%s'", texts[i], url.shown);
        assert_non_null(strstr(url.shown, "***"));
        dibs__url_free(&url);
    }
}

CASE(password_with_a_slash)
{
    static const char *const texts[] = { "redis://u:se/cret@h", "redis://u:se?cret@h",
                                         "redis://:12/cret@h:6379/0" };
    for (size_t i = 0; i < COUNT(texts); i++) {
        memset(&err, 0, sizeof err);
        int rc = dibs__url_parse(&url, texts[i], &err);
        if (!rc && strstr(url.shown, "cret"))
            fail_msg("'%s' shows as '%s'", texts[i], url.shown);
        assert_null(strstr(err.text, "cret"));
        dibs__url_free(&url);
    }
}

CASE(password_is_wiped)
{
    forbidden = "hunter2";
    parse("redis://u:hunter2@h/0?x=1");
    assert_string_equal(url.parts.password, "hunter2");
    dibs__url_free(&url);
    assert_int_equal(forbidden_seen, 0);
    /* also if the URL turns out to be broken */
    refuses("redis://u:hunter2@h/%", "broken");
    refuses("redis://u:hunter2@h?%", "broken");
    assert_int_equal(forbidden_seen, 0);
}

CASE(password_is_not_in_messages)
{
    dibs *client;
    memset(&err, 0, sizeof err);
    assert_int_equal(dibs_open(&client, "nosuch://u:hunter2@h", NULL, &err),
                     DIBS_ECONFIG);
    assert_null(strstr(err.text, "hunter2"));
    assert_int_equal(dibs_open(&client, "mock://u:hunter2@h?bad=1", NULL, &err),
                     DIBS_ECONFIG);
    assert_null(strstr(err.text, "hunter2"));
    assert_int_equal(dibs_open(&client, "mock://u:hunter2@h?delay=x", NULL, &err),
                     DIBS_ECONFIG);
    assert_null(strstr(err.text, "hunter2"));
}

static void
write_file(char *path, size_t size, const char *content, size_t len)
{
    (void)snprintf(path, size, "%s/password", unit_folder());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(content, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("DIBS_PASSWORD_FILE", path, 1), 0);
}

CASE(password_from_a_file)
{
    char path[300];
    forbidden = "hunter3";
    write_file(path, sizeof path, "hunter3\r\nmore\n", 14);
    parse("redis://u@h");
    assert_int_equal(dibs__url_password_from_file(&url, &err), DIBS_OK);
    assert_string_equal(url.parts.password, "hunter3");
    assert_null(strstr(url.shown, "hunter3"));
    dibs__url_free(&url);
    assert_int_equal(forbidden_seen, 0);

    /* the URL's own password wins */
    parse("redis://u:own@h");
    assert_int_equal(dibs__url_password_from_file(&url, &err), DIBS_OK);
    assert_string_equal(url.parts.password, "own");
    dibs__url_free(&url);

    /* unset and empty mean: none */
    assert_int_equal(setenv("DIBS_PASSWORD_FILE", "", 1), 0);
    parse("redis://u@h");
    assert_int_equal(dibs__url_password_from_file(&url, &err), DIBS_OK);
    assert_null(url.parts.password);
    assert_int_equal(unsetenv("DIBS_PASSWORD_FILE"), 0);
    assert_int_equal(dibs__url_password_from_file(&url, &err), DIBS_OK);
    assert_null(url.parts.password);
    dibs__url_free(&url);
}

CASE(password_file_that_cannot_be_used)
{
    char path[300], text[1100];
    assert_int_equal(setenv("DIBS_PASSWORD_FILE", "/nonexistent/pw", 1), 0);
    parse("redis://u@h");
    assert_int_equal(dibs__url_password_from_file(&url, &err), DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "'/nonexistent/pw': No such file");
    dibs__url_free(&url);
    assert_int_equal(setenv("DIBS_PASSWORD_FILE", unit_folder(), 1), 0);
    parse("redis://u@h");
    assert_int_equal(dibs__url_password_from_file(&url, NULL), DIBS_ECONFIG);
    dibs__url_free(&url);
    /* one that is too long must not become another one */
    memset(text, 'p', sizeof text);
    write_file(path, sizeof path, text, sizeof text);
    parse("redis://u@h");
    assert_int_equal(dibs__url_password_from_file(&url, &err), DIBS_ECONFIG);
    assert_null(strstr(err.text, "pppp"));
    dibs__url_free(&url);
}

/* ---- parameters ---- */

static int
check_params(const char *const *known, dibs_error *error)
{
    dibs_engine engine = { .params = known };
    return dibs__url_check_params(&url, &engine, error);
}

CASE(unknown_parameters)
{
    static const char *const known[] = { "delay", "seed", NULL };
    static const char *const none[] = { NULL };
    parse("mock:?seed=1&sed=2");
    assert_int_equal(check_params(known, &err), DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG,
                "unknown parameter 'sed' in the URL; known: delay, seed");
    assert_int_equal(check_params(none, &err), DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "unknown parameter 'seed' in the URL; known: none");
    dibs__url_free(&url);
    parse("mock:?seed=1&delay=2");
    assert_int_equal(check_params(known, NULL), DIBS_OK);
    dibs__url_free(&url);
}

CASE(many_known_parameters)
{
    const char *known[101] = { 0 };
    for (int i = 0; i < 100; i++)
        known[i] = "a_parameter";
    parse("mock:?x=1");
    assert_int_equal(check_params(known, &err), DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "'x'");
    dibs__url_free(&url);
}

CASE(parameters_of_layouts)
{
    static const char *const nothing[] = { NULL };
    static const char *const form[] = { "form", NULL };
    static const dibs_engine first = { .layout = "one", .params = form };
    static const dibs_engine *const both[] = { &first, NULL };
    dibs_engine second = { .layout = "two", .layouts = both, .params = nothing };
    parse("mock:?layout=two");
    assert_int_equal(dibs__url_check_params(&url, &second, &err), DIBS_OK);
    dibs__url_free(&url);
    parse("mock:?layout=two&form=rw");
    assert_int_equal(dibs__url_check_params(&url, &second, &err), DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "form= belongs to layout=one, and this is two");
    dibs__url_free(&url);
}

CASE(numbers_and_choices)
{
    static const char *const colours[] = { "red", "green", NULL };
    unsigned number = 7;
    int which = 5, yes = 1;
    parse("mock:?n=12&many=101&minus=-1&word=x&c=green&d=blue&y=yes&f=no&z=maybe");
    const dibs_url_parts *parts = &url.parts;
    assert_int_equal(dibs__url_param_number(&number, parts, "none", 1, 9, &err), DIBS_OK);
    assert_int_equal(number, 7);
    assert_int_equal(dibs__url_param_number(&number, parts, "n", 1, 100, &err), DIBS_OK);
    assert_int_equal(number, 12);
    static const char *const bad[] = { "many", "minus", "word" };
    for (int i = 0; i < 3; i++) {
        assert_int_equal(dibs__url_param_number(&number, parts, bad[i], 1, 100, &err),
                         DIBS_ECONFIG);
        assert_says(&err, DIBS_ECONFIG, "a number from 1 to 100 was expected");
    }
    assert_int_equal(number, 12);
    assert_int_equal(dibs__url_param_choice(&which, parts, "c", colours, &err), DIBS_OK);
    assert_int_equal(which, 1);
    assert_int_equal(dibs__url_param_choice(&which, parts, "d", colours, &err),
                     DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "parameter 'd' is 'blue': there are red, green");
    assert_int_equal(dibs__url_param_yes(&yes, parts, "none", &err), DIBS_OK);
    assert_int_equal(yes, 1);
    assert_int_equal(dibs__url_param_yes(&yes, parts, "f", &err), DIBS_OK);
    assert_int_equal(yes, 0);
    assert_int_equal(dibs__url_param_yes(&yes, parts, "y", &err), DIBS_OK);
    assert_int_equal(yes, 1);
    assert_int_equal(dibs__url_param_yes(&yes, parts, "z", &err), DIBS_ECONFIG);
    dibs__url_free(&url);
}

CASE(durations)
{
    int64_t ms = 77;
    parse("mock:?delay=1m30s&bad=soon");
    assert_int_equal(dibs__url_param_ms(&ms, &url.parts, "absent", &err), DIBS_OK);
    assert_int_equal(ms, 77);
    assert_int_equal(dibs__url_param_ms(&ms, &url.parts, "bad", &err), DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "parameter 'bad' is 'soon': a duration");
    assert_int_equal(ms, 77);
    assert_int_equal(dibs__url_param_ms(&ms, &url.parts, "delay", &err), DIBS_OK);
    assert_int_equal(ms, 90000);
    dibs__url_free(&url);
}

CASE(texts_are_one_line)
{
    static const char *const known[] = { "delay", NULL };
    int64_t ms;
    parse("mock:?a%0ab%1b=1&delay=x%0ay");
    assert_int_equal(check_params(known, &err), DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "unknown");
    assert_int_equal(dibs__url_param_ms(&ms, &url.parts, "delay", &err), DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "delay");
    dibs__url_free(&url);
}

CASE(out_of_memory)
{
    for (int64_t n = 0; n < 2; n++) {
        dibs__alloc_fail_after(n);
        assert_int_equal(dibs__url_parse(&url, "redis://u:p@h", &err), DIBS_ENOMEM);
        dibs__alloc_fail_after(-1);
        dibs__url_free(&url);
    }
}
