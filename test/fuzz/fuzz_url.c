/* SPDX-License-Identifier: MIT */
/* URLs (core/url.c): what is a secret does not show, however odd the rest is; what was
 * decoded, encoded again, is read as the same. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/url.h"
#include "fuzz.h"

/* ---- secrets ---- */

static void
blot(char *from, size_t len)
{
    memset(from, 'x', len);
}

/* In the URL's memory the authority stands one to the left of where it was in the text. */
static void
blot_password(char *text, const dibs__url *url)
{
    if (!url->parts.password)
        return;
    char *from = text + (url->parts.password - url->memory) + 1;
    char *query = strchr(text, '?');
    size_t len = strcspn(from, "/");
    if (query && (size_t)(query - from) < len)
        len = (size_t)(query - from);
    char *at = memrchr(from, '@', len);
    HOLDS(at != NULL);
    blot(from, (size_t)(at - from));
}

static void
blot_params(char *text, const dibs__url *url)
{
    for (size_t i = 0; i < url->parts.param_count; i++) {
        const char *name = url->names[i];
        char *from = text + (url->values[i] - url->memory);
        if (strstr(name, "password") || strstr(name, "secret") || strstr(name, "token"))
            blot(from, strcspn(from, "&"));
    }
}

/* One who sees the URL shown cannot tell which secret it has. */
static void
check_secrets(const char *text, const dibs__url *url)
{
    dibs__url twin;
    char *other = fuzz_text(text, strlen(text));
    blot_password(other, url);
    blot_params(other, url);
    HOLDS(dibs__url_parse(&twin, other, NULL) == DIBS_OK);
    HOLDS(strcmp(twin.shown, url->shown) == 0);
    dibs__url_free(&twin);
    free(other);
}

/* ---- parts ---- */

static void
check_parts(const dibs__url *url)
{
    const dibs_url_parts *parts = &url->parts;
    HOLDS(*parts->scheme &&
          strspn(parts->scheme, "abcdefghijklmnopqrstuvwxyz0123456789+-.") ==
              strlen(parts->scheme));
    HOLDS(parts->param_count <= DIBS__URL_PARAMS_MAX);
    HOLDS(strlen(parts->hosts) + strlen(parts->path) <= DIBS__URL_MAX);
    HOLDS(!parts->password || parts->user);
    HOLDS(fuzz_is_line(url->shown));
    HOLDS(strlen(url->shown) <= 8 * DIBS__URL_MAX);
}

static void
check_params(const dibs__url *url)
{
    static const char *const choices[] = { "one", "two", NULL };
    for (size_t i = 0; i < url->parts.param_count; i++) {
        const char *name = url->names[i];
        int64_t ms = -1;
        unsigned number = 7;
        int choice = 0, yes = 0;
        dibs_error err = { 0 };
        if (dibs__url_param_ms(&ms, &url->parts, name, &err) == DIBS_OK)
            HOLDS(ms >= 0);
        if (dibs__url_param_number(&number, &url->parts, name, 5, 4000000000u, &err) == 0)
            HOLDS(number >= 5 && number <= 4000000000u);
        (void)dibs__url_param_choice(&choice, &url->parts, name, choices, &err);
        (void)dibs__url_param_yes(&yes, &url->parts, name, &err);
        HOLDS((choice == 0 || choice == 1) && (yes == 0 || yes == 1));
        /* the name is an engine's own, so it is a line, too */
        HOLDS(fuzz_is_line(err.text) || !fuzz_is_line(name));
    }
}

/* every byte of the path as %XX: the same path */
static void
check_path(const dibs__url *url)
{
    const char *path = url->parts.path;
    size_t scheme_len = strlen(url->parts.scheme), len = strlen(path);
    char *text = malloc(scheme_len + 2 + 3 * len);
    dibs__url twin;
    int used = sprintf(text, "%s:", url->parts.scheme);
    for (size_t i = 0; i < len; i++)
        used += sprintf(text + used, "%%%02x", (unsigned char)path[i]);
    int rc = dibs__url_parse(&twin, text, NULL);
    HOLDS(rc == ((size_t)used > DIBS__URL_MAX ? DIBS_ECONFIG : DIBS_OK));
    HOLDS(rc || strcmp(twin.parts.path, path) == 0);
    dibs__url_free(&twin);
    free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dibs__url url;
    dibs_error err = { 0 };
    char *text = fuzz_text(data, size);
    int rc = dibs__url_parse(&url, text, &err);
    HOLDS(rc == DIBS_OK || rc == DIBS_ECONFIG);
    HOLDS(rc == err.code && fuzz_is_line(err.text));
    if (!rc) {
        check_parts(&url);
        check_params(&url);
        check_secrets(text, &url);
        check_path(&url);
    }
    dibs__url_free(&url);
    free(text);
    return 0;
}
