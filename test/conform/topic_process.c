/* SPDX-License-Identifier: MIT */
/* What a process may do around the library: have signals delivered all the time, cancel
 * threads, fork in a callback, execute other programs, leave children behind, go on as
 * another user. */
#include "conform.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NAME "process"
#define OTHER "process 2"
#define LATE slowly(200)

/* ---- signals ---- */

#define STORM_NS 100000 /* ten thousand a second */

static _Atomic int signals_seen;

static void
count_signal(int number)
{
    (void)number;
    atomic_fetch_add(&signals_seen, 1);
}

/* without SA_RESTART: what a signal interrupts returns EINTR */
static timer_t
start_storm(void)
{
    struct sigaction action = { .sa_handler = count_signal };
    struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
    struct itimerspec every = { { 0, STORM_NS }, { 0, STORM_NS } };
    timer_t storm;
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(timer_create(CLOCK_MONOTONIC, &event, &storm) == 0);
    CHECK(timer_settime(storm, 0, &every, NULL) == 0);
    return storm;
}

static void
mask_storm(int how)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    CHECK(pthread_sigmask(how, &set, NULL) == 0);
}

/* a wait in vain lasts as long as it should, whatever interrupts it */
static void
wait_in_vain(void)
{
    dibs_hold *none = NULL;
    int64_t limit_ms = slowly(60), from = now_ms();
    GIVES(DIBS_ETIMEDOUT, dibs_timedlock(&none, stage.client, NAME, limit_ms, &oops));
    CHECK_WITHIN(now_ms() - from, limit_ms - 1, limit_ms + LATE);
}

static void
work_in_the_storm(void *arg, int index)
{
    dibs_request request = brief_lease(NAME);
    (void)arg, (void)index;
    mask_storm(SIG_UNBLOCK);
    wait_in_vain();
    for (int i = 0; i < 20; i++) {
        give(take_name(stage.client, OTHER));
    }
    dibs *own = open_client();
    give(take_name(own, OTHER));
    dibs_close(own);
    atomic_store(&stage.shared->words[0], 1);
    dibs_hold *hold = take(stage.client, &request);
    for (int64_t until = now_ms() + stage.lease_ms * 3 / 2; now_ms() < until;) {
        CHECK(dibs_held(hold));
        sleep_ms(1);
    }
    OK(dibs_renew(hold, 0, &oops));
    for (int64_t until = now_ms() + slowly(20000); atomic_load(&signals_seen) <= 500;) {
        CHECK(now_ms() < until);
        sleep_ms(1);
    }
    give(hold);
    mask_storm(SIG_BLOCK);
}

CASE(process, signal_storm)
{
    mask_storm(SIG_BLOCK); /* it is for one thread; the others inherit this */
    peer *other = peer_new();
    (void)peer_take(other, NAME);
    timer_t storm = start_storm();
    gang *worker = gang_start(1, work_in_the_storm, NULL);
    await_word(0, 1);
    await_waiters(NAME, 1);
    OK(peer_release(other, 0));
    gang_join(worker);
    CHECK(timer_delete(storm) == 0);
    peer_quit(other);
}

/* ---- threads that are cancelled ---- */

/* who waits looks again after a second and an eighth, also without a ring */
#define LOOKED_AGAIN_MS 1300

static dibs_hold *waited_for;

static __attribute__((noinline)) void
wait_for_it(void)
{
    waited_for = take_name(stage.client, NAME);
}

/* has nothing on its stack when it ends: the address sanitizer would miss that */
static void *
wait_and_be_cancelled(void *arg)
{
    (void)arg;
    wait_for_it();
    for (;;) {
        pthread_testcancel();
    }
    return NULL;
}

