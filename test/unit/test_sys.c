/* SPDX-License-Identifier: MIT */
/* core/sys.c: bells, sleeping, fork marks, thread numbers and the clock that can be moved. */
#include "unit.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/sys.h"

#define WAITERS 16
/* how long a sleeper sleeps that nobody wakes: long enough to be told apart */
#define ASLEEP_MS 20000

/* ---- bells ---- */

CASE(rung_before_the_wait)
{
    dibs_bell bell = 0;
    uint32_t seen = dibs_bell_seen(&bell);
    dibs__bell_ring(&bell);
    assert_int_equal(dibs__bell_wait(&bell, seen, DIBS_NEVER), 1);
    assert_int_equal(dibs__bell_wait(&bell, seen, 0), 1); /* a ring beats the clock */
}

CASE(not_rung)
{
    dibs_bell bell = 6;
    int64_t began = now_ms();
    assert_int_equal(dibs__bell_wait(&bell, 6, dibs__now() + 50 * DIBS_MS), 0);
    assert_in_range(now_ms() - began, 49, slowly(1000));
    assert_int_equal(dibs__bell_wait(&bell, 6, 0), 0);
    assert_int_equal(dibs__bell_wait(&bell, 6, dibs__now() - 1), 0);
    assert_int_equal(dibs_bell_seen(&bell), 6);
}

CASE(counter_wraps_around)
{
    dibs_bell bell = UINT32_MAX - 1;
    uint32_t seen = dibs_bell_seen(&bell);
    dibs__bell_ring(&bell);
    assert_int_equal(dibs_bell_seen(&bell), 0);
    assert_int_equal(dibs__bell_wait(&bell, seen, DIBS_NEVER), 1);
}

struct waiters {
    dibs_bell bell;
    _Atomic int asleep, woken;
};

static void
wait_once(void *arg, int index)
{
    struct waiters *waiters = arg;
    (void)index;
    uint32_t seen = dibs_bell_seen(&waiters->bell);
    atomic_fetch_add(&waiters->asleep, 1);
    CHECK_SAME(dibs__bell_wait(&waiters->bell, seen, dibs__now() + ASLEEP_MS * DIBS_MS),
               1);
    atomic_fetch_add(&waiters->woken, 1);
}

CASE(rung_during_the_wait)
{
    struct waiters waiters = { 0 };
    gang *one = gang_start(1, wait_once, &waiters);
    while (!atomic_load(&waiters.asleep) || !(atomic_load(&waiters.bell) & 1u))
        sleep_ms(1);
    sleep_ms(20);
    assert_int_equal(atomic_load(&waiters.woken), 0);
    int64_t rung_at = now_ms();
    dibs__bell_ring(&waiters.bell);
    gang_join(one);
    assert_int_equal(atomic_load(&waiters.woken), 1);
    assert_in_range(now_ms() - rung_at, 0, ASLEEP_MS / 2);
}

CASE(one_ring_wakes_all)
{
    struct waiters waiters = { 0 };
    gang *all = gang_start(WAITERS, wait_once, &waiters);
    while (atomic_load(&waiters.asleep) < WAITERS)
        sleep_ms(1);
    sleep_ms(20);
    int64_t rung_at = now_ms();
    dibs__bell_ring(&waiters.bell);
    gang_join(all);
    assert_int_equal(atomic_load(&waiters.woken), WAITERS);
    assert_in_range(now_ms() - rung_at, 0, ASLEEP_MS / 2);
}

#define ROUNDS 5000

static void
play_ping_pong(void *arg, int index)
{
    dibs_bell *bells = arg;
    for (int i = 0; i < ROUNDS; i++) {
        uint32_t seen = (uint32_t)i * 2;
        if (index == 0)
            dibs__bell_ring(&bells[1]);
        CHECK_SAME(
            dibs__bell_wait(&bells[index], seen, dibs__now() + ASLEEP_MS * DIBS_MS), 1);
        if (index == 1)
            dibs__bell_ring(&bells[0]);
    }
}

