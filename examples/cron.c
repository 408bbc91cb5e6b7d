/* SPDX-License-Identifier: MIT */
/*
 * Cron: five machines have the same line in their crontab, and the job shall run once per
 * period on one of them. Whoever is first takes the lock, without waiting, and gives it
 * back only when the period is nearly over. Machines whose clocks are late find the lock
 * taken although the job ended long ago; that is what dibs_release_after is for. If the
 * winner dies in the middle, its lock ends with it and a later machine does the job.
 *
 * The same with the command, in a crontab:
 *
 *     0 3 * * *  dibs run --skip --at-least 1h nightly-report -- make-report
 *
 * Read next: leader.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dibs.h>

enum { MACHINES = 5, PERIODS = 2, PERIOD_MS = 1000, LATEST_MS = 400 };

static int *runs; /* shared by all processes: how often the job was done */

/* make_report is the job. */
static void
make_report(uint64_t token)
{
    usleep(20000);
    ++*runs;
    printf("report %llu made by process %d\n", (unsigned long long)token, (int)getpid());
    fflush(stdout);
}

/* cron_job is what each machine starts, at the same time by its own clock. */
static int
cron_job(void)
{
    dibs_error err;
    dibs *client;
    dibs_hold *hold;
    int code = dibs_open(&client, NULL, NULL, &err);

    if (code != DIBS_OK)
        goto out;
    code = dibs_trylock(&hold, client, "examples/nightly-report", &err);
    if (code == DIBS_EBUSY) {
        code = DIBS_OK; /* another machine does it, or has done it */
        goto out_close;
    }
    if (code != DIBS_OK)
        goto out_close;

    make_report(dibs_token(hold));

    /* keep the others out for longer than any clock is late, and for less than the
     * period: also after this process has ended */
    code = dibs_release_after(hold, PERIOD_MS * 3 / 4, &err);
    dibs_hold_free(hold);

out_close:
    dibs_close(client);
out:
    if (code != DIBS_OK)
        fprintf(stderr, "cron: %s\n", err.text);
    return code != DIBS_OK;
}

/* one_period starts the job on all machines, some later than others, and waits for the
 * period to end. */
static int
one_period(void)
{
    int failed = 0;

    for (int i = 0; i < MACHINES; i++)
        if (fork() == 0) {
            usleep((useconds_t)(i * LATEST_MS / (MACHINES - 1)) * 1000);
            _exit(cron_job());
        }
    usleep(PERIOD_MS * 1000);
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    return failed;
}

int
main(void)
{
    int failed = 0;

    runs = mmap(NULL, sizeof *runs, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
                -1, 0);
    if (runs == MAP_FAILED)
        return 1;
    for (int i = 0; i < PERIODS; i++)
        failed |= one_period();
    printf("%d machines, %d periods, %d runs\n", MACHINES, PERIODS, *runs);
    return failed || *runs != PERIODS;
}
