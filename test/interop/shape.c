/* SPDX-License-Identifier: MIT */
/*
 * What is on the server, in a form in which two libraries that wrote down the same thing
 * look the same: random owners become <owner>, and times that pass become rough. See
 * interop.h.
 */
#include "interop.h"

#include <ctype.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

/* Lines of text, in the order in which they were added. */
struct lines {
    size_t count;
    char **line;
};

static char *
copy(const char *text)
{
    char *out = strdup(text);
    CHECK(out != NULL);
    return out;
}

static void
add(struct lines *lines, char *line)
{
    char **more = realloc(lines->line, (lines->count + 1) * sizeof(char *));
    CHECK(more != NULL);
    lines->line = more;
    lines->line[lines->count++] = line;
}

/* splits the answer of a server, and frees it; "" has no lines */
static struct lines
split(char *answer)
{
    struct lines out = { 0 };
    CHECK(answer != NULL);
    char *rest = NULL;
    for (char *line = strtok_r(answer, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        add(&out, copy(line));
    }
    free(answer);
    return out;
}

static int
by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static void
discard(struct lines *lines)
{
    for (size_t i = 0; i < lines->count; i++) {
        free(lines->line[i]);
    }
    free(lines->line);
}

/* puts the lines into one text, and discards them */
static char *
join(struct lines *lines, const char *between)
{
    size_t size = 1;
    for (size_t i = 0; i < lines->count; i++) {
        size += strlen(lines->line[i]) + strlen(between);
    }
    char *out = calloc(1, size);
    CHECK(out != NULL);
    for (size_t i = 0; i < lines->count; i++) {
        strcat(out, lines->line[i]);
        strcat(out, between);
    }
    discard(lines);
    return out;
}

static void
sort(struct lines *lines)
{
    if (lines->count > 1) {
        qsort(lines->line, lines->count, sizeof(char *), by_text);
    }
}

/* owners are a UUID, ':' and a number */
static char *
without_owners(const char *text)
{
    static const char owner[] =
        "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}:[0-9]+";
    regex_t pattern;
    regmatch_t match;
    CHECK(regcomp(&pattern, owner, REG_EXTENDED) == 0);
    char out[1024] = "";
    while (regexec(&pattern, text, 1, &match, 0) == 0) {
        size_t len = strlen(out);
        snprintf(out + len, sizeof(out) - len, "%.*s<owner>", (int)match.rm_so, text);
        text += match.rm_eo;
    }
    regfree(&pattern);
    size_t len = strlen(out);
    snprintf(out + len, sizeof(out) - len, "%s", text);
    return copy(out);
}

static int64_t
wall_ms(void)
{
    struct timeval now;
    gettimeofday(&now, NULL);
    return (int64_t)now.tv_sec * 1000 + now.tv_usec / 1000;
}

/* to the next ten seconds: tests use times that are far enough from the fives */
static int64_t
roughly_s(int64_t ms)
{
    return (ms + 5000) / 10000 * 10;
}

/* pairs of lines, each as "first=second", sorted unless their order counts */
static char *
pairs(struct lines all, int ordered, int scores)
{
    struct lines out = { 0 };
    CHECK(all.count % 2 == 0);
    for (size_t i = 0; i < all.count; i += 2) {
        char text[600];
        char *first = without_owners(all.line[i]);
        if (scores) {
            int64_t left = (int64_t)atof(all.line[i + 1]) - wall_ms();
            snprintf(text, sizeof(text), "%.500s=now+%lld s", first,
                     (long long)roughly_s(left));
        } else {
            snprintf(text, sizeof(text), "%.500s=%.80s", first, all.line[i + 1]);
        }
        add(&out, copy(text));
        free(first);
    }
    discard(&all);
    if (!ordered) {
        sort(&out);
    }
    return join(&out, " ");
}

/* the value of a string: a decimal number as it is, anything else is random */
static char *
string_shape(char *value)
{
    char *end;
    (void)strtoull(value, &end, 10);
    char *out = copy(*end == '\0' && strlen(value) < 18 ? value : "<random>");
    free(value);
    return out;
}

static char *
list_shape(struct lines all)
{
    struct lines out = { 0 };
    for (size_t i = 0; i < all.count; i++) {
        add(&out, without_owners(all.line[i]));
    }
    discard(&all);
    return join(&out, " ");
}

static char *
value_shape(const server *on, const char *key, const char *type)
{
    if (strcmp(type, "hash") == 0) {
        return pairs(split(server_ask(on, "HGETALL", key)), 0, 0);
    }
    if (strcmp(type, "zset") == 0) {
        return pairs(split(server_ask(on, "ZRANGE", key, "0", "-1", "WITHSCORES")), 1, 1);
    }
    if (strcmp(type, "list") == 0) {
        return list_shape(split(server_ask(on, "LRANGE", key, "0", "-1")));
    }
    CHECK(strcmp(type, "string") == 0);
    return string_shape(server_ask(on, "GET", key));
}

static char *
key_shape(const server *on, const char *key)
{
    char text[1400], lasts[32] = "for ever";
    char *type = server_ask(on, "TYPE", key);
    char *value = value_shape(on, key, type);
    char *name = without_owners(key);
    char *ttl = server_ask(on, "PTTL", key);
    CHECK(ttl != NULL);
    if (ttl[0] != '-') {
        snprintf(lasts, sizeof(lasts), "for %lld s", (long long)roughly_s(atoll(ttl)));
    }
    free(ttl);
    snprintf(text, sizeof(text), "%s %s %s: %.900s", type, name, lasts, value);
    free(type);
    free(value);
    free(name);
    return copy(text);
}

/* What no other library looks at: records of Redisson's retries, what dibs has once per
 * server, and its note that a writer waits, which its readers go by. */
static int
is_aside(const char *key)
{
    static const char *const begins[] = { "redisson_unlock_latch:", "dibs:clock",
                                          "dibs:born", "dibs:turn" };
    for (size_t i = 0; i < sizeof(begins) / sizeof(begins[0]); i++) {
        if (strncmp(key, begins[i], strlen(begins[i])) == 0) {
            return 1;
        }
    }
    return 0;
}

char *
shape_of(const server *on)
{
    struct lines out = { 0 };
    struct lines keys = split(server_ask(on, "KEYS", "*"));
    for (size_t i = 0; i < keys.count; i++) {
        if (!is_aside(keys.line[i])) {
            add(&out, key_shape(on, keys.line[i]));
        }
    }
    discard(&keys);
    struct lines channels = split(server_ask(on, "PUBSUB", "CHANNELS"));
    for (size_t i = 0; i < channels.count; i++) {
        char text[600];
        char *name = without_owners(channels.line[i]);
        snprintf(text, sizeof(text), "channel %.500s", name);
        add(&out, copy(text));
        free(name);
    }
    discard(&channels);
    sort(&out);
    return join(&out, "\n");
}

static int64_t
calls_of(const char *info, const char *command)
{
    char start[64];
    snprintf(start, sizeof(start), "cmdstat_%s:calls=", command);
    const char *found = strstr(info, start);
    return found != NULL ? strtoll(found + strlen(start), NULL, 10) : 0;
}

int64_t
count_scripts(const server_set *set)
{
    int64_t sum = 0;
    for (int i = 0; i < set->count; i++) {
        char *info = server_ask(&set->servers[i], "INFO", "commandstats");
        CHECK(info != NULL);
        sum += calls_of(info, "eval") + calls_of(info, "evalsha");
        free(info);
    }
    return sum;
}
