/* SPDX-License-Identifier: MIT */
/* What others see of a process that has no descriptor to spare: it keeps what it holds, until
 * its connections are cut and it cannot make others. See scarce.h. */
#include "scarce.h"

#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

static news *heard;
static wires line;

void
descriptors_clean_up(void)
{
    wires_stop(&line);
    at->stage.clean_up();
}

/* how long it may be until what an unlucky client had is free */
static int64_t
free_ms(void)
{
    return SHORT_MS + slowly(at->remains_ms) + slowly(2000);
}

static void
wait_in_line(dibs *client, dibs_op *op)
{
    dibs_stats stats = { 0 };
    while (stats.waited == 0) {
        CHECK(!has_ended(op, 5));
        dibs_stats_read(&stats, client);
    }
    heard->other = OTHER_WAITS;
}

/* until the starved one says so, the lock is its */
static void
await_kept(dibs_op *op, int step)
{
    while (heard->starved < step) {
        int has_got_it = has_ended(op, 10);
        CHECK(!has_got_it || heard->starved >= step);
    }
}

/* its connections end once for a moment, which it survives where there are leases, and once
 * for good */
static void
cut(dibs_op *op)
{
    if (!is_bound()) {
        wires_cut(&line, WIRES_ALL);
        heard->other = OTHER_CUT;
        await_kept(op, STARVED_KEPT_CUT);
    }
    wires_cut(&line, WIRES_ALL);
    heard->other = OTHER_CUT_AGAIN;
}

/* whether the starved one still had it then, it looks itself; it is told about then */
static dibs_hold *
await_grant(dibs_op *op)
{
    dibs_hold *hold = end_wait(op, free_ms());
    heard->granted_at = now_ms();
    EVENTUALLY(slowly(500), heard->lost_at != 0);
    return hold;
}

static pid_t
start_starved(int news_fd)
{
    char fd[16], url[512];
    print_url(url, sizeof(url), line.ports);
    (void)snprintf(fd, sizeof(fd), "%d", news_fd);
    return spawn_self(
        (const char *const[]){ at->engine, "starved", layout, fd, url, NULL }, &news_fd,
        1);
}

static dibs *
open_straight(const int *ports)
{
    char url[512];
    print_url(url, sizeof(url), ports);
    return open_url("%s", url);
}

/* writes the ports of the servers, before which wires are put */
static void
start_servers(int *ports)
{
    at->start();
    for (int i = 0; i < at->servers; i++) {
        ports[i] = store_port(i);
    }
    if (at->servers > 0) {
        wires_start(&line, ports, at->servers);
    }
}

void
run_descriptors(void)
{
    int fd = -1, ports[SET_MAX];
    start_servers(ports);
    heard = shared_new(sizeof(*heard), &fd);
    pid_t starved = start_starved(fd);
    dibs *client = open_straight(ports);
    dibs_hold *busy = take(client, "busy", (uint32_t)slowly(20000));
    EVENTUALLY(slowly(10000), heard->starved == STARVED_HOLDS);
    dibs_op *op = begin_wait(client, "held", SHORT_MS);
    wait_in_line(client, op);
    await_kept(op, STARVED_KEPT);
    if (at->servers > 0) {
        cut(op);
    }
    give(await_grant(op));
    CHECK_SAME(reap(starved, slowly(20000)), 0);
    give(busy);
    dibs_close(client);
    (void)munmap(heard, sizeof(*heard));
    close(fd);
}
