/* SPDX-License-Identifier: MIT */
/*
 * Entries of the store, as answers have them. A read answers with a list of entries, a
 * transaction with a list of results of which each has one.
 */
#include "consul.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* what was decoded from an answer, in a chain */
struct decoded {
    struct decoded *next;
    char bytes[];
};

void
dibs__consul_answer_free(struct answer *answer)
{
    struct decoded *next, *at = answer->decoded;
    for (; at; at = next) {
        next = at->next;
        answer->host->free(at);
    }
    json_decref(answer->json);
    answer->decoded = NULL;
    answer->json = NULL;
}

static json_t *
list_of(const struct answer *answer)
{
    json_t *results = json_object_get(answer->json, "Results");
    return results ? results : answer->json;
}

size_t
dibs__consul_entries(const struct answer *answer)
{
    return json_array_size(list_of(answer));
}

const json_t *
dibs__consul_kv(const struct answer *answer, size_t index)
{
    const json_t *item = json_array_get(list_of(answer), index);
    const json_t *kv = json_object_get(item, "KV");
    return kv ? kv : item;
}

/* what is too large for the JSON library is a string of digits */
static int
number(const json_t *kv, const char *name, uint64_t *out)
{
    const json_t *value = json_object_get(kv, name);
    const char *text = json_string_value(value);
    char *end = NULL;
    if (!text) {
        *out = (uint64_t)json_integer_value(value);
        return json_is_integer(value) ? 0 : -1;
    }
    *out = strtoumax(text, &end, 10);
    return *text && !*end ? 0 : -1;
}

/* An empty value is null, and so is every value in the answer to a write. */
static int
decode(struct answer *answer, const json_t *value, struct entry *out)
{
    const char *text = json_string_value(value);
    size_t len = text ? json_string_length(value) : 0;
    struct decoded *decoded = answer->host->alloc(sizeof *decoded + len + 1);
    if (!decoded)
        return -1;
    decoded->next = answer->decoded;
    answer->decoded = decoded;
    int64_t size = dibs__http_unbase64(decoded->bytes, text ? text : "", len);
    if (size < 0)
        return -1;
    decoded->bytes[size] = '\0';
    out->value = decoded->bytes;
    out->value_len = (size_t)size;
    return 0;
}

int
dibs__consul_entry(struct answer *answer, size_t index, struct entry *out)
{
    const json_t *kv = dibs__consul_kv(answer, index);
    out->key = json_string_value(json_object_get(kv, "Key"));
    out->session = json_string_value(json_object_get(kv, "Session"));
    if (!out->session)
        out->session = "";
    if (!out->key || number(kv, "Flags", &out->flags) ||
        number(kv, "CreateIndex", &out->create_index) ||
        number(kv, "ModifyIndex", &out->modify_index) ||
        number(kv, "LockIndex", &out->lock_index))
        return -1;
    return decode(answer, json_object_get(kv, "Value"), out);
}

int
dibs__consul_entry_of(struct answer *answer, const struct key *key, struct entry *out)
{
    for (size_t i = dibs__consul_entries(answer); i-- > 0;) {
        const json_t *text = json_object_get(dibs__consul_kv(answer, i), "Key");
        if (json_is_string(text) && strcmp(json_string_value(text), key->text) == 0)
            return dibs__consul_entry(answer, i, out);
    }
    return -1;
}
