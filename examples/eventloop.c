/* SPDX-License-Identifier: MIT */
/*
 * Event loop: a single-threaded program that must never block waits for a lock, and later
 * for the loss of it, with poll(2) like for any other descriptor. Here another process
 * has the lock at first; while we wait the loop keeps ticking. Then we have it, until
 * that other process, playing the operator, takes it away by force.
 *
 * Read next: include/dibs.h, which is all there is.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dibs.h>

static const char NAME[] = "examples/printer";

enum { TICK_MS = 20, GIVE_UP_TICKS = 500 };

/* other_process holds the lock for a while and, once we have it, breaks it. */
static int
other_process(int ready, int granted)
{
    dibs *client;
    dibs_hold *hold;
    char byte;

    if (dibs_open(&client, NULL, NULL, NULL) != 0 ||
        dibs_lock(&hold, client, NAME, NULL) != 0 || write(ready, "r", 1) != 1)
        return 1;
    usleep(200000);
    dibs_unlock(hold, NULL);
    if (read(granted, &byte, 1) != 1)
        return 1;
    usleep(100000);
    int code = dibs_break(NULL, client, NAME, "the printer is on fire", NULL);
    dibs_close(client);
    return code != DIBS_OK;
}

/* loop polls one descriptor until it is readable and counts the ticks meanwhile, which
 * stand for everything else the program does. It returns the ticks, or -1. */
static int
loop(int fd)
{
    struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

    for (int ticks = 0; ticks < GIVE_UP_TICKS; ticks++) {
        int ready = poll(&poll_fd, 1, TICK_MS);

        if (ready != 0)
            return ready > 0 ? ticks : -1;
    }
    return -1;
}

/* wait_and_hold returns 0 if all went as it should. */
static int
wait_and_hold(dibs *client, int granted, dibs_error *err)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold;
    dibs_op *op;

    request.name = NAME;
    request.note = "printing";
    if (dibs_acquire_async(&op, client, &request, NULL, NULL, err) != DIBS_OK)
        return 1;
    int waited = loop(dibs_op_fd(op));
    /* the fd is readable, so this does not block; dibs_op_cancel would give up instead */
    if (dibs_op_finish(&hold, op, err) != DIBS_OK || write(granted, "g", 1) != 1)
        return 1;
    printf("the lock came after %d ticks\n", waited);

    int lost_fd = dibs_lost_fd(hold, err);
    int held = lost_fd >= 0 ? loop(lost_fd) : -1;
    printf("it was lost after %d more; held: %d\n", held, dibs_held(hold));

    /* unlock says so, too, and frees the handle; it never frees somebody else's lock */
    return dibs_unlock(hold, err) != DIBS_ELOST || waited < 1 || held < 1;
}

int
main(void)
{
    dibs_error err = { 0, 0, "", "the loop did not go as planned" };
    dibs *client;
    int ready[2], granted[2], status = 1;
    char byte;

    if (pipe(ready) != 0 || pipe(granted) != 0)
        return 1;
    pid_t child = fork();
    if (child == 0)
        _exit(other_process(ready[1], granted[0]));
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1 || dibs_open(&client, NULL, NULL, &err) != 0)
        return 1;
    int failed = wait_and_hold(client, granted[1], &err);
    dibs_close(client);
    close(granted[1]);
    failed |= waitpid(child, &status, 0) != child || status != 0;
    if (failed)
        fprintf(stderr, "eventloop: %s\n", err.text);
    else
        printf("held and lost without ever blocking\n");
    return failed;
}
