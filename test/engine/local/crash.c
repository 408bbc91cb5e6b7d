/* SPDX-License-Identifier: MIT */
/*
 * Kill at any instruction. A child runs one operation of the engine under ptrace, is
 * stepped n instructions into it and killed; then this process must get the lock within a
 * time limit and find a table in which nothing derived contradicts the facts and nothing
 * has leaked. n sweeps the whole operation from a random start: in at most KILLS steps, in
 * fewer if the operation is long, or the machine so busy that stepping takes its time
 * (DIBS_LOCAL_KILLS overrides all).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/name.h"
#include "core/sys.h"
#include "drive.h"
#include "harness.h"

enum {
    KILLS = 60,
    KILLS_MIN = 12,
    STEP_BUDGET = 300000,
    LIMIT_MS = 2000,
    TIME_BUDGET_MS = 40000,
    KILLS_LEAST = 3, /* also where there is no time */
    STEPS_MAX = 2000000
};

#define LONG_NAME                                                                        \
    "a name that does not fit into its record and therefore needs a chain of two text "  \
    "records, since it is longer than a single one of them can take in"

/* One scenario: what the child prepares, what it is killed in, what this process holds
 * or waits for meanwhile. */
typedef struct scenario {
    const char *name;
    void (*prepare)(drive *child);
    void (*operation)(drive *child);
    int parent_holds;  /* this process has the lock before the child starts */
    int parent_waits;  /* this process queues before the operation starts */
    int child_has_it;  /* the child holds it all the way: its death must be told */
    int parent_sleeps; /* with parent_waits: asleep, so that it must be woken */
} scenario;

static dibs_claim child_claim;
static const char *dir;

static void
nothing(drive *d)
{
    (void)d;
}

static void
hold_it(drive *d)
{
    drive_claim(&child_claim, LONG_NAME, DIBS_EXCLUSIVE, 1, 0);
    child_claim.note =
        "a note that is too long for the place there is for it in the claim";
    (void)drive_attempt(d, &child_claim);
}

static void
end_it(drive *d)
{
    (void)drive_release(d, &child_claim);
}

static void
take_and_give(drive *d)
{
    hold_it(d);
    end_it(d);
}

static void
linger(drive *d)
{
    (void)dibs__engine_local.release(&d->state, &child_claim, 1, DIBS_NEVER, NULL);
}

static void
watch(drive *d)
{
    (void)dibs__engine_local.watch(&d->state, &child_claim, DIBS_NEVER, NULL);
}

static void
downgrade(drive *d)
{
    (void)dibs__engine_local.downgrade(&d->state, &child_claim, DIBS_NEVER, NULL);
}

static void
evict(drive *d)
{
    size_t broken;
    (void)dibs__engine_local.evict(&d->state, LONG_NAME, strlen(LONG_NAME),
                                   dibs__hash(LONG_NAME, strlen(LONG_NAME)), &broken,
                                   DIBS_NEVER, NULL);
}

static void
swap(drive *d)
{
    dibs_cell_key key = { 0, "c", 1, dibs__hash("c", 1) };
    dibs_cell cell;
    char value[300] = "value";
    (void)dibs__engine_local.cell_read(&d->state, &key, &cell, DIBS_NEVER, NULL);
    (void)dibs__engine_local.cell_swap(&d->state, &key, cell.version, value,
                                       sizeof(value), NULL, DIBS_NEVER, NULL);
}

static void
join_and_leave(drive *d)
{
    drive other;
    (void)d;
    if (drive_open(&other, dir) == DIBS_OK)
        drive_close(&other);
}

static const scenario scenarios[] = {
    { "acquire", nothing, hold_it, 0, 0, 0, 0 },
    { "acquire-release", nothing, take_and_give, 0, 0, 0, 0 },
    { "release", hold_it, end_it, 0, 0, 0, 0 },
    { "release-to-waiter", hold_it, end_it, 0, 1, 0, 0 },
    { "release-to-sleeper", hold_it, end_it, 0, 1, 0, 1 },
    { "enqueue", nothing, hold_it, 1, 0, 0, 0 },
    { "watch", hold_it, watch, 1, 0, 0, 0 },
    { "withdraw", hold_it, end_it, 1, 0, 0, 0 },
    { "linger", hold_it, linger, 0, 0, 0, 0 },
    { "linger-before-waiter", hold_it, linger, 0, 1, 0, 0 },
    { "downgrade", hold_it, downgrade, 0, 1, 1, 0 },
    { "evict", nothing, evict, 1, 0, 0, 0 },
    { "evict-own", hold_it, evict, 0, 1, 0, 0 },
    { "cell-swap", swap, swap, 0, 0, 0, 0 },
    { "join-leave", nothing, join_and_leave, 0, 0, 0, 0 },
};

/* ----------------------------------------------------------------- the child ---- */

