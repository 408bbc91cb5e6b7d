/* SPDX-License-Identifier: MIT */
/* Programs that are tests with names: `PROGRAM CASE`, one case per process. */
#ifndef TEST_CASES_H
#define TEST_CASES_H

#include "harness.h"

struct test_case {
    const char *name;
    void (*run)(void);
};

/* find_case returns the case that the command line names; NULL, if there is none, and then it
 * has said which there are. main_of runs it, with a time limit. clean_up is called at its end,
 * also if it fails. */
const struct test_case *find_case(int argc, char **argv, const struct test_case *cases,
                                  size_t count);
int main_of(int argc, char **argv, const struct test_case *cases, size_t count,
            void (*clean_up)(void));

/* Says why, and ends the test as skipped, if there is no such thing. */
void need(int is_present, const char *what);

#endif /* TEST_CASES_H */
