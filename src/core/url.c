/* SPDX-License-Identifier: MIT */
/* Splitting, decoding and showing URLs. A password leaves this file only in `parts`. */
#include "core/url.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/error.h"
#include "core/mem.h"
#include "util/duration.h"

#define PASSWORD_MAX 1024

#define SHOWN_MAX 96

/* a part of the URL as messages show it: escaped, and cut */
static const char *
shown(char out[SHOWN_MAX], const char *text)
{
    (void)dibs_name_print(out, SHOWN_MAX, text, strlen(text));
    return out;
}

static int
hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* decodes %XX in place; -1 if an escape is broken or stands for NUL */
static int
percent_decode(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        if (*from != '%') {
            *to++ = *from;
            continue;
        }
        int high = hex_digit(from[1]);
        int low = high < 0 ? -1 : hex_digit(from[2]);
        if (low < 0 || (high == 0 && low == 0))
            return -1;
        *to++ = (char)(high << 4 | low);
        from += 2;
    }
    *to = '\0';
    return 0;
}

static int
is_scheme(const char *text, size_t len)
{
    if (len == 0)
        return 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        int letter = c >= 'a' && c <= 'z';
        int later = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (!letter && !(i && later))
            return 0;
    }
    return 1;
}

/* takes "user:password@" off the front of an authority; returns the rest */
static char *
split_userinfo(dibs__url *url, char *authority)
{
    char *at = strrchr(authority, '@');
    if (!at)
        return authority;
    *at = '\0';
    char *colon = strchr(authority, ':');
    if (colon) {
        *colon = '\0';
        url->parts.password = colon + 1;
    }
    url->parts.user = authority;
    return at + 1;
}

static int
split_params(dibs__url *url, char *query, dibs_error *err)
{
    char *rest = query;
    while (rest && *rest) {
        char *item = strsep(&rest, "&");
        if (url->parts.param_count == DIBS__URL_PARAMS_MAX)
            return dibs__fail(err, DIBS_ECONFIG, "the URL has more than %d parameters",
                              DIBS__URL_PARAMS_MAX);
        char *value = strchr(item, '=');
        if (value)
            *value++ = '\0';
        else
            value = item + strlen(item);
        if (percent_decode(item) || percent_decode(value))
            return dibs__fail(err, DIBS_ECONFIG, "the URL has a broken %%-escape");
        url->names[url->parts.param_count] = item;
        url->values[url->parts.param_count] = value;
        url->parts.param_count++;
    }
    return DIBS_OK;
}

/* A URL to show: what was given, with *** for the password between its colon and '@', and
 * for the values of parameters that are secrets by their name. */
static int
make_shown(dibs__url *url, dibs_error *err)
{
    const dibs_url_parts *parts = &url->parts;
    char text[DIBS__URL_MAX * 2];
    size_t used = 0;
#define SHOW(...)                                                                        \
    do {                                                                                 \
        int wrote = snprintf(text + used, sizeof text - used, __VA_ARGS__);              \
        used += wrote > 0 ? (size_t)wrote : 0;                                           \
        if (used >= sizeof text)                                                         \
            used = sizeof text - 1;                                                      \
    } while (0)
    SHOW("%s:", parts->scheme);
    if (*parts->hosts || parts->user)
        SHOW("//%s%s%s%s", parts->user ? parts->user : "", parts->password ? ":***" : "",
             parts->user ? "@" : "", parts->hosts);
    SHOW("%s", parts->path);
    for (size_t i = 0; i < parts->param_count; i++) {
        int secret = strstr(url->names[i], "password") ||
                     strstr(url->names[i], "secret") || strstr(url->names[i], "token");
        SHOW("%c%s=%s", i ? '&' : '?', url->names[i], secret ? "***" : url->values[i]);
    }
#undef SHOW
    url->shown = dibs__alloc(dibs_name_print(NULL, 0, text, used) + 1);
    if (!url->shown)
        return dibs__fail_memory(err);
    (void)dibs_name_print(url->shown, dibs_name_print(NULL, 0, text, used) + 1, text,
                          used);
    return DIBS_OK;
}

