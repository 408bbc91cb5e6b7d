/* SPDX-License-Identifier: MIT */
/*
 * The layout `lease`: looking at locks, and breaking them. Each lock is shown as its row was at
 * one moment, without what had expired by then; looking changes nothing.
 */
#include <string.h>

#include "sql/lease.h"

#define PAGE 500 /* rows at a time */

/* to one of those that list, inspect and evict may return */
static int
look_code(int rc)
{
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

/* ---- one lock ---- */

static int
report_party(const struct line *line, const struct party *seen, dibs_sink *sink)
{
    struct line_words words;
    int waits = !line_holds(seen);
    if (dibs__line_words(&words, seen))
        return DIBS_OK; /* somebody wrote this by hand */
    dibs_party party = {
        .mode = (int)seen->mode,
        .permits = seen->permits,
        .token = waits ? 0 : token_of_tick(seen->tick),
        .pid = words.pid,
        .since_ms = seen->since / 1000,
        .lease_left_ms = (seen->until - line->now) / 1000,
        .host = words.host,
        .app = words.app,
        .note = words.note,
    };
    return sink->party(sink, waits, &party);
}

static int
report_line(const char *name, size_t name_len, struct line *line, dibs_sink *sink)
{
    const struct party *first = NULL;
    int rc = DIBS_OK;
    dibs__line_expire(line, NULL);
    for (size_t i = 0; !rc && i < line->count; i++) {
        const struct party *party = &line->parties[i];
        if (party->is_gone || party->kind == LINE_OBSERVER)
            continue;
        /* a read-write lock is shown in the mode of the first who has it, or wants it */
        if (!first)
            rc = sink->lock(sink, name, name_len, (int)party->mode, party->limit);
        first = party;
        if (!rc)
            rc = report_party(line, party, sink);
    }
    return rc;
}

int
dibs__sql_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                  dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct view view;
    (void)name_hash;
    int rc = dibs__lease_see(state, &view, name, name_len, 0, deadline, err);
    if (rc)
        return look_code(rc);
    rc = report_line(name, name_len, &view.line, sink);
    dibs__lease_unsee(&view);
    return rc;
}

/* ---- all locks ---- */

/* A row of what SQL_LIST gives: the name, then as SQL_READ. */
static int
report_row(struct sql *sql, const struct sql_result *result, size_t row, dibs_sink *sink,
           dibs_error *err)
{
    struct view view = { .host = sql->host };
    const struct sql_value *name = dibs__sql_at(result, row, 0);
    dibs__sql_result_init(&view.result, sql->host);
    int rc = dibs__lease_see_row(sql, &view, result, row, 1, err);
    if (!rc)
        rc = report_line(name->text, name->len, &view.line, sink);
    else if (rc == DIBS_ECORRUPT)
        rc = DIBS_OK; /* of no use to anybody, but the others are */
    dibs__lease_unsee(&view);
    return rc;
}

struct page {
    char after[DIBS_NAME_MAX];
    size_t after_len, rows;
};

static int
report_page(struct sql *sql, struct page *page, dibs_sink *sink, dibs_time deadline,
            dibs_error *err)
{
    struct sql_result result;
    const struct sql_value params[] = { sql_bytes(page->after, page->after_len),
                                        sql_number(PAGE) };
    dibs__sql_result_init(&result, sql->host);
    int rc = dibs__lease_run(sql, 0, SQL_LIST, params, 2, &result, deadline, err);
    for (size_t i = 0; !rc && i < result.rows; i++)
        rc = report_row(sql, &result, i, sink, err);
    page->rows = result.rows;
    if (!rc && page->rows) {
        const struct sql_value *last = dibs__sql_at(&result, page->rows - 1, 0);
        page->after_len = last->len < DIBS_NAME_MAX ? last->len : DIBS_NAME_MAX;
        if (page->after_len)
            memcpy(page->after, last->text, page->after_len);
    }
    dibs__sql_result_free(&result);
    return rc;
}

int
dibs__sql_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct page page = { .after_len = 0 };
    int rc;
    do
        rc = report_page(state, &page, sink, deadline, err);
    while (!rc && page.rows == PAGE);
    return look_code(rc);
}

/* ---- breaking ---- */

static void
decide_evict(struct view *view, void *arg)
{
    size_t *count = arg;
    *count = dibs__line_end_all(&view->line);
}

int
dibs__sql_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                size_t *broken, dibs_time deadline, dibs_error *err)
{
    size_t count = 0;
    const struct change change = {
        .name = name,
        .name_len = name_len,
        .name_hash = name_hash,
        .decide = decide_evict,
        .arg = &count,
    };
    int rc = dibs__lease_change(state, &change, deadline, err);
    if (!rc)
        *broken = count;
    return look_code(rc);
}
