/* SPDX-License-Identifier: MIT */
/*
 * Queues: what the names of the children of a lock say about who comes before whom. Pure
 * functions of those names.
 *
 * A contender is a node that the server numbered when it was made, whoever made it: all are
 * ordered by that number, and what comes before it says only whether it is a reader. So
 * dibs waits its turn behind clients that it does not know.
 */
#include "zk.h"

#include <stdlib.h>
#include <string.h>

/* "%010d": ten digits, or a minus sign and nine; one number has the sign and ten. */
#define NUMBER_LEN 10

static int
is_digit(char byte)
{
    return byte >= '0' && byte <= '9';
}

static size_t
digits_at_end(const char *node, size_t len)
{
    size_t count = 0;
    while (count < NUMBER_LEN && count < len && is_digit(node[len - 1 - count]))
        count++;
    return count;
}

/* Is the '-' that ends at `len` a sign, and not the end of a prefix such as "lock-"? Nine
 * digits have one. Ten have one if the prefix ends before it and none of them is padding. */
static int
is_sign(const char *node, size_t len, size_t digits)
{
    if (!len || node[len - 1] != '-')
        return 0;
    return digits == NUMBER_LEN - 1 || (len >= 2 && node[len] != '0' &&
                                        (node[len - 2] == '-' || node[len - 2] == '_'));
}

/* number_of takes a name apart: the length of what is before the number, or -1. */
static int
number_of(const char *node, int64_t *number)
{
    size_t len = strlen(node), digits = digits_at_end(node, len);
    size_t prefix = len - digits;
    int negative = is_sign(node, prefix, digits);
    int64_t value = 0;
    if (digits < NUMBER_LEN - 1 || (digits < NUMBER_LEN && !negative))
        return -1;
    for (size_t i = prefix; i < len; i++)
        value = value * 10 + (node[i] - '0');
    if (value > INT32_MAX + (int64_t)negative)
        return -1;
    *number = negative ? -value : value;
    return (int)prefix - negative;
}

static int
ends_with(const char *text, size_t len, const char *end)
{
    size_t end_len = strlen(end);
    return len >= end_len && memcmp(text + len - end_len, end, end_len) == 0;
}

static enum contender_kind
kind_of(const char *node, size_t len)
{
    static const struct {
        const char *end;
        enum contender_kind kind;
    } markers[] = {
        { "lock-", CONTENDER_LOCK },     { "__READ__", CONTENDER_READ },
        { "__WRIT__", CONTENDER_WRITE }, { "latch-", CONTENDER_LATCH },
        { "lease-", CONTENDER_LEASE },   { "__lock__", CONTENDER_LOCK },
        { "__rlock__", CONTENDER_READ },
    };
    for (size_t i = 0; i < sizeof markers / sizeof *markers; i++)
        if (ends_with(node, len, markers[i].end))
            return markers[i].kind;
    /* .NET's, which have nothing else in front */
    if (len == 5 && memcmp(node, "read-", len) == 0)
        return CONTENDER_READ;
    if (len == 6 && memcmp(node, "write-", len) == 0)
        return CONTENDER_WRITE;
    return CONTENDER_OTHER;
}

int
dibs__zk_contender(struct contender *out, const char *node, const char *own_prefix)
{
    int prefix = number_of(node, &out->number);
    if (prefix < 0)
        return -1;
    out->kind = kind_of(node, (size_t)prefix);
    out->is_ours = own_prefix && strncmp(node, own_prefix, strlen(own_prefix)) == 0;
    out->node = node;
    return 0;
}

int
dibs__zk_same_owner(const char *a, const char *b)
{
    size_t len = sizeof "_c_" - 1 + UUID_LEN;
    return strncmp(a, "_c_", 3) == 0 && strlen(a) > len && strncmp(a, b, len) == 0;
}

/* ---- the order ---- */

struct place {
    struct contender contender;
    int32_t after; /* how much later than the first of the listing it was made */
};

/* A reader with a writer's number was made by that writer, who holds both. */
static int
compare(const void *left, const void *right)
{
    const struct place *a = left, *b = right;
    if (a->after != b->after)
        return a->after < b->after ? -1 : 1;
    int a_reads = a->contender.kind == CONTENDER_READ;
    int b_reads = b->contender.kind == CONTENDER_READ;
    if (a_reads != b_reads)
        return a_reads - b_reads;
    return strcmp(a->contender.node, b->contender.node);
}

/* Numbers wrap, so they are compared by their distance, which is small however large they
 * are themselves. */
static int
collect(struct place *places, const struct String_vector *children,
        const char *own_prefix)
{
    int count = 0;
    for (int i = 0; i < children->count; i++) {
        struct place *place = &places[count];
        if (dibs__zk_contender(&place->contender, children->data[i], own_prefix))
            continue;
        uint32_t from = (uint32_t)places[0].contender.number;
        place->after = (int32_t)((uint32_t)place->contender.number - from);
        count++;
    }
    return count;
}

static int
find_own(const struct queue *queue)
{
    for (int i = 0; i < queue->count; i++)
        if (queue->items[i].is_ours)
            return i;
    return -1;
}

int
dibs__zk_queue_read(struct queue *out, const struct zk *zk,
                    const struct String_vector *children, const char *own_prefix)
{
    size_t room = (size_t)children->count + 1;
    struct place *places = zk->host->alloc(room * sizeof *places);
    struct contender *items = zk->host->alloc(room * sizeof *items);
    if (!places || !items) {
        zk->host->free(places);
        zk->host->free(items);
        return DIBS_ENOMEM;
    }
    out->items = items;
    out->count = collect(places, children, own_prefix);
    qsort(places, (size_t)out->count, sizeof *places, compare);
    for (int i = 0; i < out->count; i++)
        items[i] = places[i].contender;
    zk->host->free(places);
    out->own = find_own(out);
    return DIBS_OK;
}

int
dibs__zk_queue_before(const struct queue *queue, int index)
{
    const struct contender *items = queue->items;
    if (items[index].kind != CONTENDER_READ)
        return index - 1;
    for (int i = index - 1; i >= 0; i--)
        if (items[i].kind != CONTENDER_READ && items[i].number != items[index].number)
            return i;
    return -1;
}

/* Readers go together, up to the first writer; a writer goes with its own readers. */
int
dibs__zk_queue_holders(const struct queue *queue)
{
    const struct contender *items = queue->items;
    int writes = queue->count && items[0].kind != CONTENDER_READ;
    int count = writes;
    while (count < queue->count && items[count].kind == CONTENDER_READ &&
           (!writes || items[count].number == items[0].number))
        count++;
    return count;
}
