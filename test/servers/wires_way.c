/* SPDX-License-Identifier: MIT */
/* What is under way from one end of a connection to the other: it goes on in order, when it
 * is due. See wires_parts.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wires_parts.h"

#define SECOND_NS 1000000000
/* with a rate, what goes on at once is what it allows in so many parts of a second */
#define PARTS 100

/* chunks that nobody uses now, for the next one: a sanitizer would keep each for a while */
static struct chunk *spare;

static struct chunk *
get_chunk(void)
{
    struct chunk *got = spare != NULL ? spare : malloc(sizeof(*got));
    if (got == NULL) {
        /* the test fails for it: nobody answers its orders any more */
        _exit(1);
    }
    spare = spare != NULL ? spare->next : NULL;
    return got;
}

static void
drop_first(struct way *way)
{
    struct chunk *old = way->first;
    way->first = old->next;
    old->next = spare;
    spare = old;
}

static struct chunk *
new_chunk(struct way *way, int64_t due_ns)
{
    struct chunk *new = get_chunk();
    new->next = NULL;
    new->at = new->len = 0;
    new->due_ns = due_ns;
    *(way->first != NULL ? &way->newest->next : &way->first) = new;
    way->newest = new;
    return new;
}

void
way_add(struct way *way, const char *bytes, size_t len, int64_t due_ns, int merge)
{
    if (len == 0) {
        return;
    }
    struct chunk *to = merge && way->first != NULL ? way->newest : NULL;
    if (to == NULL || to->len + len > CHUNK_MAX) {
        to = new_chunk(way, due_ns);
    }
    memcpy(to->bytes + to->len, bytes, len);
    to->len += len;
    way->waiting += len;
}

int64_t
way_due(const struct way *way)
{
    if (way->first == NULL) {
        return INT64_MAX;
    }
    return way->first->due_ns > way->open_at_ns ? way->first->due_ns : way->open_at_ns;
}

static size_t
smaller(size_t one, size_t other)
{
    return one < other ? one : other;
}

/* how much to write at once */
static size_t
piece_of(const struct chunk *chunk, const wires_fault *fault)
{
    size_t len = chunk->len - chunk->at;
    if (fault->rate > 0) {
        len = smaller(len, (size_t)(fault->rate / PARTS > 0 ? fault->rate / PARTS : 1));
    }
    return fault->split > 0 ? smaller(len, (size_t)fault->split) : len;
}

static void
has_gone_on(struct way *way, size_t len, const wires_fault *fault)
{
    struct chunk *chunk = way->first;
    way->waiting -= len;
    chunk->at += len;
    if (chunk->at == chunk->len) {
        drop_first(way);
    }
    if (fault->rate > 0) {
        way->open_at_ns = now_ns() + (int64_t)len * SECOND_NS / fault->rate;
    }
}

int
way_drain(struct way *way, const wires_fault *fault)
{
    while (way_due(way) <= now_ns()) {
        struct chunk *chunk = way->first;
        ssize_t n =
            send(way->to, chunk->bytes + chunk->at, piece_of(chunk, fault), MSG_NOSIGNAL);
        if (n < 0) {
            return errno == EAGAIN;
        }
        has_gone_on(way, (size_t)n, fault);
    }
    return 1;
}

void
way_clear(struct way *way)
{
    while (way->first != NULL) {
        drop_first(way);
    }
    way->waiting = 0;
}
