/* SPDX-License-Identifier: MIT */
/*
 * Asking, and waiting for the answer.
 *
 * A server that cannot be reached is left for the next one: nothing was sent to it. One
 * that was asked is waited for until the deadline, for asking again may do it twice; unless
 * the caller says that it may. Then a server has a second to answer, so that one that
 * stands still does not use up all the time, and twice that in the next round.
 */
#include "http/parts.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PATIENCE (1000 * DIBS_MS) /* with one server, at first */
#define PATIENCE_LEAST (20 * DIBS_MS)
#define DOUBLINGS 6
#define PAUSE_FIRST (10 * DIBS_MS) /* after all servers have lost our request */
#define PAUSE_MOST (500 * DIBS_MS)
#define LOOK_EVERY (1000 * DIBS_MS) /* at a transfer, whatever happens */

/* What a call has been through. */
struct course {
    http *http;
    const http_request *request;
    dibs_time deadline;
    unsigned tries;
    unsigned quick; /* failures in a row that took no time */
    int quick_sent; /* one of them was sent */
    int was_sent;   /* some try was */
    dibs_time pause;
};

static dibs_time
lesser(dibs_time a, dibs_time b)
{
    return a < b ? a : b;
}

/* never 0, which is no limit to libcurl */
static int64_t
ms_of(dibs_time ns)
{
    return ns > DIBS_MS ? (ns + DIBS_MS - 1) / DIBS_MS : 1;
}

static dibs_time
patience(const struct course *course, dibs_time left)
{
    unsigned round = course->tries / course->http->count;
    dibs_time limit = PATIENCE << (round < DOUBLINGS ? round : DOUBLINGS);
    if (course->http->count > 1)
        limit = lesser(limit, left / 2);
    return lesser(limit > PATIENCE_LEAST ? limit : PATIENCE_LEAST, left);
}

/* ---- one try ---- */

/* libcurl ends a transfer whose time is up, but may oversleep: its timer goes off a moment
 * too early, and is not set again, so that curl_easy_perform looks a second later. */
static int
ms_to_sleep(const struct course *course, dibs_time until)
{
    dibs_time left = until - course->http->host->now();
    return (int)ms_of(lesser(left, LOOK_EVERY));
}

static CURLcode
code_of(CURLM *multi)
{
    int left;
    const CURLMsg *message = curl_multi_info_read(multi, &left);
    return message ? message->data.result : CURLE_OUT_OF_MEMORY;
}

/* What ends with an error of the whole has no message of its own. */
static CURLcode
perform(const struct course *course, struct transfer *transfer, dibs_time until)
{
    CURLM *multi = transfer->multi;
    int running = 1;
    if (curl_multi_add_handle(multi, transfer->easy) != CURLM_OK)
        return CURLE_OUT_OF_MEMORY;
    while (curl_multi_perform(multi, &running) == CURLM_OK && running > 0 &&
           curl_multi_poll(multi, NULL, 0, ms_to_sleep(course, until), NULL) == CURLM_OK)
        continue;
    CURLcode why = code_of(multi);
    (void)curl_multi_remove_handle(multi, transfer->easy);
    return why;
}

/* Some versions of libcurl write to TLS connections in a way that raises SIGPIPE. */
static CURLcode
perform_quietly(const struct course *course, struct transfer *transfer, dibs_time until)
{
    const struct timespec none = { 0, 0 };
    sigset_t pipe, old, pending;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    (void)sigpending(&pending);
    (void)pthread_sigmask(SIG_BLOCK, &pipe, &old);
    CURLcode why = perform(course, transfer, until);
    if (!sigismember(&pending, SIGPIPE))
        (void)sigtimedwait(&pipe, NULL, &none);
    (void)pthread_sigmask(SIG_SETMASK, &old, NULL);
    return why;
}

static void
take_answer(struct transfer *transfer, const struct course *course, http_answer *answer)
{
    long status = 0;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    transfer->text[transfer->len] = '\0';
    *answer = (http_answer){ .status = (int)status,
                             .text = transfer->text,
                             .len = transfer->len,
                             .index = transfer->index,
                             .may_be_repeated = course->was_sent };
    if (transfer->len > 0)
        answer->json = dibs__http_json(transfer->text, transfer->len);
    transfer->text = NULL;
    transfer->room = 0;
}

/* What a failed try means: DIBS_OK if another one is to be made. Trouble with certificates
 * comes before the server has seen the request. */