/* a lost ring would show as a long sleep */
CASE(no_ring_is_lost)
{
    dibs_bell bells[2] = { 0, 0 };
    int64_t began = now_ms();
    gang_join(gang_start(2, play_ping_pong, bells));
    assert_in_range(now_ms() - began, 0, ASLEEP_MS - 1);
    assert_int_equal(dibs_bell_seen(&bells[0]), ROUNDS * 2);
}

static void
do_nothing(int number)
{
    (void)number;
}

static void
ignore_wakeups(void)
{
    struct sigaction action = { .sa_handler = do_nothing };
    assert_int_equal(sigaction(SIGUSR1, &action, NULL), 0);
}

CASE(signals_do_not_end_a_wait)
{
    dibs_bell bell = 0;
    ignore_wakeups();
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 20; i++) {
            sleep_ms(5);
            (void)kill(getppid(), SIGUSR1);
        }
        _exit(0);
    }
    int64_t began = now_ms();
    assert_int_equal(dibs__bell_wait(&bell, 0, dibs__now() + 150 * DIBS_MS), 0);
    assert_in_range(now_ms() - began, 149, slowly(2000));
    while (waitpid(child, NULL, 0) < 0) {
    }
}

CASE(bells_work_between_processes)
{
    dibs_bell *bells = mmap(NULL, sizeof *bells * 2, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(bells, MAP_FAILED);
    pid_t child = fork();
    if (child == 0) {
        int rung = dibs__bell_wait(&bells[0], 0, dibs__now() + 10000 * DIBS_MS);
        dibs__bell_ring(&bells[1]);
        _exit(rung ? 0 : 1);
    }
    sleep_ms(20);
    dibs__bell_ring(&bells[0]);
    assert_int_equal(dibs__bell_wait(&bells[1], 0, dibs__now() + 10000 * DIBS_MS), 1);
    int status = -1;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(munmap(bells, sizeof *bells * 2), 0);
}

/* ---- time ---- */

CASE(sleeping)
{
    int64_t began = now_ms();
    dibs__sleep_until(dibs__now() + 30 * DIBS_MS);
    assert_in_range(now_ms() - began, 29, slowly(1000));
    began = now_ms();
    dibs__sleep_until(0);
    dibs__sleep_until(dibs__now() - 1000 * DIBS_MS);
    assert_in_range(now_ms() - began, 0, slowly(1000));
}

static void
sleep_a_minute(void *arg, int index)
{
    (void)index;
    dibs__sleep_until(dibs__now() + 60000 * DIBS_MS);
    atomic_store((_Atomic int *)arg, 1);
}

CASE(clock_can_be_moved)
{
    _Atomic int awake = 0;
    dibs_time before = dibs__now();
    assert_true(before / DIBS_MS - now_ms() <= 1);
    dibs__clock_advance(0);
    gang *one = gang_start(1, sleep_a_minute, &awake);
    sleep_ms(50);
    dibs__clock_advance(50000);
    assert_true(dibs__now() - before >= 50000 * DIBS_MS);
    assert_true(dibs__now() - before < 59000 * DIBS_MS);
    assert_int_equal(atomic_load(&awake), 0);
    dibs__clock_advance(10000);
    gang_join(one);
    assert_int_equal(atomic_load(&awake), 1);
    assert_in_range(dibs__wall_ms() / 1000 - time(NULL), 0, 1); /* not that one */
}

CASE(clock_does_not_go_back)
{
    dibs_time last = dibs__now();
    for (int i = 0; i < 100000; i++) {
        dibs_time now = dibs__now();
        assert_true(now >= last);
        last = now;
    }
}

CASE(random_is_random)
{
    uint64_t seen[64], all_or = 0, all_and = UINT64_MAX;
    for (size_t i = 0; i < COUNT(seen); i++) {
        seen[i] = dibs__random();
        all_or |= seen[i];
        all_and &= seen[i];
        for (size_t j = 0; j < i; j++)
            assert_true(seen[i] != seen[j]);
    }
    assert_true(all_or == UINT64_MAX && all_and == 0);
}

/* ---- threads ---- */

static void
take_number(void *arg, int index)
{
    uint64_t *numbers = arg;
    numbers[index] = dibs__thread_number();
    CHECK(numbers[index] == dibs__thread_number());
}

CASE(thread_numbers_are_unique)
{
    uint64_t numbers[65] = { 0 };
    numbers[64] = dibs__thread_number();
    /* in two rounds: threads of the second may have the first's pthread_t */
    gang_join(gang_start(32, take_number, numbers));
    gang_join(gang_start(32, take_number, numbers + 32));
    for (int i = 0; i < 65; i++) {
        assert_true(numbers[i] != 0);
        for (int j = 0; j < i; j++)
            assert_true(numbers[i] != numbers[j]);
    }
}

static void *
look_at_signals(void *arg)
{
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, NULL, &blocked);
    *(int *)arg = sigismember(&blocked, SIGUSR1) == 1 &&
                  sigismember(&blocked, SIGINT) == 1 &&
                  sigismember(&blocked, SIGALRM) == 1;
    return NULL;
}

