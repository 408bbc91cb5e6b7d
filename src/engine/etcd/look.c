/* SPDX-License-Identifier: MIT */
/*
 * Looking at locks of the layout concurrency, and breaking them. A lock is a line of keys
 * that begin alike, in the order of their create revisions; how many of the first hold is
 * decided here as the claims decide it.
 *
 * In this order: what both layouts share; contenders, and lines of them; how a line is
 * reported; the slots; breaking.
 */
#include "look.h"

#include <stdlib.h>
#include <string.h>

#define KEYS_AT_ONCE 500
#define LEASES_ASKED 16
/* the servers refuse more than 128 ops in a transaction, unless they are told otherwise */
#define DELETES_AT_ONCE 100

/* ---- keys, page by page ---- */

/* The first key behind the last that was seen. One that cannot be read is longer than any of
 * ours: then the first that does not begin as that one does. */
static int
go_behind(struct key *from, const struct answer *answer, size_t last)
{
    struct key begin;
    const json_t *kvs = json_object_get(answer->json, "kvs");
    const json_t *key = json_object_get(json_array_get(kvs, last), "key");
    const char *text = json_string_value(key);
    size_t len = json_string_length(key), most = (sizeof begin.text - 4) / 3 * 4;
    if (!text)
        return -1;
    int64_t got = dibs__http_unbase64(begin.text, text, len < most ? len : most);
    if (got < 0)
        return -1;
    begin.len = (size_t)got;
    if (len >= most) {
        dibs__etcd_range_end(from, &begin);
        return 0;
    }
    *from = begin;
    dibs__etcd_key_add(from, "", 1);
    return 0;
}

static int
each_of_page(struct answer *answer, size_t count,
             int (*seen)(void *context, struct kv *kv), void *context)
{
    int rc = DIBS_OK;
    for (size_t i = 0; !rc && i < count; i++) {
        struct kv kv;
        if (dibs__etcd_kv(answer, -1, i, &kv) == 0)
            rc = seen(context, &kv);
    }
    return rc;
}

/* One page; *from is where the next one begins, *revision the moment of all of them. */
static int
read_page(const struct look *look, struct key *from, const struct key *end,
          int64_t *revision, size_t *count, int (*seen)(void *context, struct kv *kv),
          void *context)
{
    struct answer answer = { 0 };
    struct range page = { .key = from,
                          .end = end,
                          .limit = KEYS_AT_ONCE,
                          .revision = *revision,
                          .flags = RANGE_BY_KEY };
    http_text *body = dibs__etcd_range_alone(&page);
    int rc = dibs__etcd_ask(look->etcd, "/kv/range", body, HTTP_REPEATABLE, &answer,
                            look->deadline, look->err);
    if (!rc) {
        *count = dibs__etcd_kvs(&answer, -1);
        rc = each_of_page(&answer, *count, seen, context);
    }
    if (!rc && !*revision)
        *revision = dibs__etcd_revision(&answer);
    if (!rc && *count == KEYS_AT_ONCE && go_behind(from, &answer, *count - 1) != 0)
        rc = look->etcd->host->fail(look->err, DIBS_ECORRUPT, "a key cannot be read");
    dibs__etcd_answer_free(&answer);
    return rc;
}

int
dibs__etcd_each(const struct look *look, const struct key *prefix,
                int (*seen)(void *context, struct kv *kv), void *context)
{
    struct key from = *prefix, end;
    int64_t revision = 0;
    size_t count = 0;
    int rc;
    dibs__etcd_range_end(&end, prefix);
    if (!from.len)
        dibs__etcd_key_add(&from, "",
                           1); /* no key is empty; this is the first there is */
    do {
        rc = read_page(look, &from, &end, &revision, &count, seen, context);
        /* that moment was compacted meanwhile: go on with the present */
        if (rc == DIBS_ECONFLICT && revision)
            revision = 0, rc = DIBS_OK, count = KEYS_AT_ONCE;
    } while (!rc && count == KEYS_AT_ONCE);
    return rc;
}

/* ---- leases ---- */

/* What cannot be learned is left open: it is no reason not to show the rest. */
static int64_t
ask_lease(const struct look *look, int64_t lease)
{
    struct answer answer = { 0 };
    http_text *body = dibs__etcd_lease_alone(lease, 0);
    int rc = dibs__etcd_ask(look->etcd, "/lease/timetolive", body, HTTP_REPEATABLE,
                            &answer, look->deadline, NULL);
    int64_t left = rc ? -1 : dibs__etcd_number(answer.json, "TTL");
    dibs__etcd_answer_free(&answer);
    return left > 0 ? left * 1000 : -1;
}

