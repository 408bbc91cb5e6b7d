/* SPDX-License-Identifier: MIT */
/*
 * Lines: all keys that begin with NAME/, in the order of their create revisions, whoever
 * made them. What comes behind NAME/ says what a contender is; so dibs waits its turn behind
 * clients that it does not know.
 */
#include "claim.h"

#include <string.h>

int
dibs__etcd_under(const struct turn *turn, const struct key *key, const char *folder)
{
    size_t begin = turn->line.len, len = strlen(folder);
    return key->len >= begin + len && memcmp(key->text + begin, folder, len) == 0;
}

/* A key that was just made is the newest, and found as well. */
http_text *
dibs__etcd_nearest(const struct turn *turn, http_text *list, const struct key *from,
                   const struct key *end, unsigned flags)
{
    int64_t create = turn->mine.create;
    const struct range range = { .key = from,
                                 .end = end,
                                 .limit = create ? 1 : 2,
                                 .max_create = create ? create - 1 : 0,
                                 .flags = RANGE_NEWEST | flags };
    return dibs__etcd_list_add(list, dibs__etcd_range(&range));
}

int
dibs__etcd_before(struct turn *turn, struct answer *answer, int op, struct kv *out)
{
    size_t count = dibs__etcd_kvs(answer, op);
    for (size_t i = 0; i < count; i++) {
        if (dibs__etcd_kv(answer, op, i, out)) {
            (void)turn->etcd->host->fail(turn->err, DIBS_ECORRUPT,
                                         "a key of the line "
                                         "cannot be read");
            return -1;
        }
        if (!dibs__etcd_key_is(&out->key, &turn->own))
            return 1;
    }
    return 0;
}

int
dibs__etcd_shares(const struct kv *kv)
{
    struct kit_note note;
    dibs__kit_note_parse(&note, kv->value, kv->value_len);
    return note.id[0] && note.mode == DIBS_SHARED;
}
