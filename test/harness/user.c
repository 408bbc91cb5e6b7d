/* SPDX-License-Identifier: MIT */
/* See user.h. */
#include "user.h"

#include <poll.h>
#include <stdarg.h>

const char *layout;
_Thread_local dibs_error oops;

/* ---- running ---- */

static void
run_case(const fault_case *chosen, void (*clean_up)(void))
{
    int fds = count_fds(), threads = count_threads();
    chosen->run();
    clean_up();
    CHECK_SAME(threads_settle(threads, slowly(2000)), threads);
    CHECK_SAME(count_fds(), fds);
}

/* what the first client of a process keeps, like a loaded module, is no leak; nor is the
 * thread that a sanitizer has from then on */
static void
load_module(const char *nowhere)
{
    dibs *none = NULL;
    int code = try_open(&none, nowhere, 200);
    if (code == DIBS_ECONFIG) {
        FAIL("%s", oops.text);
    }
    GIVES(DIBS_EUNAVAIL, code);
    start_first_thread();
}

int
fault_run(int argc, char **argv, const fault_stage *stage, const fault_case *cases)
{
    if (!stage->is_present()) {
        printf("skipped: there is no %s\n", stage->title);
        return EXIT_SKIPPED;
    }
    on_failure(stage->clean_up);
    limit_time(stage->limit_s * (unsigned)slow_factor());
    layout = argc == 3 ? argv[2] : stage->layout;
    for (const fault_case *at = cases; argc >= 2 && at->name != NULL; at++) {
        if (strcmp(at->name, argv[1]) == 0) {
            load_module(stage->nowhere);
            run_case(at, stage->clean_up);
            return 0;
        }
    }
    fprintf(stderr, "usage: %s CASE [LAYOUT]\n", argv[0]);
    return 2;
}

/* ---- checks ---- */

void
expect_code(const char *file, int line, const char *call, int got, int want_code)
{
    if (got != want_code) {
        fail_at(file, line, "%s gives %s, not %s%s%s", call, dibs_errname(got),
                dibs_errname(want_code), got < 0 ? ": " : "", got < 0 ? oops.text : "");
    }
}

void
check_says(const char *file, int line, const char *part)
{
    if (strstr(oops.text, part) == NULL) {
        fail_at(file, line, "'%s' does not say '%s'", oops.text, part);
    }
}

/* ---- clients and locks ---- */

int
try_open(dibs **out, const char *url, uint32_t limit_ms)
{
    dibs_options options = DIBS_OPTIONS_INIT;
    options.open_wait_ms = limit_ms;
    return dibs_open(out, url, &options, &oops);
}

dibs *
open_url(const char *format, ...)
{
    char url[512];
    dibs *client = NULL;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(url, sizeof(url), format, args);
    va_end(args);
    OK(try_open(&client, url, (uint32_t)slowly(5000)));
    return client;
}

dibs_request
want(const char *name, uint32_t lease_ms)
{
    dibs_request request = DIBS_REQUEST_INIT;
    request.name = name;
    request.lease_ms = lease_ms;
    request.wait_ms = slowly(20000);
    return request;
}

dibs_request
try_for(const char *name)
{
    dibs_request request = want(name, LEASE_MS);
    request.wait_ms = DIBS_WAIT_NONE;
    return request;
}

dibs_hold *
take(dibs *client, const char *name, uint32_t lease_ms)
{
    dibs_request request = want(name, lease_ms);
    dibs_hold *hold = NULL;
    OK(dibs_acquire(&hold, client, &request, &oops));
    CHECK(dibs_held(hold));
    return hold;
}

int
try_take(dibs *client, const char *name)
{
    dibs_request request = try_for(name);
    dibs_hold *hold = NULL;
    request.flags = DIBS_NO_REENTRY;
    int code = dibs_acquire(&hold, client, &request, &oops);
    if (code == DIBS_OK) {
        give(hold);
    }
    return code;
}

void
give(dibs_hold *hold)
{
    OK(dibs_unlock(hold, &oops));
}

dibs_op *
begin_wait(dibs *client, const char *name, uint32_t lease_ms)
{
    dibs_request request = want(name, lease_ms);
    dibs_op *op = NULL;
    request.wait_ms = slowly(45000);
    OK(dibs_acquire_async(&op, client, &request, NULL, NULL, &oops));
    return op;
}

static int
readable(int fd, int64_t limit_ms)
{
    struct pollfd look = { .fd = fd, .events = POLLIN };
    return poll(&look, 1, (int)limit_ms) == 1 && (look.revents & POLLIN) != 0;
}

int
has_ended(dibs_op *op, int64_t limit_ms)
{
    return readable(dibs_op_fd(op), limit_ms);
}

dibs_hold *
end_wait(dibs_op *op, int64_t limit_ms)
{
    dibs_hold *hold = NULL;
    CHECK(has_ended(op, limit_ms));
    OK(dibs_op_finish(&hold, op, &oops));
    CHECK(dibs_held(hold));
    return hold;
}

int
is_lost(dibs_hold *hold, int64_t limit_ms)
{
    int fd = dibs_lost_fd(hold, &oops);
    CHECK(fd >= 0);
    return readable(fd, limit_ms);
}
