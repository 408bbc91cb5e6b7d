/* SPDX-License-Identifier: MIT */
/*
 * Sessions, as the kit's tenures.
 *
 * The servers end a session that was not renewed for its TTL at the earliest, and for twice
 * that at the latest; a new leader counts anew. A leader that was deposed without knowing it
 * may still answer a renewal, for less time than the shortest TTL there is: so a renewal
 * counts from when it was sent, for one TTL.
 *
 * They have no health checks: with the usual one (serfHealth) a session would end as soon as
 * the others do not hear of the agent's machine, which may be long before its holder has come
 * to the end of its lease. With the end of a session its entries are deleted, so that a
 * client that died leaves nothing behind; others take what is not there as they take what
 * nobody holds.
 *
 * But a session belongs to the node of the agent that it was made at, and ends with it: when
 * a client agent is stopped it leaves, and a server that is dead is struck off by the others.
 * For that there is the lock-delay: unless told otherwise, nobody gets what an ended session
 * had locked for as long as its holder may believe in it. A release comes before the end of
 * the session, so it is not delayed.
 */
#include "claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_LEAST_MS 10000
#define LEAST_MS 1000
#define MOST_MS (24 * 3600 * 1000)
#define EXTRA_MS 300
#define NAME_ROOM 256
#define END_TRIES 10
#define END_PAUSE (50 * DIBS_MS)
#define DELAY_MOST_MS 60000 /* the servers allow no more */

/* ---- beginning ---- */

/* The longest lease that a session of that length is for. */
static int64_t
delay_ms(const struct consul *consul, int64_t wanted_ms)
{
    int64_t lease_ms = (wanted_ms - EXTRA_MS) * 3 / 4 + 1;
    if (consul->lock_delay_ms >= 0)
        return consul->lock_delay_ms;
    return lease_ms < DELAY_MOST_MS ? lease_ms : DELAY_MOST_MS;
}

/* No two clients have the same. */
static void
write_name(char out[NAME_ROOM], const struct consul *consul)
{
    const dibs_session *session = consul->session;
    (void)snprintf(out, NAME_ROOM, "dibs: %.100s, process %" PRId64 " on %s, %.16s",
                   session->app, session->pid, session->machine, session->id_hex);
}

static http_text *
describe(const struct consul *consul, int64_t ttl_ms, int64_t wanted_ms)
{
    char name[NAME_ROOM], ttl[32], delay[32];
    write_name(name, consul);
    (void)snprintf(ttl, sizeof ttl, "%" PRId64 "ms", ttl_ms);
    (void)snprintf(delay, sizeof delay, "%" PRId64 "ms", delay_ms(consul, wanted_ms));
    http_text *body = dibs__http_text_new();
    dibs__http_text_add(body, "{\"Name\":");
    dibs__http_text_string(body, name, strlen(name));
    dibs__http_text_add(body, ",\"TTL\":\"");
    dibs__http_text_add(body, ttl);
    dibs__http_text_add(body, "\",\"LockDelay\":\"");
    dibs__http_text_add(body, delay);
    dibs__http_text_add(body,
                        "\",\"Behavior\":\"delete\",\"Checks\":[],\"NodeChecks\":[]}");
    return body;
}

/* "... must be between [10s=24h0m0s]" */
static int64_t
least_of(const char *said)
{
    const char *at = strstr(said, "between [");
    char *end = NULL;
    double number = at ? strtod(at + sizeof "between [" - 1, &end) : 0;
    if (!at || number <= 0 || number > MOST_MS)
        return DEFAULT_LEAST_MS;
    if (strncmp(end, "ms", 2) == 0)
        return (int64_t)number;
    return *end == 's' ? (int64_t)(number * 1000) : DEFAULT_LEAST_MS;
}

/* DIBS_OK, with "" in `id`: it is too short for these servers. */
static int
create(struct consul *consul, char id[KIT_ID_MAX], int64_t ttl_ms, int64_t wanted_ms,
       dibs_time deadline, dibs_error *err)
{
    struct answer answer;
    http_text *body = describe(consul, ttl_ms, wanted_ms);
    if (!body)
        return consul->host->fail(err, DIBS_ENOMEM, "out of memory");
    int rc = dibs__consul_ask(consul, "PUT", "/v1/session/create", body, ASK_TELLS_400,
                              &answer, deadline, err);
    if (rc == DIBS_EUNKNOWN)
        atomic_store(&consul->may_have_more, 1);
    if (rc)
        return rc;
    const char *text = json_string_value(json_object_get(answer.json, "ID"));
    const char *said = json_string_value(answer.json);
    id[0] = '\0';
    if (text && strlen(text) < KIT_ID_MAX)
        memcpy(id, text, strlen(text) + 1);
    else if (answer.status == 400 && said && strstr(said, "Session TTL"))
        atomic_store(&consul->least_ttl_ms, least_of(said));
    else
        rc = consul->host->fail(err, DIBS_ECORRUPT, "no session was made: %s",
                                said ? said : "the answer has none");
    dibs__consul_answer_free(&answer);
    return rc;
}

