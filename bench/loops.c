/* SPDX-License-Identifier: MIT */
/* Commands over and over, in many processes at once: see command.h. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

enum { LOOPS_MAX = 64 };

struct loops {
    const char *argv[COMMAND_WORDS_MAX];
    int processes, place, round;
    pid_t children[LOOPS_MAX];
    _Atomic uint32_t grants;
};

loops *
loops_make(const char *const argv[], int processes, int place)
{
    loops *l = bench_shared(sizeof *l);

    if (processes > LOOPS_MAX)
        bench_die("more than %d processes", LOOPS_MAX);
    for (int i = 0; argv[i] != NULL; i++)
        l->argv[i] = argv[i];
    l->processes = processes;
    l->place = place;
    return l;
}

/* run_command becomes the command; it ends with its parent */
static _Noreturn void
run_command(const loops *l)
{
    char name[32];
    char *argv[COMMAND_WORDS_MAX + 1] = { NULL };
    int null = open("/dev/null", O_RDWR);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(name, sizeof name, "bench-loops-%d", l->round);
    for (int i = 0; i < COMMAND_WORDS_MAX && l->argv[i] != NULL; i++)
        argv[i] = strcmp(l->argv[i], "%N") == 0 ? name : (char *)l->argv[i];
    if (null < 0 || dup2(null, 1) < 0 || dup2(null, 2) < 0)
        _exit(126);
    execvp(argv[0], argv);
    _exit(127);
}

static void
loop(void *arg, int index)
{
    loops *l = arg;

    (void)index;
    place_client(l->place);
    for (;;) {
        pid_t child = fork();
        int status = -1;

        if (child == 0)
            run_command(l);
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
            bench_die("%s ended with status %d", l->argv[0], status);
        atomic_fetch_add(&l->grants, 1);
    }
}

void
loops_begin(loops *l)
{
    static int rounds;

    l->round = ++rounds;
    for (int i = 0; i < l->processes; i++)
        l->children[i] = bench_fork(loop, l, i);
}

double
loops_grants(loops *l)
{
    return atomic_load(&l->grants);
}

/* a loop never ends by itself, but of a command that failed */
static void
end_loop(pid_t child)
{
    int status;

    kill(child, SIGKILL);
    if (waitpid(child, &status, 0) != child)
        bench_die("cannot wait for a child: %s", strerror(errno));
    if (!WIFSIGNALED(status))
        bench_die("a child failed (status %d)", status);
}

void
loops_end(loops *l)
{
    for (int i = 0; i < l->processes; i++)
        end_loop(l->children[i]);
}

void
loops_free(loops *l)
{
    munmap(l, sizeof *l);
}
