/* SPDX-License-Identifier: MIT */
/*
 * The seam between core and engines. Every call of an engine goes through here: it is
 * traced, may be made to fail by a test, and a failure is told in whole sentences ("cannot
 * renew 'deploy' at etcd://10.0.0.2:2379: lease 7f3a has expired"). Calls are counted here,
 * but for attempts, watches and releases: those who make them count more cheaply.
 */
#include "core/core.h"

#include <stdio.h>

struct engine_call {
    dibs *client;
    const char *verb;   /* the slot */
    const char *phrase; /* what was tried, for people */
    const char *name;
    size_t name_len;
    dibs_time began;
};

static int (*fault_hook)(const dibs__fault_point *point, void *arg);
static void *fault_arg;

void
dibs__set_fault(int (*hook)(const dibs__fault_point *point, void *arg), void *arg)
{
    fault_arg = arg;
    fault_hook = hook;
}

/* returns 0 if the engine is to be called, else the code to return instead */
static int
begin(struct engine_call *call)
{
    if (call->client->options.trace)
        call->began = dibs__now();
    if (!fault_hook)
        return 0;
    dibs__fault_point point = { call->verb, call->name, call->name_len, 0, 0 };
    int verdict = fault_hook(&point, fault_arg);
    return verdict == 1 ? 0 : verdict;
}

static void
explain(const struct engine_call *call, int code, dibs_error *err)
{
    char name[DIBS__NAME_SHOWN] = "";
    const dibs *client = call->client;
    (void)dibs_name_print(name, sizeof name, call->name, call->name_len);
    dibs__error_wrap(err, code, client->engine->name, "cannot %s%s%s%s at %.120s",
                     call->phrase, *name ? " '" : "", name, *name ? "'" : "",
                     dibs__where(client));
}

static void
trace(const struct engine_call *call, int code, const dibs_error *err)
{
    char name[DIBS__NAME_PRINT_MAX] = "";
    (void)dibs_name_print(name, sizeof name, call->name, call->name_len);
    dibs_trace_event event = {
        .verb = call->verb,
        .name = name,
        .took_us = (dibs__now() - call->began) / 1000,
        .code = code,
        .text = code && err ? err->text : "",
    };
    call->client->options.trace(&event, call->client->options.trace_arg);
}

/* busy, not held and the like are answers, not failures: no message is made for them */
static int
is_answer(int code)
{
    return code == DIBS_OK || code == DIBS_EBUSY || code == DIBS_ENOTHELD ||
           code == DIBS_ENOTFOUND || code == DIBS_ECONFLICT;
}

/* `said` is what the engine wrote; the caller's own error changes only on failure */
static int
finish(const struct engine_call *call, int code, dibs_error *said, dibs_error *err)
{
    if (fault_hook) {
        dibs__fault_point point = { call->verb, call->name, call->name_len, 1, code };
        int verdict = fault_hook(&point, fault_arg);
        code = verdict == 1 ? code : verdict;
    }
    if (!is_answer(code))
        explain(call, code, said);
    if (call->client->options.trace)
        trace(call, code, said);
    if (!is_answer(code) && err)
        *err = *said;
    return code;
}

#define CALL(verb_, phrase_, name_, len_, invoke)                                        \
    dibs_error said;                                                                     \
    said.code = said.engine_code = 0;                                                    \
    said.text[0] = '\0';                                                                 \
    struct engine_call call = { client, verb_, phrase_, name_, len_, 0 };                \
    int rc = begin(&call);                                                               \
    if (!rc)                                                                             \
        rc = (invoke);                                                                   \
    if (rc == DIBS_OK && !fault_hook && !client->options.trace)                          \
        return DIBS_OK; /* the usual case, spared the call */                            \
    return finish(&call, rc, &said, err)

int
dibs__engine_open(dibs *client, dibs_time deadline, dibs_error *err)
{
    CALL("open", "open", "", 0,
         client->engine->open(client->state, &client->session, &client->url.parts,
                              deadline, &said));
}

static int
close_traced(dibs *client, int forked, dibs_error *err)
{
    CALL("close", "close", "", 0, (client->engine->close(client->state, forked), 0));
}

