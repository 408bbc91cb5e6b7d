/* SPDX-License-Identifier: MIT */
/*
 * The classic layouts: looking at locks, and breaking them. An owner of ours says who that
 * is; of another program's only the text is known that it wrote. Who waits is written down
 * nowhere.
 */
#include <stdio.h>
#include <string.h>

#include "sql/classic.h"
#include "sql/lease.h"

#define PAGE 500 /* rows at a time */

/* to one of those that list, inspect and evict may return */
static int
look_code(int rc)
{
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

/* ---- who that is ---- */

/* "ID ", as dibs__lease_id writes it; returns its length, or 0 */
static size_t
id_len(const struct sql_value *owner)
{
    char text[LINE_ID_MAX + 2];
    if (owner->kind != SQL_TEXT && owner->kind != SQL_BYTES)
        return 0;
    (void)snprintf(text, sizeof text, "%.*s",
                   (int)(owner->len < sizeof text ? owner->len : sizeof text - 1),
                   owner->text);
    size_t hex = strspn(text, "0123456789abcdef");
    if (hex != LINE_SESSION || text[hex] != ':')
        return 0;
    size_t digits = strspn(text + hex + 1, "0123456789");
    return digits && text[hex + 1 + digits] == ' ' ? hex + digits + 2 : 0;
}

static void
read_owner(struct line_words *out, const struct sql_value *owner)
{
    size_t len = id_len(owner);
    struct party party = { .rest = owner->text + len, .rest_len = owner->len - len };
    if (len && dibs__line_words(out, &party) == 0)
        return;
    *out = (struct line_words){ .pid = 0 };
    if (owner->kind == SQL_TEXT || owner->kind == SQL_BYTES)
        (void)snprintf(out->note, sizeof out->note, "%.*s", (int)owner->len, owner->text);
}

static int
report(dibs_sink *sink, const char *name, size_t name_len,
       const struct classic_seen *seen, const struct sql_value *token)
{
    struct line_words words;
    read_owner(&words, &seen->owner);
    const dibs_party party = {
        .mode = DIBS_EXCLUSIVE,
        .permits = 1,
        .token = token->kind == SQL_NUMBER ? (uint64_t)token->number : 0,
        .pid = words.pid,
        .lease_left_ms = (seen->left_us + 999) / 1000,
        .host = words.host,
        .app = words.app,
        .note = words.note,
    };
    int rc = sink->lock(sink, name, name_len, DIBS_EXCLUSIVE, 0);
    return rc ? rc : sink->party(sink, 0, &party);
}

/* ---- one lock ---- */

int
dibs__classic_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                      dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct classic *classic = ((struct sql *)state)->layout;
    struct sql_value values[CLASSIC_VALUES];
    struct sql_result result;
    struct classic_text key;
    struct classic_seen seen = { .left_us = 0 };
    (void)name_hash;
    int rc = classic->form->key(classic, &key, name, name_len, err);
    if (rc)
        return rc;
    dibs__classic_values(classic, values, &key, NULL, 0);
    dibs__sql_result_init(&result, classic->host);
    rc = dibs__classic_run(classic, SQL_HOLD_READ, values, &result, deadline, err);
    if (!rc && result.rows)
        rc = dibs__classic_seen(classic, &seen, &result, 0, 0, err);
    if (!rc && result.rows)
        rc = report(sink, name, name_len, &seen, dibs__sql_at(&result, 0, 3));
    dibs__sql_result_free(&result);
    return look_code(rc);
}

/* ---- all locks ---- */

static int
report_row(const struct classic *classic, const struct sql_result *result, size_t row,
           dibs_sink *sink, dibs_error *err)
{
    const struct sql_value *key = dibs__sql_at(result, row, 0);
    struct classic_seen seen = { .left_us = 0 };
    int rc = dibs__classic_seen(classic, &seen, result, row, 1, err);
    if (!rc && key->len)
        rc = report(sink, key->text, key->len, &seen, dibs__sql_at(result, row, 4));
    return rc;
}

static int
report_page(const struct classic *classic, struct classic_text *after, size_t *rows,
            dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct sql_value values[CLASSIC_VALUES];
    struct sql_result result;
    dibs__classic_values(classic, values, after, NULL, PAGE);
    dibs__sql_result_init(&result, classic->host);
    int rc = dibs__classic_run(classic, SQL_HOLD_LIST, values, &result, deadline, err);
    for (size_t i = 0; !rc && i < result.rows; i++)
        rc = report_row(classic, &result, i, sink, err);
    *rows = rc ? 0 : result.rows;
    if (*rows) {
        const struct sql_value *last = dibs__sql_at(&result, *rows - 1, 0);
        after->len = last->len < sizeof after->text ? last->len : sizeof after->text;
        memcpy(after->text, last->text, after->len);
    }
    dibs__sql_result_free(&result);
    return rc;
}

int
dibs__classic_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct classic *classic = ((struct sql *)state)->layout;
    struct classic_text after = { .len = 0 };
    size_t rows = 0;
    int rc;
    do
        rc = report_page(classic, &after, &rows, sink, deadline, err);
    while (!rc && rows == PAGE);
    return look_code(rc);
}

/* ---- breaking ---- */

int
dibs__classic_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                    size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct classic *classic = ((struct sql *)state)->layout;
    struct sql_value values[CLASSIC_VALUES];
    struct sql_result result;
    struct classic_text key;
    (void)name_hash;
    int rc = classic->form->key(classic, &key, name, name_len, err);
    if (rc)
        return rc;
    dibs__classic_values(classic, values, &key, NULL, 0);
    dibs__sql_result_init(&result, classic->host);
    rc = dibs__classic_run(classic, SQL_HOLD_BREAK, values, &result, deadline, err);
    if (!rc)
        *broken = result.changed ? 1 : 0;
    dibs__sql_result_free(&result);
    return look_code(rc);
}
