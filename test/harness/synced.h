/* SPDX-License-Identifier: MIT */
/* What synced.c notes of the files of a process, for whoever makes it lose the rest. */
#ifndef TEST_SYNCED_H
#define TEST_SYNCED_H

#include <stdint.h>

#define SYNCED_FILES 1024

/* A file by its inode, which stays when it is renamed, and how much of it is on the disk for
 * sure. The table has SYNCED_FILES of them; inode 0 is a free place. */
struct synced_file {
    _Atomic uint64_t inode;
    _Atomic int64_t length;
};

#endif /* TEST_SYNCED_H */
