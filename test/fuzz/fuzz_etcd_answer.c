/* SPDX-License-Identifier: MIT */
/* Answers of etcd (engine/etcd/json.c): any JSON can be asked for anything; and what we ask is
 * JSON that has our bytes in it. */
#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "engine/etcd/claim.h"
#include "fuzz.h"

#define OPS_MAX 4

static void
check_kv(const struct kv *kv)
{
    HOLDS(kv->key.len <= sizeof kv->key.text);
    HOLDS(kv->value && kv->value[kv->value_len] == '\0');
    (void)dibs__etcd_shares(kv);
}

static void
check_answer(const char *text, size_t len)
{
    struct answer answer = { .json = dibs__http_json(text, len), .host = &dibs__host };
    struct kv kv;
    (void)dibs__etcd_succeeded(&answer);
    (void)dibs__etcd_revision(&answer);
    (void)dibs__etcd_term(&answer);
    for (int op = -1; op < OPS_MAX; op++) {
        size_t count = dibs__etcd_kvs(&answer, op);
        (void)dibs__etcd_deleted(&answer, op);
        for (size_t i = 0; i < count; i++) {
            if (dibs__etcd_kv(&answer, op, i, &kv) == 0)
                check_kv(&kv);
        }
        HOLDS(dibs__etcd_kv(&answer, op, count, &kv) == -1);
    }
    dibs__etcd_answer_free(&answer);
}

/* a key and a value in a transaction, found again in what would be sent */
static void
check_request(const struct key *key, const char *value, size_t value_len)
{
    http_text *text =
        dibs__etcd_txn(dibs__etcd_list(dibs__etcd_compare(key, COMPARE_CREATE, 0), NULL),
                       dibs__etcd_list(dibs__etcd_put(key, value, value_len, 7),
                                       dibs__etcd_delete(key), NULL),
                       NO_OPS);
    size_t len;
    const char *words = dibs__http_text_get(text, &len);
    json_t *json = json_loadb(words, len, 0, NULL);
    HOLDS(json != NULL);
    json_t *put = json_object_get(json_array_get(json_object_get(json, "success"), 0),
                                  "request_put");
    json_t *got = json_object_get(put, "value");
    char *back = malloc(json_string_length(got) + 1);
    int64_t back_len =
        dibs__http_unbase64(back, json_string_value(got), json_string_length(got));
    HOLDS(back_len >= 0 && fuzz_same(back, (size_t)back_len, value, value_len));
    HOLDS(json_array_size(json_object_get(json, "compare")) == 1);
    HOLDS(json_array_size(json_object_get(json, "failure")) == 0);
    free(back);
    json_decref(json);
    dibs__http_text_free(text);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct key key = { 0 };
    char *text = fuzz_text(data, size);
    check_answer(text, size);
    dibs__etcd_key_add(&key, text, size);
    HOLDS(key.len <= sizeof key.text);
    check_request(&key, text, size);
    free(text);
    return 0;
}