static void
run_child(const scenario *s)
{
    drive d;
    alarm(240);
    if (drive_open(&d, dir) != DIBS_OK || ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
        _exit(1);
    s->prepare(&d);
    raise(SIGSTOP);
    s->operation(&d);
    raise(SIGSTOP);
    _exit(0);
}

static int
wait_for_stop(pid_t pid)
{
    int status;
    return waitpid(pid, &status, 0) == pid && WIFSTOPPED(status) ? WSTOPSIG(status) : -1;
}

/* step runs the child for at most n instructions; returns how many it took to the end of
 * the operation, or n. */
static long
step(pid_t pid, long n)
{
    for (long i = 0; i < n; i++) {
        if (ptrace(PTRACE_SINGLESTEP, pid, 0, 0) != 0)
            return i;
        if (wait_for_stop(pid) != SIGTRAP)
            return i;
    }
    return n;
}

/* The waiter, if it is to be asleep while the child is killed. */
typedef struct sleeper {
    pthread_t thread;
    drive *drive;
    dibs_claim *claim;
    int result;
    dibs_time killed, granted;
} sleeper;

static void *
sleep_for_it(void *arg)
{
    sleeper *w = arg;
    w->result = drive_wait(w->drive, w->claim, (int)slowly(LIMIT_MS));
    w->granted = dibs__now();
    return NULL;
}

/* kill_after returns how many instructions were made before the end. */
static long
kill_after(drive *d, const scenario *s, long n, sleeper *w)
{
    dibs_claim *own = w->claim;
    pid_t pid = fork();
    if (pid == 0)
        run_child(s);
    assert_int_equal(wait_for_stop(pid), SIGSTOP);
    if (s->parent_waits)
        assert_int_equal(drive_attempt(d, own), DIBS_EBUSY);
    if (s->parent_sleeps) {
        assert_int_equal(pthread_create(&w->thread, NULL, sleep_for_it, w), 0);
        usleep(2000);
    }
    long made = step(pid, n);
    w->killed = dibs__now();
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    if (s->parent_sleeps) {
        pthread_join(w->thread, NULL);
        assert_int_equal(w->result, DIBS_OK);
        /* before it would have looked again by itself */
        assert_true(w->granted - w->killed < d->look_ms * 9 / 10 * DIBS_MS);
    }
    return made;
}

/* ------------------------------------------------------------- what is left ---- */

static dibs_time
check_after(drive *d, const scenario *s, dibs_claim *own)
{
    drive other;
    dibs_time before = dibs__now();
    if (s->parent_holds) {
        (void)drive_release(d, own);
        drive_claim(own, LONG_NAME, DIBS_EXCLUSIVE, 1, 0);
    }
    if (!s->parent_sleeps)
        assert_int_equal(drive_wait(d, own, (int)slowly(LIMIT_MS)), DIBS_OK);
    dibs_time took = dibs__now() - before;
    if (s->child_has_it)
        assert_int_equal(own->previous, DIBS_PREVIOUS_EXPIRED);
    assert_int_equal(drive_release(d, own), DIBS_OK);
    assert_int_equal(drive_open(&other, dir), DIBS_OK); /* buries who is left */
    drive_close(&other);
    assert_int_equal(drive_count(d, KIND_LOCK), 0);
    assert_int_equal(drive_count(d, KIND_CLAIM), 0);
    assert_int_equal(drive_count(d, KIND_MEMBER), 1);
    drive_verify(d);
    return took;
}

static dibs_time
kill_and_check(drive *d, const scenario *s, long n, long *made)
{
    dibs_claim own;
    drive_claim(&own, LONG_NAME, DIBS_EXCLUSIVE, 1, 0);
    if (s->parent_holds)
        assert_int_equal(drive_attempt(d, &own), DIBS_OK);
    sleeper w = { .drive = d, .claim = &own };
    *made = kill_after(d, s, n, &w);
    dibs_time took = check_after(d, s, &own);
    return s->parent_sleeps ? w.granted - w.killed : took;
}

/* how many kills a sweep of so many instructions is good for, if to step through all took
 * so long; on average a kill is half-way */
static long
kill_count(long total, dibs_time took)
{
    const char *text = getenv("DIBS_LOCAL_KILLS");
    long kills = 2L * STEP_BUDGET / total;
    long in_time = (long)(2 * TIME_BUDGET_MS * DIBS_MS / took);
    if (text)
        return atol(text);
    kills = kills > KILLS ? KILLS : kills < KILLS_MIN ? KILLS_MIN : kills;
    kills = kills < in_time ? kills : in_time;
    return kills > KILLS_LEAST ? kills : KILLS_LEAST;
}

static void
sweep(void **state)
{
    const scenario *s = *state;
    long total, made;
    drive d;
    dibs_time slowest = 0;
    dir = drive_folder();
    assert_int_equal(drive_open(&d, dir), DIBS_OK);
    d.look_ms = slowly(d.look_ms);
    dibs_time began = dibs__now();
    (void)kill_and_check(&d, s, STEPS_MAX, &total);
    assert_in_range(total, 10, STEPS_MAX - 1);
    long stride = total / kill_count(total, dibs__now() - began);
    stride = stride > 0 ? stride : 1;
    for (long n = (long)(dibs__random() % (uint64_t)stride); n <= total; n += stride) {
        dibs_time took = kill_and_check(&d, s, n, &made);
        if (took > slowest)
            slowest = took;
    }
    print_message(
        "%s: %ld instructions, killed at every %ld; slowest next grant %.1f ms\n",
        s->name, total, stride, (double)slowest / (double)DIBS_MS);
    drive_close(&d);
    drive_remove();
}

int
main(int argc, char **argv)
{
    enum { COUNT = sizeof(scenarios) / sizeof(scenarios[0]) };
    struct CMUnitTest tests[COUNT];
    for (size_t i = 0; i < COUNT; i++)
        tests[i] = (struct CMUnitTest){ scenarios[i].name, sweep, NULL, NULL,
                                        (void *)(uintptr_t)&scenarios[i] };
    return drive_main(argc, argv, tests, COUNT);
}
