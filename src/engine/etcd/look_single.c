/* SPDX-License-Identifier: MIT */
/* Looking at locks of the layout single, and breaking them. A key says that somebody holds
 * the lock, and for how long; not who, and not who waits. */
#include "look.h"

#include <string.h>

static int
report_held(struct look *look, const char *name, size_t name_len, const struct kv *kv)
{
    dibs_party party = { .mode = DIBS_EXCLUSIVE,
                         .permits = 1,
                         .token = token_of(kv->create),
                         .lease_left_ms = dibs__etcd_lease_left(look, kv->lease),
                         .host = "",
                         .app = "",
                         .note = "" };
    int rc = look->sink->lock(look->sink, name, name_len, DIBS_EXCLUSIVE, 0);
    return rc ? rc : look->sink->party(look->sink, 0, &party);
}

/* A key that lasts is no lock of this layout. */
static int
read_lock(const struct look *look, const char *name, size_t name_len,
          struct answer *answer, struct kv *out, int *is_held)
{
    struct key key;
    dibs__etcd_single_key(&key, look->etcd, name, name_len);
    struct range one = { .key = &key };
    int rc = dibs__etcd_ask(look->etcd, "/kv/range", dibs__etcd_range_alone(&one),
                            HTTP_REPEATABLE, answer, look->deadline, look->err);
    *is_held = !rc && dibs__etcd_kv(answer, -1, 0, out) == 0 && out->lease;
    return rc;
}

int
dibs__etcd_single_inspect(void *state, const char *name, size_t name_len,
                          uint64_t name_hash, dibs_sink *sink, dibs_time deadline,
                          dibs_error *err)
{
    struct look look = {
        .etcd = state, .sink = sink, .deadline = deadline, .err = err, .asks_left = 1
    };
    struct answer answer = { 0 };
    struct kv kv;
    int is_held;
    (void)name_hash;
    int rc = read_lock(&look, name, name_len, &answer, &kv, &is_held);
    if (!rc && is_held)
        rc = report_held(&look, name, name_len, &kv);
    dibs__etcd_answer_free(&answer);
    return rc;
}

int
dibs__etcd_single_evict(void *state, const char *name, size_t name_len,
                        uint64_t name_hash, size_t *broken, dibs_time deadline,
                        dibs_error *err)
{
    struct look look = { .etcd = state, .deadline = deadline, .err = err };
    struct answer read = { 0 }, deleted = { 0 };
    struct kv kv;
    int is_held;
    (void)name_hash;
    int rc = read_lock(&look, name, name_len, &read, &kv, &is_held);
    if (!rc && is_held)
        rc = dibs__etcd_ask(state, "/kv/txn", dibs__etcd_delete_made(&kv.key, kv.create),
                            HTTP_REPEATABLE, &deleted, deadline, err);
    if (!rc)
        *broken = (size_t)is_held;
    dibs__etcd_answer_free(&deleted);
    dibs__etcd_answer_free(&read);
    return rc;
}

/* What we keep beside the locks. */
static int
is_ours(const char *name, size_t len)
{
    static const char *const beside[] = { "%cells/", "%fences/", "%epoch/" };
    for (size_t i = 0; i < sizeof beside / sizeof *beside; i++) {
        size_t size = strlen(beside[i]);
        if (len >= size && memcmp(name, beside[i], size) == 0)
            return 1;
    }
    return 0;
}

static int
see_any(void *context, struct kv *kv)
{
    struct look *look = context;
    const char *name = kv->key.text + look->etcd->prefix_len;
    size_t len = kv->key.len - look->etcd->prefix_len;
    if (!kv->lease || !len || len > DIBS_NAME_MAX || memchr(name, '\0', len) ||
        is_ours(name, len))
        return DIBS_OK;
    return report_held(look, name, len, kv);
}

int
dibs__etcd_single_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct look look = { .etcd = state, .sink = sink, .deadline = deadline, .err = err };
    struct key prefix;
    dibs__etcd_single_key(&prefix, look.etcd, "", 0);
    return dibs__etcd_each(&look, &prefix, see_any, &look);
}
