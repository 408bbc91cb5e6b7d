/* SPDX-License-Identifier: MIT */
/*
 * Transactions. What Consul 1.8.7 does, as seen:
 *  - The ops are done in order, each on what the ones before it left; a refusal of one does
 *    not end it there, so a refused transaction (409) names every op that failed.
 *  - Lock, unlock, set, cas, get, check-index and check-session leave a result, with the
 *    entry as it is then, and get-tree one for each entry; delete, delete-cas and
 *    check-not-exists leave none. Results of writes have no value.
 *  - Locking again what the session has locked already succeeds; LockIndex stays, and with
 *    the same value and flags ModifyIndex as well. Lock and unlock replace value and flags.
 *  - delete-cas of a key that is not there succeeds.
 *  - Lock says whether somebody holds it ("already held"), whether it is the lock-delay ("due
 *    to lock delay"), or whether there is no such session ("invalid session").
 *  - A key that its session's end has released or deleted has another ModifyIndex, or none.
 *  - One of checks only changes nothing, and costs what a read does.
 *  - There are 64 ops at most (413 otherwise).
 */
#include "consul.h"

#include <stdlib.h>
#include <string.h>

#include "util/digits.h"

json_t *
dibs__consul_txn(void)
{
    return json_array();
}

/* Keys, names and encoded values are plain ASCII: nothing needs to be checked. */
static int
put(json_t *op, const char *name, json_t *value)
{
    return json_object_set_new_nocheck(op, name, value);
}

/* Takes the fields; each of them may have failed to be made. */
static int
add(json_t *txn, const char *verb, const struct key *key, json_t *op)
{
    json_t *kv = json_object();
    int bad = put(op, "Verb", json_string_nocheck(verb));
    bad |= put(op, "Key", json_stringn_nocheck(key->text, key->len));
    bad |= put(kv, "KV", op);
    if (bad) {
        json_decref(kv);
        return DIBS_ENOMEM;
    }
    return json_array_append_new(txn, kv) ? DIBS_ENOMEM : DIBS_OK;
}

/* Flags are put in quotes here, and taken out of them in ask.c: half of all numbers are too
 * large for the JSON library. */
static json_t *
content(uint64_t flags, const void *value, size_t len)
{
    char digits[DIGITS_MAX], few[4096];
    size_t size = HTTP_BASE64_SIZE(len);
    char *text = size <= sizeof few ? few : malloc(size);
    json_t *op = text ? json_object() : NULL;
    int bad = !op;
    if (!bad) {
        size = dibs__http_base64(text, value, len);
        bad = put(op, "Flags", json_stringn_nocheck(digits, put_digits(digits, flags)));
        bad |= put(op, "Value", json_stringn_nocheck(text, size));
    }
    if (text != few)
        free(text);
    if (!bad)
        return op;
    json_decref(op);
    return NULL;
}

static int
add_held(json_t *txn, const char *verb, const struct key *key, const char *session,
         json_t *op)
{
    if (op && put(op, "Session", json_string_nocheck(session))) {
        json_decref(op);
        op = NULL;
    }
    return add(txn, verb, key, op);
}

int
dibs__consul_txn_lock(json_t *txn, const struct key *key, const char *session,
                      uint64_t flags, const void *value, size_t len)
{
    return add_held(txn, "lock", key, session, content(flags, value, len));
}

int
dibs__consul_txn_unlock(json_t *txn, const struct key *key, const char *session,
                        uint64_t flags, const void *value, size_t len)
{
    return add_held(txn, "unlock", key, session, content(flags, value, len));
}

static json_t *
at_index(json_t *op, uint64_t index)
{
    if (op && put(op, "Index", json_integer((json_int_t)index))) {
        json_decref(op);
        return NULL;
    }
    return op;
}

int
dibs__consul_txn_cas(json_t *txn, const struct key *key, uint64_t index, uint64_t flags,
                     const void *value, size_t len)
{
    return add(txn, "cas", key, at_index(content(flags, value, len), index));
}

