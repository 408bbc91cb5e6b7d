/* SPDX-License-Identifier: MIT */
/*
 * Where the file is. What SQLite would notice too late, or not at all, is refused here: a file
 * system that machines share (its locks and its shared memory do not reach the others), a
 * folder in which no file can be made beside it.
 *
 * The file itself is not opened: closing it again would end the locks that SQLite has on it
 * for another client of this process.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sqlite.h"
#include "util/remote.h"
#include "util/shortage.h"

static int
refuse(const dibs_host *host, dibs_error *err, const char *what, const char *path)
{
    int denied = errno == EACCES || errno == EROFS || errno == EPERM;
    int code = is_shortage(errno) ? DIBS_ENOMEM : DIBS_EUNAVAIL;
    return host->fail(err, denied ? DIBS_EDENIED : code, "%s '%s': %s", what, path,
                      strerror(errno));
}

static int
check_url(const dibs_host *host, const dibs_url_parts *url, dibs_error *err)
{
    size_t len = strlen(url->path);
    if (*url->hosts || url->user)
        return host->fail(err, DIBS_ECONFIG,
                          "a file has no host: write sqlite:/folder/file");
    if (len == 0 || url->path[len - 1] == '/')
        return host->fail(err, DIBS_ECONFIG,
                          "'%s' names no file: write sqlite:/folder/file", url->path);
    return DIBS_OK;
}

/* Absolute, so that a program may change its folder: the path of the folder as it really is,
 * and the name in it, or what a link there leads to. */
static int
resolve(struct sqlite *lite, const char *given, dibs_error *err)
{
    const dibs_host *host = lite->sql.host;
    const char *slash = strrchr(given, '/');
    const char *name = slash ? slash + 1 : given;
    char folder[PATH_MAX], real[PATH_MAX];
    if (strlen(given) >= sizeof folder)
        return host->fail(err, DIBS_ECONFIG, "the path is too long");
    (void)snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - given) + 1 : 1,
                   slash ? given : ".");
    if (realpath(given, lite->path))
        return DIBS_OK;
    if (errno != ENOENT)
        return refuse(host, err, "cannot use", given);
    if (!realpath(folder, real))
        return refuse(host, err, "cannot use the folder", folder);
    int len =
        snprintf(lite->path, sizeof lite->path, "%s%s%s", real, real[1] ? "/" : "", name);
    if (len < 0 || (size_t)len >= sizeof lite->path)
        return host->fail(err, DIBS_ECONFIG, "the path is too long");
    return DIBS_OK;
}

static int
check_folder(const dibs_host *host, const char *path, dibs_error *err)
{
    char folder[PATH_MAX];
    struct statfs fs;
    (void)snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path) + 1,
                   path);
    if (statfs(folder, &fs) != 0)
        return refuse(host, err, "cannot look at", folder);
    const char *remote = remote_system(&fs);
    if (remote)
        return host->fail(err, DIBS_EUNSUPPORTED,
                          "'%s' is on %s, which may be shared between machines, and "
                          "SQLite cannot be: choose a local file system",
                          path, remote);
    if (faccessat(AT_FDCWD, folder, W_OK | X_OK, AT_EACCESS) != 0)
        return refuse(host, err, "cannot make the files of the log beside it in", folder);
    return DIBS_OK;
}

static int
check_file(const dibs_host *host, const char *path, dibs_error *err)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return errno == ENOENT ? DIBS_OK : refuse(host, err, "cannot look at", path);
    if (!S_ISREG(st.st_mode))
        return host->fail(err, DIBS_ECONFIG, "'%s' is not a file", path);
    if (faccessat(AT_FDCWD, path, R_OK | W_OK, AT_EACCESS) != 0)
        return refuse(host, err, "cannot write to", path);
    return DIBS_OK;
}

int
dibs__sqlite_place(struct sqlite *lite, const dibs_url_parts *url, dibs_error *err)
{
    const dibs_host *host = lite->sql.host;
    int rc = check_url(host, url, err);
    if (!rc)
        rc = resolve(lite, url->path, err);
    if (!rc)
        rc = check_folder(host, lite->path, err);
    return rc ? rc : check_file(host, lite->path, err);
}
