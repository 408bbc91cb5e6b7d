/* SPDX-License-Identifier: MIT */
/* The runner, and what the cases share. See unit.h. */
#include "unit.h"

#include <stdio.h>
#include <stdlib.h>

#define CASES_MAX 64

static struct CMUnitTest cases[CASES_MAX];
static size_t case_count;
static char folder[256], local_url[300], mock_url[64];

void
unit_add(const char *name, unit_case *run)
{
    if (case_count == CASES_MAX)
        abort();
    cases[case_count++] = (struct CMUnitTest){ name, run, NULL, NULL, NULL };
}

/* ---- what cases share ---- */

static void
remove_folder(void)
{
    if (*folder)
        remove_tree(folder);
}

const char *
unit_folder(void)
{
    if (!*folder) {
        temp_dir(folder, sizeof folder, "/dev/shm");
        (void)atexit(remove_folder);
    }
    return folder;
}

const char *
unit_local(void)
{
    (void)snprintf(local_url, sizeof local_url, "local:%s", unit_folder());
    return local_url;
}

const char *
unit_mock(void)
{
    (void)snprintf(mock_url, sizeof mock_url, "mock://unit");
    return mock_url;
}

const char *const *
unit_urls(void)
{
    static const char *urls[3];
    urls[0] = unit_local();
    urls[1] = unit_mock();
    return urls;
}

dibs *
unit_open(const char *url, const dibs_options *options)
{
    dibs *client = NULL;
    dibs_error err = { 0 };
    if (dibs_open(&client, url, options, &err))
        fail_msg("%s: %s", url, err.text);
    return client;
}

void
unit_is_free(const char *url, const char *name)
{
    dibs *client = unit_open(url, NULL);
    dibs_hold *hold;
    dibs_error err = { 0 };
    if (dibs_trylock(&hold, client, name, &err))
        fail_msg("%s", err.text);
    assert_int_equal(dibs_unlock(hold, NULL), DIBS_OK);
    dibs_close(client);
}

void
assert_says(const dibs_error *err, int code, const char *part)
{
    if (err->code != code)
        fail_msg("code %s instead of %s: %s", dibs_errname(err->code), dibs_errname(code),
                 err->text);
    if (!strstr(err->text, part))
        fail_msg("'%s' lacks '%s'", err->text, part);
    for (const char *at = err->text; *at; at++) {
        if ((unsigned char)*at < 0x20)
            fail_msg("a control character in '%s'", err->text);
    }
}

/* ---- the runner ---- */

int
main(int argc, char **argv)
{
    (void)setenv("DIBS_ENGINE_DIR", UNIT_ENGINE_DIR, 0);
    (void)unsetenv("DIBS_URL");
    for (size_t i = 0; i < case_count; i++) {
        if (argc == 2 && strcmp(argv[1], cases[i].name) == 0)
            return _cmocka_run_group_tests(cases[i].name, &cases[i], 1, NULL, NULL);
    }
    (void)fprintf(stderr, "usage: %s CASE\n", argv[0]);
    for (size_t i = 0; i < case_count; i++)
        (void)fprintf(stderr, "  %s\n", cases[i].name);
    return 2;
}
