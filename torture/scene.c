/* SPDX-License-Identifier: MIT */
/* What all processes of a run see, and how they are made. */
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "parts.h"

/* Names have a part that no other run has: a run that is repeated by its seed must not meet
 * what the one before may have left. */
static void
make_names(struct scene *scene)
{
    uint64_t own = 0;
    if (getrandom(&own, sizeof own, 0) != (ssize_t)sizeof own)
        own = (uint64_t)history_now() ^ (uint64_t)getpid() << 40;
    (void)snprintf(scene->prefix, sizeof scene->prefix, "dibs-torture/%016llx/",
                   (unsigned long long)own);
    for (uint32_t i = 0; i < scene->plan->names; i++) {
        (void)snprintf(scene->names[i], sizeof scene->names[i], "%s%u", scene->prefix, i);
    }
}

int
scene_open(struct scene *out, const struct torture_plan *plan)
{
    memset(out, 0, sizeof *out);
    out->plan = plan;
    void *map = mmap(NULL, sizeof *out->stage, PROT_READ | PROT_WRITE,
                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return -1;
    out->stage = map;
    out->history = history_new();
    make_names(out);
    return out->history ? 0 : -1;
}

void
scene_close(struct scene *scene)
{
    history_free(scene->history);
    if (scene->stage)
        (void)munmap(scene->stage, sizeof *scene->stage);
}

int
scene_is_over(const struct scene *scene)
{
    return atomic_load(&scene->stage->is_over);
}

void
stage_fail(struct stage *stage, int code, const char *format, ...)
{
    va_list args;
    if (atomic_load(&stage->code) != DIBS_OK)
        return;
    va_start(args, format);
    (void)vsnprintf(stage->why, sizeof stage->why, format, args);
    va_end(args);
    atomic_store(&stage->code, code);
}

void
nap(int64_t us)
{
    struct timespec time = { us / 1000000, us % 1000000 * 1000 };
    if (us > 0)
        (void)nanosleep(&time, NULL);
}

/* ---- processes ---- */

/* What ends the run from a terminal is for the process that began it: the others are told by
 * it. They die with their parent, however it ends. */
static void
settle_in(pid_t parent)
{
    static const int ignored[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
    sigset_t none;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++) {
        (void)signal(ignored[i], SIG_IGN);
    }
    (void)signal(SIGALRM, SIG_DFL);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)sigemptyset(&none);
    (void)sigprocmask(SIG_SETMASK, &none, NULL);
}

pid_t
scene_fork(const struct scene *scene, int (*live)(const struct scene *, void *arg),
           void *arg)
{
    pid_t parent = getpid(), pid = fork();
    if (pid != 0)
        return pid;
    settle_in(parent);
    _exit(live(scene, arg));
}

int
process_await(pid_t pid, int64_t limit_ms)
{
    int64_t until = history_now() + limit_ms * MS_NS;
    int status = 0;
    pid_t ended;
    while ((ended = waitpid(pid, &status, WNOHANG)) == 0 && history_now() < until) {
        nap(2000);
    }
    if (ended == pid)
        return status;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    return -1;
}