/* A password with a bare '/' or '?' cuts the URL in the wrong place, and the rest of it
 * would be shown: what looks like that is refused ('@' elsewhere is written %40). */
static int
looks_cut(const char *authority, const char *rest)
{
    return strchr(authority, ':') && !strchr(authority, '@') && strchr(rest, '@');
}

const char *
dibs__url_or_default(const char *url)
{
    if (!url)
        url = getenv("DIBS_URL");
    return url && *url ? url : "local:";
}

int
dibs__url_parse(dibs__url *url, const char *text, dibs_error *err)
{
    memset(url, 0, sizeof *url);
    size_t len = strlen(text);
    const char *colon = strchr(text, ':');
    if (len > DIBS__URL_MAX)
        return dibs__fail(err, DIBS_ECONFIG, "the URL is longer than %d bytes",
                          DIBS__URL_MAX);
    if (!colon || !is_scheme(text, (size_t)(colon - text)))
        return dibs__fail(err, DIBS_ECONFIG,
                          "the URL does not begin with an engine's scheme, as \"local:\" "
                          "or \"redis://host\" do");
    url->memory = dibs__alloc(len + 1);
    if (!url->memory)
        return dibs__fail_memory(err);
    memcpy(url->memory, text, len + 1);
    url->memory_len = len;

    char *rest = url->memory + (colon - text);
    *rest++ = '\0';
    char *query = strchr(rest, '?');
    if (query)
        *query++ = '\0';
    url->parts.scheme = url->memory;
    url->parts.hosts = url->parts.path = "";
    url->parts.param_names = url->names;
    url->parts.param_values = url->values;
    if (strncmp(rest, "//", 2) == 0) {
        char *slash = strchr(rest + 2, '/');
        /* make room for the NUL that ends the authority by moving it one to the left */
        size_t authority = slash ? (size_t)(slash - rest) - 2 : strlen(rest + 2);
        memmove(rest + 1, rest + 2, authority);
        rest[1 + authority] = '\0';
        url->parts.path = slash ? slash : "";
        if (looks_cut(rest + 1, text))
            return dibs__fail(
                err, DIBS_ECONFIG,
                "the URL's password seems to contain '/', '?' or '#': write "
                "%%2F, %%3F or %%23 instead");
        url->parts.hosts = split_userinfo(url, rest + 1);
    } else {
        url->parts.path = rest;
    }
    if ((url->parts.user && percent_decode((char *)url->parts.user)) ||
        (url->parts.password && percent_decode((char *)url->parts.password)) ||
        (*url->parts.path && percent_decode((char *)url->parts.path)))
        return dibs__fail(err, DIBS_ECONFIG, "the URL has a broken %%-escape");
    int rc = query ? split_params(url, query, err) : DIBS_OK;
    return rc ? rc : make_shown(url, err);
}

void
dibs__url_free(dibs__url *url)
{
    if (url->memory)
        explicit_bzero(url->memory, url->memory_len);
    if (url->password_file)
        explicit_bzero(url->password_file, PASSWORD_MAX + 1);
    dibs__free(url->memory);
    dibs__free(url->password_file);
    dibs__free(url->shown);
    memset(url, 0, sizeof *url);
}

static int
read_small_file(char *out, size_t size, const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t got = read(fd, out, size);
    int saved = errno;
    close(fd);
    errno = (size_t)got == size ? EFBIG : saved;
    if (got < 0 || (size_t)got == size)
        return -1;
    out[got] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return 0;
}

int
dibs__url_password_from_file(dibs__url *url, dibs_error *err)
{
    const char *path = secure_getenv("DIBS_PASSWORD_FILE");
    if (url->parts.password || !path || !*path)
        return DIBS_OK;
    url->password_file = dibs__alloc(PASSWORD_MAX + 1);
    if (!url->password_file)
        return dibs__fail_memory(err);
    if (read_small_file(url->password_file, PASSWORD_MAX + 1, path))
        return dibs__fail(err, DIBS_ECONFIG, "cannot read $DIBS_PASSWORD_FILE '%s': %s",
                          path, strerror(errno));
    url->parts.password = url->password_file;
    return DIBS_OK;
}

