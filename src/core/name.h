/* SPDX-License-Identifier: MIT */
/* Names: their check, their hash and how people see them. */
#ifndef DIBS_CORE_NAME_H
#define DIBS_CORE_NAME_H

#include <stddef.h>
#include <stdint.h>

#include <dibs.h>

/* the longest a name can become when printed, with its NUL */
#define DIBS__NAME_PRINT_MAX (DIBS_NAME_MAX * 4 + 1)

/* ... and how much of one a message shows, with its NUL */
#define DIBS__NAME_SHOWN 201

/* dibs__hash is the same in every process and version: engines write it down. */
uint64_t dibs__hash(const void *bytes, size_t len);

/* dibs__name_check finds the length (0: a C string) and refuses what is not a name. `what`
 * is the argument's name in the message. */
int dibs__name_check(size_t *len, const char *name, size_t given_len, const char *what,
                     dibs_error *err);

#endif /* DIBS_CORE_NAME_H */