int64_t
dibs__etcd_lease_left(struct look *look, int64_t lease)
{
    if (!lease || (lease != look->asked.lease && !look->asks_left))
        return -1;
    if (lease != look->asked.lease) {
        look->asks_left--;
        look->asked.lease = lease;
        look->asked.left_ms = ask_lease(look, lease);
    }
    return look->asked.left_ms;
}

/* ---- contenders ---- */

enum kind { KIND_NONE, KIND_PLAIN, KIND_READ, KIND_WRITE, KIND_PERMITS };

struct contender {
    int64_t create, lease;
    int mode;
    uint32_t permits, limit;
    size_t rest_len, value_len;
    char bytes[]; /* what the key has behind its line's, then the value */
};

/* A lock, and who contends for it; oldest first, once it is sorted. */
struct line {
    const dibs_host *host;
    char name[DIBS_NAME_MAX];
    size_t name_len;
    struct key key; /* all contenders begin with it */
    struct contender **items;
    size_t count, room, holders;
};

static int
begins(const char *text, size_t len, const char *with)
{
    size_t size = strlen(with);
    return len >= size && memcmp(text, with, size) == 0 ? (int)size : 0;
}

/* A lease in hex, maybe with a number of ours behind it; or a time, in etcd's recipes. */
static int
is_id(const char *text, size_t len)
{
    size_t digits = 0, at;
    while (digits < len && memchr("0123456789abcdef", text[digits], 16))
        digits++;
    if (!digits || digits > 20)
        return 0;
    if (digits == len)
        return 1;
    for (at = digits + 1; at < len && text[at] >= '0' && text[at] <= '9'; at++)
        ;
    return text[digits] == '.' && at == len && at > digits + 1;
}

static enum kind
kind_of(const char *rest, size_t len)
{
    static const struct {
        const char *begin;
        enum kind kind;
    } kinds[] = { { "read/", KIND_READ },
                  { "write/", KIND_WRITE },
                  { "permits/", KIND_PERMITS },
                  { "", KIND_PLAIN } };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        size_t skip = (size_t)begins(rest, len, kinds[i].begin);
        if ((skip || !*kinds[i].begin) && is_id(rest + skip, len - skip))
            return kinds[i].kind;
    }
    return KIND_NONE;
}

/* What is under the name and unlike a contender stands in the way as one that wants it for
 * itself. One that had it so and shares it now says that in its value. */
static void
see_mode(struct contender *contender, const struct kv *kv)
{
    struct kit_note note;
    enum kind kind = kind_of(contender->bytes, contender->rest_len);
    dibs__kit_note_parse(&note, kv->value, kv->value_len);
    int has_shared = note.id[0] && note.mode == DIBS_SHARED;
    contender->permits = 1;
    if (kind == KIND_PERMITS) {
        contender->mode = DIBS_PERMITS;
        contender->permits = note.permits ? note.permits : 1;
        contender->limit = note.limit;
    } else {
        contender->mode = kind == KIND_READ || has_shared ? DIBS_SHARED : DIBS_EXCLUSIVE;
    }
}

static struct contender *
new_contender(const struct line *line, const struct kv *kv)
{
    size_t rest_len = kv->key.len - line->key.len;
    size_t value_len = kv->value_len < KIT_NOTE_MAX ? kv->value_len : KIT_NOTE_MAX;
    struct contender *made = line->host->alloc(sizeof *made + rest_len + value_len + 1);
    if (!made)
        return NULL;
    made->create = kv->create;
    made->lease = kv->lease;
    made->rest_len = rest_len;
    made->value_len = value_len;
    memcpy(made->bytes, kv->key.text + line->key.len, rest_len);
    memcpy(made->bytes + rest_len, kv->value, value_len);
    see_mode(made, kv);
    return made;
}

static int
make_room(struct line *line)
{
    size_t room = line->room ? 2 * line->room : 16;
    if (line->count < line->room)
        return DIBS_OK;
    struct contender **wider = line->host->alloc(room * sizeof(struct contender *));
    if (!wider)
        return DIBS_ENOMEM;
    if (line->count)
        memcpy(wider, line->items, line->count * sizeof *wider);
    line->host->free(line->items);
    line->items = wider;
    line->room = room;
    return DIBS_OK;
}

static int
add_contender(struct line *line, const struct kv *kv)
{
    int rc = make_room(line);
    struct contender *made = rc ? NULL : new_contender(line, kv);
    if (!made)
        return DIBS_ENOMEM;
    line->items[line->count++] = made;
    return DIBS_OK;
}

