/* SPDX-License-Identifier: MIT */
/*
 * core/mem.h for the simulator: every block is on a list, so that what a killed process
 * had can be freed with the run, and what a closed client forgot can be counted.
 */
#include "core/mem.h"

#include <stdlib.h>
#include <string.h>

#include "sim.h"

struct block {
    struct block *next, *prev;
};

static struct block blocks = { &blocks, &blocks };

static void
enlist(struct block *block)
{
    block->next = &blocks;
    block->prev = blocks.prev;
    block->prev->next = block->next->prev = block;
}

static void
unlist(struct block *block)
{
    block->prev->next = block->next;
    block->next->prev = block->prev;
}

void *
dibs__alloc(size_t size)
{
    struct block *block = calloc(1, sizeof(*block) + size);

    if (!block)
        abort();
    enlist(block);
    return block + 1;
}

void *
dibs__realloc(void *memory, size_t size)
{
    struct block *block;

    if (!memory)
        return dibs__alloc(size);
    block = (struct block *)memory - 1;
    unlist(block);
    block = realloc(block, sizeof(*block) + size);
    if (!block)
        abort();
    enlist(block);
    return block + 1;
}

char *
dibs__strdup(const char *text)
{
    return strcpy(dibs__alloc(strlen(text) + 1), text);
}

void
dibs__free(void *memory)
{
    if (!memory)
        return;
    unlist((struct block *)memory - 1);
    free((struct block *)memory - 1);
}

void
dibs__alloc_fail_after(int64_t n)
{
    (void)n; /* memory does not run out in here */
}

size_t
sim_mem_blocks(void)
{
    size_t count = 0;

    for (const struct block *block = blocks.next; block != &blocks; block = block->next)
        count++;
    return count;
}

void
sim_mem_reset(void)
{
    while (blocks.next != &blocks)
        dibs__free(blocks.next + 1);
}
