/* SPDX-License-Identifier: MIT */
/*
 * What is asked and what is answered, as the JSON gateway has it: bytes are base64, 64-bit
 * numbers are decimal strings, and what has its default value is left out.
 */
#include "etcd.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- parts of requests ---- */

static json_t *
bytes_json(const void *bytes, size_t len)
{
    char small[1024];
    size_t size = HTTP_BASE64_SIZE(len);
    char *text = size <= sizeof small ? small : malloc(size);
    if (!text)
        return NULL;
    size_t text_len = dibs__http_base64(text, bytes, len);
    json_t *json = json_stringn_nocheck(text, text_len);
    if (text != small)
        free(text);
    return json;
}

static json_t *
number_json(int64_t number)
{
    char text[24];
    int len = snprintf(text, sizeof text, "%" PRId64, number);
    return json_stringn_nocheck(text, (size_t)len);
}

/* set adds a field to an object, and takes both; NULL when out of memory. */
static json_t *
set(json_t *object, const char *name, json_t *value)
{
    if (object && value && json_object_set_new_nocheck(object, name, value) == 0)
        return object;
    if (!object)
        json_decref(value);
    json_decref(object);
    return NULL;
}

static json_t *
set_key(json_t *object, const char *name, const struct key *key)
{
    return set(object, name, bytes_json(key->text, key->len));
}

static json_t *
set_text(json_t *object, const char *name, const char *text)
{
    return set(object, name, json_string_nocheck(text));
}

/* ---- transactions ---- */

static json_t *
begin_compare(const struct key *key, const char *target)
{
    json_t *json = set_key(json_object(), "key", key);
    json = set_text(json, "target", target);
    return set_text(json, "result", "EQUAL");
}

json_t *
dibs__etcd_compare(const struct key *key, enum compare_target target, int64_t value)
{
    static const struct {
        const char *target, *field;
    } names[] = {
        [COMPARE_CREATE] = { "CREATE", "create_revision" },
        [COMPARE_MOD] = { "MOD", "mod_revision" },
        [COMPARE_VERSION] = { "VERSION", "version" },
    };
    return set(begin_compare(key, names[target].target), names[target].field,
               number_json(value));
}

json_t *
dibs__etcd_compare_none(const struct key *key, const struct key *end)
{
    return set_key(dibs__etcd_compare(key, COMPARE_CREATE, 0), "range_end", end);
}

json_t *
dibs__etcd_compare_value(const struct key *key, const void *value, size_t len)
{
    return set(begin_compare(key, "VALUE"), "value", bytes_json(value, len));
}

json_t *
dibs__etcd_put(const struct key *key, const void *value, size_t len, int64_t lease)
{
    json_t *json = set_key(json_object(), "key", key);
    if (value)
        json = set(json, "value", bytes_json(value, len));
    if (lease)
        json = set(json, "lease", number_json(lease));
    return set(json_object(), "request_put", json);
}

json_t *
dibs__etcd_put_as_is(json_t *put, const char *field)
{
    json_t *request = json_object_get(put, "request_put");
    if (request && json_object_set_new_nocheck(request, field, json_true()) == 0)
        return put;
    json_decref(put);
    return NULL;
}

json_t *
dibs__etcd_delete(const struct key *key, const struct key *range_end)
{
    json_t *json = set_key(json_object(), "key", key);
    if (range_end)
        json = set_key(json, "range_end", range_end);
    return set(json_object(), "request_delete_range", json);
}

json_t *
dibs__etcd_range(const struct range *range)
{
    json_t *json = set_key(json_object(), "key", range->key);
    if (range->end) {
        json = set_key(json, "range_end", range->end);
        json = set_text(json, "sort_order",
                        range->flags & RANGE_NEWEST ? "DESCEND" : "ASCEND");
        json =
            set_text(json, "sort_target", range->flags & RANGE_BY_KEY ? "KEY" : "CREATE");
    }
    if (range->limit)
        json = set(json, "limit", number_json(range->limit));
    if (range->max_create)
        json = set(json, "max_create_revision", number_json(range->max_create));
    if (range->revision)
        json = set(json, "revision", number_json(range->revision));
    if (range->flags & RANGE_KEYS_ONLY)
        json = set(json, "keys_only", json_true());
    if (range->flags & RANGE_COUNT_ONLY)
        json = set(json, "count_only", json_true());
    return set(json_object(), "request_range", json);
}

/* a list that could not be made: an empty one would be another request */
static int
is_broken(const json_t *list)
{
    return json_is_null(list);
}

json_t *
dibs__etcd_txn(json_t *compares, json_t *success, json_t *failure)
{
    json_t *json = json_object();
    if (is_broken(compares) || is_broken(success) || is_broken(failure)) {
        json_decref(json);
        json = NULL;
    }
    const struct {
        const char *name;
        json_t *list;
    } parts[] = { { "compare", compares },
                  { "success", success },
                  { "failure", failure } };
    for (int i = 0; i < 3; i++)
        if (parts[i].list)
            json = set(json, parts[i].name, parts[i].list);
    return json;
}

json_t *
dibs__etcd_list_of(json_t *const *ops, size_t count)
{
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) {
        if (!list || !ops[i] || json_array_append(list, ops[i]) != 0) {
            json_decref(list);
            list = NULL;
        }
        json_decref(ops[i]);
    }
    return list ? list : json_null();
}

json_t *
dibs__etcd_list_add(json_t *list, json_t *op)
{
    if (op && !is_broken(list) && json_array_append(list, op) == 0) {
        json_decref(op);
        return list;
    }
    json_decref(op);
    json_decref(list);
    return json_null();
}

json_t *
dibs__etcd_bare(json_t *op)
{
    void *field = json_object_iter(op);
    json_t *request = field ? json_incref(json_object_iter_value(field)) : NULL;
    json_decref(op);
    return request;
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
