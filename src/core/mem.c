/* SPDX-License-Identifier: MIT */
/* Allocation, with a tap that tests can turn off. */
#include "core/mem.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static _Atomic int tap_is_limited;
static _Atomic int64_t tap_left;

void
dibs__alloc_fail_after(int64_t n)
{
    atomic_store(&tap_left, n);
    atomic_store(&tap_is_limited, n >= 0);
}

static int
tap_is_closed(void)
{
    if (!atomic_load_explicit(&tap_is_limited, memory_order_relaxed))
        return 0;
    return atomic_fetch_sub(&tap_left, 1) <= 0;
}

/* Not inlined: for a size that is known, gcc clears with string moves, which take longer
 * than all the rest of an allocation. */
__attribute__((noinline)) void *
dibs__alloc(size_t size)
{
    void *memory = tap_is_closed() ? NULL : malloc(size);
    /* Not calloc, which passes glibc's per-thread cache by and costs several times as much;
     * this keeps the compiler from making one of malloc and memset. */
    __asm__ volatile("" : "+r"(memory));
    return memory ? memset(memory, 0, size) : NULL;
}

void *
dibs__realloc(void *memory, size_t size)
{
    return tap_is_closed() ? NULL : realloc(memory, size);
}

char *
dibs__strdup(const char *text)
{
    return tap_is_closed() ? NULL : strdup(text);
}

void
dibs__free(void *memory)
{
    free(memory);
}
