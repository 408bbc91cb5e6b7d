/* SPDX-License-Identifier: MIT */
/* The time that processes share: over a boot, and in another time namespace. */
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"

#define SECOND_US INT64_C(1000000)
#define HOUR_US (3600 * SECOND_US)

static uint64_t
next_token(dibs *client)
{
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    uint64_t token = dibs_token(hold);
    give(hold);
    return token;
}

/* the clock of another boot is replaced, and the time of it is not */
static void
reboot(void)
{
    dibs *client = open_url("%s", file_url());
    uint64_t before = next_token(client);
    dibs_close(client);
    int64_t ahead = sql(file_path(), "SELECT ahead FROM dibs_clock");
    (void)sql(file_path(), "UPDATE dibs_clock SET boot = 'another', ahead = 5");
    client = open_url("%s", file_url());
    CHECK_WITHIN(sql(file_path(), "SELECT ahead FROM dibs_clock") - ahead,
                 -60 * SECOND_US, 60 * SECOND_US);
    CHECK(next_token(client) > before);
    dibs_close(client);
    check_whole();
}

/* The machine comes up with a clock that is an hour behind what was seen, or what rows say:
 * time does not go back. */
static void
wall_clock_behind(void)
{
    dibs *client = open_url("%s", file_url());
    uint64_t before = next_token(client);
    dibs_close(client);
    int64_t ahead = sql(file_path(), "SELECT ahead FROM dibs_clock");
    (void)sql(file_path(), "UPDATE dibs_clock SET boot = 'another', seen = seen + %lld",
              (long long)HOUR_US);
    client = open_url("%s", file_url());
    CHECK_WITHIN(sql(file_path(), "SELECT ahead FROM dibs_clock") - ahead,
                 HOUR_US - 60 * SECOND_US, HOUR_US + 60 * SECOND_US);
    CHECK(next_token(client) > before);
    dibs_close(client);
    (void)sql(file_path(), "UPDATE dibs_locks SET token = token + %lld",
              (long long)(2 * HOUR_US));
    (void)sql(file_path(), "UPDATE dibs_clock SET boot = 'another', seen = 0");
    dibs_close(open_url("%s", file_url()));
    CHECK_WITHIN(sql(file_path(), "SELECT ahead FROM dibs_clock") - ahead,
                 3 * HOUR_US - 60 * SECOND_US, 3 * HOUR_US + 60 * SECOND_US);
}

/* in a namespace whose boot time is a day ahead; -1: that cannot be had here */
static int
in_namespace(void (*run)(void))
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        FILE *offsets;
        if (unshare(CLONE_NEWTIME) != 0 ||
            !(offsets = fopen("/proc/self/timens_offsets", "w")) ||
            fputs("boottime 86400 0\n", offsets) < 0 || fclose(offsets) != 0)
            _exit(EXIT_SKIPPED);
        pid = fork(); /* who unshares stays; its children are there */
        if (pid == 0) {
            run();
            _exit(0);
        }
        _exit(waitpid(pid, &status, 0) == pid && status == 0 ? 0 : 1);
    }
    CHECK_SAME(waitpid(pid, &status, 0), pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIPPED)
        return -1;
    CHECK_SAME(status, 0);
    return 0;
}

static void
finds_it_held(void)
{
    dibs *client = open_url("%s", file_url());
    GIVES(DIBS_EBUSY, try_take(client, NAME));
    give(take(client, NAME "/2", LEASE_MS));
    dibs_close(client);
}

/* one who lives a day ahead must not take a lease for over */
static void namespace(void)
{
    dibs *client = open_url("%s", file_url());
    dibs_hold *hold = take(client, NAME, (uint32_t)slowly(10000));
    int64_t ahead = sql(file_path(), "SELECT ahead FROM dibs_clock");
    int rc = in_namespace(finds_it_held);
    CHECK(dibs_held(hold));
    CHECK_SAME(sql(file_path(), "SELECT ahead FROM dibs_clock"), ahead);
    give(hold);
    dibs_close(client);
    if (rc) {
        puts("there are no time namespaces here, or only for root");
        exit(EXIT_SKIPPED);
    }
    check_whole();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "reboot", reboot },
        { "wall_clock_behind", wall_clock_behind },
        { "namespace", namespace },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &sqlite_stage, cases);
}