static void
cancel_and_join(pthread_t thread)
{
    void *result = NULL;
    CHECK(pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
}

/* a call of the library is no place to end a thread: it ends after that */
CASE(process, waiter_cancelled)
{
    pthread_t waiter;
    void *result = NULL;
    peer *other = peer_new();
    (void)peer_take(other, NAME);
    CHECK(pthread_create(&waiter, NULL, wait_and_be_cancelled, NULL) == 0);
    await_waiters(NAME, 1);
    CHECK(pthread_cancel(waiter) == 0);
    sleep_ms(LOOKED_AGAIN_MS);
    CHECK(pthread_tryjoin_np(waiter, &result) == EBUSY);
    OK(peer_release(other, 0));
    CHECK(pthread_join(waiter, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(waited_for != NULL && dibs_held(waited_for));
    give(waited_for);
    CHECK(is_free(stage.client, NAME));
    peer_quit(other);
}

static __attribute__((noinline)) void
take_and_give(void)
{
    give(take_name(stage.client, NAME));
}

static void *
work_and_be_cancelled(void *arg)
{
    for (;;) {
        take_and_give();
        atomic_fetch_add((_Atomic int *)arg, 1);
        pthread_testcancel();
    }
    return NULL;
}

/* whenever it comes, nothing stays locked: neither here nor at the engine */
CASE(process, worker_cancelled)
{
    for (int i = 0; i < 20; i++) {
        _Atomic int rounds = 0;
        pthread_t worker;
        CHECK(pthread_create(&worker, NULL, work_and_be_cancelled, &rounds) == 0);
        for (int64_t until = now_ms() + slowly(5000); atomic_load(&rounds) < 2;) {
            CHECK(now_ms() < until);
            sleep_ms(1);
        }
        nanosleep(&(struct timespec){ .tv_nsec = i * 50000 }, NULL);
        cancel_and_join(worker);
        CHECK(is_free(stage.client, NAME));
    }
}

static int nowhere = -1;
static _Atomic int traced, calls_returned;

/* a place to be cancelled at */
static void
write_somewhere(void)
{
    CHECK(write(nowhere, "x", 1) == 1);
}

static void
trace_by_writing(const dibs_trace_event *event, void *arg)
{
    (void)event, (void)arg;
    write_somewhere();
    atomic_fetch_add(&traced, 1);
}

static int
list_by_writing(const dibs_report *report, void *arg)
{
    (void)report, (void)arg;
    write_somewhere();
    return 1;
}

static int
observe_by_writing(const dibs_party *leader, void *arg)
{
    (void)leader, (void)arg;
    write_somewhere();
    return 1;
}

static void
look_doomed(dibs *client)
{
    dibs_report *report = NULL;
    if (has(DIBS_CAP_INSPECT)) {
        CHECK_SAME(dibs_list(client, NULL, list_by_writing, NULL, &oops), 1);
        OK(dibs_inspect(&report, client, OTHER, &oops));
        dibs_report_free(report);
    }
    if (has(DIBS_CAP_OBSERVE)) {
        CHECK_SAME(dibs_observe(client, OTHER, observe_by_writing, NULL, slowly(5000),
                                NULL, &oops),
                   1);
    }
    if (has(DIBS_CAP_CELL)) {
        dibs_cell cell;
        GIVES(DIBS_ENOTFOUND, dibs_cell_read(&cell, client, OTHER, &oops));
    }
}

static void
wait_doomed(dibs *client)
{
    dibs_hold *none = NULL;
    dibs_op *op = NULL;
    dibs_request request = want(NAME);
    GIVES(DIBS_EBUSY, dibs_trylock(&none, client, NAME, &oops));
    GIVES(DIBS_ETIMEDOUT, dibs_timedlock(&none, client, NAME, slowly(60), &oops));
    OK(dibs_acquire_async(&op, client, &request, NULL, NULL, &oops));
    dibs_op_cancel(op);
    GIVES(DIBS_ECANCELED, dibs_op_finish(&none, op, &oops));
}

/* all of its calls return, though it is to end at the next place where it may */
static __attribute__((noinline)) void
call_doomed(int is_traced)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    dibs *client = NULL;
    dibs_hold *hold = NULL;
    options.trace = is_traced ? trace_by_writing : NULL;
    CHECK(pthread_cancel(pthread_self()) == 0);
    OK(dibs_open(&client, stage.url, &options, &oops));
    wait_doomed(client);
    OK(dibs_lock(&hold, client, OTHER, &oops));
    CHECK(dibs_lost_fd(hold, &oops) >= 0);
    OK(dibs_renew(hold, 0, &oops));
    look_doomed(client);
    OK(dibs_unlock(hold, &oops));
    dibs_close(client);
    atomic_fetch_add(&calls_returned, 1);
}

static void *
call_and_be_cancelled(void *arg)
{
    call_doomed(arg != NULL);
    for (;;) {
        pthread_testcancel();
    }
    return NULL;
}

/* A thread that was cancelled before it calls, so that the first place to be cancelled at would
 * be the last. Nobody else notices anything of it. */
CASE(process, cancelled_before)
{
    peer *other = peer_new();
    (void)peer_take(other, NAME);
    nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    CHECK(nowhere >= 0);
    for (int i = 0; i < 2; i++) {
        pthread_t doomed;
        void *result = NULL;
        CHECK(pthread_create(&doomed, NULL, call_and_be_cancelled, i ? &traced : NULL) ==
              0);
        CHECK(pthread_join(doomed, &result) == 0 && result == PTHREAD_CANCELED);
        CHECK_SAME(calls_returned, i + 1);
        dibs *client = open_client();
        give(take_name(client, OTHER));
        dibs_close(client);
    }
    CHECK(traced > 0);
    close(nowhere);
    OK(peer_release(other, 0));
    peer_quit(other);
}

/* ---- forks ---- */

static dibs_hold *kept;

/* in the child, as far as that: 0, or which is wrong */
static int
look_around(void)
{
    dibs_hold *none = NULL;
    if (dibs_held(kept) != 0) {
        return 2;
    }
    if (dibs_trylock(&none, stage.client, OTHER, NULL) == DIBS_OK) {
        return 3;
    }
    dibs_hold_free(kept);
    dibs_close(stage.client);
    return 0;
}

static void
fork_here(void)
{
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        alarm((unsigned)slowly(10));
        _exit(look_around());
    }
    CHECK(child > 0);
    while (waitpid(child, &status, 0) != child) {
        CHECK(errno == EINTR);
    }
    CHECK_SAME(status, 0);
    CHECK(dibs_held(kept));
}

static void
fork_when_done(dibs_op *op, void *arg)
{
    dibs_hold *hold = NULL;
    fork_here();
    OK(dibs_op_finish(&hold, op, &oops));
    give(hold);
    atomic_store((_Atomic int *)arg, 1);
}

static int
fork_when_listed(const dibs_report *report, void *arg)
{
    (void)report;
    fork_here();
    *(int *)arg = 1;
    return 1;
}

static void
fork_when_lost(dibs_hold *hold, void *arg)
{
    (void)hold;
    fork_here();
    atomic_store((_Atomic int *)arg, 1);
}

static void
await_flag(_Atomic int *flag)
{
    for (int64_t until = now_ms() + slowly(5000); !atomic_load(flag);) {
        CHECK(now_ms() < until);
        sleep_ms(1);
    }
}

CASE(process, fork_in_callbacks)
{
    _Atomic int done = 0, lost = 0;
    int listed = 0;
    dibs_request request = want(OTHER);
    dibs_op *op = NULL;
    kept = take_name(stage.client, NAME);
    OK(dibs_acquire_async(&op, stage.client, &request, fork_when_done, &done, &oops));
    await_flag(&done);
    if (has(DIBS_CAP_INSPECT)) {
        CHECK_SAME(dibs_list(stage.client, NULL, fork_when_listed, &listed, &oops), 1);
        CHECK_SAME(listed, 1);
    }
    request.max_hold_ms = (uint32_t)slowly(20);
    request.on_lost = fork_when_lost;
    request.on_lost_arg = &lost;
    dibs_hold *brief = take(stage.client, &request);
    await_flag(&lost);
    GIVES(DIBS_ELOST, dibs_unlock(brief, &oops));
    CHECK(dibs_held(kept) && !is_free(stage.client, NAME));
    give(kept);
}

/* libcurl wakes itself by pairs of sockets, which lead nowhere else; nothing from outside
 * keeps them from being inherited */
static int
has_no_name(int fd, int (*ask)(int fd, struct sockaddr *name, socklen_t *len))
{
    struct sockaddr_un name;
    socklen_t len = sizeof(name);
    return ask(fd, (struct sockaddr *)&name, &len) == 0 && name.sun_family == AF_UNIX &&
           len == sizeof(name.sun_family);
}

/* a connection to a server has no name here, and one at the other end */
static int
is_pair(int fd)
{
    return has_no_name(fd, getsockname) && has_no_name(fd, getpeername);
}

/* how many descriptors another program would inherit */
static int
count_inheritable(void)
{
    int count = 0;
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder)) != NULL;) {
        int fd = atoi(entry->d_name), flags = fcntl(fd, F_GETFD);
        count += entry->d_name[0] != '.' && flags >= 0 && !(flags & FD_CLOEXEC) &&
                 !is_pair(fd);
    }
    closedir(folder);
    return count;
}

