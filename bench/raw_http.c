/* SPDX-License-Identifier: MIT */
/* Requests by hand with libcurl: see raw_http.h. */
#include <curl/curl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "raw_http.h"

struct raw_http {
    CURL *easy;
    struct curl_slist *headers;
    char base[64];
    char error[CURL_ERROR_SIZE];
    char *answer; /* NUL-terminated */
    size_t len, room;
    unsigned long index;
};

static size_t
take(char *data, size_t one, size_t len, void *context)
{
    raw_http *h = context;

    (void)one;
    while (h->len + len + 1 > h->room) {
        h->room = h->room == 0 ? 4096 : 2 * h->room;
        h->answer = realloc(h->answer, h->room);
        if (h->answer == NULL)
            bench_die("out of memory");
    }
    memcpy(h->answer + h->len, data, len);
    h->len += len;
    h->answer[h->len] = 0;
    return len;
}

static size_t
take_header(char *data, size_t one, size_t len, void *context)
{
    static const char name[] = "X-Consul-Index:";
    raw_http *h = context;

    (void)one;
    if (len > strlen(name) && strncasecmp(data, name, strlen(name)) == 0)
        h->index = strtoul(data + strlen(name), NULL, 10);
    return len;
}

raw_http *
raw_http_open(const server *s)
{
    raw_http *h = calloc(1, sizeof *h);

    if (h == NULL || (h->easy = curl_easy_init()) == NULL)
        bench_die("out of memory");
    snprintf(h->base, sizeof h->base, "http://127.0.0.1:%d", s->port);
    h->headers = curl_slist_append(NULL, "Content-Type: application/json");
    curl_easy_setopt(h->easy, CURLOPT_HTTPHEADER, h->headers);
    curl_easy_setopt(h->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(h->easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(h->easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(h->easy, CURLOPT_ERRORBUFFER, h->error);
    curl_easy_setopt(h->easy, CURLOPT_WRITEFUNCTION, take);
    curl_easy_setopt(h->easy, CURLOPT_WRITEDATA, h);
    curl_easy_setopt(h->easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(h->easy, CURLOPT_HEADERDATA, h);
    return h;
}

void
raw_http_close(raw_http *h)
{
    curl_easy_cleanup(h->easy);
    curl_slist_free_all(h->headers);
    free(h->answer);
    free(h);
}

const char *
raw_http_try(raw_http *h, const char *method, const char *path, const char *body)
{
    char url[512];
    long status = 0;

    snprintf(url, sizeof url, "%s%s", h->base, path);
    curl_easy_setopt(h->easy, CURLOPT_URL, url);
    if (strcmp(method, "GET") == 0)
        curl_easy_setopt(h->easy, CURLOPT_HTTPGET, 1L);
    else
        curl_easy_setopt(h->easy, CURLOPT_POSTFIELDS, body != NULL ? body : "");
    curl_easy_setopt(h->easy, CURLOPT_CUSTOMREQUEST, method);
    h->len = 0;
    h->index = 0;
    h->error[0] = 0;
    (void)take((char[]){ 0 }, 1, 0, h);
    if (curl_easy_perform(h->easy) != CURLE_OK)
        return NULL;
    curl_easy_getinfo(h->easy, CURLINFO_RESPONSE_CODE, &status);
    return status == 200 ? h->answer : NULL;
}

const char *
raw_http_ask(raw_http *h, const char *method, const char *path, const char *body)
{
    const char *answer = raw_http_try(h, method, path, body);

    if (answer == NULL)
        bench_die("%s %s: %s", method, path, h->error[0] != 0 ? h->error : h->answer);
    return answer;
}

unsigned long
raw_http_index(const raw_http *h)
{
    return h->index;
}

void
raw_field(char *out, size_t size, const char *answer, const char *name)
{
    char quoted[64];
    const char *at;
    size_t len;

    snprintf(quoted, sizeof quoted, "\"%s\":", name);
    at = strstr(answer, quoted);
    if (at == NULL)
        bench_die("no %s in what the server says: %s", quoted, answer);
    at += strlen(quoted);
    at += strspn(at, " \"");
    len = strcspn(at, "\",}\n");
    if (len >= size)
        bench_die("%s is too long in what the server says: %s", quoted, answer);
    memcpy(out, at, len);
    out[len] = 0;
}

void
raw_base64(char *out, size_t size, const char *text)
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t len = strlen(text), used = 0;

    if ((len + 2) / 3 * 4 >= size)
        bench_die("no room for %s in base64", text);
    for (size_t i = 0; i < len; i += 3) {
        unsigned bits = 0;

        for (size_t byte = 0; byte < 3; byte++)
            bits = bits << 8 | (i + byte < len ? (unsigned char)text[i + byte] : 0);
        for (size_t digit = 0; digit < 4; digit++)
            out[used++] = i + digit > len ? '=' : digits[bits >> (6 * (3 - digit)) & 63];
    }
    out[used] = 0;
}

double
raw_sum(const char *metrics, const char *begin, const char *part, const char *but)
{
    double sum = 0;

    for (const char *line = metrics; line != NULL && *line != 0;) {
        const char *end = strchr(line, '\n');
        char text[512];

        snprintf(text, sizeof text, "%.*s", (int)(end == NULL ? 511 : end - line), line);
        if (strncmp(text, begin, strlen(begin)) == 0 && strstr(text, part) != NULL &&
            (but == NULL || strstr(text, but) == NULL) && strrchr(text, ' ') != NULL)
            sum += strtod(strrchr(text, ' '), NULL);
        line = end == NULL ? NULL : end + 1;
    }
    return sum;
}
