/* SPDX-License-Identifier: MIT */
/*
 * Tenures at etcd are leases. Until when does one surely live? etcd's leader counts its
 * time down. To make a lease is a matter of a quorum, so that it lives its whole time from
 * when it was asked for is certain. To keep one alive is up to the leader alone; and one
 * that was deposed, and does not know it yet, goes on answering. So a keepalive counts only
 * after a quorum has answered for something that was asked later, in the same term: then
 * whoever took the keepalive was the leader when it did. Every later leader gives each lease
 * its whole time again.
 */
#include "claim.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

/* a lease may change terms while it is being kept, but not for ever */
#define TRIES 3

static http_text *
lease_body(const char *id)
{
    return dibs__etcd_lease_alone((int64_t)strtoull(id, NULL, 16), 0);
}

/* We name leases, so that one whose grant was not confirmed can be ended all the same. One
 * too many of them ends by itself. */
static int64_t
new_id(struct etcd *etcd)
{
    int64_t id = (int64_t)(etcd->host->random() >> 1);
    return id ? id : 1;
}

static void
remember_stray(struct etcd *etcd, int64_t lease)
{
    for (int i = 0; i < STRAY_LEASES; i++) {
        int64_t none = 0;
        if (atomic_compare_exchange_strong(&etcd->stray_leases[i], &none, lease))
            return;
    }
}

static int
lease_begin(void *state, char id[KIT_ID_MAX], int64_t *ttl_ms, dibs_time deadline,
            dibs_error *err)
{
    struct etcd *etcd = state;
    struct answer answer;
    int64_t lease = new_id(etcd);
    http_text *body = dibs__etcd_lease_alone(lease, (*ttl_ms + 999) / 1000);
    int rc = dibs__etcd_ask(etcd, "/lease/grant", body, 0, &answer, deadline, err);
    if (rc == DIBS_EUNKNOWN)
        remember_stray(etcd, lease);
    if (rc)
        return rc;
    int64_t ttl = dibs__etcd_number(answer.json, "TTL");
    dibs__etcd_answer_free(&answer);
    if (ttl <= 0)
        return etcd->host->fail(err, DIBS_ECORRUPT, "no lease was granted");
    (void)snprintf(id, KIT_ID_MAX, "%" PRIx64, (uint64_t)lease);
    *ttl_ms = ttl * 1000;
    return DIBS_OK;
}

static int
ask_keepalive(struct etcd *etcd, const char *id, int64_t *ttl, int64_t *term,
              dibs_time deadline, dibs_error *err)
{
    struct answer answer;
    int rc = dibs__etcd_ask(etcd, "/lease/keepalive", lease_body(id), HTTP_REPEATABLE,
                            &answer, deadline, err);
    if (rc)
        return rc;
    *ttl = dibs__etcd_number(answer.json, "TTL");
    *term = dibs__etcd_term(&answer);
    dibs__etcd_answer_free(&answer);
    if (*ttl <= 0)
        return etcd->host->fail(err, DIBS_ELOST, "lease %s is over", id);
    return DIBS_OK;
}

/* Any read that a quorum stands behind; this one finds next to nothing. */
static int
ask_quorum(struct etcd *etcd, const char *id, int64_t *term, dibs_time deadline,
           dibs_error *err)
{
    struct key epoch;
    struct answer answer;
    dibs__etcd_epoch_key(&epoch, etcd, id);
    http_text *body = dibs__etcd_range_alone(
        &(struct range){ .key = &epoch, .flags = RANGE_COUNT_ONLY });
    int rc =
        dibs__etcd_ask(etcd, "/kv/range", body, HTTP_REPEATABLE, &answer, deadline, err);
    if (!rc)
        *term = dibs__etcd_term(&answer);
    dibs__etcd_answer_free(&answer);
    return rc;
}

static int
lease_keep(void *state, const char *id, int64_t ttl_ms, dibs_time *safe_until,
           dibs_time deadline, dibs_error *err)
{
    struct etcd *etcd = state;
    (void)ttl_ms;
    for (int i = 0; i < TRIES; i++) {
        int64_t ttl, term, term_later = 0;
        dibs_time sent = etcd->host->now();
        int rc = ask_keepalive(etcd, id, &ttl, &term, deadline, err);
        if (!rc)
            rc = ask_quorum(etcd, id, &term_later, deadline, err);
        if (rc)
            return rc;
        *safe_until = sent + ttl * 1000 * DIBS_MS;
        if (term == term_later)
            return DIBS_OK;
    }
    return etcd->host->fail(err, DIBS_EUNKNOWN, "the leader changes too often");
}

static int
lease_end(void *state, const char *id, dibs_time deadline)
{
    struct etcd *etcd = state;
    struct answer answer;
    int rc = dibs__etcd_ask(etcd, "/lease/revoke", lease_body(id), HTTP_REPEATABLE,
                            &answer, deadline, NULL);
    dibs__etcd_answer_free(&answer);
    return rc == DIBS_ELOST ? DIBS_OK : rc;
}

void
dibs__etcd_end_strays(struct etcd *etcd, dibs_time deadline)
{
    char id[KIT_ID_MAX];
    for (int i = 0; i < STRAY_LEASES; i++) {
        int64_t lease = atomic_load(&etcd->stray_leases[i]);
        if (!lease)
            return;
        (void)snprintf(id, sizeof id, "%" PRIx64, (uint64_t)lease);
        (void)lease_end(etcd, id, deadline);
    }
}

static void
lease_lost(void *state, uint64_t birth)
{
    dibs__etcd_wake_tenure(state, birth);
}

/* The least is what etcd grants with its usual timing; a server that wants more says so. */
const kit_tenure_ops dibs__etcd_tenure_ops = {
    .begin = lease_begin,
    .keep = lease_keep,
    .end = lease_end,
    .lost = lease_lost,
    .least_ms = 2000,
    .most_ms = INT64_C(9000000000) * 1000,
    .extra_ms = 1000,
};
