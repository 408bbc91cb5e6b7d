/* SPDX-License-Identifier: MIT */
/*
 * What is asked and what is answered, as the JSON gateway has it: bytes are base64, 64-bit
 * numbers are decimal strings, and what has its default value is left out of answers.
 */
#include "etcd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts of requests ---- */

static http_text *
begin(const char *words)
{
    http_text *text = dibs__http_text_new();
    dibs__http_text_add(text, words);
    return text;
}

static http_text *
end(http_text *text, const char *words)
{
    dibs__http_text_add(text, words);
    return text;
}

/* a field that is not the first one */
static void
add_bytes(http_text *text, const char *name, const void *bytes, size_t len)
{
    dibs__http_text_add(text, ",\"");
    dibs__http_text_add(text, name);
    dibs__http_text_add(text, "\":");
    dibs__http_text_base64(text, bytes, len);
}

static void
add_number(http_text *text, const char *name, int64_t number)
{
    dibs__http_text_add(text, ",\"");
    dibs__http_text_add(text, name);
    dibs__http_text_add(text, "\":\"");
    dibs__http_text_number(text, (uint64_t)number);
    dibs__http_text_add(text, "\"");
}

/* the first field */
static void
add_key(http_text *text, const struct key *key)
{
    dibs__http_text_add(text, "\"key\":");
    dibs__http_text_base64(text, key->text, key->len);
}

/* ---- transactions ---- */

static http_text *
begin_compare(const struct key *key, const char *target)
{
    http_text *text = begin("{");
    add_key(text, key);
    dibs__http_text_add(text, ",\"result\":\"EQUAL\",\"target\":\"");
    return end(text, target);
}

http_text *
dibs__etcd_compare(const struct key *key, enum compare_target target, int64_t value)
{
    static const struct {
        const char *target, *field;
    } names[] = {
        [COMPARE_CREATE] = { "CREATE\"", "create_revision" },
        [COMPARE_MOD] = { "MOD\"", "mod_revision" },
        [COMPARE_VERSION] = { "VERSION\"", "version" },
    };
    http_text *text = begin_compare(key, names[target].target);
    add_number(text, names[target].field, value);
    return end(text, "}");
}

http_text *
dibs__etcd_compare_none(const struct key *key, const struct key *range_end)
{
    http_text *text = begin_compare(key, "CREATE\"");
    add_number(text, "create_revision", 0);
    add_bytes(text, "range_end", range_end->text, range_end->len);
    return end(text, "}");
}

http_text *
dibs__etcd_put(const struct key *key, const void *value, size_t len, int64_t lease)
{
    http_text *text = begin("{\"request_put\":{");
    add_key(text, key);
    add_bytes(text, "value", value, len);
    if (lease)
        add_number(text, "lease", lease);
    return end(text, "}}");
}

http_text *
dibs__etcd_put_again(const struct key *key, const void *value, size_t len, int64_t lease)
{
    http_text *text = begin("{\"request_put\":{");
    add_key(text, key);
    if (value)
        add_bytes(text, "value", value, len);
    else
        dibs__http_text_add(text, ",\"ignore_value\":true");
    if (lease)
        add_number(text, "lease", lease);
    else
        dibs__http_text_add(text, ",\"ignore_lease\":true");
    return end(text, "}}");
}

http_text *
dibs__etcd_delete(const struct key *key)
{
    http_text *text = begin("{\"request_delete_range\":{");
    add_key(text, key);
    return end(text, "}}");
}

static void
add_order(http_text *text, unsigned flags)
{
    dibs__http_text_add(text, flags & RANGE_NEWEST ? ",\"sort_order\":\"DESCEND\""
                                                   : ",\"sort_order\":\"ASCEND\"");
    dibs__http_text_add(text, flags & RANGE_BY_KEY ? ",\"sort_target\":\"KEY\""
                                                   : ",\"sort_target\":\"CREATE\"");
}

static http_text *
add_range(http_text *text, const struct range *range)
{
    dibs__http_text_add(text, "{");
    add_key(text, range->key);
    if (range->end) {
        add_bytes(text, "range_end", range->end->text, range->end->len);
        add_order(text, range->flags);
    }
    if (range->limit)
        add_number(text, "limit", range->limit);
    if (range->max_create)
        add_number(text, "max_create_revision", range->max_create);
    if (range->revision)
        add_number(text, "revision", range->revision);
    if (range->flags & RANGE_KEYS_ONLY)
        dibs__http_text_add(text, ",\"keys_only\":true");
    if (range->flags & RANGE_COUNT_ONLY)
        dibs__http_text_add(text, ",\"count_only\":true");
    return end(text, "}");
}

http_text *
dibs__etcd_range(const struct range *range)
{
    return end(add_range(begin("{\"request_range\":"), range), "}");
}

http_text *
dibs__etcd_range_alone(const struct range *range)
{
    return add_range(begin(""), range);
}

