/* SPDX-License-Identifier: MIT */
/*
 * One transfer of libcurl's: how it is set up, what it does with what comes, and what a
 * failure means. call.c and stream.c run it.
 *
 * If a kept connection turns out to be lost under way, libcurl sends the request again by
 * itself. That may do it twice: so we look when it opens another connection, and refuse if
 * something of the request was sent already. Whether to ask again is call.c's to decide.
 *
 * Parts: sockets; what comes; set-up; what went wrong.
 */
#include "http/parts.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "util/shortage.h"

#define IDLE_S 10     /* quiet for that long: asks whether the other end is there */
#define IDLE_STEP_S 5 /* and again */
#define SILENCE_MS                                                                       \
    25000 /* what is sent, and not even acknowledged for so long, is lost */
#define ROOM_FIRST 2048

/* ---- sockets ---- */

int
dibs__http_transfer_was_sent(const struct transfer *transfer)
{
    long sent = 0;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &sent);
    return sent > 0;
}

/* Connections that are quiet must not be lost without notice. */
static void
stay_awake(int fd)
{
    const int yes = 1, idle = IDLE_S, step = IDLE_STEP_S, silence = SILENCE_MS;
    (void)setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &step, sizeof step);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &silence, sizeof silence);
}

static curl_socket_t
open_socket(void *context, curlsocktype purpose, struct curl_sockaddr *address)
{
    struct transfer *transfer = context;
    (void)purpose;
    if (dibs__http_transfer_was_sent(transfer)) {
        transfer->is_resent = 1;
        return CURL_SOCKET_BAD;
    }
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
    /* a kind of address that this machine lacks says less than what others answered */
    transfer->no_socket = fd == -1 && is_shortage(errno) ? errno : 0;
    if (fd == -1)
        return CURL_SOCKET_BAD;
    stay_awake(fd);
    if (dibs__http_fds_add(transfer->http, fd) == 0)
        return fd;
    (void)close(fd);
    return CURL_SOCKET_BAD;
}

static int
close_socket(void *context, curl_socket_t fd)
{
    dibs__http_fds_drop(context, fd);
    return close(fd);
}

/* ---- what comes ---- */

static int
make_room(struct transfer *transfer, size_t more)
{
    size_t room = transfer->room ? transfer->room : ROOM_FIRST;
    while (room < transfer->len + more + 1)
        room *= 2;
    if (room == transfer->room)
        return 0;
    char *text = realloc(transfer->text, room);
    if (!text)
        return -1;
    transfer->text = text;
    transfer->room = room;
    return 0;
}

static size_t
take_body(char *bytes, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    size_t len = size * count;
    transfer->is_too_large = len > ANSWER_MAX - transfer->len;
    if (transfer->is_too_large || make_room(transfer, len) != 0)
        return 0;
    memcpy(transfer->text + transfer->len, bytes, len);
    transfer->len += len;
    return len;
}

uint64_t
dibs__http_index_of(const char *line, size_t len, uint64_t index)
{
    static const char name[] = "x-consul-index:";
    const size_t name_len = sizeof name - 1;
    if (len <= name_len || (line[0] | 0x20) != 'x' ||
        strncasecmp(line, name, name_len) != 0)
        return index;
    uint64_t value = 0;
    size_t at = name_len;
    while (at < len && line[at] == ' ')
        at++;
    for (; at < len && line[at] >= '0' && line[at] <= '9'; at++)
        value = value * 10 + (uint64_t)(line[at] - '0');
    return value;
}

static size_t
take_header(char *line, size_t size, size_t count, void *context)
{
    struct transfer *transfer = context;
    transfer->index = dibs__http_index_of(line, size * count, transfer->index);
    /* an answer may come after one that says to go on, and may have trailers */
    if (size * count >= 5 && strncmp(line, "HTTP/", 5) == 0)
        transfer->has_begun = 0;
    else if (line[0] == '\r' || line[0] == '\n')
        transfer->has_begun = 1;
    return size * count;
}

/* ---- set-up ---- */

static void
set_up_tls(CURL *easy, const http_settings *settings)
{
    if (settings->ca)
        (void)curl_easy_setopt(easy, CURLOPT_CAINFO, settings->ca);
    if (settings->cert)
        (void)curl_easy_setopt(easy, CURLOPT_SSLCERT, settings->cert);
    if (settings->key)
        (void)curl_easy_setopt(easy, CURLOPT_SSLKEY, settings->key);
    /* or OpenSSL asks at the terminal */
    (void)curl_easy_setopt(easy, CURLOPT_KEYPASSWD, "");
    if (settings->insecure) {
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
        (void)curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
    }
}

