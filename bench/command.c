/* SPDX-License-Identifier: MIT */
/* Commands as people run them, one after the other: see command.h. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command.h"

extern char **environ;

double
command_run(const char *const argv[], const posix_spawn_file_actions_t *actions)
{
    double start = bench_now_ns();
    int status = -1;
    pid_t child;
    int failed =
        posix_spawnp(&child, argv[0], actions, NULL, (char *const *)argv, environ);

    if (failed != 0)
        bench_die("cannot run %s: %s", argv[0], strerror(failed));
    if (waitpid(child, &status, 0) != child || status != 0)
        bench_die("%s ended with status %d", argv[0], status);
    return (bench_now_ns() - start) / 1000;
}

void
commands_compare(const command *commands, int count, int rounds, const char *id,
                 const char *words, double bar)
{
    turns t = { .rounds = rounds };
    char full[64], label[96];
    posix_spawn_file_actions_t silent;

    posix_spawn_file_actions_init(&silent);
    posix_spawn_file_actions_addopen(&silent, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
    for (int i = 0; i < bench.runs * rounds; i++)
        for (int who = 0; who < count; who++)
            turns_add(&t, who, command_run(commands[who].argv, &silent) * 1000);
    posix_spawn_file_actions_destroy(&silent);
    for (int who = 0; who < count; who++) {
        snprintf(full, sizeof full, "%s.%s", id, commands[who].id);
        snprintf(label, sizeof label, "%s, %s", words, commands[who].label);
        turns_figure(&t, who, full, label, "ns", BAR_AT_MOST, 0);
    }
    snprintf(full, sizeof full, "%s.ratio", id);
    snprintf(label, sizeof label, "%s, %s / %s", words, commands[0].label,
             commands[1].label);
    turns_ratio(&t, 0, 1, full, label, BAR_AT_MOST, bar);
    turns_free(&t);
}