static int
begin(void *state, char id[KIT_ID_MAX], int64_t *ttl_ms, dibs_time deadline,
      dibs_error *err)
{
    struct consul *consul = state;
    for (int i = 0; i < 2; i++) {
        int64_t least = atomic_load(&consul->least_ttl_ms);
        int64_t ttl = *ttl_ms < least ? least : *ttl_ms;
        int rc = create(consul, id, ttl, *ttl_ms, deadline, err);
        if (rc)
            return rc;
        if (*id) {
            *ttl_ms = ttl;
            return DIBS_OK;
        }
    }
    return consul->host->fail(err, DIBS_EINVAL, "the servers allow no session of %lld ms",
                              (long long)*ttl_ms);
}

/* ---- keeping and ending ---- */

static void
session_path(char *out, size_t size, const char *what, const char *id)
{
    (void)snprintf(out, size, "/v1/session/%s/%s", what, id);
}

static int
keep(void *state, const char *id, int64_t ttl_ms, dibs_time *safe_until,
     dibs_time deadline, dibs_error *err)
{
    struct consul *consul = state;
    struct answer answer;
    char path[128];
    dibs_time sent = consul->host->now();
    session_path(path, sizeof path, "renew", id);
    int rc = dibs__consul_ask(consul, "PUT", path, NULL, HTTP_REPEATABLE, &answer,
                              deadline, err);
    if (rc)
        return rc;
    if (answer.status == 404)
        rc = consul->host->fail(err, DIBS_ELOST, "the session %s is over", id);
    *safe_until = sent + ttl_ms * DIBS_MS;
    dibs__consul_answer_free(&answer);
    return rc;
}

/* An agent that has just lost its leader says so at once; the next one may have another. */
static int
end(void *state, const char *id, dibs_time deadline)
{
    struct consul *consul = state;
    struct answer answer;
    char path[128];
    session_path(path, sizeof path, "destroy", id);
    int rc = DIBS_EUNAVAIL;
    for (int i = 0; i < END_TRIES && rc == DIBS_EUNAVAIL; i++) {
        if (i > 0)
            consul->host->sleep_until(consul->host->now() + END_PAUSE);
        rc = dibs__consul_ask(consul, "PUT", path, NULL, HTTP_REPEATABLE, &answer,
                              deadline, NULL);
    }
    if (!rc)
        dibs__consul_answer_free(&answer);
    return rc;
}

/* ---- those whose names we were not told ---- */

static void
end_if_ours(struct consul *consul, const json_t *session, const char *name,
            dibs_time deadline)
{
    const char *is = json_string_value(json_object_get(session, "Name"));
    const char *id = json_string_value(json_object_get(session, "ID"));
    if (is && id && strcmp(is, name) == 0)
        (void)end(consul, id, deadline);
}

/* A session that was made although its answer was lost would live for its TTL. */
void
dibs__consul_sessions_end(struct consul *consul, dibs_time deadline)
{
    char name[NAME_ROOM];
    struct answer answer;
    if (!atomic_load(&consul->may_have_more) ||
        dibs__consul_ask(consul, "GET", "/v1/session/list", NULL, HTTP_REPEATABLE,
                         &answer, deadline, NULL))
        return;
    write_name(name, consul);
    for (size_t i = 0; i < json_array_size(answer.json); i++)
        end_if_ours(consul, json_array_get(answer.json, i), name, deadline);
    dibs__consul_answer_free(&answer);
}

/* Who waits has nothing in it. */
static void
lost(void *state, uint64_t birth)
{
    (void)state, (void)birth;
}

void
dibs__consul_session_ops(struct consul *consul, int64_t fixed_ms)
{
    consul->session_ops = (kit_tenure_ops){ .begin = begin,
                                            .keep = keep,
                                            .end = end,
                                            .lost = lost,
                                            .least_ms = LEAST_MS,
                                            .most_ms = MOST_MS,
                                            .extra_ms = EXTRA_MS,
                                            .fixed_ms = fixed_ms };
}
