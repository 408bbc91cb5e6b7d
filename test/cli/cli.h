/* SPDX-License-Identifier: MIT */
/*
 * Tests of the command: they run the dibs that was built, with pipes or on a terminal of
 * its own, and look at what it prints, how it exits and what it leaves behind. cli.c has
 * what they share; test_VERB.c one verb's cases each.
 */
#ifndef TEST_CLI_H
#define TEST_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "harness.h"

/* A process that is being run. What it has written is in out and err, terminated; on a
 * terminal all is in out. */
struct proc {
    pid_t pid;
    int in_fd, out_fd, err_fd; /* -1 once closed */
    char out[32768], err[32768];
    size_t out_len, err_len;
};

/* start runs dibs with these arguments (NULL ends them); start_program something else. The
 * engine is a folder of the test's own, in DIBS_URL. */
void start(struct proc *proc, const char *const *arguments);
void start_program(struct proc *proc, const char *const *argv);
#define START(proc, ...) start((proc), (const char *const[]){ __VA_ARGS__, NULL })

/* start_on_terminal does so in a session and on a terminal of its own. */
void start_on_terminal(struct proc *proc, const char *const *argv);

/* finish waits for the end and returns the exit code, or 128 plus the signal's number. */
int finish(struct proc *proc);
#define DIBS(proc, ...) (START(proc, __VA_ARGS__), finish(proc))

/* put writes to its stdin; end_input closes that. */
void put(struct proc *proc, const char *text);
void end_input(struct proc *proc);

/* await_out waits until it has written this to stdout, await_err to stderr. */
void await_out(struct proc *proc, const char *text);
void await_err(struct proc *proc, const char *text);

/* is_alive says whether a process is there, and not just a zombie nobody has reaped. */
bool is_alive(pid_t pid);

/* await_waiters waits until that many queue for a name, await_gone until a process has
 * ended, await_file until a file is there. */
void await_waiters(const char *name, int count);
void await_gone(pid_t pid);
void await_file(const char *path);

/* hold starts a dibs hold and waits until it has the lock; let_go ends it. */
void hold(struct proc *proc, const char *name);
void let_go(struct proc *proc);

/* number_after returns the number that stands behind `text` in `in`. */
long number_after(const char *in, const char *text);

/* check_json fails unless `text` is lines of one JSON object each, at least one. */
void check_json(const char *text);

/* in_folder returns the path of a file in the test's folder; it lives until the next. */
const char *in_folder(const char *file);

#define CHECK_TEXT(got, want) check_text(__FILE__, __LINE__, (got), (want))
#define CHECK_HAS(got, part) check_has(__FILE__, __LINE__, (got), (part))
void check_text(const char *file, int line, const char *got, const char *want);
void check_has(const char *file, int line, const char *got, const char *part);

/* A file's cases. CASE names are found by CMakeLists.txt, which makes a test of each. */
struct test_case {
    const char *name;
    void (*run)(void);
};
#define CASE(name) static void case_##name(void)
#define ENTRY(name)                                                                      \
    {                                                                                    \
#name, case_##name                                                               \
    }

/* run_case runs the one that argv[1] names. */
int run_case(int argc, char **argv, const struct test_case *cases, size_t count);
#define MAIN(...)                                                                        \
    int main(int argc, char **argv)                                                      \
    {                                                                                    \
        static const struct test_case cases[] = { __VA_ARGS__ };                         \
        return run_case(argc, argv, cases, sizeof cases / sizeof *cases);                \
    }

#endif /* TEST_CLI_H */
