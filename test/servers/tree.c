/* SPDX-License-Identifier: MIT */
/*
 * A small client of ZooKeeper for tests, over a plain connection, one request at a time.
 * The library that is tested uses another program for this, so the two share no mistakes.
 *
 * A message is its length in four bytes and then that many; numbers are big-endian, texts
 * have their length before them. See servers.h.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "parts.h"

#define MESSAGE_MAX (1 << 20)
#define LIMIT_MS 5000
#define NODE_PATH_MAX 2048
#define DEPTH_MAX 12

enum {
    XID_EVENT = -1,
    XID_PING = -2,
    XID_AUTH = -4,
    OP_CREATE = 1,
    OP_DELETE = 2,
    OP_EXISTS = 3,
    OP_READ = 4,
    OP_CHILDREN = 8,
    OP_PING = 11,
    OP_CONTAINER = 19,
    OP_AUTH = 100,
    OP_CLOSE = -11
};

/* ---- messages ---- */

/* a message that is being written or read; `at` is where the next field goes or is */
struct message {
    size_t len, at;
    char bytes[];
};

static struct message *
new_message(size_t len)
{
    struct message *new = calloc(1, sizeof(*new) + len);
    CHECK(new != NULL);
    new->len = len;
    return new;
}

static void
put(struct message *to, const void *bytes, size_t len)
{
    CHECK(to->at + len <= to->len);
    memcpy(to->bytes + to->at, bytes, len);
    to->at += len;
}

static void
put_int(struct message *to, int32_t value)
{
    uint32_t wire = htobe32((uint32_t)value);
    put(to, &wire, sizeof(wire));
}

static void
put_long(struct message *to, int64_t value)
{
    uint64_t wire = htobe64((uint64_t)value);
    put(to, &wire, sizeof(wire));
}

static void
put_text(struct message *to, const char *text)
{
    put_int(to, (int32_t)strlen(text));
    put(to, text, strlen(text));
}

static void
get(void *out, struct message *from, size_t len)
{
    CHECK(from->at + len <= from->len);
    memcpy(out, from->bytes + from->at, len);
    from->at += len;
}

static int32_t
get_int(struct message *from)
{
    uint32_t wire;
    get(&wire, from, sizeof(wire));
    return (int32_t)be32toh(wire);
}

static int64_t
get_long(struct message *from)
{
    uint64_t wire;
    get(&wire, from, sizeof(wire));
    return (int64_t)be64toh(wire);
}

/* a text for free() */
static char *
get_text(struct message *from)
{
    int32_t len = get_int(from);
    size_t size = len > 0 ? (size_t)len : 0;
    char *text = calloc(1, size + 1);
    CHECK(text != NULL);
    get(text, from, size);
    return text;
}

/* ---- the connection ---- */

static int
send_message(int fd, const struct message *what)
{
    uint32_t wire = htobe32((uint32_t)what->at);
    char *whole = malloc(sizeof(wire) + what->at);
    CHECK(whole != NULL);
    memcpy(whole, &wire, sizeof(wire));
    memcpy(whole + sizeof(wire), what->bytes, what->at);
    ssize_t len = (ssize_t)(sizeof(wire) + what->at);
    int fine = send(fd, whole, (size_t)len, MSG_NOSIGNAL) == len;
    free(whole);
    return fine;
}

static struct message *
receive_message(int fd)
{
    uint32_t wire;
    if (recv(fd, &wire, sizeof(wire), MSG_WAITALL) != (ssize_t)sizeof(wire)) {
        return NULL;
    }
    size_t len = be32toh(wire);
    CHECK(len < MESSAGE_MAX);
    struct message *new = new_message(len);
    if (recv(fd, new->bytes, len, MSG_WAITALL) != (ssize_t)len) {
        free(new);
        return NULL;
    }
    return new;
}

