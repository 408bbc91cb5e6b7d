/* SPDX-License-Identifier: MIT */
/* Who comes before whom, by the names of nodes (engine/zookeeper/contend.c): each waits for one
 * before it, or holds; and those who hold are at the front. An input is names, each ended by
 * a NUL. */
#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "engine/zookeeper/zk.h"
#include "fuzz.h"

#define CHILDREN_MAX 64

static void
check_order(const struct queue *queue)
{
    int holders = dibs__zk_queue_holders(queue);
    HOLDS(holders >= 0 && holders <= queue->count);
    HOLDS(queue->count == 0 || holders > 0);
    for (int i = 0; i < queue->count; i++) {
        int before = dibs__zk_queue_before(queue, i);
        HOLDS(before >= -1 && before < i);
        HOLDS(queue->items[i].number >= INT32_MIN && queue->items[i].number <= INT32_MAX);
    }
    if (queue->count)
        HOLDS(dibs__zk_queue_before(queue, 0) == -1);
}

/* whoever holds alone, in what order the server listed them */
static void
check_listing(const struct queue *queue, struct String_vector *children)
{
    struct zk zk = { .host = &dibs__host };
    struct queue other;
    for (int i = 0; i < children->count / 2; i++) {
        char *node = children->data[i];
        children->data[i] = children->data[children->count - 1 - i];
        children->data[children->count - 1 - i] = node;
    }
    HOLDS(dibs__zk_queue_read(&other, &zk, children, "_c_") == DIBS_OK);
    HOLDS(other.count == queue->count);
    dibs__host.free(other.items);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    struct zk zk = { .host = &dibs__host };
    char *nodes[CHILDREN_MAX];
    struct String_vector children = { 0, nodes };
    struct queue queue;
    while (input.left && children.count < CHILDREN_MAX) {
        size_t len;
        const char *node = fuzz_part(&input, 200, &len);
        nodes[children.count++] = fuzz_text(node, len);
    }
    HOLDS(dibs__zk_queue_read(&queue, &zk, &children, "_c_") == DIBS_OK);
    HOLDS(queue.count <= children.count && queue.own < queue.count);
    check_order(&queue);
    check_listing(&queue, &children);
    for (int i = 1; i < children.count; i++)
        (void)dibs__zk_same_owner(nodes[i - 1], nodes[i]);
    dibs__host.free(queue.items);
    for (int i = 0; i < children.count; i++)
        free(nodes[i]);
    return 0;
}
