/* SPDX-License-Identifier: MIT */
/* Checks, time, and the time limit of a test. See harness.h. */
#include "harness.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define __SANITIZE_ADDRESS__ 1
#endif
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SLOW_BUILD 4
#else
#define SLOW_BUILD 1
#endif

static void (*clean_up_after_failure)(void);

int64_t
now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t
now_ms(void)
{
    return now_ns() / 1000000;
}

void
sleep_ms(int64_t ms)
{
    struct timespec rest = { ms / 1000, ms % 1000 * 1000000 };
    while (ms > 0 && nanosleep(&rest, &rest) != 0) {
    }
}

int
slow_factor(void)
{
    const char *given = getenv("DIBS_TEST_SLOW");
    int factor = given != NULL ? atoi(given) : SLOW_BUILD;
    return factor > 0 ? factor : 1;
}

int64_t
slowly(int64_t ms)
{
    return ms * slow_factor();
}

int
threads_work_after_fork(void)
{
#if defined(__SANITIZE_THREAD__)
    return 0;
#else
    return 1;
#endif
}

void
on_failure(void (*clean_up)(void))
{
    clean_up_after_failure = clean_up;
}

static _Noreturn void
end_failed(void)
{
    kill_all_spawned();
    if (clean_up_after_failure != NULL) {
        clean_up_after_failure();
    }
    _exit(1);
}

void
fail_at(const char *file, int line, const char *format, ...)
{
    const char *base = strrchr(file, '/');
    va_list args;
    va_start(args, format);
    flockfile(stderr);
    fprintf(stderr, "%s:%d: ", base != NULL ? base + 1 : file, line);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    fflush(stderr);
    funlockfile(stderr);
    va_end(args);
    end_failed();
}

void
check_same(const char *file, int line, const char *what, int64_t got, int64_t want)
{
    if (got != want) {
        fail_at(file, line, "%s is %lld, not %lld", what, (long long)got,
                (long long)want);
    }
}

void
check_within(const char *file, int line, const char *what, int64_t got, int64_t low,
             int64_t high)
{
    if (got < low || got > high) {
        fail_at(file, line, "%s is %lld, not within %lld and %lld", what, (long long)got,
                (long long)low, (long long)high);
    }
}

static void
time_is_up(int signal_number)
{
    static const char text[] = "the test's time is up\n";
    (void)signal_number;
    if (write(STDERR_FILENO, text, sizeof(text) - 1) < 0) {
        _exit(1);
    }
    end_failed();
}

void
limit_time(unsigned seconds)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = time_is_up;
    sigaction(SIGALRM, &action, NULL);
    alarm(seconds);
}
