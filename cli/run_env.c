/* SPDX-License-Identifier: MIT */
/* What CMD finds in its environment; see run.h. With several names, one line for each. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

enum column { NAMES, TOKENS, PREVIOUS };

/* "NAME=" and a line for each grant */
static char *
list_of(const char *name, enum column column, const struct grant *grants, size_t count)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return NULL;
    fputs(name, out);
    for (size_t i = 0; i < count; i++) {
        fputs(i == 0 ? "=" : "\n", out);
        if (column == NAMES)
            fputs(grants[i].name, out);
        else if (column == TOKENS)
            fprintf(out, "%" PRIu64, grants[i].token);
        else
            fputs(dibs_previous_name(grants[i].previous), out);
    }
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}

/* whether one of the variables we set stands in `entry` */
static bool
is_replaced(const struct environment *env, const char *entry)
{
    size_t len = strcspn(entry, "=");
    for (size_t i = 0; i < env->count; i++) {
        if (strncmp(entry, env->set[i], len) == 0 && env->set[i][len] == '=')
            return true;
    }
    return false;
}

static int
merge(struct environment *env)
{
    size_t inherited = 0, at = env->count;
    while (environ[inherited])
        inherited++;
    env->list = calloc(inherited + env->count + 1, sizeof *env->list);
    if (!env->list)
        return -1;
    memcpy(env->list, env->set, env->count * sizeof *env->list);
    for (size_t i = 0; i < inherited; i++) {
        if (!is_replaced(env, environ[i]))
            env->list[at++] = environ[i];
    }
    return 0;
}

static char *format(const char *pattern, ...) __attribute__((format(printf, 1, 2)));

static char *
format(const char *pattern, ...)
{
    char *text = NULL;
    va_list args;
    va_start(args, pattern);
    if (vasprintf(&text, pattern, args) < 0)
        text = NULL;
    va_end(args);
    return text;
}

int
environment_init(struct environment *env, const struct grant *grants, size_t count,
                 const char *ticket, int lost_fd)
{
    memset(env, 0, sizeof *env);
    env->set[env->count++] = list_of("DIBS_NAME", NAMES, grants, count);
    env->set[env->count++] = list_of("DIBS_TOKEN", TOKENS, grants, count);
    env->set[env->count++] = list_of("DIBS_PREVIOUS", PREVIOUS, grants, count);
    if (ticket)
        env->set[env->count++] = format("DIBS_TICKET=%s", ticket);
    if (lost_fd >= 0)
        env->set[env->count++] = format("DIBS_LOST_FD=%d", lost_fd);
    for (size_t i = 0; i < env->count; i++) {
        if (!env->set[i])
            return -1;
    }
    return merge(env);
}

void
environment_done(struct environment *env)
{
    for (size_t i = 0; i < env->count; i++)
        free(env->set[i]);
    free(env->list);
}
