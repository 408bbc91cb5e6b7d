/* SPDX-License-Identifier: MIT */
/*
 * What the unit tests share. A test is a function of its file, written CASE(name) { ... };
 * CMakeLists.txt finds the cases in the sources and runs each in a process of its own.
 *
 * cmocka's assertions jump back to the runner, so they are for the main thread only; other
 * threads and children use the harness's CHECK.
 */
#ifndef DIBS_TEST_UNIT_H
#define DIBS_TEST_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <dibs.h>

#include "harness.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

typedef void unit_case(void **state);
void unit_add(const char *name, unit_case *run);

#define CASE(name)                                                                       \
    static void name(void **state);                                                      \
    __attribute__((constructor)) static void add_##name(void)                            \
    {                                                                                    \
        unit_add(#name, name);                                                           \
    }                                                                                    \
    static void name(void **state __attribute__((unused)))

/* unit_urls lists the engines that cases about all engines run on: local: in a folder of
 * this process and mock: with a service of this process. NULL-terminated. */
const char *const *unit_urls(void);
const char *unit_local(void);
const char *unit_mock(void);

/* unit_folder is a folder of this process, removed at its end. */
const char *unit_folder(void);

/* unit_open opens a client or fails the test. */
dibs *unit_open(const char *url, const dibs_options *options);

/* unit_is_free fails the test unless a client of its own can have the lock at once. */
void unit_is_free(const char *url, const char *name);

/* assert_says checks the code, and that the text has `part` in it and is one line. */
void assert_says(const dibs_error *err, int code, const char *part);

#endif
