/* SPDX-License-Identifier: MIT */
/*
 * A set that several tests use, one after the other: who runs it writes it down in a
 * file, and holds a lock on that file for as long as it runs. See keep.c, which does, and
 * servers.h.
 */
#include "servers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"

pid_t
kept_by(const char *path)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0) {
        CHECK(errno == ENOENT);
        return 0;
    }
    CHECK(fcntl(fd, F_GETLK, &lock) == 0);
    close(fd);
    return lock.l_type == F_UNLCK ? 0 : lock.l_pid;
}

void
keep(const server_set *set, const char *path)
{
    struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    int fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || fcntl(fd, F_SETLK, &lock) != 0) {
        FAIL("cannot lock %s: errno %d", path, errno);
    }
    dprintf(fd, "%d\n", set->sentinels);
    for (int i = 0; i < set->count; i++) {
        const server *at = &set->servers[i];
        dprintf(fd, "%d %d %d %s\n", at->kind, (int)at->pid, at->port, at->folder);
    }
    /* it stays open: to close it would give back the lock */
}

static int
read_server(server *out, FILE *from)
{
    int pid;
    memset(out, 0, sizeof(*out));
    if (fscanf(from, "%d %d %d %63s", &out->kind, &pid, &out->port, out->folder) != 4) {
        return 0;
    }
    out->pid = pid;
    out->kept = 1;
    return 1;
}

int
set_attach(server_set *out, const char *path)
{
    if (kept_by(path) == 0) {
        return -1;
    }
    memset(out, 0, sizeof(*out));
    FILE *file = fopen(path, "re");
    CHECK(file != NULL && fscanf(file, "%d", &out->sentinels) == 1);
    while (out->count < SET_MAX && read_server(&out->servers[out->count], file)) {
        out->count++;
    }
    fclose(file);
    CHECK(out->count > out->sentinels);
    return 0;
}
