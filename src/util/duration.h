/* SPDX-License-Identifier: MIT */
/* Durations as people write them. */
#ifndef DIBS_UTIL_DURATION_H
#define DIBS_UTIL_DURATION_H

#include <stddef.h>
#include <stdint.h>

/* dibs__duration_parse reads "30" (seconds), "0.5", "250ms", "1m30s", "2h", "1d" into
 * milliseconds. Returns 0, or -1 (and leaves *ms alone) if the text is none, negative or
 * more than a hundred years. */
int dibs__duration_parse(int64_t *ms, const char *text);

/* dibs__duration_print writes "4m12s", "250ms", "3d4h": the two largest units. */
void dibs__duration_print(char *out, size_t size, int64_t ms);

#endif /* DIBS_UTIL_DURATION_H */
