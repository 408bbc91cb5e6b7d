/* SPDX-License-Identifier: MIT */
/*
 * Asking: posts to the gateway, signs in where users have passwords, and makes codes of
 * what the servers refuse.
 *
 * A server that refuses because it has no leader has done nothing. One that gave up waiting
 * for the others may have: what it was asked may still be done, at any later time.
 */
#include "claim.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PAUSE_FIRST (20 * DIBS_MS)
#define PAUSE_MOST (500 * DIBS_MS)

/* gRPC's codes */
enum {
    CODE_INVALID_ARGUMENT = 3,
    CODE_NOT_FOUND = 5,
    CODE_PERMISSION_DENIED = 7,
    CODE_RESOURCE_EXHAUSTED = 8,
    CODE_FAILED_PRECONDITION = 9,
    CODE_OUT_OF_RANGE = 11,
    CODE_UNIMPLEMENTED = 12,
    CODE_UNAVAILABLE = 14,
    CODE_UNAUTHENTICATED = 16
};

/* Not a code of ours: the token has run out, sign in and ask again. */
#define SIGN_IN 1

/* How we are signed in. */
struct access {
    pthread_mutex_t mutex;
    uint64_t count; /* how often we have */
};

/* ---- refusals ---- */

static int
says(const char *message, const char *part)
{
    return strstr(message, part) != NULL;
}

/* "invalid argument" is also what a wrong password is. */
static int
code_of_invalid(const struct etcd *etcd, const char *message)
{
    if (says(message, "revision in header is old"))
        return etcd->user ? SIGN_IN : DIBS_EDENIED;
    if (says(message, "auth") || says(message, "user name is empty"))
        return DIBS_EDENIED;
    return says(message, "too large") ? DIBS_EINVAL : DIBS_ECORRUPT;
}

static int
code_of(const struct etcd *etcd, int code, const char *message)
{
    switch (code) {
    case CODE_NOT_FOUND:
        return says(message, "lease") ? DIBS_ELOST : DIBS_EUNSUPPORTED;
    case CODE_INVALID_ARGUMENT:
        return code_of_invalid(etcd, message);
    case CODE_PERMISSION_DENIED:
        return DIBS_EDENIED;
    case CODE_UNAUTHENTICATED:
        return etcd->user ? SIGN_IN : DIBS_EDENIED;
    case CODE_FAILED_PRECONDITION:
    case CODE_UNIMPLEMENTED:
        return DIBS_EUNSUPPORTED;
    case CODE_OUT_OF_RANGE:
        return DIBS_ECONFLICT; /* that revision is compacted */
    case CODE_RESOURCE_EXHAUSTED:
        return DIBS_EUNAVAIL;
    case CODE_UNAVAILABLE:
        return says(message, "no leader") || says(message, "not leader") ||
                       says(message, "SubConns") || says(message, "not capable")
                   ? DIBS_EUNAVAIL
                   : DIBS_EUNKNOWN;
    default:
        return DIBS_EUNKNOWN;
    }
}

/* The gateway answers in JSON; what is in front of it, or something else, may not. */
static int
refused(struct etcd *etcd, const http_answer *got, dibs_error *err)
{
    char where[300];
    const char *message = json_string_value(json_object_get(got->json, "message"));
    if (!message)
        message = json_string_value(json_object_get(got->json, "error"));
    int64_t code = dibs__etcd_number(got->json, "code");
    dibs__http_server(etcd->http, where, sizeof where);
    if (!message && got->status == 404)
        return etcd->host->fail(err, DIBS_EUNSUPPORTED,
                                "%s is no etcd, or one below version 3.4", where);
    if (!message)
        return etcd->host->fail(err, got->status < 500 ? DIBS_ECORRUPT : DIBS_EUNKNOWN,
                                "%s: HTTP status %d", where, got->status);
    int rc = code_of(etcd, (int)code, message);
    if (rc == DIBS_EUNAVAIL || rc == DIBS_EUNKNOWN)
        dibs__http_avoid(etcd->http);
    (void)etcd->host->fail(err, rc == SIGN_IN ? DIBS_EDENIED : rc, "%s: %s", where,
                           message);
    return rc;
}

/* ---- one request ---- */

static int
take(struct etcd *etcd, http_answer *got, struct answer *answer, dibs_error *err)
{
    if (got->status != 200)
        return refused(etcd, got, err);
    /* answers of a stream are wrapped, and may be errors */
    json_t *result = json_object_get(got->json, "result");
    json_t *error = json_object_get(got->json, "error");
    if (json_is_object(error)) {
        http_answer inner = { .status = 500, .json = error };
        return refused(etcd, &inner, err);
    }
    if (!json_is_object(got->json))
        return etcd->host->fail(err, DIBS_ECORRUPT, "the answer is not JSON");
    answer->json = json_incref(result ? result : got->json);
    answer->host = etcd->host;
    answer->decoded = NULL;
    return DIBS_OK;
}

static int
post(struct etcd *etcd, const char *path, const char *text, unsigned flags,
     struct answer *answer, dibs_time deadline, dibs_error *err)
{
    char full[64];
    http_answer got;
    (void)snprintf(full, sizeof full, "/v3%s", path);
    const http_request request = { .method = "POST",
                                   .path = full,
                                   .body = text,
                                   .body_len = strlen(text),
                                   .flags = flags };
    int rc = dibs__http_call(etcd->http, &request, &got, deadline, err);
    if (rc)
        return rc;
    rc = take(etcd, &got, answer, err);
    dibs__http_answer_free(&got);
    return rc;
}

