/* SPDX-License-Identifier: MIT */
/*
 * HTTP and JSON, for the engines etcd and consul: one client of a few equal servers. It
 * knows nothing of locks.
 *
 * call.c asks and waits for the answer, in the caller's thread, on a connection of its own
 * that is kept for the next call. pool.c keeps those connections; servers.c knows which
 * server is asked first. stream.c has the requests whose answers come bit by bit, or late:
 * they share one thread, which starts with the first of them. easy.c sets up a transfer of
 * libcurl's (TLS, headers, time limits), for both. fds.c knows the sockets, for a fork's
 * child. text.c writes what is sent, json.c and base64.c read what comes.
 */
#ifndef DIBS_HTTP_H
#define DIBS_HTTP_H

#include <jansson.h>

#include <dibs/engine.h>

typedef struct http http;
typedef struct http_stream http_stream;
typedef struct http_text http_text;

/* ---- the client ---- */

/* Everything outlives the client. */
typedef struct http_settings {
    const dibs_host *host;
    const char *hosts; /* "h1:1,h2,[v6]:3"; "" is 127.0.0.1 */
    uint16_t port;     /* of those without */
    int tls;
    const char *ca, *cert, *key; /* names of files, or NULL */
    const char *name;            /* is verified instead of the host; NULL: the host */
    int insecure;                /* do not verify the server */
} http_settings;

/* read_tls fills in what the parameters ca, cert, key, name and insecure say (`host` is set),
 * which belong to a URL with that scheme only. DIBS_OK, ECONFIG. */
int dibs__http_read_tls(http_settings *out, const dibs_url_parts *url,
                        const char *tls_scheme, dibs_error *err);

/* Does not connect: the first call does, within its deadline. DIBS_OK, ECONFIG (a host that
 * is none, a file that cannot be read), ENOMEM. free wants no call under way, and ends all
 * streams; `forked`: we are in a child, so the servers are told nothing. */
int dibs__http_new(http **out, const http_settings *settings, dibs_error *err);
void dibs__http_free(http *http, int forked);

/* A header line for all requests from now on ("Authorization: ..."), in place of the one
 * before; NULL: none. Never printed. */
int dibs__http_set_header(http *http, const char *line);

/* ---- asking ---- */

enum http_flag {
    HTTP_REPEATABLE = 1u << 0, /* may be done twice: asked again, elsewhere, if no answer
                                * comes, as often as the deadline allows */
    HTTP_ANONYMOUS = 1u << 2,  /* without the header of dibs__http_set_header */
    HTTP_2 = 1u << 1           /* for streams: speaks HTTP/2 from the start, and can be
                                * said more while the answer comes; which has to begin
                                * within a few seconds */
};

typedef struct http_request {
    const char *method; /* "GET", "PUT", "POST", "DELETE" */
    const char *path;   /* with query, encoded: "/v1/kv/a%2Fb?raw" */
    const char *body;   /* NULL: none */
    size_t body_len;
    const char *const *headers; /* NULL-terminated lines of this request; NULL: none */
    unsigned flags;             /* enum http_flag */
    int64_t delay_ms;           /* for streams: is sent that much later */
} http_request;

typedef struct http_answer {
    int status; /* 200, ... */
    char *text; /* the body, NUL-terminated; never NULL after DIBS_OK */
    size_t len;
    json_t *json;   /* the body as JSON; NULL: it is none. Integers beyond 64 bits with
                          * a sign are strings */
    uint64_t index; /* of the header X-Consul-Index; 0: none */
    int may_be_repeated; /* HTTP_REPEATABLE, and an earlier try may have been done, too */
} http_answer;

/* call asks the server that answered last; the others, if that one cannot be reached.
 *   DIBS_OK: there is an answer, whatever its status; free it.
 *   EUNAVAIL: surely not sent. EUNKNOWN: sent, but no answer came (never with
 *   HTTP_REPEATABLE: then it is EUNAVAIL). EDENIED: a certificate is not trusted, by us or
 *   by them. ECONFIG: our own cannot be used. ENOMEM. The text says which server, and what
 *   went wrong; one that did not answer is not asked first the next time.
 * Any number of threads. */
