/* SPDX-License-Identifier: MIT */
/*
 * The freezer, see freeze.h. In this order: where it is mounted, groups, the warden, opening.
 *
 * Version 1 has a hierarchy of its own for it and a file of words (freezer.state), version 2
 * has one for all and a file of digits (cgroup.freeze). Otherwise they are the same here.
 */
#include "freeze.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINE_SIZE 4096
#define PATH_SIZE 640
/* so often at most, a millisecond apart: until all stand still, until a group is empty */
#define FREEZE_TRIES 3000
#define EMPTY_TRIES 5000
#define DESCRIPTORS 1024

/* ---- where it is mounted ---- */

/* is the word in a list with commas? */
static int
has_word(const char *list, const char *word)
{
    size_t len = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += len) {
        if ((at == list || at[-1] == ',') && (at[len] == ',' || at[len] == '\0'))
            return 1;
    }
    return 0;
}

/* looks for the first line of a file that `take` takes something from; 0, or -1 */
static int
find_line(const char *path, int version, char out[512],
          int (*take)(char *line, int version, char out[512]))
{
    char line[LINE_SIZE];
    int found = 0;
    FILE *file = fopen(path, "re");
    while (file && !found && fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        found = take(line, version, out);
    }
    if (file)
        (void)fclose(file);
    return found ? 0 : -1;
}

/* "0::/here" is version 2, "6:freezer:/here" version 1 */
static int
take_own_path(char *line, int version, char out[512])
{
    char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
    if (!path)
        return 0;
    *path++ = '\0';
    if (version == 2 ? list[1] != '\0' : !has_word(list + 1, "freezer"))
        return 0;
    return snprintf(out, 512, "%s", path) < 512;
}

/* "31 23 0:28 ROOT WHERE OPTIONS - TYPE SOURCE OPTIONS"; ROOT and WHERE go into `out` */
static int
take_mount(char *line, int version, char out[512])
{
    char root[256], where[256], type[32], options[512];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(line, "%*s %*s %*s %255s %255s", root, where) != 2 ||
        sscanf(rest, " - %31s %*s %511s", type, options) != 2)
        return 0;
    if (version == 2 ? strcmp(type, "cgroup2") != 0
                     : strcmp(type, "cgroup") != 0 || !has_word(options, "freezer"))
        return 0;
    return snprintf(out, 512, "%s %s", root, where) < 512;
}

/* the folder of the cgroup that this process is in */
static int
find_home(struct freezer *freezer, int version)
{
    char own[512], mount[512];
    if (find_line("/proc/self/mountinfo", version, mount, take_mount) != 0 ||
        find_line("/proc/self/cgroup", version, own, take_own_path) != 0)
        return -1;
    char *where = strchr(mount, ' ');
    *where++ = '\0';
    /* a part of the hierarchy may be all that is mounted: then we must be in that */
    size_t above = strcmp(mount, "/") == 0 ? 0 : strlen(mount);
    if (strncmp(own, mount, above) != 0)
        return -1;
    freezer->version = version;
    int len = snprintf(freezer->home, sizeof freezer->home, "%s%s", where, own + above);
    return len < (int)sizeof freezer->home ? 0 : -1;
}

/* ---- groups ---- */

/* a file of a group, or with "" its folder */
static void
group_path(char out[PATH_SIZE], const struct freezer *freezer, unsigned group,
           const char *file)
{
    (void)snprintf(out, PATH_SIZE, "%s/dibs-%d-%u/%s", freezer->home, (int)freezer->owner,
                   group, file);
}

static int
write_text(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t wrote = write(fd, text, strlen(text));
    int code = errno;
    (void)close(fd);
    errno = code;
    return wrote < 0 ? -1 : 0;
}

/* the beginning of a file; "" if it cannot be read */
static void
read_text(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd < 0 ? 0 : read(fd, out, size - 1);
    out[len > 0 ? len : 0] = '\0';
    if (fd >= 0)
        (void)close(fd);
}

int
freezer_take(const struct freezer *freezer, unsigned group, pid_t pid)
{
    char path[PATH_SIZE], text[16];
    group_path(path, freezer, group, "");
    if (mkdir(path, 0755) != 0 && errno != EEXIST)
        return -1;
    group_path(path, freezer, group, "cgroup.procs");
    (void)snprintf(text, sizeof text, "%d", (int)pid);
    return write_text(path, text);
}

static int
set_frozen(const struct freezer *freezer, unsigned group, int on)
{
    char path[PATH_SIZE];
    int is_2 = freezer->version == 2;
    group_path(path, freezer, group, is_2 ? "cgroup.freeze" : "freezer.state");
    return write_text(path, is_2 ? (on ? "1" : "0") : (on ? "FROZEN" : "THAWED"));
}