/* What never changes. Redirects, cookies and passwords are off by themselves. */
static void
set_up(struct transfer *transfer)
{
    CURL *easy = transfer->easy;
    (void)curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
#if LIBCURL_VERSION_NUM >= 0x075700
    /* or a request that has ended waits for a resolver that does not answer */
    (void)curl_easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L);
#endif
    (void)curl_easy_setopt(easy, CURLOPT_PROXY, "");
    (void)curl_easy_setopt(easy, CURLOPT_NOPROXY, "*"); /* or it asks the environment */
    (void)curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    (void)curl_easy_setopt(easy, CURLOPT_TCP_NODELAY, 1L);
    (void)curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->trouble);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
    (void)curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, close_socket);
    (void)curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, transfer->http);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_body);
    (void)curl_easy_setopt(easy, CURLOPT_WRITEDATA, transfer);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    (void)curl_easy_setopt(easy, CURLOPT_HEADERDATA, transfer);
    if (transfer->http->settings.tls)
        set_up_tls(easy, &transfer->http->settings);
}

struct transfer *
dibs__http_transfer_new(http *client)
{
    struct transfer *transfer = client->host->alloc(sizeof *transfer);
    if (!transfer)
        return NULL;
    transfer->http = client;
    transfer->server = client->count;
    transfer->easy = curl_easy_init();
    if (transfer->easy) {
        set_up(transfer);
        return transfer;
    }
    client->host->free(transfer);
    return NULL;
}

void
dibs__http_transfer_free(struct transfer *transfer)
{
    curl_easy_cleanup(transfer->easy);
    (void)curl_multi_cleanup(transfer->multi);
    curl_slist_free_all(transfer->headers);
    curl_slist_free_all(transfer->route);
    free(transfer->text);
    transfer->http->host->free(transfer);
}

static int
add_header(struct curl_slist **list, const char *line)
{
    struct curl_slist *more = curl_slist_append(*list, line);
    if (more)
        *list = more;
    return more ? DIBS_OK : DIBS_ENOMEM;
}

/* whether it has the headers that most have, so that they are not set each time */
static int
is_usual(const http_request *request)
{
    return !request->headers && !(request->flags & HTTP_ANONYMOUS);
}

/* Headers with no value are those of libcurl's that are not wanted. */
static int
list_headers(struct transfer *transfer, const http_request *request,
             struct curl_slist **list)
{
    http *client = transfer->http;
    int has_type = 0, rc = add_header(list, "Expect:");
    for (const char *const *line = request->headers; !rc && line && *line; line++) {
        has_type |= strncasecmp(*line, "content-type:", 13) == 0;
        rc = add_header(list, *line);
    }
    if (!rc && !has_type)
        rc = add_header(list, "Content-Type: application/json");
    pthread_mutex_lock(&client->mutex);
    if (!rc && client->header && !(request->flags & HTTP_ANONYMOUS))
        rc = add_header(list, client->header);
    transfer->edition = is_usual(request) ? atomic_load(&client->edition) : 0;
    pthread_mutex_unlock(&client->mutex);
    return rc;
}

static int
set_headers(struct transfer *transfer, const http_request *request)
{
    struct curl_slist *list = NULL;
    uint64_t edition = atomic_load(&transfer->http->edition);
    if (is_usual(request) && transfer->edition == edition)
        return DIBS_OK;
    int rc = list_headers(transfer, request, &list);
    if (rc) {
        curl_slist_free_all(list);
        transfer->edition = 0;
        return rc;
    }
    (void)curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, list);
    curl_slist_free_all(transfer->headers);
    transfer->headers = list;
    return DIBS_OK;
}

static int
set_route(struct transfer *transfer, const char *route)
{
    struct curl_slist *list = *route ? curl_slist_append(NULL, route) : NULL;
    if (*route && !list)
        return DIBS_ENOMEM;
    (void)curl_easy_setopt(transfer->easy, CURLOPT_CONNECT_TO, list);
    curl_slist_free_all(transfer->route);
    transfer->route = list;
    return DIBS_OK;
}

static int
set_server(struct transfer *transfer, unsigned server)
{
    const struct http_server *to = &transfer->http->servers[server];
    if (transfer->server == server)
        return DIBS_OK;
    transfer->server = transfer->http->count;
    if (curl_easy_setopt(transfer->easy, CURLOPT_URL, to->url) != CURLE_OK ||
        set_route(transfer, to->route) != DIBS_OK)
        return DIBS_ENOMEM;
    transfer->server = server;
    return DIBS_OK;
}