/* ---- signing in ---- */

static int
use_token(struct etcd *etcd, const struct answer *answer, dibs_error *err)
{
    char line[2048];
    const char *token = json_string_value(json_object_get(answer->json, "token"));
    int len = snprintf(line, sizeof line, "Authorization: %s", token ? token : "");
    if (!token || len >= (int)sizeof line)
        return etcd->host->fail(err, DIBS_ECORRUPT, "no token came for our password");
    int rc = dibs__http_set_header(etcd->http, line);
    explicit_bzero(line, sizeof line);
    if (!rc)
        dibs__etcd_watches_signed_in(etcd);
    return rc;
}

static int
authenticate(struct etcd *etcd, dibs_time deadline, dibs_error *err)
{
    struct answer answer = { .host = etcd->host };
    json_t *body =
        json_pack("{s:s, s:s}", "name", etcd->user, "password", etcd->password);
    char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
    json_decref(body);
    if (!text)
        return etcd->host->fail(err, DIBS_ENOMEM, "out of memory");
    /* a token that has run out would be refused, even for this */
    int rc = post(etcd, "/auth/authenticate", text, HTTP_REPEATABLE | HTTP_ANONYMOUS,
                  &answer, deadline, err);
    if (!rc)
        rc = use_token(etcd, &answer, err);
    else if (rc == DIBS_EUNSUPPORTED)
        rc = DIBS_OK; /* nobody needs a password here */
    else if (rc == DIBS_EUNKNOWN)
        rc = DIBS_EUNAVAIL; /* signing in changes nothing */
    else if (rc == SIGN_IN)
        rc = DIBS_EDENIED;
    explicit_bzero(text, strlen(text));
    free(text);
    dibs__etcd_answer_free(&answer);
    return rc;
}

/* `seen` is how often we had signed in when we were refused: another thread may have done
 * so since. */
static int
sign_in(struct etcd *etcd, uint64_t seen, dibs_time deadline, dibs_error *err)
{
    struct access *access = etcd->access;
    int rc = DIBS_OK;
    pthread_mutex_lock(&access->mutex);
    if (access->count == seen)
        rc = authenticate(etcd, deadline, err);
    if (!rc && access->count == seen)
        access->count++;
    pthread_mutex_unlock(&access->mutex);
    return rc;
}

static uint64_t
times_signed_in(struct etcd *etcd)
{
    struct access *access = etcd->access;
    if (!etcd->user)
        return 0;
    pthread_mutex_lock(&access->mutex);
    uint64_t count = access->count;
    pthread_mutex_unlock(&access->mutex);
    return count;
}

/* ---- asking ---- */

/* Asks once, and once more with a new token if the old one has run out. */
static int
ask_signed_in(struct etcd *etcd, const char *path, const char *text, unsigned flags,
              struct answer *answer, dibs_time deadline, dibs_error *err)
{
    uint64_t seen = times_signed_in(etcd);
    int rc = post(etcd, path, text, flags, answer, deadline, err);
    if (rc != SIGN_IN)
        return rc;
    rc = sign_in(etcd, seen, deadline, err);
    if (!rc)
        rc = post(etcd, path, text, flags, answer, deadline, err);
    return rc == SIGN_IN ? DIBS_EDENIED : rc;
}

/* What may be done twice is asked again, of another server, while there is time. */
static int
ask_again(struct etcd *etcd, const char *path, const char *text, unsigned flags,
          struct answer *answer, dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = etcd->host;
    dibs_time pause = PAUSE_FIRST;
    for (;;) {
        int rc = ask_signed_in(etcd, path, text, flags, answer, deadline, err);
        if (rc != DIBS_EUNAVAIL && rc != DIBS_EUNKNOWN)
            return rc;
        if (host->now() + pause >= deadline)
            return DIBS_EUNAVAIL;
        host->sleep_until(host->now() + pause);
        pause = 2 * pause < PAUSE_MOST ? 2 * pause : PAUSE_MOST;
    }
}

int
dibs__etcd_ask(struct etcd *etcd, const char *path, http_text *body, unsigned flags,
               struct answer *answer, dibs_time deadline, dibs_error *err)
{
    size_t len;
    const char *text = dibs__http_text_get(body, &len);
    int rc;
    answer->host = etcd->host;
    answer->json = NULL;
    answer->decoded = NULL;
    if (!text)
        rc = etcd->host->fail(err, DIBS_ENOMEM, "out of memory");
    else if (flags & HTTP_REPEATABLE)
        rc = ask_again(etcd, path, text, flags, answer, deadline, err);
    else
        rc = ask_signed_in(etcd, path, text, flags, answer, deadline, err);
    dibs__http_text_free(body);
    return rc;
}

/* ---- open and close ---- */

int
dibs__etcd_access_open(struct etcd *etcd, dibs_time deadline, dibs_error *err)
{
    struct access *access = etcd->host->alloc(sizeof *access);
    if (!access)
        return etcd->host->fail(err, DIBS_ENOMEM, "out of memory");
    pthread_mutex_init(&access->mutex, NULL);
    etcd->access = access;
    return etcd->user ? sign_in(etcd, 0, deadline, err) : DIBS_OK;
}

void
dibs__etcd_access_close(struct etcd *etcd, int forked)
{
    struct access *access = etcd->access;
    if (!access)
        return;
    /* in a child a thread of the parent may have it for ever */
    if (!forked)
        pthread_mutex_destroy(&access->mutex);
    etcd->host->free(access);
    etcd->access = NULL;
}