/* Forgets the contenders; those of another lock may be added then. */
static void
line_clear(struct line *line)
{
    for (size_t i = 0; i < line->count; i++)
        line->host->free(line->items[i]);
    line->count = line->holders = 0;
}

static void
line_free(struct line *line)
{
    line_clear(line);
    line->host->free(line->items);
}

/* ---- lines ---- */

static int
older_first(const void *a, const void *b)
{
    int64_t one = (*(struct contender *const *)a)->create;
    int64_t other = (*(struct contender *const *)b)->create;
    return (one > other) - (one < other);
}

/* Whether one that comes behind `count` others, all of which hold, holds as well. */
static int
fits(const struct line *line, size_t count, uint64_t permits_out)
{
    const struct contender *next = line->items[count];
    if (!count)
        return 1;
    if (next->mode != line->items[count - 1]->mode || next->mode == DIBS_EXCLUSIVE)
        return 0;
    return next->mode == DIBS_SHARED || !next->limit ||
           permits_out + next->permits <= next->limit;
}

static void
line_sort(struct line *line)
{
    uint64_t permits_out = 0;
    if (line->count)
        qsort(line->items, line->count, sizeof(struct contender *), older_first);
    while (line->holders < line->count && fits(line, line->holders, permits_out))
        permits_out += line->items[line->holders++]->permits;
}

/* ---- markers ---- */

static int
see_marker(void *context, struct kv *kv)
{
    struct line *line = context;
    for (size_t i = 0; i < line->count; i++) {
        struct contender *item = line->items[i];
        if (item->create == strtoll(kv->value, NULL, 10) &&
            kv->key.len >= item->rest_len &&
            memcmp(kv->key.text + kv->key.len - item->rest_len, item->bytes,
                   item->rest_len) == 0)
            item->mode = DIBS_SHARED;
    }
    return DIBS_OK;
}

/* With ?form=rw, what had it for itself and shares it now has a marker that says so. */
static int
see_markers(const struct look *look, struct line *line)
{
    struct key markers;
    int has_writers = 0;
    for (size_t i = 0; i < line->count; i++)
        has_writers |=
            kind_of(line->items[i]->bytes, line->items[i]->rest_len) == KIND_WRITE;
    if (!look->etcd->is_rw || !has_writers)
        return DIBS_OK;
    dibs__etcd_marker_key(&markers, look->etcd, &line->key);
    return dibs__etcd_each(look, &markers, see_marker, line);
}

/* ---- reporting ---- */

/* The lease that we have written down is renewed all the time; the store's own, which is
 * longer, may be nearly over if its client is gone. */
static int64_t
lease_left(struct look *look, const struct contender *contender, int64_t ours_ms)
{
    int64_t store_ms = dibs__etcd_lease_left(look, contender->lease);
    if (ours_ms < 0 || store_ms < 0)
        return ours_ms < 0 ? store_ms : ours_ms;
    return ours_ms < store_ms ? ours_ms : store_ms;
}

static int
report_contender(struct look *look, const struct contender *contender, int waits)
{
    struct kit_note note;
    dibs__kit_note_parse(&note, contender->bytes + contender->rest_len,
                         contender->value_len);
    dibs_party party = note.party;
    party.mode = contender->mode;
    party.permits = contender->permits;
    party.token = waits ? 0 : token_of(contender->create);
    if (!waits)
        party.lease_left_ms = lease_left(look, contender, party.lease_left_ms);
    return look->sink->party(look->sink, waits, &party);
}

/* Shown in the mode of the first who has it. */
static int
report_line(struct look *look, struct line *line)
{
    if (!line->count)
        return DIBS_OK;
    int rc = see_markers(look, line);
    if (rc)
        return rc;
    line_sort(line);
    const struct contender *first = line->items[0];
    rc = look->sink->lock(look->sink, line->name, line->name_len, first->mode,
                          first->mode == DIBS_PERMITS ? first->limit : 0);
    for (size_t i = 0; !rc && i < line->count; i++)
        rc = report_contender(look, line->items[i], i >= line->holders);
    return rc;
}

/* ---- one lock ---- */

static int
see_contender(void *context, struct kv *kv)
{
    return add_contender(context, kv);
}

static int
read_line(const struct look *look, struct line *line, const char *name, size_t name_len)
{
    line->host = look->etcd->host;
    memcpy(line->name, name, name_len);
    line->name_len = name_len;
    dibs__etcd_line_key(&line->key, look->etcd, name, name_len);
    return dibs__etcd_each(look, &line->key, see_contender, line);
}

