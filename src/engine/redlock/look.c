/* SPDX-License-Identifier: MIT */
/*
 * Looking at locks. A lock is held if a majority of the servers have the same value under
 * its name, whoever wrote it there; nobody else does that. More than for how long the
 * holder has it yet is not written down.
 */
#include <string.h>

#include "redlock.h"

#define PAGE_MAX 64
#define PAGE_WANTED 50

/* ---- some names ---- */

struct page {
    struct redlock *redlock;
    dibs_time deadline;
    uint32_t scanned; /* servers whose locks have been reported */
    unsigned n;
    const redisReply *names[PAGE_MAX];
    redisReply name; /* of inspect, which has one of its own */
    resp_command commands[PAGE_MAX];
    dibs_error said;
};

/* What the servers say about one name. */
struct finding {
    const redisReply *value;    /* that most of those looked at had */
    int have;                   /* so many */
    uint32_t who;               /* these */
    int64_t left_ms[NODES_MAX]; /* descending */
};

static int
same(const redisReply *a, const redisReply *b)
{
    return a->len == b->len && memcmp(a->str, b->str, (size_t)a->len) == 0;
}

/* How many servers from `node` on have the value that it has. */
static void
find(struct finding *finding, const struct round *round, unsigned k, int node)
{
    memset(finding, 0, sizeof *finding);
    finding->value = dibs__resp_element(reply_of(round, node, k), 0);
    for (int i = node; i < round->redlock->count && finding->value; i++) {
        const redisReply *reply =
            round->heard & UINT32_C(1) << i ? reply_of(round, i, k) : NULL;
        const redisReply *value = dibs__resp_element(reply, 0);
        if (!value || !same(value, finding->value))
            continue;
        int64_t ms = dibs__resp_integer(dibs__resp_element(reply, 1), -1);
        int at = finding->have++;
        finding->who |= UINT32_C(1) << i;
        ms = ms < 0 ? INT64_MAX : ms;
        for (; at > 0 && finding->left_ms[at - 1] < ms; at--)
            finding->left_ms[at] = finding->left_ms[at - 1];
        finding->left_ms[at] = ms;
    }
}

static int
report(struct finding *finding, const struct page *page, unsigned k, dibs_sink *sink)
{
    /* it ends when there is no majority any more */
    int64_t left_ms = finding->left_ms[page->redlock->majority - 1];
    dibs_party party = { .mode = DIBS_EXCLUSIVE,
                         .permits = 1,
                         .lease_left_ms = left_ms == INT64_MAX ? -1 : left_ms,
                         .host = "",
                         .app = "",
                         .note = "" };
    int rc = sink->lock(sink, page->names[k]->str, (size_t)page->names[k]->len,
                        DIBS_EXCLUSIVE, 0);
    return rc ? rc : sink->party(sink, 0, &party);
}

/* Reports the locks among the names of a page. */
static int
report_page(struct page *page, dibs_sink *sink, dibs_error *err)
{
    struct redlock *redlock = page->redlock;
    struct round round = { .redlock = redlock,
                           .script = SCRIPT_LOOK,
                           .commands = page->commands,
                           .count = page->n,
                           .nodes = dibs__redlock_all(redlock),
                           .deadline = page->deadline };
    for (unsigned k = 0; k < page->n; k++)
        dibs__redlock_command(redlock, &page->commands[k], SCRIPT_LOOK,
                              page->names[k]->str, (size_t)page->names[k]->len);
    int rc = dibs__redlock_begin(&round, err);
    if (rc)
        return rc;
    while (dibs__redlock_next(&round) >= 0)
        continue;
    int heard = __builtin_popcount(round.heard);
    if (heard < redlock->majority)
        rc = dibs__redlock_few(redlock, DIBS_EUNAVAIL, heard, &round.said, err);
    for (unsigned k = 0; k < page->n && !rc; k++) {
        struct finding finding = { 0 };
        for (int i = 0; i < redlock->count && finding.have < redlock->majority; i++) {
            if (round.heard & UINT32_C(1) << i)
                find(&finding, &round, k, i);
        }
        if (finding.have >= redlock->majority && !(finding.who & page->scanned))
            rc = report(&finding, page, k, sink);
    }
    dibs__redlock_end_round(&round);
    return rc;
}

