/* SPDX-License-Identifier: MIT */
/* Requests over HTTP, each on a connection of its own, and the little of JSON that tests
 * look at. It shares no code with what is tested. See parts.h. */
#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "parts.h"

/* one that is just starting may accept a connection and never answer on it */
#define READY_LIMIT_MS 500
#define AGAIN_AFTER_MS 50
#define CANNOT 500 /* this status, and all above, are the server's trouble */

static int
connect_to(int port, int64_t limit_ms)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    struct timeval limit = { limit_ms / 1000, limit_ms % 1000 * 1000 };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

/* of the old version: the answer ends with the connection and comes in one piece */
static int
send_request(int fd, const struct http_request *request)
{
    const char *body = request->body != NULL ? request->body : "";
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    CHECK(to != NULL);
    fprintf(to, "%s %s HTTP/1.0\r\nHost: 127.0.0.1\r\nContent-Length: %zu\r\n",
            request->method, request->path, strlen(body));
    if (request->header != NULL) {
        fprintf(to, "%s\r\n", request->header);
    }
    fprintf(to, "\r\n%s", body);
    fclose(to);
    ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
    free(text);
    return sent == (ssize_t)size;
}

/* all until the end; NULL if that does not come */
static char *
read_all(int fd)
{
    char part[4096], *text = NULL;
    size_t size;
    ssize_t n;
    FILE *to = open_memstream(&text, &size);
    CHECK(to != NULL);
    while ((n = recv(fd, part, sizeof(part), 0)) > 0) {
        (void)fwrite(part, 1, (size_t)n, to);
    }
    fclose(to);
    if (n < 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* the body of an answer, and its status */
static char *
take_body(char *answer, int *status)
{
    const char *body = answer != NULL ? strstr(answer, "\r\n\r\n") : NULL;
    int number = 0;
    if (body == NULL || sscanf(answer, "HTTP/%*s %d", &number) != 1) {
        free(answer);
        return NULL;
    }
    if (status != NULL) {
        *status = number;
    }
    memmove(answer, body + 4, strlen(body + 4) + 1);
    return answer;
}

char *
http_ask(const server *to, const struct http_request *request, int *status)
{
    int fd = connect_to(to->port, request->limit_ms);
    if (fd < 0) {
        return NULL;
    }
    char *answer = send_request(fd, request) ? read_all(fd) : NULL;
    close(fd);
    return take_body(answer, status);
}

char *
http_insist(const server *to, const struct http_request *request, int *status)
{
    int64_t until = now_ms() + request->limit_ms;
    char *answer = http_ask(to, request, status);
    while (answer != NULL && *status >= CANNOT && now_ms() < until) {
        free(answer);
        sleep_ms(AGAIN_AFTER_MS);
        answer = http_ask(to, request, status);
    }
    return answer;
}

int
http_says(const server *to, const char *path, const char *part)
{
    struct http_request request = { .method = "GET",
                                    .path = path,
                                    .limit_ms = slowly(READY_LIMIT_MS) };
    int status = 0;
    char *text = http_ask(to, &request, &status);
    int found = text != NULL && status == 200 && strstr(text, part) != NULL;
    free(text);
    return found;
}

/* behind the colon of a member */
static const char *
find_member(const char *from, const char *name)
{
    char mark[64];
    (void)snprintf(mark, sizeof(mark), "\"%s\":", name);
    const char *at = strstr(from, mark);
    return at != NULL ? at + strlen(mark) + strspn(at + strlen(mark), " ") : NULL;
}

const char *
json_text(const char *from, const char *name, size_t *len)
{
    const char *at = find_member(from, name);
    if (at == NULL || *at != '"') {
        return NULL;
    }
    *len = strcspn(at + 1, "\"");
    return at + 1;
}

int64_t
json_number(const char *from, const char *name)
{
    const char *at = find_member(from, name);
    return at != NULL ? strtoll(at + (*at == '"'), NULL, 10) : 0;
}
