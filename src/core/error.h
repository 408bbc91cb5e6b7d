/* SPDX-License-Identifier: MIT */
/* Filling in a dibs_error. */
#ifndef DIBS_CORE_ERROR_H
#define DIBS_CORE_ERROR_H

#include <dibs.h>

/* dibs__fail sets *err (if not NULL) and returns the code. */
int dibs__fail(dibs_error *err, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* dibs__fail_as leaves what *err says, for a code that is another than it was said with. */
int dibs__fail_as(dibs_error *err, int code);

/* dibs__fail_memory is dibs__fail for an allocation that failed. */
int dibs__fail_memory(dibs_error *err);

/* dibs__error_wrap puts "PREFIX: " before the text of an error that an engine reported, or
 * before what the code means if it reported no text. */
void dibs__error_wrap(dibs_error *err, int code, const char *engine, const char *format,
                      ...) __attribute__((format(printf, 4, 5)));

#endif /* DIBS_CORE_ERROR_H */