static void
limit_fd(int fd, int64_t limit_ms)
{
    struct timeval limit = { limit_ms / 1000, limit_ms % 1000 * 1000 };
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

void
tree_limit(const tree *on, int64_t limit_ms)
{
    limit_fd(on->fd, limit_ms);
}

static int
connect_to(int port)
{
    struct sockaddr_in address = { .sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)port) };
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    limit_fd(fd, slowly(LIMIT_MS));
    if (connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static struct message *
shake_hands(int fd, int timeout_ms)
{
    static const char no_password[16];
    struct message *hello = new_message(64);
    put_int(hello, 0); /* the version of the protocol */
    put_long(hello, 0);
    put_int(hello, timeout_ms);
    put_long(hello, 0);
    put_int(hello, (int32_t)sizeof(no_password));
    put(hello, no_password, sizeof(no_password));
    put(hello, "", 1); /* not to a server that only reads */
    int sent = send_message(fd, hello);
    free(hello);
    return sent ? receive_message(fd) : NULL;
}

int
tree_open(tree *out, int port, int timeout_ms)
{
    memset(out, 0, sizeof(*out));
    out->fd = connect_to(port);
    if (out->fd < 0) {
        return TREE_GONE;
    }
    struct message *welcome = shake_hands(out->fd, timeout_ms);
    if (welcome == NULL) {
        tree_leave(out);
        return TREE_GONE;
    }
    (void)get_int(welcome);
    out->timeout_ms = get_int(welcome);
    out->session = get_long(welcome);
    free(welcome);
    return 0;
}

void
tree_leave(tree *old)
{
    if (old->fd >= 0) {
        close(old->fd);
    }
    old->fd = -1;
}

/* ---- requests ---- */

static struct message *
new_request(tree *from, int op, size_t body)
{
    struct message *new = new_message(8 + body);
    put_int(new, op == OP_PING ? XID_PING : op == OP_AUTH ? XID_AUTH : ++from->xid);
    put_int(new, op);
    return new;
}

/* sends a request, which it frees; *answer, if the code is 0, stands behind the header */
static int
ask(tree *to, struct message *request, struct message **answer)
{
    int sent = to->fd >= 0 && send_message(to->fd, request);
    free(request);
    struct message *got = sent ? receive_message(to->fd) : NULL;
    if (got == NULL) {
        tree_leave(to);
        return TREE_GONE;
    }
    CHECK(get_int(got) != XID_EVENT);
    (void)get_long(got);
    int code = get_int(got);
    if (code == 0 && answer != NULL) {
        *answer = got;
    } else {
        free(got);
    }
    return code;
}

void
tree_close(tree *old)
{
    (void)ask(old, new_request(old, OP_CLOSE, 0), NULL);
    tree_leave(old);
}

int
tree_ping(tree *on)
{
    return ask(on, new_request(on, OP_PING, 0), NULL);
}

int
tree_sign_in(tree *on, const char *user_password)
{
    struct message *request = new_request(on, OP_AUTH, 64 + strlen(user_password));
    put_int(request, 0);
    put_text(request, "digest");
    put_text(request, user_password);
    return ask(on, request, NULL);
}

int
tree_make(tree *on, const char *path, const char *data, int flags, char *made,
          size_t size)
{
    struct message *answer = NULL,
                   *request =
                       new_request(on, flags == TREE_CONTAINER ? OP_CONTAINER : OP_CREATE,
                                   128 + strlen(path) + strlen(data));
    put_text(request, path);
    put_text(request, data);
    put_int(request, 1); /* all rights for all */
    put_int(request, 31);
    put_text(request, "world");
    put_text(request, "anyone");
    put_int(request, flags);
    int code = ask(on, request, &answer);
    if (code == 0) {
        char *name = get_text(answer);
        if (made != NULL) {
            (void)snprintf(made, size, "%s", name);
        }
        free(name);
        free(answer);
    }
    return code;
}

int
tree_delete(tree *on, const char *path)
{
    struct message *request = new_request(on, OP_DELETE, 16 + strlen(path));
    put_text(request, path);
    put_int(request, -1); /* of any version */
    return ask(on, request, NULL);
}

/* what asks with a path and whether to watch it */
static int
look(struct message **answer, tree *on, int op, const char *path)
{
    struct message *request = new_request(on, op, 16 + strlen(path));
    put_text(request, path);
    put(request, "", 1);
    return ask(on, request, answer);
}

int
tree_stat_of(tree *on, const char *path, tree_stat *out)
{
    struct message *answer = NULL;
    int code = look(&answer, on, OP_EXISTS, path);
    if (code != 0) {
        return code;
    }
    out->czxid = get_long(answer);
    out->mzxid = get_long(answer);
    out->ctime_ms = get_long(answer);
    answer->at += 8; /* mtime */
    out->version = get_int(answer);
    answer->at += 8; /* cversion, aversion */
    out->owner = get_long(answer);
    answer->at += 4; /* length of the data */
    out->child_count = get_int(answer);
    free(answer);
    return 0;
}

char *
tree_read(tree *on, const char *path, int *code)
{
    struct message *answer = NULL;
    char *text = NULL;
    int got = look(&answer, on, OP_READ, path);
    if (got == 0) {
        text = get_text(answer);
        free(answer);
    }
    if (code != NULL) {
        *code = got;
    }
    return text;
}

static char *
print_names(struct message *from)
{
    char *text = NULL;
    size_t size;
    FILE *to = open_memstream(&text, &size);
    CHECK(to != NULL);
    for (int32_t left = get_int(from); left > 0; left--) {
        char *name = get_text(from);
        fprintf(to, "%s\n", name);
        free(name);
    }
    fclose(to);
    return text;
}

char *
tree_children(tree *on, const char *path, int *code)
{
    struct message *answer = NULL;
    char *text = NULL;
    int got = look(&answer, on, OP_CHILDREN, path);
    if (got == 0) {
        text = print_names(answer);
        free(answer);
    }
    if (code != NULL) {
        *code = got;
    }
    return text;
}

/* ---- whole trees ---- */

/* counts the ephemeral nodes below a path, and prints all if it is told to */
static int
walk(tree *on, const char *path, FILE *print, int depth)
{
    char below[NODE_PATH_MAX];
    tree_stat stat;
    int count = 0;
    CHECK(depth < DEPTH_MAX);
    char *names = tree_children(on, path, NULL), *rest = names, *name;
    while (names != NULL && (name = strsep(&rest, "\n")) != NULL && *name != '\0') {
        (void)snprintf(below, sizeof(below), "%s/%s", path[1] != '\0' ? path : "", name);
        /* it may be gone by now */
        if (tree_stat_of(on, below, &stat) == 0) {
            count += stat.owner != 0;
            if (print != NULL) {
                fprintf(print, "%16llx %s\n", (unsigned long long)stat.owner, below);
            }
            count += walk(on, below, print, depth + 1);
        }
    }
    free(names);
    return count;
}

static int
walk_on(const server *of, const char *path, FILE *print)
{
    tree on;
    if (tree_open(&on, of->port, 10000) != 0) {
        FAIL("the server at port %d does not answer", of->port);
    }
    int count = walk(&on, path, print, 0);
    tree_close(&on);
    return count;
}

int
tree_count(const server *of, const char *path)
{
    return walk_on(of, path, NULL);
}

void
tree_show(const server *of, const char *path)
{
    fprintf(stderr, "the nodes of the server at port %d, and whose they are:\n",
            of->port);
    (void)walk_on(of, path, stderr);
}
