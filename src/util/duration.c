/* SPDX-License-Identifier: MIT */
/* Parsing and printing of durations. */
#include "util/duration.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LONGEST_MS (INT64_C(100) * 366 * 86400 * 1000)

struct unit {
    const char *name;
    int64_t ms;
};

/* longest name first where one is a prefix of the other */
static const struct unit units[] = {
    { "ms", 1 }, { "d", 86400000 }, { "h", 3600000 }, { "m", 60000 }, { "s", 1000 },
};

static const struct unit *
match_unit(const char *text)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        if (strncmp(text, units[i].name, strlen(units[i].name)) == 0)
            return &units[i];
    }
    return NULL;
}

#define BILLION INT64_C(1000000000)

/* reads digits[.digits] into a whole and billionths; returns where it ends, or NULL */
static const char *
read_number(int64_t *whole, int64_t *billionths, const char *text)
{
    const char *at = text;
    *whole = *billionths = 0;
    for (; *at >= '0' && *at <= '9'; at++) {
        *whole = *whole * 10 + (*at - '0');
        if (*whole > LONGEST_MS)
            return NULL;
    }
    if (at == text)
        return NULL;
    if (*at == '.') {
        const char *point = at++;
        for (int64_t scale = BILLION / 10; *at >= '0' && *at <= '9'; at++, scale /= 10)
            *billionths += (*at - '0') * scale;
        if (at == point + 1)
            return NULL;
    }
    return at;
}

int
dibs__duration_parse(int64_t *ms, const char *text)
{
    int64_t total = 0;
    if (!*text)
        return -1;
    while (*text) {
        int64_t whole, billionths;
        text = read_number(&whole, &billionths, text);
        if (!text)
            return -1;
        const struct unit *unit = match_unit(text);
        if (!unit && *text)
            return -1;
        int64_t unit_ms = unit ? unit->ms : 1000;
        if (whole > LONGEST_MS / unit_ms)
            return -1;
        total += whole * unit_ms + billionths * unit_ms / BILLION;
        if (total > LONGEST_MS)
            return -1;
        text += unit ? strlen(unit->name) : 0;
    }
    *ms = total;
    return 0;
}

void
dibs__duration_print(char *out, size_t size, int64_t ms)
{
    int64_t s = ms / 1000;
    if (ms < 0)
        (void)snprintf(out, size, "?");
    else if (ms < 1000)
        (void)snprintf(out, size, "%" PRId64 "ms", ms);
    else if (s < 60)
        (void)snprintf(out, size, "%" PRId64 "s", s);
    else if (s < 3600)
        (void)snprintf(out, size, "%" PRId64 "m%02" PRId64 "s", s / 60, s % 60);
    else if (s < 86400)
        (void)snprintf(out, size, "%" PRId64 "h%02" PRId64 "m", s / 3600, s / 60 % 60);
    else
        (void)snprintf(out, size, "%" PRId64 "d%" PRId64 "h", s / 86400, s / 3600 % 24);
}