void
dibs__engine_close(dibs *client, int forked)
{
    (void)close_traced(client, forked, NULL);
}

int
dibs__engine_attempt(dibs *client, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    CALL("attempt", "lock", claim->name, claim->name_len,
         client->engine->attempt(client->state, claim, deadline, &said));
}

int
dibs__engine_watch(dibs *client, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    UNCANCELLED; /* the caller may be quick */
    CALL("watch", "wait for", claim->name, claim->name_len,
         client->engine->watch(client->state, claim, deadline, &said));
}

void
dibs__engine_sleep(dibs *client, dibs_claim *claim, dibs_time deadline)
{
    UNCANCELLED;
    client->engine->sleep(client->state, claim, deadline);
}

void
dibs__engine_rouse(dibs *client, dibs_claim *claim)
{
    client->engine->rouse(client->state, claim);
}

static int
renew_all(dibs *client, dibs_claim *const *claims, int *results, size_t n,
          dibs_time deadline, dibs_error *err)
{
    int worst = DIBS_OK;
    client->engine->renew(client->state, claims, results, n, deadline, err);
    for (size_t i = 0; i < n; i++) {
        if (results[i])
            worst = results[i];
    }
    return worst;
}

static int
renew_traced(dibs *client, dibs_claim *const *claims, int *results, size_t n,
             dibs_time deadline, dibs_error *err)
{
    CALL("renew", "renew", claims[0]->name, claims[0]->name_len,
         renew_all(client, claims, results, n, deadline, &said));
}

void
dibs__engine_renew(dibs *client, dibs_claim *const *claims, int *results, size_t n,
                   dibs_time deadline, dibs_error *err)
{
    for (size_t i = 0; i < n; i++)
        results[i] = DIBS_OK;
    dibs__count_call(client);
    int rc = renew_traced(client, claims, results, n, deadline, err);
    if (!rc)
        return;
    /* an injected fault spares nobody */
    for (size_t i = 0; i < n; i++) {
        if (!results[i] && fault_hook)
            results[i] = rc;
    }
}

int
dibs__engine_release(dibs *client, dibs_claim *claim, uint32_t linger_ms,
                     dibs_time deadline, dibs_error *err)
{
    CALL("release", "release", claim->name, claim->name_len,
         client->engine->release(client->state, claim, linger_ms, deadline, &said));
}

int
dibs__engine_downgrade(dibs *client, dibs_claim *claim, dibs_time deadline,
                       dibs_error *err)
{
    dibs__count_call(client);
    CALL("downgrade", "downgrade", claim->name, claim->name_len,
         client->engine->downgrade(client->state, claim, deadline, &said));
}

int
dibs__engine_list(dibs *client, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    dibs__count_call(client);
    CALL("list", "list locks", "", 0,
         client->engine->list(client->state, sink, deadline, &said));
}

int
dibs__engine_inspect(dibs *client, const char *name, size_t len, dibs_sink *sink,
                     dibs_time deadline, dibs_error *err)
{
    dibs__count_call(client);
    CALL("inspect", "inspect", name, len,
         client->engine->inspect(client->state, name, len, dibs__hash(name, len), sink,
                                 deadline, &said));
}

int
dibs__engine_evict(dibs *client, const char *name, size_t len, size_t *broken,
                   dibs_time deadline, dibs_error *err)
{
    dibs__count_call(client);
    CALL("evict", "break", name, len,
         client->engine->evict(client->state, name, len, dibs__hash(name, len), broken,
                               deadline, &said));
}

int
dibs__engine_cell_read(dibs *client, const dibs_cell_key *key, dibs_cell *out,
                       dibs_time deadline, dibs_error *err)
{
    dibs__count_call(client);
    CALL("cell_read", "read cell", key->name, key->name_len,
         client->engine->cell_read(client->state, key, out, deadline, &said));
}

int
dibs__engine_cell_swap(dibs *client, const dibs_cell_key *key, uint64_t version,
                       const void *value, size_t len, uint64_t *new_version,
                       dibs_time deadline, dibs_error *err)
{
    dibs__count_call(client);
    CALL("cell_swap", "change cell", key->name, key->name_len,
         client->engine->cell_swap(client->state, key, version, value, len, new_version,
                                   deadline, &said));
}
