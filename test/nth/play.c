/* SPDX-License-Identifier: MIT */
/* All that a client does in its life. See nth.h. */
#include "nth.h"

#include <stdio.h>
#include <string.h>

#include <dibs.h>

#define LAST_CODE DIBS_ECONFIG
#define WAIT_MS 60 /* of the one who waits in vain */

struct play {
    nth_plan *plan;
    const char *url, *name;
    uint32_t lease_ms;
    dibs *clients[2];
    dibs_hold *hold; /* of the first client */
    dibs_error err;
};

/* ---- what is wrong ---- */

static void
complain(struct play *play, const char *what)
{
    if (!*play->plan->trouble)
        (void)snprintf(play->plan->trouble, sizeof play->plan->trouble, "%.30s: %.150s",
                       play->plan->step, what);
}

static int
is_line(const char *text)
{
    for (; *text; text++) {
        if ((unsigned char)*text < 0x20 || *text == 0x7f)
            return 0;
    }
    return 1;
}

/* DIBS_OK, or an outcome that there is, with a text */
static int
is_ok(struct play *play, int code)
{
    const dibs_error *err = &play->err;
    if (code > DIBS_OK || code < LAST_CODE)
        complain(play, "it returns what is no code");
    else if (code && (err->code != code || !*err->text || !is_line(err->text)))
        complain(play, "its text does not belong to its code");
    return code == DIBS_OK;
}

static void
begin(struct play *play, const char *step)
{
    (void)snprintf(play->plan->step, sizeof play->plan->step, "%s", step);
    memset(&play->err, 0, sizeof play->err);
}
#define TRIES(play, step, call) (begin(play, step), is_ok(play, call))

/* ---- steps ---- */

static int
open_client(struct play *play, int index)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    options.lease_ms = play->lease_ms;
    options.open_wait_ms = (uint32_t)slowly(2000);
    options.app = "nth";
    return TRIES(play, index ? "open another" : "open",
                 dibs_open(&play->clients[index], play->url, &options, &play->err));
}

static void
take(struct play *play)
{
    dibs_request request = DIBS_REQUEST_INIT;
    request.name = play->name;
    request.wait_ms = slowly(1000);
    request.note = "a note";
    (void)TRIES(play, "lock",
                dibs_acquire(&play->hold, play->clients[0], &request, &play->err));
}

/* while the first one has it, the second one has not */
static void
wait_in_vain(struct play *play)
{
    dibs_hold *other = NULL;
    if (!TRIES(play, "wait",
               dibs_timedlock(&other, play->clients[1], play->name, WAIT_MS, &play->err)))
        return;
    if (play->hold && dibs_held(play->hold) && dibs_held(other))
        complain(play, "both have it");
    (void)TRIES(play, "release of the other", dibs_release(other, &play->err));
    dibs_hold_free(other);
}

static void
keep(struct play *play)
{
    if (!play->hold)
        return;
    (void)TRIES(play, "renew", dibs_renew(play->hold, play->lease_ms, &play->err));
    begin(play, "lost fd");
    int fd = dibs_lost_fd(play->hold, &play->err);
    (void)is_ok(play, fd < 0 ? fd : DIBS_OK);
}

static int
count_lock(const dibs_report *report, void *arg)
{
    *(size_t *)arg += report->holder_count;
    return 0;
}

static void
look(struct play *play)
{
    dibs_report *report = NULL;
    size_t holders = 0;
    if (TRIES(play, "inspect",
              dibs_inspect(&report, play->clients[0], play->name, &play->err)))
        dibs_report_free(report);
    (void)TRIES(play, "list",
                dibs_list(play->clients[0], NULL, count_lock, &holders, &play->err));
}

static void
use_cell(struct play *play)
{
    dibs_cell cell = { 0 };
    uint64_t version = 0;
    (void)TRIES(play, "cell", dibs_cell_read(&cell, play->clients[0], "nth", &play->err));
    (void)TRIES(play, "swap",
                dibs_cell_swap(&version, play->clients[0], "nth", cell.version, "value",
                               5, &play->err));
}

static void
give(struct play *play)
{
    if (play->hold)
        (void)TRIES(play, "release", dibs_release(play->hold, &play->err));
    dibs_hold_free(play->hold);
    play->hold = NULL;
}

static void
end(struct play *play)
{
    begin(play, "close");
    dibs_close(play->clients[1]);
    dibs_close(play->clients[0]);
    begin(play, "end");
}

void
nth_play(nth_plan *plan, const char *url, const char *name, uint32_t lease_ms)
{
    struct play play = { .plan = plan, .url = url, .name = name, .lease_ms = lease_ms };
    if (open_client(&play, 0)) {
        take(&play);
        if (open_client(&play, 1))
            wait_in_vain(&play);
        keep(&play);
        look(&play);
        use_cell(&play);
        give(&play);
        if (play.clients[1])
            wait_in_vain(&play);
    }
    end(&play);
}