/* a program that is executed inherits no connection, lock or file of ours */
CASE(process, exec_inherits_nothing)
{
    int before = count_inheritable();
    dibs *client = open_client();
    dibs_request request = brief_lease(NAME), wait = want(NAME);
    dibs_hold *hold = take(client, &request), *second = NULL;
    dibs_op *op = NULL;
    CHECK(dibs_lost_fd(hold, &oops) >= 0);
    OK(dibs_acquire_async(&op, stage.client, &wait, NULL, NULL, &oops));
    CHECK(dibs_op_fd(op) >= 0);
    await_waiters(NAME, 1);
    int64_t until = now_ms() + slowly(1000);
    int count = count_inheritable();
    while (count != before && now_ms() < until) {
        sleep_ms(5); /* one may just be made, and not yet be marked */
        count = count_inheritable();
    }
    CHECK_SAME(count, before);
    give(hold);
    OK(dibs_op_finish(&second, op, &oops));
    give(second);
    dibs_close(client);
}

/* forks a child that does nothing but live on */
JOB(leave_a_child)
{
    (void)client, (void)args;
    pid_t child = fork();
    if (child == 0) {
        alarm((unsigned)slowly(30));
        for (;;) {
            pause();
        }
    }
    return child;
}

/* neither does such a child keep its parent's lock, nor does its end take it away */
CASE(process, child_lives_on)
{
    dibs_request request = brief_lease(NAME);
    peer *other = peer_new();
    OK(peer_acquire(other, 0, &request).code);
    pid_t first = (pid_t)peer_job(other, "leave_a_child", NULL, 0);
    pid_t second = (pid_t)peer_job(other, "leave_a_child", NULL, 0);
    CHECK(first > 0 && second > 0);
    CHECK(kill(first, SIGKILL) == 0);
    sleep_ms(2 * stage.lease_ms);
    CHECK(peer_state(other, 0).held == 1 && !is_free(stage.client, NAME));
    peer_kill(other);
    int freed = comes_free(stage.client, NAME, death_limit_ms() + slowly(250));
    (void)kill(second, SIGKILL);
    CHECK(freed);
}

