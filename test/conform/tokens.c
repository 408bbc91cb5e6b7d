/* SPDX-License-Identifier: MIT */
/*
 * Every grant of a case, by any thread or process, is noted in shared memory while it is
 * held. Holds that exclude each other are therefore noted in the order of their grants,
 * and each must have a larger token than all it excludes that were noted before.
 */
#include "conform.h"

static uint64_t
hash_name(const char *name, size_t len)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < len; i++) {
        hash = (hash ^ (unsigned char)name[i]) * 0x100000001b3u;
    }
    return hash;
}

void
note_token(const dibs_hold *hold, int mode)
{
    size_t len = 0;
    const char *name = dibs_hold_name(hold, &len);
    uint64_t token = dibs_token(hold);
    CHECK(token != 0);
    uint32_t at = atomic_fetch_add(&stage.shared->token_count, 1);
    if (at >= TOKENS_MAX) {
        return; /* a long race; what is noted so far will do */
    }
    token_entry *entry = &stage.shared->tokens[at];
    entry->name_hash = hash_name(name, len);
    entry->token = token;
    entry->mode = (uint32_t)mode;
    atomic_store(&entry->filled, 1);
}

/* the largest tokens noted so far for one name, by what they exclude */
struct newest {
    uint64_t name_hash, exclusive, shared;
};

static struct newest *
newest_of(struct newest *table, size_t size, uint64_t name_hash)
{
    size_t at = name_hash % size;
    while (table[at].name_hash != 0 && table[at].name_hash != name_hash) {
        at = (at + 1) % size;
    }
    table[at].name_hash = name_hash;
    return &table[at];
}

static void
check_entry(struct newest *newest, const token_entry *entry)
{
    uint64_t floor = newest->exclusive;
    if (entry->mode == DIBS_EXCLUSIVE && newest->shared > floor) {
        floor = newest->shared;
    }
    if (entry->token <= floor) {
        FAIL("token %llu was granted after token %llu", (unsigned long long)entry->token,
             (unsigned long long)floor);
    }
    if (entry->mode == DIBS_EXCLUSIVE) {
        newest->exclusive = entry->token;
    } else if (entry->token > newest->shared) {
        newest->shared = entry->token;
    }
}

void
check_tokens(void)
{
    static struct newest table[TOKENS_MAX + 1];
    uint32_t count = atomic_load(&stage.shared->token_count);
    for (uint32_t i = 0; i < count && i < TOKENS_MAX && has(DIBS_CAP_TOKEN); i++) {
        const token_entry *entry = &stage.shared->tokens[i];
        /* a process killed in between leaves a hole; permits do not exclude each other */
        if (atomic_load(&entry->filled) != 0 && entry->mode != DIBS_PERMITS) {
            check_entry(newest_of(table, TOKENS_MAX + 1, entry->name_hash), entry);
        }
    }
}
