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

#define OPS_FIRST 8

/* ---- what is asked ---- */

struct txn {
    http_text **ops;
    size_t count, room;
};

struct txn *
dibs__consul_txn(void)
{
    return calloc(1, sizeof(struct txn));
}

void
dibs__consul_txn_free(struct txn *txn)
{
    for (size_t i = 0; txn && i < txn->count; i++)
        dibs__http_text_free(txn->ops[i]);
    if (txn)
        free(txn->ops);
    free(txn);
}

size_t
dibs__consul_txn_count(const struct txn *txn)
{
    return txn ? txn->count : 0;
}

/* Takes the op. */
static int
append(struct txn *txn, http_text *op)
{
    size_t room = txn && txn->room ? 2 * txn->room : OPS_FIRST;
    if (op && txn && txn->count == txn->room) {
        http_text **ops = realloc(txn->ops, room * sizeof *ops);
        txn->ops = ops ? ops : txn->ops;
        txn->room = ops ? room : txn->room;
    }
    if (!op || !txn || txn->count == txn->room) {
        dibs__http_text_free(op);
        return DIBS_ENOMEM;
    }
    txn->ops[txn->count++] = op;
    return DIBS_OK;
}

struct txn *
dibs__consul_txn_part(struct txn *txn, size_t *at, size_t most)
{
    struct txn *part = dibs__consul_txn();
    int rc = part ? DIBS_OK : DIBS_ENOMEM;
    for (size_t i = 0; !rc && i < most && *at < txn->count; i++) {
        rc = append(part, txn->ops[*at]);
        txn->ops[(*at)++] = NULL;
    }
    if (!rc)
        return part;
    dibs__consul_txn_free(part);
    return NULL;
}

static http_text *
begin(const char *verb, const struct key *key)
{
    http_text *op = dibs__http_text_new();
    dibs__http_text_add(op, "{\"KV\":{\"Verb\":\"");
    dibs__http_text_add(op, verb);
    dibs__http_text_add(op, "\",\"Key\":");
    dibs__http_text_string(op, key->text, key->len);
    return op;
}

static int
end(struct txn *txn, http_text *op)
{
    dibs__http_text_add(op, "}}");
    return append(txn, op);
}

static void
add_content(http_text *op, uint64_t flags, const void *value, size_t len)
{
    dibs__http_text_add(op, ",\"Flags\":");
    dibs__http_text_number(op, flags);
    dibs__http_text_add(op, ",\"Value\":");
    dibs__http_text_base64(op, value, len);
}

static void
add_session(http_text *op, const char *session)
{
    dibs__http_text_add(op, ",\"Session\":");
    dibs__http_text_string(op, session, strlen(session));
}

static void
add_index(http_text *op, uint64_t index)
{
    dibs__http_text_add(op, ",\"Index\":");
    dibs__http_text_number(op, index);
}

int
dibs__consul_txn_lock(struct txn *txn, const struct key *key, const char *session,
                      uint64_t flags, const void *value, size_t len)
{
    http_text *op = begin("lock", key);
    add_content(op, flags, value, len);
    add_session(op, session);
    return end(txn, op);
}

int
dibs__consul_txn_unlock(struct txn *txn, const struct key *key, const char *session,
                        uint64_t flags, const void *value, size_t len)
{
    http_text *op = begin("unlock", key);
    add_content(op, flags, value, len);
    add_session(op, session);
    return end(txn, op);
}

int
dibs__consul_txn_cas(struct txn *txn, const struct key *key, uint64_t index,
                     uint64_t flags, const void *value, size_t len)
{
    http_text *op = begin("cas", key);
    add_content(op, flags, value, len);
    add_index(op, index);
    return end(txn, op);
}

int
dibs__consul_txn_delete_cas(struct txn *txn, const struct key *key, uint64_t index)
{
    http_text *op = begin("delete-cas", key);
    add_index(op, index);
    return end(txn, op);
}

int
dibs__consul_txn_delete(struct txn *txn, const struct key *key)
{
    return end(txn, begin("delete", key));
}

int
dibs__consul_txn_check_index(struct txn *txn, const struct key *key, uint64_t index)
{
    http_text *op = begin(index ? "check-index" : "check-not-exists", key);
    if (index)
        add_index(op, index);
    return end(txn, op);
}

int
dibs__consul_txn_check_session(struct txn *txn, const struct key *key,
                               const char *session)
{
    http_text *op = begin("check-session", key);
    add_session(op, session);
    return end(txn, op);
}

int
dibs__consul_txn_get(struct txn *txn, const struct key *key)
{
    return end(txn, begin("get", key));
}

int
dibs__consul_txn_set(struct txn *txn, const struct key *key, uint64_t flags,
                     const void *value, size_t len)
{
    http_text *op = begin("set", key);
    add_content(op, flags, value, len);
    return end(txn, op);
}

int
dibs__consul_txn_tree(struct txn *txn, const struct key *key)
{
    return end(txn, begin("get-tree", key));
}

/* Takes it apart. */
static http_text *
write_txn(struct txn *txn)
{
    http_text *text = dibs__http_text_new();
    dibs__http_text_add(text, "[");
    for (size_t i = 0; i < txn->count; i++) {
        if (i)
            dibs__http_text_add(text, ",");
        dibs__http_text_move(text, txn->ops[i]);
    }
    dibs__http_text_add(text, "]");
    txn->count = 0;
    dibs__consul_txn_free(txn);
    return text;
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
dibs__consul_txn_run(struct consul *consul, struct txn *txn, unsigned flags,
                     struct answer *answer, dibs_time deadline, dibs_error *err)
{
    /* one that changes nothing is answered as reads are: by a leader that is sure to be it */
    const char *path = flags & HTTP_REPEATABLE ? "/v1/txn?consistent" : "/v1/txn";
    int rc = dibs__consul_ask(consul, "PUT", path, write_txn(txn), flags, answer,
                              deadline, err);
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