http_text *
dibs__etcd_txn(http_text *compares, http_text *success, http_text *failure)
{
    http_text *text = begin("{\"compare\":[");
    dibs__http_text_move(text, compares);
    dibs__http_text_add(text, "],\"success\":[");
    dibs__http_text_move(text, success);
    dibs__http_text_add(text, "],\"failure\":[");
    dibs__http_text_move(text, failure);
    return end(text, "]}");
}

http_text *
dibs__etcd_inner_txn(http_text *txn)
{
    http_text *text = begin("{\"request_txn\":");
    dibs__http_text_move(text, txn);
    return end(text, "}");
}

http_text *
dibs__etcd_list_of(http_text *const *ops, size_t count)
{
    http_text *list = dibs__http_text_new();
    for (size_t i = 0; i < count; i++)
        (void)dibs__etcd_list_add(list, ops[i]);
    return list;
}

http_text *
dibs__etcd_list_add(http_text *list, http_text *op)
{
    size_t len;
    const char *so_far = dibs__http_text_get(list, &len);
    if (so_far && len)
        dibs__http_text_add(list, ",");
    dibs__http_text_move(list, op);
    return list;
}

http_text *
dibs__etcd_lease_alone(int64_t lease, int64_t ttl_s)
{
    http_text *text = begin("{\"ID\":\"");
    dibs__http_text_number(text, (uint64_t)lease);
    dibs__http_text_add(text, "\"");
    if (ttl_s)
        add_number(text, "TTL", ttl_s);
    return end(text, "}");
}

/* ---- answers ---- */

/* what was decoded, chained so that it can be freed */
struct decoded {
    struct decoded *next;
    char bytes[];
};

void
dibs__etcd_answer_free(struct answer *answer)
{
    struct decoded *at = answer->decoded;
    while (at) {
        struct decoded *next = at->next;
        answer->host->free(at);
        at = next;
    }
    json_decref(answer->json);
    answer->decoded = NULL;
    answer->json = NULL;
}

int64_t
dibs__etcd_number(const json_t *object, const char *name)
{
    const json_t *json = json_object_get(object, name);
    const char *text = json_string_value(json);
    return text ? strtoll(text, NULL, 10) : (int64_t)json_integer_value(json);
}

int
dibs__etcd_succeeded(const struct answer *answer)
{
    return json_is_true(json_object_get(answer->json, "succeeded"));
}

int64_t
dibs__etcd_revision(const struct answer *answer)
{
    return dibs__etcd_number(json_object_get(answer->json, "header"), "revision");
}

int64_t
dibs__etcd_term(const struct answer *answer)
{
    return dibs__etcd_number(json_object_get(answer->json, "header"), "raft_term");
}

static const json_t *
response(const struct answer *answer, int op, const char *kind)
{
    if (op < 0)
        return answer->json;
    const json_t *all = json_object_get(answer->json, "responses");
    return json_object_get(json_array_get(all, (size_t)op), kind);
}

static const json_t *
kvs_of(const struct answer *answer, int op)
{
    return json_object_get(response(answer, op, "response_range"), "kvs");
}

size_t
dibs__etcd_kvs(const struct answer *answer, int op)
{
    return json_array_size(kvs_of(answer, op));
}

int64_t
dibs__etcd_deleted(const struct answer *answer, int op)
{
    return dibs__etcd_number(response(answer, op, "response_delete_range"), "deleted");
}

static int
read_key(struct key *out, const json_t *json)
{
    const char *text = json_string_value(json);
    size_t len = json_string_length(json);
    if (!text || len / 4 * 3 > sizeof out->text)
        return -1;
    int64_t got = dibs__http_unbase64(out->text, text, len);
    out->len = got < 0 ? 0 : (size_t)got;
    return got < 0 ? -1 : 0;
}

/* An empty value is left out. */
static int
read_value(struct answer *answer, const json_t *json, struct kv *out)
{
    const char *text = json_string_value(json);
    size_t len = json_string_length(json);
    struct decoded *decoded = answer->host->alloc(sizeof *decoded + len / 4 * 3 + 1);
    if (!decoded)
        return -1;
    decoded->next = answer->decoded;
    answer->decoded = decoded;
    int64_t got = text ? dibs__http_unbase64(decoded->bytes, text, len) : 0;
    if (got < 0)
        return -1;
    out->value = decoded->bytes;
    out->value_len = (size_t)got;
    decoded->bytes[got] = '\0';
    return 0;
}

int
dibs__etcd_kv(struct answer *answer, int op, size_t index, struct kv *out)
{
    const json_t *json = json_array_get(kvs_of(answer, op), index);
    if (!json || read_key(&out->key, json_object_get(json, "key")) ||
        read_value(answer, json_object_get(json, "value"), out))
        return -1;
    out->create = dibs__etcd_number(json, "create_revision");
    out->mod = dibs__etcd_number(json, "mod_revision");
    out->version = dibs__etcd_number(json, "version");
    out->lease = dibs__etcd_number(json, "lease");
    return 0;
}