static int
set_method(struct transfer *transfer, const http_request *request)
{
    CURL *easy = transfer->easy;
    int has_body = request->body || strcmp(request->method, "GET") != 0;
    if (has_body) {
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE,
                               (curl_off_t)(request->body ? request->body_len : 0));
        (void)curl_easy_setopt(easy, CURLOPT_POSTFIELDS,
                               request->body ? request->body : "");
    }
    if (strcmp(transfer->method, request->method) == 0)
        return DIBS_OK;
    if (!has_body)
        (void)curl_easy_setopt(easy, CURLOPT_HTTPGET, 1L);
    transfer->method[0] = '\0';
    if (curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, request->method) != CURLE_OK)
        return DIBS_ENOMEM;
    (void)snprintf(transfer->method, sizeof transfer->method, "%s", request->method);
    return DIBS_OK;
}

int
dibs__http_transfer_prepare(struct transfer *transfer, const http_request *request,
                            unsigned server, int64_t limit_ms, int64_t connect_ms)
{
    CURL *easy = transfer->easy;
    transfer->is_resent = transfer->no_socket = transfer->has_begun = 0;
    transfer->is_too_large = 0;
    transfer->index = 0;
    transfer->len = 0;
    transfer->trouble[0] = '\0';
    if (make_room(transfer, 0) != 0 || set_server(transfer, server) != DIBS_OK ||
        set_method(transfer, request) != DIBS_OK ||
        set_headers(transfer, request) != DIBS_OK ||
        curl_easy_setopt(easy, CURLOPT_REQUEST_TARGET, request->path) != CURLE_OK)
        return DIBS_ENOMEM;
    (void)curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)limit_ms);
    (void)curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)connect_ms);
    return DIBS_OK;
}

/* ---- what went wrong ---- */

static int
is_about_us(const char *trouble)
{
    return strstr(trouble, "alert certificate required") ||
           strstr(trouble, "alert bad certificate") ||
           strstr(trouble, "alert unknown ca") ||
           strstr(trouble, "alert handshake failure");
}

static int
fail_tls(const struct transfer *transfer, CURLcode why, int code, dibs_error *err)
{
    const dibs_host *host = transfer->http->host;
    const char *where = transfer->http->servers[transfer->server].where;
    const char *trouble = transfer->trouble;
    if (why == CURLE_PEER_FAILED_VERIFICATION)
        return host->fail(err, DIBS_EDENIED,
                          "%s has a certificate that we do not trust: %s", where,
                          trouble);
    if (why == CURLE_SSL_CERTPROBLEM || why == CURLE_SSL_CACERT_BADFILE)
        return host->fail(err, DIBS_ECONFIG, "TLS with %s: %s", where, trouble);
    if (is_about_us(trouble))
        return host->fail(err, DIBS_EDENIED,
                          "TLS with %s: %s (the server wants to know us: cert=FILE, "
                          "key=FILE)",
                          where, trouble);
    return host->fail(err, code, "TLS with %s: %s", where,
                      *trouble ? trouble : curl_easy_strerror(why));
}

static const char *
reason(const struct transfer *transfer, CURLcode why, int was_sent)
{
    long number = 0;
    (void)curl_easy_getinfo(transfer->easy, CURLINFO_OS_ERRNO, &number);
    if (transfer->is_too_large)
        return "the answer is too large";
    if (transfer->is_resent || why == CURLE_GOT_NOTHING)
        return "the connection was lost";
    if (why == CURLE_OPERATION_TIMEDOUT)
        return was_sent ? "no answer in time" : "no connection in time";
    if (why == CURLE_COULDNT_CONNECT && (number || transfer->no_socket))
        return strerror(transfer->no_socket ? transfer->no_socket : (int)number);
    return transfer->trouble[0] ? transfer->trouble : curl_easy_strerror(why);
}

int
dibs__http_transfer_fail(const struct transfer *transfer, CURLcode why, int code,
                         dibs_error *err)
{
    int was_sent = dibs__http_transfer_was_sent(transfer);
    const char *where = transfer->http->servers[transfer->server].where;
    if (why == CURLE_OUT_OF_MEMORY && !was_sent)
        return transfer->http->host->fail(err, DIBS_ENOMEM, "out of memory");
    if (why == CURLE_PEER_FAILED_VERIFICATION || why == CURLE_SSL_CERTPROBLEM ||
        why == CURLE_SSL_CACERT_BADFILE || why == CURLE_SSL_CONNECT_ERROR ||
        is_about_us(transfer->trouble))
        return fail_tls(transfer, why, code, err);
    return transfer->http->host->fail(err, code, "%s: %s", where,
                                      reason(transfer, why, was_sent));
}
