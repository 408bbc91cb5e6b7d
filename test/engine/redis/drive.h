/* SPDX-License-Identifier: MIT */
/*
 * Driving the redis engine below its layouts: an open `struct redis`, and calls of small
 * scripts through it.
 */
#ifndef TEST_REDIS_DRIVE_H
#define TEST_REDIS_DRIVE_H

#include "cases.h"
#include "core/url.h"
#include "engine/redis/redis.h"
#include "servers.h"

typedef struct drive {
    const dibs_engine *engine; /* the table of its layout */
    dibs_session session;
    dibs__url url;
    struct redis redis;
    dibs_error err; /* of what failed last */
    struct script count;
} drive;

/* main calls run_case with its own. */
int run_case(int argc, char **argv, const struct test_case *cases, size_t count);

/* drive_open must succeed; drive_try_open returns the code. The format makes the URL. */
void drive_open(drive *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
int drive_try_open(drive *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void drive_close(drive *client);

/* drive_key makes the key of a number. */
void drive_key(struct key *key, int number);

/* drive_count adds one to the counter under a key by a script, and returns it, or -1; the
 * code is in *code. drive_count_until does so until it works, or fails the test. */
int64_t drive_count(drive *client, const struct key *key, int64_t limit_ms, int *code);
int64_t drive_count_until(drive *client, const struct key *key, int64_t limit_ms);

/* CHECK_COUNT: drive_count must work, and return that. */
void check_count(const char *file, int line, drive *client, const struct key *key,
                 int64_t want);
#define CHECK_COUNT(client, key, want) check_count(__FILE__, __LINE__, client, key, want)

/* count_call prepares what drive_count runs. */
void count_call(drive *client, struct call *call, const struct key *key);

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#endif /* TEST_REDIS_DRIVE_H */
