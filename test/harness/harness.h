/* SPDX-License-Identifier: MIT */
/*
 * What tests that need time, threads and other processes share. It knows nothing of
 * dibs, so that a mistake in the library cannot hide itself here.
 *
 * Why not cmocka: its assertions jump back to the runner, which is only sound on the
 * thread that runs the test. Here a check may fail on any thread and in any helper
 * process, so a failing check prints where it stands, kills what the test started, and
 * ends the process.
 *
 * check.c: checks, time and the time limit. process.c: other processes, temporary
 * folders, shared memory. gang.c: threads. leak.c: what a test may leave behind. By
 * themselves: cases.h, for programs with several tests; user.h, for tests that use dibs as
 * its users do.
 */
#ifndef TEST_HARNESS_H
#define TEST_HARNESS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* ctest's SKIP_RETURN_CODE */
#define EXIT_SKIPPED 77

/* now_ns and now_ms read boot time, the same in all processes of the machine. */
int64_t now_ns(void);
int64_t now_ms(void);
void sleep_ms(int64_t ms);

/* slow_factor is by how much this build on this machine may be late: $DIBS_TEST_SLOW, or
 * 4 under a sanitizer, or 1. slowly scales a time limit by it. */
int slow_factor(void);
int64_t slowly(int64_t ms);

/* threads_work_after_fork says whether the child of a process with threads may start
 * some; the thread sanitizer cannot follow it there. */
int threads_work_after_fork(void);

/* fail_at reports a failed check, ends what the test started and exits 1. Any thread. */
_Noreturn void fail_at(const char *file, int line, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#define FAIL(...) fail_at(__FILE__, __LINE__, __VA_ARGS__)
#define CHECK(condition)                                                                 \
    do {                                                                                 \
        if (!(condition)) {                                                              \
            FAIL("this does not hold: %s", #condition);                                  \
        }                                                                                \
    } while (0)

/* CHECK_SAME compares two integers, CHECK_WITHIN an integer with both its bounds. */
void check_same(const char *file, int line, const char *what, int64_t got, int64_t want);
void check_within(const char *file, int line, const char *what, int64_t got, int64_t low,
                  int64_t high);
#define CHECK_SAME(got, want)                                                            \
    check_same(__FILE__, __LINE__, #got, (int64_t)(got), (int64_t)(want))
#define CHECK_WITHIN(got, low, high)                                                     \
    check_within(__FILE__, __LINE__, #got, (int64_t)(got), (int64_t)(low),               \
                 (int64_t)(high))

/* on_failure sets what fail_at calls last; it must be safe in a signal handler. */
void on_failure(void (*clean_up)(void));

/* limit_time ends the process as a failed check would, after that many seconds. */
void limit_time(unsigned seconds);

/* spawn_self executes this same program again with other arguments (argv[0] is set) and
 * leaves the given descriptors open in it. The process dies with the calling thread, so
 * call it from the main thread. It executes because a plain fork of a process that has
 * threads is not something a sanitizer can follow. */
pid_t spawn_self(const char *const *arguments, const int *keep, size_t keep_count);

/* spawn_program executes another program, found on the path; `argv` ends with NULL. It
 * reads nothing and what it prints is added to the file `log`. It dies with the calling
 * thread as well. */
pid_t spawn_program(const char *const *argv, const char *log);

/* reap waits for a process that was spawned and returns its wait status; fails if it is
 * still there after that long. kill_and_reap ends it first, with SIGKILL. */
int reap(pid_t pid, int64_t limit_ms);
void kill_and_reap(pid_t pid);

/* kill_spawned ends one of them, and does nothing if it was reaped already;
 * kill_all_spawned ends what is left of them. Safe in a signal handler. */
void kill_spawned(pid_t pid);
void kill_all_spawned(void);

/* temp_dir makes a folder only we can use, below `base`. remove_tree deletes one; it is
 * safe in a signal handler. */
void temp_dir(char *out, size_t size, const char *base);
void remove_tree(const char *path);

/* shared_new makes zeroed memory that other processes can map by its descriptor. */
void *shared_new(size_t size, int *fd);
void *shared_map(int fd, size_t size);

/* A gang is threads that start together. The function gets `arg` and the thread's
 * index. */
typedef void gang_work(void *arg, int index);
typedef struct gang gang;
gang *gang_start(int count, gang_work *work, void *arg);
void gang_join(gang *all);

/* count_entries counts what is in a folder, but for names that begin with a dot. */
int count_entries(const char *path);

/* start_first_thread starts and joins a thread: from its first one on, a sanitizer has a
 * thread of its own, which then is there before anybody counts. */
void start_first_thread(void);

/* What the process has now; threads_settle waits until no more than `count` are left. */
int count_fds(void);
int count_threads(void);
int threads_settle(int count, int64_t limit_ms);

#endif /* TEST_HARNESS_H */
