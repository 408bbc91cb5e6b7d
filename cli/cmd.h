/* SPDX-License-Identifier: MIT */
/* The verbs, one cmd_VERB.c each. They get argv[0] = the verb and return the exit code. */
#ifndef DIBS_CLI_CMD_H
#define DIBS_CLI_CMD_H

int cmd_run(int argc, char **argv);
int cmd_hold(int argc, char **argv);
int cmd_try(int argc, char **argv);
int cmd_wait(int argc, char **argv);
int cmd_elect(int argc, char **argv);
int cmd_cell(int argc, char **argv);
int cmd_fence(int argc, char **argv);
int cmd_ls(int argc, char **argv);
int cmd_show(int argc, char **argv);
int cmd_break(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_torture(int argc, char **argv);
int cmd_engines(int argc, char **argv);
int cmd_schema(int argc, char **argv);

/* not for people: complete.c and manual.c */
int cmd_complete(int argc, char **argv);
int cmd_manual(int argc, char **argv);

#endif /* DIBS_CLI_CMD_H */
