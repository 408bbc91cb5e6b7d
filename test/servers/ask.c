/* SPDX-License-Identifier: MIT */
/*
 * Commands to a server, over a plain connection of our own for each. What is tested here
 * is another program that speaks the same protocol, so this shares no code with it.
 *
 * Where the server has an ACL file, we are the user "tests"; server.c adds it there.
 */
#include "servers.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "parts.h"

#define LIMIT_S 5
#define DEPTH_MAX 8

static int
connect_to(const server *to)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)to->port) };
    struct timeval limit = { LIMIT_S * slow_factor(), 0 };
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

static int
send_words(int fd, const char *const *words)
{
    char *text = NULL;
    size_t size;
    int count = 0;
    while (words[count] != NULL) {
        count++;
    }
    FILE *to = open_memstream(&text, &size);
    CHECK(to != NULL);
    fprintf(to, "*%d\r\n", count);
    for (int i = 0; i < count; i++) {
        fprintf(to, "$%zu\r\n%s\r\n", strlen(words[i]), words[i]);
    }
    fclose(to);
    ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
    free(text);
    return sent == (ssize_t)size;
}

/* a line without its end; 0 if the connection is over */
static int
read_line(FILE *from, char *line, size_t size)
{
    if (fgets(line, (int)size, from) == NULL) {
        return 0;
    }
    line[strcspn(line, "\r\n")] = '\0';
    return 1;
}

static int
copy_bulk(FILE *to, FILE *from, long len)
{
    for (long i = 0; i < len; i++) {
        int c = getc(from);
        if (c == EOF) {
            return 0;
        }
        putc(c, to);
    }
    return getc(from) == '\r' && getc(from) == '\n';
}

/* prints one answer as servers.h says; 0 if it does not come whole */
static int
print_answer(FILE *to, FILE *from, int depth)
{
    char line[1024];
    if (depth > DEPTH_MAX || !read_line(from, line, sizeof(line))) {
        return 0;
    }
    long len = strtol(line + 1, NULL, 10);
    if ((line[0] == '$' || line[0] == '*') && len < 0) {
        fputs("(nil)", to);
        return 1;
    }
    if (line[0] == '$') {
        return copy_bulk(to, from, len);
    }
    if (line[0] != '*') {
        fputs(line[0] == '-' ? line : line + 1, to);
        return 1;
    }
    for (long i = 0; i < len; i++) {
        if (i > 0) {
            putc('\n', to);
        }
        if (!print_answer(to, from, depth + 1)) {
            return 0;
        }
    }
    return 1;
}

static char *
read_answer(FILE *from)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    CHECK(to != NULL);
    int whole = print_answer(to, from, 0);
    fclose(to);
    if (!whole) {
        free(text);
        return NULL;
    }
    return text;
}

static char *
ask_on(int fd, FILE *from, const char *const *words)
{
    return send_words(fd, words) ? read_answer(from) : NULL;
}

static int
sign_in(int fd, FILE *from)
{
    const char *const words[] = { "AUTH", TESTS_USER, TESTS_PASSWORD, NULL };
    char *text = ask_on(fd, from, words);
    int fine = text != NULL && strcmp(text, "OK") == 0;
    free(text);
    return fine;
}

char *
server_ask_words(const server *to, const char *const *words)
{
    int fd = connect_to(to);
    if (fd < 0) {
        return NULL;
    }
    FILE *from = fdopen(fd, "r");
    CHECK(from != NULL);
    char *text = NULL;
    if (to->options.acl == NULL || sign_in(fd, from)) {
        text = ask_on(fd, from, words);
    }
    fclose(from);
    return text;
}

static char *
ask_surely(const server *to, const char *const *words)
{
    char *text = server_ask_words(to, words);
    if (text == NULL || text[0] == '-') {
        FAIL("the server at port %d answers %s with %s", to->port, words[0],
             text != NULL ? text : "nothing");
    }
    return text;
}

void
server_do_words(const server *to, const char *const *words)
{
    free(ask_surely(to, words));
}

int64_t
server_number_words(const server *to, const char *const *words)
{
    char *text = ask_surely(to, words), *end = text;
    int64_t number = strtoll(text, &end, 10);
    if (end == text || *end != '\0') {
        FAIL("the server answers %s with %s, which is no number", words[0], text);
    }
    free(text);
    return number;
}

int
server_answers_words(const server *to, const char *part, const char *const *words)
{
    char *text = server_ask_words(to, words);
    int found = text != NULL && strstr(text, part) != NULL;
    free(text);
    return found;
}

void
server_cut(const server *to)
{
    server_do(to, "CLIENT", "KILL", "TYPE", "normal");
    server_do(to, "CLIENT", "KILL", "TYPE", "pubsub");
}

int
server_count_keys(const server *to)
{
    static const char script[] =
        "local other = { clock = 1, born = 1, token = 1, cell = 1, fence = 1 } "
        "local count = 0 "
        "for _, key in ipairs(redis.call('KEYS', '*')) do "
        "  local kind, behind = key:match('^dibs:(%a+)(.?)') "
        "  if not (other[kind] and (behind == '' or behind == ':')) and "
        "     key:sub(1, 22) ~= 'redisson_unlock_latch:' and "
        "     key:sub(1, 20) ~= 'redisson_lock_token:' then "
        "    count = count + 1 "
        "  end "
        "end "
        "return count";
    return (int)server_number(to, "EVAL", script, "0");
}

void
server_show_keys(const server *to)
{
    static const char script[] =
        "local text = '' "
        "for _, key in ipairs(redis.call('KEYS', '*')) do "
        "  text = text .. redis.call('TYPE', key).ok .. ' ' .. "
        "         redis.call('PTTL', key) .. ' ms ' .. key .. '\\n' "
        "end "
        "return text";
    char *text = server_ask(to, "EVAL", script, "0");
    fprintf(stderr, "the keys of the server at port %d:\n%s", to->port,
            text != NULL ? text : "it does not answer\n");
    free(text);
}

int
server_is_master(const server *to)
{
    char *text = server_ask(to, "ROLE");
    int is = text != NULL && strncmp(text, "master", 6) == 0;
    free(text);
    return is;
}
