/* SPDX-License-Identifier: MIT */
/*
 * Asking: one request, over HTTP and JSON, and what became of it as a code.
 *
 * An agent passes requests on to the servers' leader. What it says about trouble on the way
 * is text; some of it says that nothing has been changed, and for all else it may have been.
 */
#include "consul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SAID_MAX 200

/* ---- codes ---- */

/* Said before anything is written to the log of the servers. */
static int
is_surely_not_done(const char *said)
{
    static const char *const texts[] = { "No cluster leader",
                                         "No known Consul servers",
                                         "No path to datacenter",
                                         "node is not the leader",
                                         "timed out enqueuing operation",
                                         "rpc error getting client",
                                         "failed to get conn",
                                         "leadership transfer in progress",
                                         "rate limit exceeded",
                                         "rate limit reached" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (strstr(said, texts[i]))
            return 1;
    return 0;
}

static int
code_of(const http_answer *got, unsigned flags)
{
    if (got->status == 401 || got->status == 403)
        return DIBS_EDENIED;
    if (got->status == 429)
        return DIBS_EUNAVAIL;
    if (got->status < 500)
        return DIBS_ECORRUPT;
    /* tokens are looked up by the servers; some of their refusals come as failures */
    if (strstr(got->text, "Permission denied") || strstr(got->text, "ACL not found"))
        return DIBS_EDENIED;
    int nothing = flags & HTTP_REPEATABLE || is_surely_not_done(got->text);
    return nothing ? DIBS_EUNAVAIL : DIBS_EUNKNOWN;
}

static int
refuse(struct consul *consul, const http_answer *got, unsigned flags, dibs_error *err)
{
    int code = code_of(got, flags);
    int len = (int)strcspn(got->text, "\r\n");
    if (code == DIBS_EUNAVAIL || code == DIBS_EUNKNOWN)
        dibs__http_avoid(consul->http);
    return consul->host->fail(err, code, "the agent said %d: %.*s", got->status,
                              len < SAID_MAX ? len : SAID_MAX, got->text);
}

static int
is_answer(int status, unsigned flags)
{
    return status == 200 || status == 404 || status == 409 ||
           (status == 400 && flags & ASK_TELLS_400);
}

/* ---- asking ---- */

static int
take(struct consul *consul, http_answer *got, unsigned flags, struct answer *answer,
     dibs_error *err)
{
    if (!is_answer(got->status, flags))
        return refuse(consul, got, flags, err);
    *answer = (struct answer){ .status = got->status,
                               .index = got->index,
                               .host = consul->host,
                               .json = got->json };
    got->json = NULL;
    if (got->status == 400 && !answer->json)
        answer->json = json_string(got->text);
    return DIBS_OK;
}

static void
add_dc(char *out, size_t size, const struct consul *consul, const char *path)
{
    if (*consul->dc)
        (void)snprintf(out, size, "%s%cdc=%s", path, strchr(path, '?') ? '&' : '?',
                       consul->dc);
    else
        (void)snprintf(out, size, "%s", path);
}

int
dibs__consul_ask(struct consul *consul, const char *method, const char *path,
                 http_text *body, unsigned flags, struct answer *answer,
                 dibs_time deadline, dibs_error *err)
{
    char full[PATH_ROOM];
    http_answer got;
    http_request request = { .method = method,
                             .path = full,
                             .flags = flags & HTTP_REPEATABLE };
    request.body = dibs__http_text_get(body, &request.body_len);
    add_dc(full, sizeof full, consul, path);
    int rc = body && !request.body
                 ? consul->host->fail(err, DIBS_ENOMEM, "out of memory")
                 : dibs__http_call(consul->http, &request, &got, deadline, err);
    dibs__http_text_free(body);
    if (rc)
        return rc;
    rc = take(consul, &got, flags, answer, err);
    dibs__http_answer_free(&got);
    return rc;
}

void
dibs__consul_kv_path(char out[PATH_ROOM], const struct key *key, const char *query)
{
    size_t len = (size_t)snprintf(out, PATH_ROOM, "/v1/kv/");
    dibs__http_escape(out + len, key->text, key->len);
    len += strlen(out + len);
    (void)snprintf(out + len, PATH_ROOM - len, "?%s", query);
}

int
dibs__consul_get(struct consul *consul, const struct key *key, int recurse,
                 struct answer *answer, dibs_time deadline, dibs_error *err)
{
    char path[PATH_ROOM];
    dibs__consul_kv_path(path, key, recurse ? "consistent&recurse" : "consistent");
    int rc = dibs__consul_ask(consul, "GET", path, NULL, HTTP_REPEATABLE, answer,
                              deadline, err);
    if (rc || answer->status != 200 || json_is_array(answer->json))
        return rc;
    dibs__consul_answer_free(answer);
    return consul->host->fail(err, DIBS_ECORRUPT, "the answer is no list of entries");
}