int
dibs__consul_txn_delete_cas(json_t *txn, const struct key *key, uint64_t index)
{
    return add(txn, "delete-cas", key, at_index(json_object(), index));
}

int
dibs__consul_txn_delete(json_t *txn, const struct key *key)
{
    return add(txn, "delete", key, json_object());
}

int
dibs__consul_txn_check_index(json_t *txn, const struct key *key, uint64_t index)
{
    if (!index)
        return add(txn, "check-not-exists", key, json_object());
    return add(txn, "check-index", key, at_index(json_object(), index));
}

int
dibs__consul_txn_check_session(json_t *txn, const struct key *key, const char *session)
{
    return add_held(txn, "check-session", key, session, json_object());
}

int
dibs__consul_txn_get(json_t *txn, const struct key *key)
{
    return add(txn, "get", key, json_object());
}

int
dibs__consul_txn_set(json_t *txn, const struct key *key, uint64_t flags,
                     const void *value, size_t len)
{
    return add(txn, "set", key, content(flags, value, len));
}

int
dibs__consul_txn_tree(json_t *txn, const struct key *key)
{
    return add(txn, "get-tree", key, json_object());
}

/* ---- what became of it ---- */

static const json_t *
errors_of(const struct answer *answer)
{
    return json_object_get(answer->json, "Errors");
}

static int
op_of(const json_t *error)
{
    return (int)json_integer_value(json_object_get(error, "OpIndex"));
}

static const char *
what_of(const json_t *error)
{
    const char *text = json_string_value(json_object_get(error, "What"));
    return text ? text : "it was refused";
}

int
dibs__consul_txn_refused(const struct answer *answer, const char **said)
{
    const json_t *error = json_array_get(errors_of(answer), 0);
    if (!error)
        return -1;
    if (said)
        *said = what_of(error);
    return op_of(error);
}

const char *
dibs__consul_txn_said(const struct answer *answer, int op)
{
    const json_t *errors = errors_of(answer);
    for (size_t i = 0; i < json_array_size(errors); i++)
        if (op_of(json_array_get(errors, i)) == op)
            return what_of(json_array_get(errors, i));
    return NULL;
}

int
dibs__consul_txn_lacks(const struct answer *answer, const char *session)
{
    const json_t *errors = errors_of(answer);
    for (size_t i = 0; i < json_array_size(errors); i++) {
        const char *what = what_of(json_array_get(errors, i));
        if (strstr(what, "invalid session") && strstr(what, session))
            return 1;
    }
    return 0;
}

/* An op that we have no right to is refused like any other. */
static int
check_rights(struct consul *consul, const struct answer *answer, dibs_error *err)
{
    const json_t *errors = errors_of(answer);
    for (size_t i = 0; i < json_array_size(errors); i++) {
        const char *what = what_of(json_array_get(errors, i));
        if (strstr(what, "Permission denied"))
            return consul->host->fail(err, DIBS_EDENIED, "%s", what);
    }
    return DIBS_OK;
}

int
dibs__consul_txn_run(struct consul *consul, json_t *txn, unsigned flags,
                     struct answer *answer, dibs_time deadline, dibs_error *err)
{
    /* one that changes nothing is answered as reads are: by a leader that is sure to be it */
    const char *path = flags & HTTP_REPEATABLE ? "/v1/txn?consistent" : "/v1/txn";
    int rc = dibs__consul_ask(consul, "PUT", path, txn, flags, answer, deadline, err);
    if (rc)
        return rc;
    if (answer->status == 409)
        rc = check_rights(consul, answer, err);
    if (!rc && !json_is_object(answer->json))
        rc = consul->host->fail(err, DIBS_ECORRUPT, "the answer is no transaction's");
    if (rc)
        dibs__consul_answer_free(answer);
    return rc;
}