static int
is_in(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

/* "a, b, c" */
static const char *
listed(char *out, size_t size, const char *const *list)
{
    size_t used = 0;
    *out = '\0';
    for (; *list && used < size; list++)
        used +=
            (size_t)snprintf(out + used, size - used, "%s%s", used ? ", " : "", *list);
    return out;
}

/* the layout that has the parameter which this one lacks; NULL: none */
static const char *
layout_with(const dibs_engine *engine, const char *param)
{
    const dibs_engine *const *at = engine->layouts;
    for (; at && *at; at++) {
        if (is_in((*at)->params, param))
            return (*at)->layout;
    }
    return NULL;
}

int
dibs__url_check_params(const dibs__url *url, const dibs_engine *engine, dibs_error *err)
{
    char name[SHOWN_MAX], known[256];
    for (size_t i = 0; i < url->parts.param_count; i++) {
        const char *param = url->names[i];
        if (is_in(engine->params, param) ||
            (engine->layout && strcmp(param, "layout") == 0))
            continue;
        const char *other = layout_with(engine, param);
        if (other)
            return dibs__fail(err, DIBS_ECONFIG,
                              "%s= belongs to layout=%s, and this is %s", param, other,
                              engine->layout);
        (void)listed(known, sizeof known, engine->params);
        return dibs__fail(err, DIBS_ECONFIG,
                          "unknown parameter '%s' in the URL; known: %s",
                          shown(name, param), *known ? known : "none");
    }
    return DIBS_OK;
}

const char *
dibs__url_param(const dibs_url_parts *url, const char *name)
{
    for (size_t i = 0; i < url->param_count; i++) {
        if (strcmp(url->param_names[i], name) == 0)
            return url->param_values[i];
    }
    return NULL;
}

int
dibs__url_param_ms(int64_t *ms, const dibs_url_parts *url, const char *name,
                   dibs_error *err)
{
    const char *text = dibs__url_param(url, name);
    if (!text || dibs__duration_parse(ms, text) == 0)
        return DIBS_OK;
    char value[SHOWN_MAX];
    return dibs__fail(err, DIBS_ECONFIG,
                      "parameter '%s' is '%s': a duration like 30s, 250ms or 1m30s was "
                      "expected",
                      name, shown(value, text));
}

int
dibs__url_param_number(unsigned *out, const dibs_url_parts *url, const char *name,
                       unsigned least, unsigned most, dibs_error *err)
{
    const char *text = dibs__url_param(url, name);
    char value[SHOWN_MAX], *end = NULL;
    if (!text)
        return DIBS_OK;
    unsigned long number = strtoul(text, &end, 10);
    if (*text < '0' || *text > '9' || *end || number < least || number > most)
        return dibs__fail(err, DIBS_ECONFIG,
                          "parameter '%s' is '%s': a number from %u to %u was expected",
                          name, shown(value, text), least, most);
    *out = (unsigned)number;
    return DIBS_OK;
}

int
dibs__url_param_choice(int *out, const dibs_url_parts *url, const char *name,
                       const char *const *choices, dibs_error *err)
{
    const char *text = dibs__url_param(url, name);
    char value[SHOWN_MAX], all[256];
    for (int i = 0; text && choices[i]; i++) {
        if (strcmp(choices[i], text) == 0) {
            *out = i;
            return DIBS_OK;
        }
    }
    if (!text)
        return DIBS_OK;
    return dibs__fail(err, DIBS_ECONFIG, "parameter '%s' is '%s': there are %s", name,
                      shown(value, text), listed(all, sizeof all, choices));
}

int
dibs__url_param_yes(int *out, const dibs_url_parts *url, const char *name,
                    dibs_error *err)
{
    static const char *const answers[] = { "no", "yes", "0", "1", "false", "true", NULL };
    int answer = *out;
    int rc = dibs__url_param_choice(&answer, url, name, answers, err);
    *out = answer & 1;
    return rc;
}