/* ---- another user ---- */

#define NOBODY 65534

JOB(become_nobody)
{
    (void)client, (void)args;
    if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0) {
        return 0;
    }
    /* such a process may be looked into by root only, which the leak sanitizer is not */
    return prctl(PR_SET_DUMPABLE, 1) == 0;
}

/* A daemon opens what it needs and gives up its rights. It goes on with its locks; or, where
 * that needs files that are not its own any more, it is told that it has none. */
CASE(process, another_user)
{
    dibs_request request = brief_lease(NAME);
    if (geteuid() != 0 && !stage.fixture->one_process) {
        dibs_close(stage.client);
        stage.fixture->stop();
        puts("skipped: only root can become somebody else");
        exit(EXIT_SKIPPED);
    }
    peer *other = peer_new();
    OK(peer_acquire(other, 0, &request).code);
    if (!stage.fixture->one_process) {
        CHECK_SAME(peer_job(other, "become_nobody", NULL, 0), 1);
    }
    sleep_ms(2 * stage.lease_ms);
    answer state = peer_state(other, 0);
    CHECK_SAME(state.told, !state.held);
    CHECK(!state.held || !is_free(stage.client, NAME));
    request.name = OTHER;
    if (state.held) {
        OK(peer_acquire(other, 1, &request).code);
        OK(peer_release(other, 1));
    }
    GIVES(state.held ? DIBS_OK : DIBS_ELOST, peer_release(other, 0));
    CHECK(comes_free(stage.client, NAME, death_limit_ms()));
    peer_quit(other);
}
