/* SPDX-License-Identifier: MIT */
/*
 * Looking at locks: inspect, list, break. Engines report into a sink that keeps copies, so
 * that nobody's callback runs under an engine's locks.
 */
#include "core/core.h"

#include <fnmatch.h>
#include <string.h>

#define IO_LIMIT (10000 * DIBS_MS)

/* one lock as it is being reported; dibs_report is its first member */
struct collected {
    dibs_report report;
    struct collected *next;
    dibs_party *parties[2]; /* holders, waiters */
    size_t room[2];
    char name[];
};

struct collector {
    dibs_sink sink;
    struct collected *first, **last;
};

static char *
printable(const char *text)
{
    size_t len = text ? strlen(text) : 0;
    size_t size = dibs_name_print(NULL, 0, text, len) + 1;
    char *copy = dibs__alloc(size);
    if (copy)
        (void)dibs_name_print(copy, size, text, len);
    return copy;
}

static void
free_party(const dibs_party *party)
{
    dibs__free((char *)party->host);
    dibs__free((char *)party->app);
    dibs__free((char *)party->note);
}

static void
free_collected(struct collected *lock)
{
    if (!lock)
        return;
    for (size_t i = 0; i < lock->report.holder_count; i++)
        free_party(&lock->parties[0][i]);
    for (size_t i = 0; i < lock->report.waiter_count; i++)
        free_party(&lock->parties[1][i]);
    dibs__free(lock->parties[0]);
    dibs__free(lock->parties[1]);
    dibs__free(lock);
}

void
dibs_report_free(dibs_report *report)
{
    free_collected((struct collected *)report);
}

static int
collect_lock(dibs_sink *sink, const char *name, size_t name_len, int mode, uint32_t limit)
{
    struct collector *to = (struct collector *)sink;
    struct collected *lock = dibs__alloc(sizeof *lock + name_len + 1);
    if (!lock)
        return DIBS_ENOMEM;
    memcpy(lock->name, name, name_len);
    lock->report.name = lock->name;
    lock->report.name_len = name_len;
    lock->report.mode = mode;
    lock->report.limit = limit;
    *to->last = lock;
    to->last = &lock->next;
    return DIBS_OK;
}

static struct collected *
last_collected(struct collector *from)
{
    /* `last` points at the `next` of the newest */
    return (struct collected *)(void *)((char *)from->last -
                                        offsetof(struct collected, next));
}

static int
collect_party(dibs_sink *sink, int waiting, const dibs_party *party)
{
    struct collector *to = (struct collector *)sink;
    if (!to->first)
        return DIBS_EINVAL;
    struct collected *lock = last_collected(to);
    int which = waiting ? 1 : 0;
    size_t *count = waiting ? &lock->report.waiter_count : &lock->report.holder_count;
    if (*count == lock->room[which]) {
        size_t room = lock->room[which] ? lock->room[which] * 2 : 4;
        dibs_party *wider = dibs__realloc(lock->parties[which], room * sizeof *wider);
        if (!wider)
            return DIBS_ENOMEM;
        lock->parties[which] = wider;
        lock->room[which] = room;
    }
    dibs_party copy = *party;
    copy.host = printable(party->host);
    copy.app = printable(party->app);
    copy.note = printable(party->note);
    if (!copy.host || !copy.app || !copy.note) {
        free_party(&copy);
        return DIBS_ENOMEM;
    }
    lock->parties[which][(*count)++] = copy;
    lock->report.holders = lock->parties[0];
    lock->report.waiters = lock->parties[1];
    return DIBS_OK;
}

static void
collector_init(struct collector *collector)
{
    collector->sink.lock = collect_lock;
    collector->sink.party = collect_party;
    collector->first = NULL;
    collector->last = &collector->first;
}

static void
collector_done(struct collector *collector)
{
    struct collected *next;
    for (struct collected *lock = collector->first; lock; lock = next) {
        next = lock->next;
        free_collected(lock);
    }
}

static int
check_look(const dibs *client, uint32_t cap, const char *what, dibs_error *err)
{
    int rc = dibs__client_check(client, err);
    if (rc)
        return rc;
    return dibs__has(client, cap)
               ? DIBS_OK
               : dibs__fail(err, DIBS_EUNSUPPORTED, "engine %s cannot %s",
                            client->engine->name, what);
}

int
dibs_inspect(dibs_report **out, dibs *client, const char *name, dibs_error *err)
{
    UNCANCELLED;
    size_t len;
    int rc = check_look(client, DIBS_CAP_INSPECT, "look at locks", err);
    if (!rc)
        rc = dibs__name_check(&len, name, 0, "name", err);
    if (!rc && !out)
        rc = dibs__fail(err, DIBS_EINVAL, "out is NULL");
    if (rc)
        return rc;
    struct collector collector;
    collector_init(&collector);
    rc = dibs__engine_inspect(client, name, len, &collector.sink, dibs__now() + IO_LIMIT,
                              err);
    if (!rc && !collector.first)
        rc = collect_lock(&collector.sink, name, len, DIBS_EXCLUSIVE, 0);
    if (rc) {
        collector_done(&collector);
        return rc;
    }
    *out = &collector.first->report;
    return DIBS_OK;
}

int
dibs_list(dibs *client, const char *glob,
          int (*each)(const dibs_report *report, void *arg), void *arg, dibs_error *err)
{
    UNCANCELLED;
    int rc = check_look(client, DIBS_CAP_INSPECT, "list locks", err);
    if (!rc && !each)
        rc = dibs__fail(err, DIBS_EINVAL, "each is NULL");
    if (rc)
        return rc;
    struct collector collector;
    collector_init(&collector);
    int answer = 0;
    rc = dibs__engine_list(client, &collector.sink, dibs__now() + IO_LIMIT, err);
    for (struct collected *lock = collector.first; lock && !rc && !answer;
         lock = lock->next) {
        if (!glob || fnmatch(glob, lock->name, 0) == 0)
            answer = each(&lock->report, arg);
    }
    collector_done(&collector);
    return rc ? rc : answer > 0 ? answer : DIBS_OK;
}

int
dibs_break(size_t *broken, dibs *client, const char *name, const char *reason,
           dibs_error *err)
{
    UNCANCELLED;
    size_t len, count = 0;
    int rc = check_look(client, DIBS_CAP_BREAK, "break locks", err);
    if (!rc)
        rc = dibs__name_check(&len, name, 0, "name", err);
    if (rc)
        return rc;
    rc = dibs__engine_evict(client, name, len, &count, dibs__now() + IO_LIMIT, err);
    if (rc)
        return rc;
    if (client->options.trace) {
        char shown[DIBS__NAME_PRINT_MAX];
        (void)dibs_name_print(shown, sizeof shown, name, len);
        dibs_trace_event event = { "break", shown, 0, DIBS_OK, reason ? reason : "" };
        client->options.trace(&event, client->options.trace_arg);
    }
    /* some of them may be this client's own: as if the engine had rung, the keeper looks */
    dibs__bell_ring(client->session.keeper_bell);
    if (count == 0)
        return dibs__fail_at(client, err, DIBS_ENOTHELD, "break", name, len,
                             "nobody holds it");
    if (broken)
        *broken = count;
    return DIBS_OK;
}
