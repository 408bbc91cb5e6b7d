/* SPDX-License-Identifier: MIT */
/* The tables of cases, jobs and fixtures. cases.def and jobs.def are made by the build
 * from what stands in topic_*.c. */
#include "conform.h"

#define TEST_CASE(topic, name) void case_##topic##_##name(void);
#include "cases.def"
#undef TEST_CASE

const test_case test_cases[] = {
#define TEST_CASE(topic, name) { #topic "/" #name, case_##topic##_##name },
#include "cases.def"
#undef TEST_CASE
    { NULL, NULL },
};

#define TEST_JOB(name) int64_t job_##name(dibs *client, const int64_t *args);
#include "jobs.def"
#undef TEST_JOB

const job_entry job_entries[] = {
#define TEST_JOB(name) { #name, job_##name },
#include "jobs.def"
#undef TEST_JOB
    { NULL, NULL },
};

#define FIXTURE(name, about) extern const fixture fixture_##name;
#include "fixtures.def"
#undef FIXTURE

const fixture *const fixtures[] = {
#define FIXTURE(name, about) &fixture_##name,
#include "fixtures.def"
#undef FIXTURE
    NULL,
};

const test_case *
find_case(const char *name)
{
    for (const test_case *at = test_cases; at->name != NULL; at++) {
        if (strcmp(at->name, name) == 0) {
            return at;
        }
    }
    return NULL;
}

const fixture *
find_fixture(const char *name)
{
    for (size_t i = 0; fixtures[i] != NULL; i++) {
        if (strcmp(fixtures[i]->name, name) == 0) {
            return fixtures[i];
        }
    }
    return NULL;
}
