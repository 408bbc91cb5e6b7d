/* SPDX-License-Identifier: MIT */
/*
 * Where the table is: a folder that nobody but its owner can change, on a file system that
 * only this machine writes to. Read next: table.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/local/local.h"
#include "util/remote.h"
#include "util/shortage.h"

/* Not $XDG_RUNTIME_DIR: cron jobs have none, and it goes away at logout. */
static void
default_folder(char *text, size_t size)
{
    struct stat st;
    int shm = stat("/dev/shm", &st) == 0 && S_ISDIR(st.st_mode) &&
              access("/dev/shm", W_OK | X_OK) == 0;
    snprintf(text, size, "%s/dibs-%lu", shm ? "/dev/shm" : "/tmp",
             (unsigned long)geteuid());
}

static int
check_system(int fd, const char *text, const dibs_host *host, dibs_error *err)
{
    struct statfs fs;
    if (fstatfs(fd, &fs) != 0)
        return host->fail(err, DIBS_EUNAVAIL, "cannot look at '%s': %s", text,
                          strerror(errno));
    const char *remote = remote_system(&fs);
    if (remote)
        return host->fail(err, DIBS_EUNSUPPORTED,
                          "'%s' is on %s, which may be shared between machines: choose "
                          "a folder on a local file system",
                          text, remote);
    return DIBS_OK;
}

static int
check_folder(int fd, const char *text, const dibs_host *host, dibs_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return host->fail(err, DIBS_EUNAVAIL, "cannot look at '%s': %s", text,
                          strerror(errno));
    if (st.st_uid != geteuid())
        return host->fail(err, DIBS_EDENIED,
                          "the folder '%s' belongs to user %lu, not to user %lu: choose "
                          "one of your own with local:/dir",
                          text, (unsigned long)st.st_uid, (unsigned long)geteuid());
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return host->fail(err, DIBS_EDENIED,
                          "others may write to the folder '%s': run chmod go-w on it",
                          text);
    return check_system(fd, text, host, err);
}

static int
code_of(int error)
{
    if (is_shortage(error))
        return DIBS_ENOMEM;
    return error == EACCES || error == ELOOP || error == ENOTDIR ? DIBS_EDENIED
                                                                 : DIBS_EUNAVAIL;
}

int
dibs__local_folder(int *out, char *text, size_t size, const char *path,
                   const dibs_host *host, dibs_error *err)
{
    char own[64];
    if (!*path) {
        default_folder(own, sizeof(own));
        path = own;
    }
    snprintf(text, size, "%s", path);
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && errno == ENOENT) {
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return host->fail(err, code_of(errno), "cannot make the folder '%s': %s",
                              path, strerror(errno));
        fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    }
    if (fd < 0) {
        const char *why = errno == ELOOP ? "it is a symbolic link" : strerror(errno);
        return host->fail(err, code_of(errno), "cannot open the folder '%s': %s", path,
                          why);
    }
    int rc = check_folder(fd, path, host, err);
    if (rc != DIBS_OK) {
        close(fd);
        return rc;
    }
    *out = fd;
    return DIBS_OK;
}
