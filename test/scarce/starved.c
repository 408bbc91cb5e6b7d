/* SPDX-License-Identifier: MIT */
/* A process that holds a lock and has no descriptor to spare. See scarce.h. */
#include "scarce.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/* While it starves no descriptor from here on can be had, and all below are in use: also what
 * the library closes is not there for it again. */
#define MOST 64

static news *told;
static int hoard[MOST], hoarded;
static struct rlimit plenty;

/* ---- hunger ---- */

static void
hoard_all(void)
{
    int fd = -1;
    while ((fd = open("/dev/null", O_RDONLY | O_CLOEXEC)) < MOST) {
        CHECK(fd >= 0);
        hoard[hoarded++] = fd;
    }
    close(fd);
}

static void
starve(void)
{
    struct rlimit less = { MOST, plenty.rlim_max };
    CHECK(setrlimit(RLIMIT_NOFILE, &less) == 0);
    CHECK(open("/dev/null", O_RDONLY | O_CLOEXEC) < 0 && errno == EMFILE);
}

static void
feed(void)
{
    CHECK(setrlimit(RLIMIT_NOFILE, &plenty) == 0);
}

static void
spend_all(void)
{
    while (hoarded > 0) {
        close(hoard[--hoarded]);
    }
}

/* ---- what is tried meanwhile ---- */

/* MariaDB's library gives the number; who waits for another's request knows no more than that
 * it is not answered */
static int
says_why(void)
{
    return strstr(oops.text, strerror(EMFILE)) != NULL ||
           strstr(oops.text, "(24)") != NULL ||
           strstr(oops.text, "does not answer") != NULL;
}

/* a call came back in time; if it failed then for the lack of descriptors, and says so */
static int
came_back(const timed *call, int code)
{
    (void)end_timed(call, code);
    CHECK(code == DIBS_OK || code == DIBS_ETIMEDOUT || code == DIBS_EBUSY || says_why());
    return code;
}

static void
try_other_client(const char *url)
{
    dibs *other = NULL;
    timed call = begin_timed("open", slowly(1500));
    int code = came_back(&call, try_open(&other, url, (uint32_t)slowly(1500)));
    CHECK(code != DIBS_OK);
}

static void
try_lost_fd(dibs_hold *hold)
{
    timed call = begin_timed("lost_fd", 0);
    GIVES(DIBS_ENOMEM, came_back(&call, dibs_lost_fd(hold, &oops)));
}

/* it works, or ends in time; what it got can be given back */
static int
try_lock(dibs *client, const char *name, int64_t wait_ms)
{
    dibs_hold *hold = NULL;
    dibs_request request = one_try(name);
    request.wait_ms = wait_ms;
    timed call = begin_timed(name, wait_ms > 0 ? wait_ms : SHORT_MS / 6);
    int code = came_back(&call, dibs_acquire(&hold, client, &request, &oops));
    if (code == DIBS_OK) {
        give(hold);
    }
    return code;
}

static void
try_async(dibs *client)
{
    dibs_op *op = NULL;
    dibs_request request = one_try("async");
    timed call = begin_timed("async", 0);
    int code = dibs_acquire_async(&op, client, &request, NULL, NULL, &oops);
    GIVES(DIBS_ENOMEM, came_back(&call, code));
}

/* ---- the way of the hold ---- */

static void
on_lost(dibs_hold *hold, void *arg)
{
    (void)hold;
    (void)arg;
    told->lost_at = now_ms();
}

static dibs_hold *
take_held(dibs *client)
{
    dibs_hold *hold = NULL;
    dibs_request request = want("held", SHORT_MS);
    request.on_lost = on_lost;
    OK(dibs_acquire(&hold, client, &request, &oops));
    return hold;
}

static void
await_other(int step)
{
    EVENTUALLY(slowly(20000), told->other >= step);
}

static void
keep_hungry(dibs *client, dibs_hold *hold, const char *url)
{
    int64_t until = now_ms() + 3 * SHORT_MS;
    starve();
    try_other_client(url);
    try_other_client("mock:");
    try_lost_fd(hold);
    try_async(client);
    (void)try_lock(client, "new", DIBS_WAIT_NONE);
    CHECK(try_lock(client, "busy", SHORT_MS / 2) != DIBS_OK);
    while (now_ms() < until) {
        sleep_ms(10);
    }
    CHECK(dibs_held(hold));
    told->starved = STARVED_KEPT;
}

/* connections were cut, and none can be made for a while that is shorter than the lease */
static void
keep_cut(dibs_hold *hold)
{
    await_other(OTHER_CUT);
    sleep_ms(SHORT_MS / 4);
    feed();
    sleep_ms(3 * SHORT_MS / 2);
    CHECK(dibs_held(hold));
    starve();
    told->starved = STARVED_KEPT_CUT;
}

/* nobody else has it as long as we do */
static void
lose(dibs *client, dibs_hold *hold)
{
    await_other(OTHER_CUT_AGAIN);
    int64_t until = now_ms() + SHORT_MS;
    for (int held = 1; held; sleep_ms(1)) {
        int64_t granted_at = told->granted_at;
        held = dibs_held(hold);
        CHECK(!held || is_bound() || granted_at == 0);
        CHECK(!held || now_ms() <= until);
    }
    EVENTUALLY(slowly(500), told->lost_at != 0);
    (void)try_lock(client, "new", DIBS_WAIT_NONE);
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
}

/* ---- all of it ---- */

/* all is as before */
static void
live_on(dibs *client, const char *url)
{
    EVENTUALLY(slowly(30000), told->granted_at != 0);
    feed();
    dibs_hold *again = take_held(client);
    CHECK(!is_lost(again, 0));
    dibs *other = open_url("%s", url);
    GIVES(DIBS_EBUSY, try_once(other, "held"));
    give(again);
    OK(try_once(other, "held"));
    dibs_close(other);
}

/* for whoever looks for the reason of a failure */
static void
trace(const dibs_trace_event *event, void *arg)
{
    (void)arg;
    if (event->code == DIBS_OK || event->code == DIBS_EBUSY) {
        return;
    }
    printf("%lld: %s after %lld us: %s\n", (long long)now_ms(), event->verb,
           (long long)event->took_us, event->text);
}

/* what could not be released is, as soon as that is possible, or its lease ends */
static void
release(dibs_hold *hold)
{
    timed call = begin_timed("unlock", SHORT_MS / 6);
    int code = came_back(&call, dibs_unlock(hold, &oops));
    CHECK(code == DIBS_OK || code == DIBS_EUNKNOWN);
}

static void
go_hungry(const char *url)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    dibs *client = NULL;
    options.trace = trace;
    OK(dibs_open(&client, url, &options, &oops));
    dibs_hold *hold = take_held(client);
    told->starved = STARVED_HOLDS;
    await_other(OTHER_WAITS);
    keep_hungry(client, hold, url);
    if (at->servers == 0) {
        told->lost_at = now_ms();
        release(hold);
    } else {
        if (!is_bound()) {
            keep_cut(hold);
        }
        lose(client, hold);
    }
    live_on(client, url);
    dibs_close(client);
}

/* servers are another's */
void
starved_clean_up(void)
{
}

void
run_starved(void)
{
    told = shared_map(atoi(extra[0]), sizeof(*told));
    CHECK(getrlimit(RLIMIT_NOFILE, &plenty) == 0);
    hoard_all();
    go_hungry(extra[1]);
    spend_all();
    (void)munmap(told, sizeof(*told));
}
