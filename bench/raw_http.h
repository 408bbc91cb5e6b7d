/* SPDX-License-Identifier: MIT */
/*
 * Requests as people write them by hand with libcurl, on one kept connection: the floor of
 * the engines that speak HTTP, and how their servers are asked about themselves.
 */
#ifndef DIBS_BENCH_RAW_HTTP_H
#define DIBS_BENCH_RAW_HTTP_H

#include "logs.h"

typedef struct raw_http raw_http;

raw_http *raw_http_open(const server *s);
void raw_http_close(raw_http *h);

/* raw_http_ask sends it, and returns the answer, which is good until the next; `body` NULL:
 * none. Dies if the server does not answer with 200. raw_http_try returns NULL then. */
const char *raw_http_ask(raw_http *h, const char *method, const char *path,
                         const char *body);
const char *raw_http_try(raw_http *h, const char *method, const char *path,
                         const char *body);
/* raw_http_index returns the X-Consul-Index of the last answer; 0: it had none. */
unsigned long raw_http_index(const raw_http *h);

/* raw_field copies the first value of that name in an answer in JSON: a number, or a text
 * without quotes in it. Dies if there is none. */
void raw_field(char *out, size_t size, const char *answer, const char *name);

/* raw_base64 encodes a text. */
void raw_base64(char *out, size_t size, const char *text);

/* raw_sum adds up the values of all lines of metrics, as Prometheus has them, that begin
 * with `begin` and have `part` in their name, but not `but` (NULL: no such). */
double raw_sum(const char *metrics, const char *begin, const char *part, const char *but);

#endif /* DIBS_BENCH_RAW_HTTP_H */
