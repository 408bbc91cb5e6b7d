/* SPDX-License-Identifier: MIT */
/*
 * A library for LD_PRELOAD that notes how much of each file is on the disk for sure: what was
 * written before an fsync or fdatasync that has returned. The file $SYNCED_FILE is the table
 * of it, see synced.h. A kill keeps what the kernel has; cut to these lengths, the files are
 * what a power failure may leave of them.
 */
#include "synced.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* as long as a disk takes, so that there are kills meanwhile */
#define SYNC_TAKES_NS 2000000

static struct synced_file *table;

__attribute__((constructor)) static void
find_table(void)
{
    const char *path = getenv("SYNCED_FILE");
    int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *file = mmap(NULL, SYNCED_FILES * sizeof(*table), PROT_READ | PROT_WRITE,
                          MAP_SHARED, fd, 0);
        table = file != MAP_FAILED ? file : NULL;
        close(fd);
    }
}

/* where a file is noted; a table that is full ends the process, which somebody will see */
static struct synced_file *
place_of(uint64_t inode)
{
    for (int i = 0; i < SYNCED_FILES; i++) {
        uint64_t found = 0;
        if (atomic_compare_exchange_strong(&table[i].inode, &found, inode) ||
            found == inode) {
            return &table[i];
        }
    }
    abort();
}

/* of two that sync at once, the one that began first may end last */
static void
note(uint64_t inode, int64_t length)
{
    struct synced_file *place = place_of(inode);
    int64_t before = atomic_load(&place->length);
    while (before < length &&
           !atomic_compare_exchange_weak(&place->length, &before, length)) {
    }
}

static int
sync_by(long call, int fd)
{
    struct timespec takes = { 0, SYNC_TAKES_NS };
    struct stat before;
    int is_noted = table != NULL && fstat(fd, &before) == 0 && S_ISREG(before.st_mode);
    long code = syscall(call, fd);
    if (code == 0 && is_noted) {
        (void)nanosleep(&takes, NULL);
        note(before.st_ino, before.st_size);
    }
    return (int)code;
}

int
fsync(int fd)
{
    return sync_by(SYS_fsync, fd);
}

int
fdatasync(int fd)
{
    return sync_by(SYS_fdatasync, fd);
}