int dibs__http_call(http *http, const http_request *request, http_answer *answer,
                    dibs_time deadline, dibs_error *err);
void dibs__http_answer_free(http_answer *answer);

/* json reads a body, for those of streams; `text` is NUL-terminated behind `len`. NULL: it is
 * no JSON. */
json_t *dibs__http_json(const char *text, size_t len);

/* avoid: the server that is asked first says that it cannot serve us now (it has no leader,
 * say): ask another one first from now on. */
void dibs__http_avoid(http *http);

/* The server that is asked first, for people: "10.0.0.2:2379". */
void dibs__http_server(http *http, char *out, size_t size);

/* escape writes bytes as a part of a path or a query: all but letters, digits and "-._~"
 * are %XX. `out` has room for 3 * len + 1. */
void dibs__http_escape(char *out, const char *bytes, size_t len);

/* base64 writes bytes as JSON has them, and returns the length; `out` has room for
 * HTTP_BASE64_SIZE(len). unbase64 undoes it and returns the length, or -1: it is none; `out`
 * has room for len / 4 * 3. */
#define HTTP_BASE64_SIZE(len) (((len) + 2) / 3 * 4 + 1)
size_t dibs__http_base64(char *out, const void *bytes, size_t len);
int64_t dibs__http_unbase64(void *out, const char *text, size_t len);

/* ---- what is sent ---- */

/* A text that grows; bytes and add add to it as they are, string (UTF-8) and base64 as JSON
 * has them. move adds another one, and frees it. What is lacking
 * because there was no memory is remembered, so nothing else needs to be checked: get returns
 * NULL then, and so it does for NULL, which is a text that new could not make. */
http_text *dibs__http_text_new(void);
void dibs__http_text_free(http_text *text);
void dibs__http_text_bytes(http_text *text, const char *bytes, size_t len);
void dibs__http_text_add(http_text *text, const char *words);
void dibs__http_text_string(http_text *text, const char *words, size_t len);
void dibs__http_text_base64(http_text *text, const void *bytes, size_t len);
void dibs__http_text_number(http_text *text, uint64_t number);
void dibs__http_text_move(http_text *text, http_text *from);
const char *dibs__http_text_get(const http_text *text, size_t *len);

/* ---- streams ---- */

/* Called on the thread of the streams. They may ring bells, say more, and take mutexes that
 * are not held while streams are opened or closed; nothing that waits. `heard` gets the
 * body as it comes, in pieces of any size. `ended` comes once, last: the answer is complete
 * (status is not 0), or the connection was lost or could not be made (0); it may open other
 * streams, and close its own. `trailer` gets each header line of the answer, those behind
 * the body as well; may be NULL. `tick` comes every second or two while an HTTP_2 stream
 * stands, and at other times too; may be NULL. */
typedef struct http_events {
    void (*heard)(void *context, const char *bytes, size_t len);
    void (*trailer)(void *context, const char *line, size_t len);
    void (*ended)(void *context, int status, uint64_t index);
    void (*tick)(void *context);
} http_events;

/* open sends a request to the server that is asked first, and returns at once. The request's
 * memory may go away; limit_ms ends it after that long (0: never). DIBS_OK, ENOMEM.
 * say adds to what is sent (HTTP_2): copied; DIBS_OK, ENOMEM. drop ends it soon, as if the
 * connection was lost: `ended` follows; it does not wait. close ends it, also after `ended`:
 * then no event is under way any more, and none comes. From no event but its own `ended`. */
int dibs__http_stream_open(http *http, const http_request *request, int64_t limit_ms,
                           const http_events *events, void *context, http_stream **out);
int dibs__http_stream_say(http_stream *stream, const void *bytes, size_t len);
void dibs__http_stream_drop(http_stream *stream);
void dibs__http_stream_close(http_stream *stream);

#endif /* DIBS_HTTP_H */
