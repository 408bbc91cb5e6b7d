/* SPDX-License-Identifier: MIT */
/*
 * Bytes in the table: chains of text records, and the names of locks and cells, which are
 * compared in full. A text is complete before anything refers to it, and is freed after
 * nothing does; one that nobody refers to is found by the next rebuild.
 */
#include "engine/local/local.h"

/* ------------------------------------------------------------------- chains ---- */

/* copy_piece copies what falls into one record of two pieces of bytes put together. */
static void
copy_piece(char *to, size_t from, const char *first, size_t first_len, const char *second,
           size_t second_len)
{
    size_t n = 0;
    if (from < first_len) {
        n = first_len - from < TEXT_DATA ? first_len - from : TEXT_DATA;
        memcpy(to, first + from, n);
    }
    size_t start = from + n - first_len, left = second_len - start;
    if (from + n >= first_len && start < second_len)
        memcpy(to + n, second + start, left < TEXT_DATA - n ? left : TEXT_DATA - n);
}

/* new puts two pieces of bytes one after the other into a chain. */
int
dibs__local_text_new(uint32_t *out, table *t, uint32_t shard, const void *first,
                     size_t first_len, const void *second, size_t second_len,
                     dibs_error *err)
{
    uint32_t chain = 0;
    size_t total = first_len + second_len;
    size_t pieces = total ? (total - 1) / TEXT_DATA + 1 : 1;
    while (pieces-- > 0) { /* the last piece first, since it links to none */
        uint32_t index = take(t, shard, err);
        if (!index) {
            dibs__local_text_free(t, chain);
            return DIBS_ENOMEM;
        }
        record *r = at(t, index);
        copy_piece(r->text, pieces * TEXT_DATA, first, first_len, second, second_len);
        r->next = chain;
        set_word(r, KIND_TEXT);
        chain = index;
    }
    *out = chain;
    return DIBS_OK;
}

void
dibs__local_text_read(table *t, uint32_t text, size_t skip, void *out, size_t len)
{
    char *to = out;
    while (len > 0) {
        const record *r = get(t, text, KIND_TEXT);
        size_t n = TEXT_DATA - skip < len ? TEXT_DATA - skip : len;
        memcpy(to, r->text + skip, n);
        to += n;
        len -= n;
        skip = 0;
        text = r->next;
    }
}

void
dibs__local_text_free(table *t, uint32_t text)
{
    while (text) {
        uint32_t next = get(t, text, KIND_TEXT)->next;
        if (atomic_load(&t->damaged))
            return;
        give(t, text);
        text = next;
    }
}

/* -------------------------------------------------------------------- names ---- */

void
dibs__local_name_read(table *t, const record *r, char *out)
{
    const name_part *name = &r->lock.name;
    if (name->len <= INLINE_NAME)
        memcpy(out, name->bytes, name->len);
    else if (name->len <= DIBS_NAME_MAX)
        dibs__local_text_read(t, name->text, 0, out, name->len);
    else
        (void)dibs__local_wrong(t);
}

static int
name_is(table *t, const record *r, const local_key *key)
{
    char whole[DIBS_NAME_MAX];
    const name_part *name = &r->lock.name;
    if (name->hash != key->hash || name->len != key->len || name->space != key->space ||
        (word_of(r) & KIND_MASK) != key->kind)
        return 0;
    if (name->len <= INLINE_NAME)
        return memcmp(name->bytes, key->name, key->len) == 0;
    dibs__local_name_read(t, r, whole);
    return memcmp(whole, key->name, key->len) == 0;
}

uint32_t
dibs__local_find(table *t, const local_key *key)
{
    uint32_t steps = 0;
    for (uint32_t i = *bucket_of(t, key->hash); i; i = at(t, i)->next) {
        if (name_is(t, at(t, i), key))
            return i;
        if (++steps > atomic_load_explicit(&t->known, memory_order_relaxed)) {
            atomic_store(&t->damaged, 1); /* a ring */
            break;
        }
    }
    return 0;
}

/* name_new makes a lock or cell with no other content: all its fields are zero. */
uint32_t
dibs__local_name_new(table *t, const local_key *key, dibs_error *err)
{
    uint32_t n = shard_of(key->hash), text = 0;
    if (key->len > INLINE_NAME &&
        dibs__local_text_new(&text, t, n, key->name, key->len, NULL, 0, err) != DIBS_OK)
        return 0;
    uint32_t index = take(t, n, err);
    if (!index) {
        dibs__local_text_free(t, text);
        return 0;
    }
    record *r = at(t, index);
    name_part *name = &r->lock.name;
    memset(&r->lock.limit, 0, LOCK_END - offsetof(lock_part, limit));
    r->mode = r->previous = 0;
    name->hash = key->hash;
    name->text = text;
    name->len = (uint16_t)key->len;
    name->space = key->space;
    if (!text)
        memcpy(name->bytes, key->name, key->len);
    set_word(r, key->kind);
    uint32_t *bucket = bucket_of(t, key->hash);
    r->next = *bucket;
    *bucket = index;
    return index;
}

void
dibs__local_name_free(table *t, uint32_t index)
{
    record *r = at(t, index);
    uint32_t *link = bucket_of(t, r->lock.name.hash), text = r->lock.name.text;
    uint32_t steps = 0, most = atomic_load_explicit(&t->known, memory_order_relaxed);
    while (*link && *link != index && ++steps < most)
        link = &at(t, *link)->next;
    if (*link != index) {
        (void)dibs__local_wrong(t);
        return;
    }
    *link = r->next;
    give(t, index);
    dibs__local_text_free(t, text);
}