/* FREEZING, in version 1, is not yet */
static int
is_frozen(const struct freezer *freezer, unsigned group)
{
    char path[PATH_SIZE], text[256];
    int is_2 = freezer->version == 2;
    group_path(path, freezer, group, is_2 ? "cgroup.events" : "freezer.state");
    read_text(path, text, sizeof text);
    return strstr(text, is_2 ? "frozen 1" : "FROZEN") != NULL;
}

int
freezer_freeze(const struct freezer *freezer, unsigned group)
{
    if (set_frozen(freezer, group, 1) != 0)
        return -1;
    for (int i = 0; i < FREEZE_TRIES; i++) {
        if (is_frozen(freezer, group))
            return 0;
        (void)poll(NULL, 0, 1);
    }
    freezer_thaw(freezer, group);
    errno = ETIMEDOUT;
    return -1;
}

/* Those who are in there. What they start meanwhile, and whose line was not read to its end, is
 * for the next time. */
static void
send_home(const struct freezer *freezer, unsigned group)
{
    char list[PATH_SIZE], home[PATH_SIZE], text[LINE_SIZE], *rest = NULL;
    group_path(list, freezer, group, "cgroup.procs");
    read_text(list, text, sizeof text);
    char *last = strrchr(text, '\n');
    *(last ? last : text) = '\0';
    (void)snprintf(home, sizeof home, "%s/cgroup.procs", freezer->home);
    for (const char *pid = strtok_r(text, "\n", &rest); pid;
         pid = strtok_r(NULL, "\n", &rest)) {
        (void)write_text(home, pid);
    }
}

void
freezer_thaw(const struct freezer *freezer, unsigned group)
{
    (void)set_frozen(freezer, group, 0);
    send_home(freezer, group);
}

static void
remove_group(const struct freezer *freezer, unsigned group)
{
    char path[PATH_SIZE];
    group_path(path, freezer, group, "");
    for (int i = 0; i < EMPTY_TRIES && access(path, F_OK) == 0; i++) {
        freezer_thaw(freezer, group);
        if (rmdir(path) == 0)
            return;
        (void)poll(NULL, 0, 1);
    }
}

/* ---- the warden ---- */

/* It is told when its parent ends, however that does. It has no part in a terminal, nor in what
 * the parent has open, whose readers would wait for it. */
static _Noreturn void
keep_watch(const struct freezer *freezer, const sigset_t *all)
{
    int number = 0;
    (void)setsid();
    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        (void)close(fd);
    }
    (void)prctl(PR_SET_PDEATHSIG, SIGTERM);
    do {
        if (getppid() != freezer->owner)
            break;
        (void)sigwait(all, &number);
    } while (number != SIGTERM);
    for (unsigned group = 0; group < FREEZER_GROUPS; group++) {
        remove_group(freezer, group);
    }
    _exit(0);
}

/* with all signals blocked, so that none can end it before it waits for them */
static int
start_warden(struct freezer *freezer)
{
    sigset_t all, before;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    freezer->warden = fork();
    if (freezer->warden == 0)
        keep_watch(freezer, &all);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return freezer->warden > 0 ? 0 : -1;
}

static void
await_end(pid_t pid)
{
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
        continue;
}

void
freezer_close(struct freezer *freezer)
{
    (void)kill(freezer->warden, SIGTERM);
    await_end(freezer->warden);
}

/* ---- opening ---- */

static _Noreturn void
be_frozen(pid_t parent)
{
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent) {
        (void)pause();
    }
    _exit(0);
}

/* files may be there and not be for us, or do nothing: so freeze somebody */
static int
try_it(const struct freezer *freezer)
{
    pid_t pid = fork();
    if (pid == 0)
        be_frozen(freezer->owner);
    if (pid < 0)
        return -1;
    int works = freezer_take(freezer, 0, pid) == 0 && freezer_freeze(freezer, 0) == 0;
    int code = errno;
    (void)kill(pid, SIGKILL);
    freezer_thaw(freezer, 0);
    await_end(pid);
    errno = code;
    return works ? 0 : -1;
}

static int
open_version(struct freezer *out, int version, char why[160])
{
    if (find_home(out, version) != 0 || start_warden(out) != 0)
        return -1;
    if (try_it(out) == 0)
        return 0;
    (void)snprintf(why, 160, "no cgroup can be made and frozen in %.60s: %s", out->home,
                   strerror(errno));
    freezer_close(out);
    return -1;
}

int
freezer_open(struct freezer *out, int version, char why[160])
{
    memset(out, 0, sizeof *out);
    out->owner = getpid();
    (void)snprintf(why, 160, "no cgroup that can be frozen is mounted");
    if (version != 1 && open_version(out, 2, why) == 0)
        return 0;
    return version != 2 ? open_version(out, 1, why) : -1;
}
