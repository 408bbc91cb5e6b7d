/* SPDX-License-Identifier: MIT */
/*
 * All memory of core comes from here, so that a test can let the n-th allocation fail.
 */
#ifndef DIBS_CORE_MEM_H
#define DIBS_CORE_MEM_H

#include <stddef.h>
#include <stdint.h>

/* dibs__alloc returns zeroed memory or NULL. dibs__free takes NULL. */
void *dibs__alloc(size_t size);
void *dibs__realloc(void *memory, size_t size);
char *dibs__strdup(const char *text);
void dibs__free(void *memory);

/* dibs__alloc_fail_after lets the next `n` allocations succeed and all later ones fail;
 * a negative n switches that off. For tests. */
void dibs__alloc_fail_after(int64_t n);

#endif /* DIBS_CORE_MEM_H */
