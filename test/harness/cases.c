/* SPDX-License-Identifier: MIT */
/* Choosing and running a case: see cases.h. */
#include "cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIMIT_S 60

const struct test_case *
find_case(int argc, char **argv, const struct test_case *cases, size_t count)
{
    for (size_t i = 0; argc == 2 && i < count; i++) {
        if (strcmp(cases[i].name, argv[1]) == 0) {
            return &cases[i];
        }
    }
    fprintf(stderr, "usage: %s CASE, one of:\n", argv[0]);
    for (size_t i = 0; i < count; i++) {
        fprintf(stderr, "  %s\n", cases[i].name);
    }
    return NULL;
}

int
main_of(int argc, char **argv, const struct test_case *cases, size_t count,
        void (*clean_up)(void))
{
    const struct test_case *found = find_case(argc, argv, cases, count);
    if (found == NULL) {
        return 2;
    }
    on_failure(clean_up);
    limit_time(LIMIT_S * (unsigned)slow_factor());
    found->run();
    clean_up();
    return 0;
}

void
need(int is_present, const char *what)
{
    if (!is_present) {
        printf("skipped: there is no %s\n", what);
        exit(EXIT_SKIPPED);
    }
}
