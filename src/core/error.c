/* SPDX-License-Identifier: MIT */
/* The error struct and the code table's other faces. */
#include "core/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

struct code_facts {
    int code;
    const char *name;
    const char *text;
    int exit_code;
    int retryable;
};

static const struct code_facts facts[] = { { DIBS_OK, "OK", "success", 0, 0 },
#define CODE_FACTS(name, number, text, exit_code, retryable)                             \
    { DIBS_##name, #name, text, exit_code, retryable },
                                           DIBS_ERR_MAP(CODE_FACTS)
#undef CODE_FACTS
};

static const struct code_facts *
find_facts(int code)
{
    for (size_t i = 0; i < sizeof facts / sizeof *facts; i++) {
        if (facts[i].code == code)
            return &facts[i];
    }
    return NULL;
}

const char *
dibs_strerror(int code)
{
    const struct code_facts *found = find_facts(code);
    return found ? found->text : "unknown code";
}

const char *
dibs_errname(int code)
{
    const struct code_facts *found = find_facts(code);
    return found ? found->name : "E?";
}

int
dibs_exit_code(int code)
{
    const struct code_facts *found = find_facts(code);
    return found ? found->exit_code : 70;
}

int
dibs_retryable(int code)
{
    const struct code_facts *found = find_facts(code);
    return found ? found->retryable : 0;
}

const char *
dibs_version(void)
{
    return DIBS_VERSION;
}

int
dibs__fail(dibs_error *err, int code, const char *format, ...)
{
    if (err) {
        va_list args;
        va_start(args, format);
        err->code = code;
        err->engine_code = 0;
        err->engine[0] = '\0';
        (void)vsnprintf(err->text, sizeof err->text, format, args);
        va_end(args);
    }
    return code;
}

int
dibs__fail_as(dibs_error *err, int code)
{
    if (err)
        err->code = code;
    return code;
}

int
dibs__fail_memory(dibs_error *err)
{
    return dibs__fail(err, DIBS_ENOMEM, "out of memory");
}

/* Could not be asked, or was not heard: engines turn one into the other, and what they said
 * of the first is true of the second. */
static int
is_trouble(int code)
{
    return code == DIBS_EUNAVAIL || code == DIBS_EUNKNOWN || code == DIBS_ETIMEDOUT;
}

void
dibs__error_wrap(dibs_error *err, int code, const char *engine, const char *format, ...)
{
    char said[sizeof err->text];
    va_list args;
    if (!err)
        return;
    /* an engine that returned a code without a text leaves an older text behind */
    int is_same = err->code == code || (is_trouble(err->code) && is_trouble(code));
    int has_text = is_same && err->text[0] != '\0';
    (void)snprintf(said, sizeof said, "%s", has_text ? err->text : dibs_strerror(code));
    va_start(args, format);
    int used = vsnprintf(err->text, sizeof err->text, format, args);
    va_end(args);
    err->code = code;
    (void)snprintf(err->engine, sizeof err->engine, "%s", engine);
    if (used >= 0 && (size_t)used < sizeof err->text)
        (void)snprintf(err->text + used, sizeof err->text - (size_t)used, ": %s", said);
}