int
dibs__redlock_inspect(struct redlock *redlock, const char *name, size_t name_len,
                      dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct page *page = redlock->host->alloc(sizeof *page);
    if (!page)
        return redlock->host->fail(err, DIBS_ENOMEM, "out of memory");
    page->redlock = redlock;
    page->deadline = deadline;
    page->name.str = (char *)name;
    page->name.len = name_len;
    page->names[0] = &page->name;
    page->n = 1;
    int rc = report_page(page, sink, err);
    redlock->host->free(page);
    return rc;
}

/* ---- all names ---- */

/* Reports the locks among some keys of a server. */
static int
report_keys(struct page *page, const redisReply *keys, dibs_sink *sink, dibs_error *err)
{
    int rc = DIBS_OK;
    page->n = 0;
    for (size_t k = 0; keys && k < keys->elements && !rc; k++) {
        const redisReply *key = keys->element[k];
        if (key->len > 0 && (size_t)key->len <= DIBS_NAME_MAX)
            page->names[page->n++] = key;
        if (page->n == PAGE_MAX || (k + 1 == keys->elements && page->n)) {
            rc = report_page(page, sink, err);
            page->n = 0;
        }
    }
    return rc;
}

/* One step of SCAN; *cursor is 0 when it was the last. */
static int
scan_step(struct page *page, int node, int64_t *cursor, dibs_sink *sink, dibs_error *err)
{
    resp_command command = { 0 };
    struct round round = { .redlock = page->redlock,
                           .script = SCRIPT_NONE,
                           .commands = &command,
                           .count = 1,
                           .nodes = UINT32_C(1) << node,
                           .deadline = page->deadline };
    dibs__resp_word(&command, "SCAN");
    dibs__resp_number(&command, *cursor);
    dibs__resp_word(&command, "COUNT");
    dibs__resp_number(&command, PAGE_WANTED);
    int rc = dibs__redlock_begin(&round, err);
    if (rc)
        return rc;
    (void)dibs__redlock_next(&round);
    rc = round.codes[node];
    if (!rc) {
        const redisReply *reply = reply_of(&round, node, 0);
        *cursor = dibs__resp_integer(dibs__resp_element(reply, 0), 0);
        rc = report_keys(page, dibs__resp_element(reply, 1), sink, err);
    } else {
        page->said = round.said;
        rc = rc == DIBS_EDENIED ? rc : DIBS_EUNAVAIL;
    }
    dibs__redlock_end_round(&round);
    return rc;
}

static int
scan(struct page *page, int node, dibs_sink *sink, dibs_error *err)
{
    int64_t cursor = 0;
    int rc;
    do
        rc = scan_step(page, node, &cursor, sink, err);
    while (!rc && cursor && page->redlock->host->now() < page->deadline);
    return !rc && cursor ? DIBS_EUNAVAIL : rc;
}

/* A lock that is held is on a majority, so at least on one of any `wanted` servers. They are
 * gone through in order, and the first of them that has a lock reports it. */
int
dibs__redlock_list(struct redlock *redlock, dibs_sink *sink, dibs_time deadline,
                   dibs_error *err)
{
    int wanted = redlock->count - redlock->majority + 1;
    struct page *page = redlock->host->alloc(sizeof *page);
    int rc = page ? DIBS_OK : redlock->host->fail(err, DIBS_ENOMEM, "out of memory");
    if (rc)
        return rc;
    page->redlock = redlock;
    page->deadline = deadline;
    for (int node = 0; node < redlock->count && !rc; node++) {
        if (__builtin_popcount(page->scanned) == wanted)
            break;
        rc = scan(page, node, sink, err);
        if (!rc)
            page->scanned |= UINT32_C(1) << node;
        if (rc == DIBS_EUNAVAIL)
            rc = DIBS_OK; /* the next one will do */
    }
    int done = __builtin_popcount(page->scanned);
    if (!rc && done < wanted)
        rc = dibs__redlock_few(redlock, DIBS_EUNAVAIL, done, &page->said, err);
    redlock->host->free(page);
    return rc;
}
