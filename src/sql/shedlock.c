/* SPDX-License-Identifier: MIT */
/*
 * The layout `shedlock`: the table of ShedLock's JDBC providers, by the database's clock in
 * UTC, as its `usingDbTime` has it. A lock is free if there is no row, or lock_until has
 * come. Rows are never deleted: a ShedLock that has seen one never inserts it again, and
 * would not get the lock any more. Unlike ShedLock's, which is the name of the host unless
 * it is set, our locked_by is different for every hold; so nobody can give back another's.
 *
 * ShedLock's lockAtLeastFor is a release after a delay.
 */
#include "sql/classic.h"

#include <string.h>

#define NAME_MAX_CHARS 64
#define LOCKED_BY_MAX 255

/* the length of the character at `at`; 0: it is not UTF-8 */
static size_t
char_len(const char *at, const char *end)
{
    const unsigned char first = (unsigned char)*at;
    size_t len = first < 0x80                    ? 1
                 : first >= 0xC2 && first < 0xE0 ? 2
                 : first >= 0xE0 && first < 0xF0 ? 3
                 : first >= 0xF0 && first < 0xF5 ? 4
                                                 : 0;
    if (len > (size_t)(end - at))
        return 0;
    for (size_t i = 1; i < len; i++) {
        if (((unsigned char)at[i] & 0xC0) != 0x80)
            return 0;
    }
    return len;
}

int
dibs__classic_chars(const char *text, size_t len)
{
    int chars = 0;
    size_t one = 1;
    for (const char *at = text; one && at < text + len; at += one, chars++)
        one = char_len(at, text + len);
    return one ? chars : -1;
}

static int
shedlock_key(const struct classic *classic, struct classic_text *out, const char *name,
             size_t len, dibs_error *err)
{
    int chars = dibs__classic_chars(name, len);
    if (chars < 0 || chars > NAME_MAX_CHARS)
        return classic->host->fail(err, DIBS_EINVAL,
                                   "a name in ShedLock's table is text of at most %d "
                                   "characters",
                                   NAME_MAX_CHARS);
    return dibs__classic_plain_key(classic, out, name, len, err);
}

static void
shedlock_owner(const struct classic *classic, struct classic_text *out,
               const dibs_claim *claim)
{
    dibs__classic_person(classic, out, claim, LOCKED_BY_MAX);
}

const struct classic_form dibs__classic_shedlock = {
    .layout = "shedlock",
    .table = "shedlock",
    .key_kind = SQL_TEXT,
    .key = shedlock_key,
    .owner = shedlock_owner,
};
