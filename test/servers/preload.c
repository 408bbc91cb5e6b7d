/* SPDX-License-Identifier: MIT */
/*
 * What a server is run with to be deceived: a clock of its own (test/harness/clock.c), and a
 * power failure that takes what it has not synced (test/harness/synced.c). See servers.h.
 */
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "parts.h"
#include "synced.h"

/* where Redis and Valkey have what they read back */
#define LOG_FOLDER "appendonlydir"

/* ---- starting ---- */

static int
open_file(const server *of, const char *name)
{
    char path[96];
    (void)snprintf(path, sizeof(path), "%s/%s", of->folder, name);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);
    CHECK(fd >= 0);
    return fd;
}

void
preload_begin(const server *of)
{
    if (of->options.clock) {
        server_copy(CLOCK_LIBRARY, of, "clock.so");
        server_set_clock(of, 0);
    }
    if (of->options.power) {
        server_copy(SYNCED_LIBRARY, of, "synced.so");
        int fd = open_file(of, "synced");
        CHECK(ftruncate(fd, SYNCED_FILES * sizeof(struct synced_file)) == 0);
        close(fd);
    }
}

void
preload_words(struct words *to, const server *of)
{
    const char *folder = of->folder;
    if (of->options.clock) {
        word_add(to, "env");
        word_add(to, word_make(to, "LD_PRELOAD=%s/clock.so", folder));
        word_add(to, word_make(to, "CLOCK_FILE=%s/clock", folder));
    } else if (of->options.power) {
        word_add(to, "env");
        word_add(to, word_make(to, "LD_PRELOAD=%s/synced.so", folder));
        word_add(to, word_make(to, "SYNCED_FILE=%s/synced", folder));
    }
}

/* ---- the clock ---- */

void
server_set_clock(const server *of, int64_t off_ms)
{
    int64_t off_ns = off_ms * 1000000;
    CHECK(of->options.clock);
    int fd = open_file(of, "clock");
    CHECK(pwrite(fd, &off_ns, sizeof(off_ns), 0) == (ssize_t)sizeof(off_ns));
    close(fd);
}

/* ---- the power ---- */

/* 0 of a file that was never synced */
static int64_t
synced_length(const struct synced_file *table, ino_t inode)
{
    for (int i = 0; i < SYNCED_FILES; i++) {
        if (table[i].inode == inode) {
            return table[i].length;
        }
    }
    return 0;
}

/* what is left is on the disk: it is all of the next table */
static void
lose_unsynced(DIR *log, const struct synced_file *table, struct synced_file *next)
{
    struct dirent *entry;
    struct stat info;
    int count = 0;
    while ((entry = readdir(log)) != NULL) {
        int fd = openat(dirfd(log), entry->d_name, O_RDWR | O_CLOEXEC);
        if (fd < 0) {
            continue; /* a folder */
        }
        CHECK(fstat(fd, &info) == 0 && count < SYNCED_FILES);
        int64_t length = synced_length(table, info.st_ino);
        CHECK(length >= info.st_size || ftruncate(fd, length) == 0);
        next[count].inode = info.st_ino;
        next[count++].length = length < info.st_size ? length : info.st_size;
        close(fd);
    }
}

void
server_lose_power(server *running)
{
    struct synced_file table[SYNCED_FILES], next[SYNCED_FILES];
    char path[96];
    CHECK(running->options.power);
    server_kill(running);
    (void)snprintf(path, sizeof(path), "%s/" LOG_FOLDER, running->folder);
    DIR *log = opendir(path);
    int fd = open_file(running, "synced");
    CHECK(log != NULL && pread(fd, table, sizeof(table), 0) == (ssize_t)sizeof(table));
    memset(next, 0, sizeof(next));
    lose_unsynced(log, table, next);
    CHECK(pwrite(fd, next, sizeof(next), 0) == (ssize_t)sizeof(next));
    closedir(log);
    close(fd);
}
