/* SPDX-License-Identifier: MIT */
/* nth FIXTURE alloc|call: plays, each with another call that fails, for some seconds; and what
 * is true after each of them. Which calls are tried, and in which order, is chance, from a
 * seed that is printed: $DIBS_NTH_SEED has them again. $DIBS_NTH_MS is for longer. See nth.h. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "../conform/conform.h"
#include "nth.h"

#define TIME_MOST_MS 11000
#define PLAYS_MOST 1500
#define PLAY_LIMIT_MS 20000 /* all its steps have time limits that are shorter together */
#define CALLS_LEAST 10

/* what the fixtures want to know of the one they are for */
stage_info stage;

static nth_plan *plan;
static int plan_fd;
static char url[512];
static uint32_t lease_ms;
static uint64_t random_state;

/* ---- fixtures ---- */

#define FIXTURE(name, ...) extern const fixture fixture_##name;
#include "../conform/fixtures.def"
#undef FIXTURE
static const fixture *const known[] = {
#define FIXTURE(name, ...) &fixture_##name,
#include "../conform/fixtures.def"
#undef FIXTURE
};

static void
choose_fixture(const char *name)
{
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(known[i]->name, name) == 0)
            stage.fixture = known[i];
    }
    if (!stage.fixture)
        FAIL("there is no fixture %s", name);
}

static void
stop(void)
{
    stage.fixture->stop();
}

/* ---- chance ---- */

static uint64_t
chance(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

static void
choose_seed(void)
{
    const char *given = getenv("DIBS_NTH_SEED");
    random_state = given ? strtoull(given, NULL, 0) : (uint64_t)now_ns();
    random_state |= 1;
    printf("DIBS_NTH_SEED=%#llx\n", (unsigned long long)random_state);
}

/* ---- plays ---- */

/* in a process of its own */
static int
run_play(char **argv)
{
    plan = shared_map(atoi(argv[0]), sizeof *plan);
    if (nth_arm(plan) != 0) {
        puts("skipped: it is not known how calls are made on this machine");
        return EXIT_SKIPPED;
    }
    nth_play(plan, argv[1], argv[2], (uint32_t)strtoul(argv[3], NULL, 10));
    nth_disarm();
    return 0;
}

static pid_t
start_play(const char *name)
{
    char fd[16], lease[16];
    const char *arguments[] = { "play", fd, url, name, lease, NULL };
    (void)snprintf(fd, sizeof fd, "%d", plan_fd);
    (void)snprintf(lease, sizeof lease, "%u", (unsigned)lease_ms);
    return spawn_self(arguments, &plan_fd, 1);
}

/* -1: it is still there */
static int
await_end(pid_t pid)
{
    for (int64_t end = now_ms() + slowly(PLAY_LIMIT_MS); now_ms() < end; sleep_ms(2)) {
        siginfo_t ended = { 0 };
        (void)waitid(P_PID, (id_t)pid, &ended, WEXITED | WNOHANG | WNOWAIT);
        if (ended.si_pid == pid)
            return reap(pid, slowly(1000));
    }
    return -1;
}

static void
check_play(int status)
{
    int is_skipped =
        status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED;
    if (is_skipped) {
        stop();
        exit(EXIT_SKIPPED);
    }
    if (status == 0 && !*plan->trouble)
        return;
    FAIL("%s; call %ld, %s at %s, way %u; at step '%s': %s",
         status == -1          ? "it hangs"
         : WIFSIGNALED(status) ? "it crashed"
         : status != 0         ? "it ended badly"
                               : "it went wrong",
         plan->target, plan->has_struck ? plan->function : "none", plan->where, plan->way,
         plan->step, plan->trouble);
}

static void
play_once(long target, unsigned way, const char *name)
{
    int family = plan->family;
    memset(plan, 0, sizeof *plan);
    plan->family = family;
    plan->target = target;
    plan->way = way;
    check_play(await_end(start_play(name)));
}

/* ---- afterwards ---- */

/* somebody else gets it, as soon as what is left of the play must be over */
static void
check_left(dibs *judge, const char *name, int64_t *longest)
{
    dibs_hold *hold = NULL;
    dibs_error err = { 0 };
    uint32_t remains_ms =
        stage.fixture->remains_ms ? stage.fixture->remains_ms : stage.fixture->lease_ms;
    int64_t before = now_ms();
    int rc = dibs_timedlock(&hold, judge, name, slowly(remains_ms) + slowly(1000), &err);
    if (rc != DIBS_OK)
        FAIL("the lock is left behind by call %ld, %s at %s, way %u, at step '%s': %s",
             plan->target, plan->function, plan->where, plan->way, plan->step, err.text);
    int64_t took = now_ms() - before;
    *longest = took > *longest ? took : *longest;
    CHECK(dibs_release(hold, &err) == DIBS_OK);
    dibs_hold_free(hold);
}

/* the numbers from 1 on, in an order by chance; for free() */
static long *
shuffle(long count)
{
    long *order = calloc((size_t)count, sizeof *order);
    CHECK(order != NULL);
    for (long i = 0; i < count; i++) {
        long other = (long)chance((uint64_t)i + 1);
        order[i] = order[other];
        order[other] = i + 1;
    }
    return order;
}

static void
sweep(dibs *judge, long calls)
{
    const char *given_ms = getenv("DIBS_NTH_MS");
    int64_t end = now_ms() + (given_ms ? atoll(given_ms) : TIME_MOST_MS), longest = 0;
    long plays = 0, struck = 0, *order = shuffle(calls);
    for (; plays < PLAYS_MOST && now_ms() < end; plays++) {
        char name[32];
        (void)snprintf(name, sizeof name, "nth-%ld", plays);
        play_once(order[plays % calls], (unsigned)chance(60), name);
        struck += plan->has_struck;
        check_left(judge, name, &longest);
    }
    free(order);
    printf("%ld calls in a play, %ld plays, %ld with one that failed; the lock was free "
           "after %lld ms at most\n",
           calls, plays, struck, (long long)longest);
    CHECK(struck > 0);
}

int
main(int argc, char **argv)
{
    if (argc == 6 && strcmp(argv[1], "play") == 0)
        return run_play(argv + 2);
    if (argc != 3) {
        fprintf(stderr, "usage: %s FIXTURE alloc|call\n", argv[0]);
        return 2;
    }
    if (!getenv("DIBS_NTH_MS"))
        limit_time(110);
    choose_fixture(argv[1]);
    on_failure(stop);
    int status = stage.fixture->start(url, sizeof url);
    if (status != 0)
        return status;
    choose_seed();
    lease_ms = (uint32_t)slowly(stage.fixture->lease_ms);
    plan = shared_new(sizeof *plan, &plan_fd);
    plan->family = strcmp(argv[2], "alloc") == 0 ? NTH_ALLOC : NTH_CALL;
    dibs *judge;
    dibs_error err = { 0 };
    if (dibs_open(&judge, url, NULL, &err) != DIBS_OK)
        FAIL("%s", err.text);
    play_once(0, 0, "nth-none");
    long calls = atomic_load(&plan->count);
    CHECK(calls >= CALLS_LEAST);
    sweep(judge, calls);
    dibs_close(judge);
    stop();
    return 0;
}