int
dibs__etcd_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                   dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct look look = { .etcd = state,
                         .sink = sink,
                         .deadline = deadline,
                         .err = err,
                         .asks_left = LEASES_ASKED };
    struct line line = { 0 };
    (void)name_hash;
    int rc = read_line(&look, &line, name, name_len);
    if (!rc)
        rc = report_line(&look, &line);
    line_free(&line);
    return rc;
}

/* ---- all locks ---- */

struct listing {
    struct look look;
    struct line line; /* the one that is being read: its keys follow each other */
};

/* Of another lock than the last one. */
static int
begin_line(struct listing *listing, const struct kv *kv, const char *name,
           size_t name_len, size_t line_len)
{
    struct line *line = &listing->line;
    int rc = report_line(&listing->look, line);
    line_clear(line);
    memcpy(line->name, name, name_len);
    line->name_len = name_len;
    line->key.len = 0;
    dibs__etcd_key_add(&line->key, kv->key.text, line_len);
    return rc;
}

/* There may be other things under our prefix: a contender has a lease, and a name like one. */
static int
see_any(void *context, struct kv *kv)
{
    struct listing *listing = context;
    struct line *line = &listing->line;
    char name[DIBS_NAME_MAX];
    size_t name_len, line_len;
    int rc = DIBS_OK;
    if (!kv->lease || dibs__etcd_name_of(listing->look.etcd, kv->key.text, kv->key.len,
                                         name, &name_len, &line_len) != 0)
        return DIBS_OK;
    if (kind_of(kv->key.text + line_len, kv->key.len - line_len) == KIND_NONE)
        return DIBS_OK;
    if (line_len != line->key.len || memcmp(line->key.text, kv->key.text, line_len) != 0)
        rc = begin_line(listing, kv, name, name_len, line_len);
    return rc ? rc : add_contender(line, kv);
}

int
dibs__etcd_list_locks(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct etcd *etcd = state;
    struct listing listing = {
        .look = { .etcd = etcd, .sink = sink, .deadline = deadline, .err = err },
        .line = { .host = etcd->host }
    };
    struct key prefix = { 0 };
    dibs__etcd_key_add(&prefix, etcd->prefix, etcd->prefix_len);
    int rc = dibs__etcd_each(&listing.look, &prefix, see_any, &listing);
    if (!rc)
        rc = report_line(&listing.look, &listing.line);
    line_free(&listing.line);
    return rc;
}

/* ---- breaking ---- */

http_text *
dibs__etcd_delete_made(const struct key *key, int64_t create)
{
    http_text *is_it = dibs__etcd_compare(key, COMPARE_CREATE, create);
    return dibs__etcd_txn(dibs__etcd_list(is_it, NULL),
                          dibs__etcd_list(dibs__etcd_delete(key), NULL), NO_OPS);
}

/* A transaction inside the transaction: each key is compared for itself, and those that have
 * gone meanwhile keep nothing from being done to the others. */
static http_text *
delete_holder(const struct line *line, const struct contender *holder)
{
    struct key key = line->key;
    dibs__etcd_key_add(&key, holder->bytes, holder->rest_len);
    return dibs__etcd_inner_txn(dibs__etcd_delete_made(&key, holder->create));
}

/* Holders from *next on, as many as go into one transaction. What has no lease is somebody's
 * data, and no hold; it is left alone. */
static int
delete_some(const struct look *look, const struct line *line, size_t *next,
            size_t *broken)
{
    struct answer answer = { 0 };
    http_text *ops = NO_OPS;
    size_t count = 0;
    for (; *next < line->holders && count < DELETES_AT_ONCE; ++*next) {
        if (!line->items[*next]->lease)
            continue;
        ops = dibs__etcd_list_add(ops, delete_holder(line, line->items[*next]));
        count++;
    }
    if (!count) {
        dibs__http_text_free(ops);
        return DIBS_OK;
    }
    /* once more does no harm: create revisions are not used again */
    int rc = dibs__etcd_ask(look->etcd, "/kv/txn", dibs__etcd_txn(NO_OPS, ops, NO_OPS),
                            HTTP_REPEATABLE, &answer, look->deadline, look->err);
    if (!rc)
        *broken += count;
    dibs__etcd_answer_free(&answer);
    return rc;
}

int
dibs__etcd_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                 size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct look look = { .etcd = state, .deadline = deadline, .err = err };
    struct line line = { 0 };
    size_t next = 0, count = 0;
    (void)name_hash;
    int rc = read_line(&look, &line, name, name_len);
    if (!rc)
        rc = see_markers(&look, &line);
    if (!rc)
        line_sort(&line);
    while (!rc && next < line.holders)
        rc = delete_some(&look, &line, &next, &count);
    if (!rc)
        *broken = count;
    line_free(&line);
    return rc;
}
