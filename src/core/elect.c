/* SPDX-License-Identifier: MIT */
/*
 * Elections. A leader is the holder of a lock, and what it stands for is the hold's note.
 * Observers take nothing: their claim is "granted" whenever the newest holder is another
 * than the one they saw.
 */
#include "core/core.h"

#include <string.h>

#define IO_LIMIT (5000 * DIBS_MS)
#define LOOK_AGAIN (1000 * DIBS_MS)
#define BACKOFF (100 * DIBS_MS)

int
dibs_campaign(dibs_hold **out, dibs *client, const char *name, const char *value,
              int64_t wait_ms, dibs_error *err)
{
    dibs_request request = DIBS_REQUEST_INIT;
    request.name = name;
    request.note = value;
    request.wait_ms = wait_ms;
    request.flags = DIBS_ELECTION;
    return dibs_acquire(out, client, &request, err);
}

struct observer {
    dibs *client;
    dibs_claim claim;
    int (*changed)(const dibs_party *leader, void *arg);
    void *arg;
    dibs_canceller *cancel;
    dibs_time deadline;
    int stopped; /* `changed` has said so, with `answer` */
    int answer;
};

static dibs_time
io_deadline(const struct observer *observer)
{
    dibs_time most = dibs__now() + IO_LIMIT;
    return observer->deadline < most ? observer->deadline : most;
}

static int
tell(struct observer *observer, dibs_error *err)
{
    dibs_report *report;
    /* names in reports are C strings, as the observer's is */
    int rc = dibs_inspect(&report, observer->client, observer->claim.name, err);
    if (rc)
        return rc;
    const dibs_party *leader = NULL;
    for (size_t i = 0; i < report->holder_count; i++) {
        if (!leader || report->holders[i].token > leader->token)
            leader = &report->holders[i];
    }
    /* what has been told is what the next change is measured against */
    observer->claim.token = leader ? leader->token : 0;
    observer->answer = observer->changed(leader, observer->arg);
    observer->stopped = observer->answer != 0;
    dibs_report_free(report);
    return DIBS_OK;
}

static int
sleep_a_while(struct observer *observer, dibs_time most)
{
    dibs_time until = dibs__now() + most;
    if (observer->deadline < until)
        until = observer->deadline;
    int wake =
        dibs__wait_claim(observer->client, observer->cancel, &observer->claim, until);
    if (wake == DIBS__CANCELED)
        return DIBS_ECANCELED;
    return dibs__now() >= observer->deadline ? DIBS_ETIMEDOUT : DIBS_OK;
}

static int
observe(struct observer *observer, dibs_error *err)
{
    dibs_claim *claim = &observer->claim;
    dibs *client = observer->client;
    int watching = 0;
    int rc = tell(observer, err);
    while (!rc && !observer->stopped) {
        dibs__count_call(client);
        claim->seen = dibs_bell_seen(claim->bell);
        rc = dibs__engine_attempt(client, claim, io_deadline(observer), err);
        if (rc == DIBS_OK) {
            rc = tell(observer, err);
        } else if (rc == DIBS_EBUSY && !watching) {
            watching = 1;
            dibs__count_call(client);
            rc = dibs__engine_watch(client, claim, io_deadline(observer), err);
        } else if (rc == DIBS_EBUSY) {
            watching = 0;
            rc = sleep_a_while(observer, LOOK_AGAIN);
        }
        if (rc == DIBS_EUNKNOWN || rc == DIBS_EUNAVAIL)
            rc = sleep_a_while(observer, BACKOFF);
    }
    return rc;
}

int
dibs_observe(dibs *client, const char *name,
             int (*changed)(const dibs_party *leader, void *arg), void *arg,
             int64_t wait_ms, dibs_canceller *cancel, dibs_error *err)
{
    UNCANCELLED;
    size_t len;
    int rc = dibs__client_check(client, err);
    if (!rc)
        rc = dibs__name_check(&len, name, 0, "name", err);
    if (!rc && !changed)
        rc = dibs__fail(err, DIBS_EINVAL, "changed is NULL");
    if (!rc && wait_ms < DIBS_WAIT_NONE)
        rc = dibs__fail(err, DIBS_EINVAL, "wait_ms is negative");
    if (!rc && !dibs__has(client, DIBS_CAP_OBSERVE))
        rc = dibs__fail(err, DIBS_EUNSUPPORTED, "engine %s cannot tell who leads",
                        client->engine->name);
    if (rc)
        return rc;
    struct observer observer = {
        .client = client,
        .changed = changed,
        .arg = arg,
        .cancel = cancel,
        .deadline = dibs__deadline_of(wait_ms),
    };
    dibs_claim *claim = &observer.claim;
    claim->name = name;
    claim->name_len = (uint16_t)len;
    claim->name_hash = dibs__hash(name, len);
    claim->mode = DIBS_OBSERVE;
    claim->permits = 1;
    claim->lease_ms = client->options.lease_ms;
    /* claims that ask for something count up from 1, these down from the top */
    claim->serial = UINT64_MAX - atomic_fetch_add(&client->last_observer, 1);
    claim->note = "";
    claim->bell = &claim->own_bell;
    dibs__client_enter(client);
    dibs_error said;
    rc = observe(&observer, &said);
    dibs__count_call(client);
    (void)dibs__engine_release(client, claim, 0, dibs__now() + IO_LIMIT, NULL);
    dibs__client_leave(client);
    if (rc == DIBS_ETIMEDOUT || rc == DIBS_ECANCELED)
        return dibs__fail_at(client, err, rc, "observe", name, len, "%s",
                             dibs_strerror(rc));
    if (rc && err)
        *err = said;
    return rc ? rc : observer.answer > 0 ? observer.answer : DIBS_OK;
}