static int
judge(struct course *course, const struct transfer *transfer, CURLcode why,
      dibs_error *err)
{
    http *client = course->http;
    int is_quick = why != CURLE_OPERATION_TIMEDOUT;
    int was_sent = dibs__http_transfer_was_sent(transfer);
    int is_final = was_sent && !(course->request->flags & HTTP_REPEATABLE);
    int code = dibs__http_transfer_fail(transfer, why,
                                        is_final ? DIBS_EUNKNOWN : DIBS_EUNAVAIL, err);
    was_sent = was_sent && (code == DIBS_EUNKNOWN || code == DIBS_EUNAVAIL);
    dibs__http_failed(client, transfer->server);
    course->was_sent |= was_sent;
    course->quick = is_quick ? course->quick + 1 : 0;
    course->quick_sent = is_quick && (was_sent || course->quick_sent);
    int is_hopeless = course->quick >= client->count && !course->quick_sent;
    if (code == DIBS_EUNKNOWN || code == DIBS_ENOMEM || is_hopeless ||
        transfer->is_too_large)
        return code;
    return client->host->now() < course->deadline ? DIBS_OK : code;
}

static int
try_once(struct course *course, struct transfer *transfer, unsigned server,
         http_answer *answer, dibs_error *err)
{
    http *client = course->http;
    dibs_time now = client->host->now(), left = course->deadline - now;
    dibs_time connect = patience(course, left);
    dibs_time limit = course->request->flags & HTTP_REPEATABLE ? connect : left;
    int rc = dibs__http_transfer_prepare(transfer, course->request, server, ms_of(limit),
                                         ms_of(connect));
    if (rc)
        return client->host->fail(err, rc, "out of memory");
    CURLcode why = client->settings.tls ? perform_quietly(course, transfer, now + limit)
                                        : perform(course, transfer, now + limit);
    course->tries++;
    /* libcurl takes what ends within the headers for an answer that is empty */
    if (why == CURLE_OK && !transfer->has_begun)
        why = CURLE_GOT_NOTHING;
    if (why != CURLE_OK)
        return judge(course, transfer, why, err);
    take_answer(transfer, course, answer);
    return DIBS_OK;
}

/* ---- the call ---- */

/* All servers lose what we send: it is no use to hurry. */
static void
rest(struct course *course)
{
    const dibs_host *host = course->http->host;
    if (course->quick < course->http->count)
        return;
    course->quick = 0;
    course->quick_sent = 0;
    course->pause = course->pause ? lesser(2 * course->pause, PAUSE_MOST) : PAUSE_FIRST;
    host->sleep_until(lesser(host->now() + course->pause, course->deadline));
}

static int
ask_around(struct course *course, struct transfer *transfer, http_answer *answer,
           dibs_error *err)
{
    http *client = course->http;
    unsigned first = dibs__http_first(client);
    int rc = DIBS_OK;
    if (client->host->now() >= course->deadline)
        return client->host->fail(err, DIBS_EUNAVAIL, "%s: no time to ask",
                                  client->servers[first].where);
    while (!rc && !answer->text) {
        rest(course);
        unsigned server = (first + course->tries) % client->count;
        rc = try_once(course, transfer, server, answer, err);
    }
    return rc;
}

int
dibs__http_call(http *client, const http_request *request, http_answer *answer,
                dibs_time deadline, dibs_error *err)
{
    struct course course = { .http = client, .request = request, .deadline = deadline };
    http_answer got = { 0 };
    struct transfer *transfer = dibs__http_take(client);
    if (!transfer)
        return client->host->fail(err, DIBS_ENOMEM, "out of memory");
    int rc = ask_around(&course, transfer, &got, err);
    dibs__http_give_back(transfer);
    if (!rc)
        *answer = got;
    return rc;
}

void
dibs__http_answer_free(http_answer *answer)
{
    json_decref(answer->json);
    free(answer->text);
    memset(answer, 0, sizeof *answer);
}

void
dibs__http_escape(char *out, const char *bytes, size_t len)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._~";
    static const char hex[] = "0123456789ABCDEF";
    for (size_t i = 0; i < len; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (byte && strchr(plain, byte)) {
            *out++ = (char)byte;
        } else {
            *out++ = '%';
            *out++ = hex[byte >> 4];
            *out++ = hex[byte & 15];
        }
    }
    *out = '\0';
}
