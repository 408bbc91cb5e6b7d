/* SPDX-License-Identifier: MIT */
/* The short words the cases are written in: requests, taking and giving, waiting. */
#include "conform.h"

#include <poll.h>
#include <sched.h>

_Thread_local dibs_error oops;

int
has(uint32_t cap)
{
    return (stage.caps & cap) != 0;
}

void
expect_code(const char *file, int line, const char *call, int got, int want_code)
{
    if (got != want_code) {
        fail_at(file, line, "%s gives %s, not %s%s%s", call, dibs_errname(got),
                dibs_errname(want_code), got < 0 ? ": " : "", got < 0 ? oops.text : "");
    }
}

dibs_request
want(const char *name)
{
    dibs_request request = DIBS_REQUEST_INIT;
    request.name = name;
    request.wait_ms = slowly(10000);
    return request;
}

dibs_request
try_for(const char *name)
{
    dibs_request request = want(name);
    request.wait_ms = DIBS_WAIT_NONE;
    return request;
}

dibs_request
brief_lease(const char *name)
{
    dibs_request request = want(name);
    request.lease_ms = stage.lease_ms;
    return request;
}

int
acquire(dibs_hold **out, dibs *client, const dibs_request *request)
{
    int code = dibs_acquire(out, client, request, &oops);
    if (code == DIBS_OK) {
        note_token(*out, request->mode);
    }
    return code;
}

dibs_hold *
take(dibs *client, const dibs_request *request)
{
    dibs_hold *hold = NULL;
    OK(acquire(&hold, client, request));
    CHECK(hold != NULL && dibs_held(hold) == 1);
    return hold;
}

dibs_hold *
take_name(dibs *client, const char *name)
{
    dibs_request request = want(name);
    return take(client, &request);
}

void
give(dibs_hold *hold)
{
    OK(dibs_unlock(hold, &oops));
}

int
is_free(dibs *client, const char *name)
{
    dibs_request request = try_for(name);
    dibs_hold *hold = NULL;
    request.flags = DIBS_NO_REENTRY;
    int code = acquire(&hold, client, &request);
    if (code == DIBS_OK) {
        give(hold);
    } else {
        GIVES(DIBS_EBUSY, code);
    }
    return code == DIBS_OK;
}

int
comes_free(dibs *client, const char *name, int64_t limit_ms)
{
    int64_t until = now_ms() + limit_ms;
    while (!is_free(client, name)) {
        if (now_ms() > until) {
            return 0;
        }
        sleep_ms(2);
    }
    return 1;
}

static size_t
waiters_of(const char *name)
{
    dibs_report *report = NULL;
    OK(dibs_inspect(&report, stage.client, name, &oops));
    size_t count = report->waiter_count;
    dibs_report_free(report);
    return count;
}

void
await_waiters(const char *name, size_t count)
{
    int64_t until = now_ms() + slowly(5000);
    if (!has(DIBS_CAP_DETAIL)) {
        sleep_ms(slowly(100));
        return;
    }
    while (waiters_of(name) != count) {
        if (now_ms() > until) {
            FAIL("%zu wait for '%s', not %zu", waiters_of(name), name, count);
        }
        sleep_ms(1);
    }
}

void
await_word(int word, int64_t value)
{
    int64_t until = now_ms() + slowly(10000);
    while (atomic_load(&stage.shared->words[word]) < value) {
        if (now_ms() > until) {
            FAIL("word %d stays at %lld, below %lld", word,
                 (long long)atomic_load(&stage.shared->words[word]), (long long)value);
        }
        sleep_ms(1);
    }
}

int
readable(int fd, int64_t limit_ms)
{
    struct pollfd look = { .fd = fd, .events = POLLIN };
    return poll(&look, 1, (int)limit_ms) == 1 && (look.revents & POLLIN) != 0;
}

void
guard_visit(guard *guarded)
{
    static _Atomic uint64_t last_visitor;
    /* a number no other visit has, in this process or another */
    uint64_t self =
        (uint64_t)now_ns() << 20 | (atomic_fetch_add(&last_visitor, 1) & 0xfffff);
    if (atomic_exchange(&guarded->inside, self) != 0) {
        FAIL("two are inside at once");
    }
    uint64_t count = guarded->count;
    sched_yield();
    guarded->count = count + 1;
    if (atomic_exchange(&guarded->inside, 0) != self) {
        FAIL("somebody came in meanwhile");
    }
}

int64_t
death_limit_ms(void)
{
    const fixture *with = stage.fixture;
    int64_t lease_ms = with->remains_ms != 0 ? slowly(with->remains_ms) : stage.lease_ms;
    /* without a lease the death itself is noticed; with one, its end, at the latest */
    return has(DIBS_CAP_LEASE) ? lease_ms + slowly(250) : slowly(50);
}
