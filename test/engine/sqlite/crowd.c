/* SPDX-License-Identifier: MIT */
/*
 * 32 processes on one file, of which one is killed every so often, wherever it may be, and
 * replaced. What must hold: whoever believes to have a lock is alone with it, tokens rise,
 * everybody gets on, and in the end nothing is left and the file is whole.
 */
#include <stdatomic.h>
#include <unistd.h>

#include "faults.h"

enum { PROCESSES = 32, NAMES = 4, KILLS = 24, KILL_EVERY_MS = 250 };
#define WORKER_LEASE_MS ((uint32_t)slowly(500))

/* shared by all processes */
struct lock {
    _Atomic uint64_t inside; /* the token of who came in last; 0: it left */
    _Atomic uint64_t newest;
    _Atomic uint64_t grants;
};
struct board {
    struct lock locks[NAMES];
    _Atomic int is_over;
};

/* ---- a worker ---- */

/* `inside` and `newest` are read before held: if another came in and we still hold, there are
 * two. One who is late and has lost the lock meanwhile is none. */
static void
be_inside(struct lock *lock, dibs_hold *hold)
{
    uint64_t token = dibs_token(hold);
    uint64_t newest = atomic_load(&lock->newest);
    if (newest >= token && dibs_held(hold))
        FAIL("token %llu after %llu", (unsigned long long)token,
             (unsigned long long)newest);
    while (newest < token && !atomic_compare_exchange_weak(&lock->newest, &newest, token))
        ;
    atomic_store(&lock->inside, token);
    atomic_fetch_add(&lock->grants, 1);
    sleep_ms(1);
    uint64_t inside = atomic_load(&lock->inside);
    if (inside != token && dibs_held(hold))
        FAIL("%llu came in while %llu held", (unsigned long long)inside,
             (unsigned long long)token);
}

static void
take_turns(struct board *board, dibs *client, unsigned seed)
{
    static const char *const names[NAMES] = { "a", "b", "c", "d" };
    while (!atomic_load(&board->is_over)) {
        int which = rand_r(&seed) % NAMES;
        dibs_hold *hold = take(client, names[which], WORKER_LEASE_MS);
        be_inside(&board->locks[which], hold);
        dibs_hold_free(hold); /* also if it was lost meanwhile */
    }
}

static int
worker(char **argv)
{
    int fd = (int)strtol(argv[3], NULL, 10);
    struct board *board = shared_map(fd, sizeof *board);
    limit_time(120 * (unsigned)slow_factor());
    dibs *client = open_url("%s", argv[2]);
    take_turns(board, client, (unsigned)getpid());
    dibs_close(client);
    return 0;
}

/* ---- the test ---- */

static pid_t
start_worker(int fd)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%d", fd);
    const char *const arguments[] = { "worker", file_url(), number, NULL };
    return spawn_self(arguments, &fd, 1);
}

static uint64_t
count_grants(struct board *board)
{
    uint64_t sum = 0;
    for (int i = 0; i < NAMES; i++)
        sum += atomic_load(&board->locks[i].grants);
    return sum;
}

static void
kill_some(pid_t *workers, int fd)
{
    unsigned seed = (unsigned)now_ms();
    printf("seed %u\n", seed);
    for (int i = 0; i < KILLS; i++) {
        int victim = rand_r(&seed) % PROCESSES;
        sleep_ms(KILL_EVERY_MS);
        kill_and_reap(workers[victim]);
        workers[victim] = start_worker(fd);
    }
}

static void
killed(void)
{
    int fd;
    pid_t workers[PROCESSES];
    struct board *board = shared_new(sizeof *board, &fd);
    dibs_close(open_url("%s", file_url()));
    for (int i = 0; i < PROCESSES; i++)
        workers[i] = start_worker(fd);
    EVENTUALLY(slowly(20000), count_grants(board) > PROCESSES);
    kill_some(workers, fd);
    uint64_t grants = count_grants(board);
    EVENTUALLY(slowly(20000), count_grants(board) > grants + PROCESSES);
    atomic_store(&board->is_over, 1);
    for (int i = 0; i < PROCESSES; i++)
        CHECK_SAME(reap(workers[i], slowly(30000)), 0);
    printf("%llu grants\n", (unsigned long long)count_grants(board));
    /* the last ones that were killed may have left records, until somebody passes */
    dibs *client = open_url("%s", file_url());
    for (int i = 0; i < NAMES; i++)
        give(take(client, (const char[]){ (char)('a' + i), '\0' }, LEASE_MS));
    dibs_close(client);
    close(fd);
    check_whole();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = { { "killed", killed }, { NULL, NULL } };
    if (argc == 4 && strcmp(argv[1], "worker") == 0)
        return worker(argv);
    return fault_run(argc, argv, &sqlite_stage, cases);
}
