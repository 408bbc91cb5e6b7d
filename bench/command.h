/* SPDX-License-Identifier: MIT */
/* Commands as people run them: `dibs run`, and what it is held against. */
#ifndef DIBS_BENCH_COMMAND_H
#define DIBS_BENCH_COMMAND_H

#include <spawn.h>

#include "bench.h"

enum { COMMAND_WORDS_MAX = 8 };

typedef struct command {
    const char *id, *label;
    const char *argv[COMMAND_WORDS_MAX];
} command;

/* command_run spawns it and waits for it, and returns how long that took, in microseconds;
 * dies if it fails. `actions` may be NULL. */
double command_run(const char *const argv[], const posix_spawn_file_actions_t *actions);

/* commands_compare has them take turns where the caller is pinned, in silence, and reports
 * times as ID.command, and the first over the second as ID.ratio, with that bar (at most).
 * `words` come before the labels. */
void commands_compare(const command *commands, int count, int rounds, const char *id,
                      const char *words, double bar);

/* ---- the same, over and over in many processes at once ---- */

/* Each of the processes runs a command again and again. A word of it that is "%N" is the
 * name of the lock, another one in each round: whoever is ended in a round leaves no trace
 * in the next. A grant is a command that is done. */
typedef struct loops loops;

loops *loops_make(const char *const argv[], int processes, int place);
void loops_begin(loops *l);
double loops_grants(loops *l);
void loops_end(loops *l);
void loops_free(loops *l);

#endif /* DIBS_BENCH_COMMAND_H */