CASE(threads_take_no_signals)
{
    dibs__thread thread;
    int blocked = 0;
    sigset_t ours;
    assert_int_equal(dibs__thread_start(&thread, "unit", look_at_signals, &blocked, 0),
                     0);
    dibs__thread_join(&thread);
    assert_int_equal(blocked, 1);
    pthread_sigmask(SIG_SETMASK, NULL, &ours);
    assert_int_equal(sigismember(&ours, SIGUSR1), 0);
}

/* ---- fork ---- */

/* returns the exit code of a child that looks at the mark */
static int
finish_child(pid_t child)
{
    int status = -1;
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

CASE(fork_is_noticed)
{
    uint32_t mark = dibs__fork_mark();
    assert_true(mark != 0);
    assert_true(dibs__fork_mark() == mark);
    assert_int_equal(dibs__forked(mark), 0);
    pid_t child = fork();
    if (child == 0) {
        int noticed = dibs__forked(mark);
        uint32_t own = dibs__fork_mark();
        int fine = noticed && own != mark && dibs__forked(mark) && !dibs__forked(own);
        /* its own child is another one again */
        pid_t grandchild = fine ? fork() : -1;
        if (grandchild == 0)
            _exit(dibs__forked(mark) && dibs__forked(own) && dibs__fork_mark() != own &&
                          dibs__fork_mark() != mark
                      ? 0
                      : 1);
        int status = -1;
        fine = fine && waitpid(grandchild, &status, 0) == grandchild && status == 0;
        _exit(fine ? 0 : 1);
    }
    assert_int_equal(finish_child(child), 0);
    assert_int_equal(dibs__forked(mark), 0);
}

/* a fork that runs no atfork handler */
CASE(clone_is_noticed)
{
    uint32_t mark = dibs__fork_mark();
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        syscall(SYS_exit_group, dibs__forked(mark) ? 0 : 1);
    assert_int_equal(finish_child(child), 0);
    assert_int_equal(dibs__forked(mark), 0);
}

/* a vforked child uses our memory until it executes: it must not make the parent look
 * forked, and a clean exec must work */
CASE(vfork_leaves_the_parent_alone)
{
    uint32_t mark = dibs__fork_mark();
    pid_t child =
        (pid_t)syscall(SYS_clone, CLONE_VFORK | SIGCHLD, NULL, NULL, NULL, NULL);
    if (child == 0)
        syscall(SYS_exit_group, dibs__forked(mark) ? 0 : 1);
    assert_int_equal(finish_child(child), 0);
    assert_int_equal(dibs__forked(mark), 0);
    assert_int_equal(system("exit 7") >> 8, 7); /* posix_spawn: CLONE_VM | CLONE_VFORK */
    assert_int_equal(dibs__forked(mark), 0);
    assert_true(dibs__fork_mark() == mark);
}
