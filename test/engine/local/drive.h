/* SPDX-License-Identifier: MIT */
/*
 * Drives the `local:` engine through its table alone, as core does but with nothing around
 * it: what these tests step through and kill is the engine. Also what they share: a folder
 * of their own, children, and a checker of the whole table.
 */
#ifndef DIBS_TEST_LOCAL_DRIVE_H
#define DIBS_TEST_LOCAL_DRIVE_H

#include <setjmp.h>
#include <stdarg.h>
#include <sys/types.h>

#include <cmocka.h>

#include "engine/local/local.h"

extern const dibs_engine dibs__engine_local;

typedef struct drive {
    local_state state;
    dibs_session session;
    dibs_error err;
    char dir[64];
    int64_t look_ms; /* drive_wait looks that often without being rung */
} drive;

/* drive_folder makes an empty folder below /dev/shm; drive_remove takes it away. */
const char *drive_folder(void);
void drive_remove(void);

int drive_open(drive *d, const char *dir);
void drive_close(drive *d);

/* drive_claim prepares a claim; drive_wait attempts it for at most `ms`. */
void drive_claim(dibs_claim *claim, const char *name, int mode, uint32_t permits,
                 uint32_t limit);
int drive_attempt(drive *d, dibs_claim *claim);
int drive_wait(drive *d, dibs_claim *claim, int ms);
int drive_release(drive *d, dibs_claim *claim);

/* drive_lock takes a name for exclusive use within `ms`. */
int drive_lock(drive *d, dibs_claim *claim, const char *name, int ms);

/* drive_count returns how many records of a kind there are. */
uint32_t drive_count(drive *d, uint32_t kind);

/* drive_verify compares everything derived with the facts; fails the test if it differs. */
void drive_verify(drive *d);

/* drive_reap waits for a child, at most five seconds, then kills it. */
int drive_reap(pid_t pid);

/* drive_main runs the one test that the command line names. */
int drive_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count);

#endif
