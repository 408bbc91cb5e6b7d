/* SPDX-License-Identifier: MIT */
/* What the files of this folder share, and their users need not know. */
#ifndef DIBS_HTTP_PARTS_H
#define DIBS_HTTP_PARTS_H

#include <pthread.h>
#include <stdatomic.h>

#include <curl/curl.h>

#include "http/http.h"

#define ANSWER_MAX ((size_t)64 << 20) /* larger answers are refused */

/* ---- servers (servers.c) ---- */

struct http_server {
    char where[300]; /* "10.0.0.2:2379", for people */
    char url[600];   /* "https://NAME:PORT/" */
    char route[900]; /* for libcurl, if NAME is not the host; "": it is */
};

int dibs__http_servers_parse(http *http, const char *hosts, dibs_error *err);

/* first is the index of the server that is asked first; failed says that a server did not
 * answer, so that another one is asked first, if that one was. */
unsigned dibs__http_first(http *http);
void dibs__http_failed(http *http, unsigned server);

/* ---- descriptors (fds.c) ---- */

/* All sockets that are open, so that a child can find them without any lock. */
#define FDS_PER_BLOCK 61
struct fds {
    _Atomic int fds[FDS_PER_BLOCK]; /* one more than the descriptor; 0: free */
    struct fds *_Atomic next;
};

int dibs__http_fds_add(http *http, int fd);
void dibs__http_fds_drop(http *http, int fd);
/* In a child: whoever closes or writes to them reaches nobody any more. */
void dibs__http_fds_deaden(http *http);
void dibs__http_fds_free(http *http);

/* ---- transfers (easy.c) ---- */

/* One handle of libcurl's. A transfer that is used again is set up by what changes only. */
struct transfer {
    http *http;
    CURL *easy;
    CURLM *multi;          /* that a call runs it in, with its connections; may be NULL */
    struct transfer *next; /* in the pool */
    unsigned server;       /* the one it is set up for; of none: http->count */
    uint64_t edition;      /* of the header it is set up with; 0: not at all */
    struct curl_slist *headers, *route;
    char method[8];   /* it is set up with; "": none */
    int is_resent;    /* libcurl wanted to send the request again, and was not let */
    int no_socket;    /* an errno: why there is none to connect with */
    int is_too_large; /* the answer */
    int has_begun;    /* all headers of the answer came */
    uint64_t index;
    char *text; /* the answer so far */
    size_t len, room;
    char trouble[CURL_ERROR_SIZE];
};

struct transfer *dibs__http_transfer_new(http *http);
void dibs__http_transfer_free(struct transfer *transfer);

/* prepare sets a transfer up for a request to a server. limit_ms: in which the answer must
 * be there (0: any time), connect_ms: the connection. DIBS_OK, ENOMEM. */
int dibs__http_transfer_prepare(struct transfer *transfer, const http_request *request,
                                unsigned server, int64_t limit_ms, int64_t connect_ms);

/* was_sent: some of the request was, so it may have been done. */
int dibs__http_transfer_was_sent(const struct transfer *transfer);

/* fail explains why it failed with this code of libcurl's, for people, and returns `code`,
 * or EDENIED or ECONFIG if it is about certificates. */
int dibs__http_transfer_fail(const struct transfer *transfer, CURLcode why, int code,
                             dibs_error *err);

/* The value of the header X-Consul-Index, if the line is that; else `index`. */
uint64_t dibs__http_index_of(const char *line, size_t len, uint64_t index);

/* ---- the pool (pool.c) ---- */

struct transfer *dibs__http_take(http *http);
void dibs__http_give_back(struct transfer *transfer);

/* ---- streams (stream.c) ---- */

struct streams;
void dibs__http_streams_free(http *http, int forked);

/* ---- the client ---- */

struct http {
    const dibs_host *host;
    http_settings settings;
    unsigned count;
    struct http_server *servers;
    _Atomic unsigned first;
    _Atomic int64_t turned; /* when `first` changed last */

    pthread_mutex_t mutex; /* for what follows */
    struct transfer *idle; /* the one that was used last is on top */
    unsigned idle_count;
    char *header;             /* NULL: none */
    _Atomic uint64_t edition; /* of it; changed with the mutex held */
    struct streams *streams;  /* NULL: none was opened yet */

    struct fds fds;
};

#endif /* DIBS_HTTP_PARTS_H */
