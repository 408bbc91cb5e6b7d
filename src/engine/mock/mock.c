/* SPDX-License-Identifier: MIT */
/*
 * The mock: engine: a lock service in the memory of this process, with faults on demand.
 * docs/engines/mock.md says how to use it in tests. It is also the model for engines:
 * each slot sends one request (dibs__mock_send, where the URL's faults strike), changes
 * the state of the service, and passes the reply back. The service is in service.c.
 *
 * What an engine author may take from it:
 *  - A claim is known by session id and serial. A second attempt finds the first one's
 *    entry and changes nothing but the lease; that is all there is to idempotence.
 *  - A lease counts from when the service hears of it, which is after core looked at its
 *    clock; so core's deadline is always the earlier one.
 *  - Nothing runs by itself in here. Time passes when somebody calls: every slot first
 *    settles the lock, and hint_ms tells a waiter when to come back at the latest.
 *  - A waiter keeps its place by coming back. Its entry has a short lease, and an offer
 *    does not lengthen it, so any number of dead waiters cost one such lease in all.
 *
 * The slots stand in the order of the table, which is last.
 */
#include <string.h>
#include <unistd.h>

#include "mock.h"

#define WAITER_LEASE_MAX_MS 3000

static dibs_time
min_time(dibs_time a, dibs_time b)
{
    return a < b ? a : b;
}

static dibs_time
lease_end(const struct client *client, uint32_t lease_ms)
{
    if (!(client->session->caps & DIBS_CAP_LEASE))
        return DIBS_NEVER;
    return dibs__mock_now(client->service) + lease_ms * DIBS_MS;
}

static uint32_t
waiter_lease_ms(const dibs_claim *claim)
{
    return claim->lease_ms < WAITER_LEASE_MAX_MS ? claim->lease_ms : WAITER_LEASE_MAX_MS;
}

/* find returns the entry of a claim, and its lock, both settled; or NULL. */
static struct entry *
find(struct client *client, const dibs_claim *claim, struct lock **lock)
{
    *lock = dibs__mock_find_lock(client->service, claim->name, claim->name_len,
                                 claim->name_hash, 0);
    if (!*lock)
        return NULL;
    dibs__mock_settle(client->service, *lock);
    return dibs__mock_find_entry(*lock, client, claim->serial);
}

static int
mock_open(void *state, dibs_session *session, const dibs_url_parts *url,
          dibs_time deadline, dibs_error *err)
{
    struct client *client = state;

    (void)deadline;
    client->session = session;
    client->host = session->host;
    return dibs__mock_link_open(client, url, err);
}

static void
mock_close(void *state, int forked)
{
    struct client *client = state;

    if (!forked)
        dibs__mock_service_put(client->service, client);
}

/* answer_busy says when to come back: before the place in the queue is lost, and when
 * somebody in front may have expired. */
static int
answer_busy(const struct lock *lock, const struct entry *entry, dibs_claim *claim,
            dibs_time now)
{
    dibs_time again = now + waiter_lease_ms(claim) * DIBS_MS / 3;

    claim->position = 1;
    for (const struct entry *e = lock->entries; e != entry; e = e->next) {
        again = min_time(again, e->expires);
        claim->position += e->state == WAITING && e->mode != DIBS_OBSERVE;
    }
    claim->hint_ms = (uint32_t)((again - now) / DIBS_MS + 1);
    return DIBS_EBUSY;
}

static int
answer_granted(struct client *client, struct lock *lock, struct entry *entry,
               dibs_claim *claim)
{
    dibs_time lose_after = client->faults.lose_after, end;
    int is_new = entry->state == OFFERED;

    if (is_new) {
        entry->state = HELD;
        entry->token = dibs__mock_next_token(client->service);
        entry->previous = lock->previous;
        lock->previous = DIBS_PREVIOUS_CLEAN;
        if (lose_after)
            entry->lose_at = dibs__mock_now(client->service) + lose_after;
        dibs__mock_tell_observers(client->service, lock);
    }
    end = min_time(lease_end(client, claim->lease_ms), entry->lose_at);
    /* a request that was held up on its way must not undo a renewal that overtook it */
    if (is_new || end > entry->expires)
        entry->expires = end;
    claim->token = entry->token;
    claim->token_room = TOKEN_ROOM;
    claim->previous = client->session->caps & DIBS_CAP_PREVIOUS ? entry->previous
                                                                : DIBS_PREVIOUS_UNKNOWN;
    return DIBS_OK;
}

static int
answer_observer(const struct lock *lock, dibs_claim *claim)
{
    uint64_t newest = 0;

    for (const struct entry *e = lock->entries; e; e = e->next)
        if (e->state == HELD && e->token > newest)
            newest = e->token;
    if (newest == claim->token)
        return DIBS_EBUSY;
    claim->token = newest;
    return DIBS_OK;
}

/* fits says whether the lock is in use in the way the claim means, if it is in use. */
static int
fits(struct lock *lock, const dibs_claim *claim)
{
    int permits = claim->mode == DIBS_PERMITS;

    for (const struct entry *e = lock->entries; e; e = e->next)
        if (e->mode != DIBS_OBSERVE)
            return lock->permits == permits && lock->limit == claim->limit;
    lock->permits = permits;
    lock->limit = claim->limit;
    return 1;
}

/* serve_attempt does what a server would; the service is locked. */
static int
serve_attempt(struct client *client, struct lock *lock, dibs_claim *claim,
              struct entry **found)
{
    struct entry *entry = dibs__mock_find_entry(lock, client, claim->serial);
    int rc;

    if (!entry) {
        if (claim->mode != DIBS_OBSERVE && !fits(lock, claim))
            return DIBS_EMISMATCH;
        entry = dibs__mock_enqueue(client, lock, claim);
        if (!entry)
            return DIBS_ENOMEM;
        dibs__mock_settle(client->service, lock);
    }
    if (entry->state != WAITING)
        return answer_granted(client, lock, entry, claim);
    entry->expires = lease_end(client, waiter_lease_ms(claim));
    rc = claim->mode == DIBS_OBSERVE ? answer_observer(lock, claim) : DIBS_EBUSY;
    if (rc == DIBS_EBUSY)
        rc = answer_busy(lock, entry, claim, dibs__mock_now(client->service));
    if (claim->flags & DIBS_CLAIM_NOQUEUE)
        dibs__mock_drop(client->service, lock, entry);
    else
        *found = entry;
    return rc;
}

static int
is_denied(const struct client *client, const dibs_claim *claim)
{
    const char *deny = client->faults.deny;

    return deny && strlen(deny) == claim->name_len &&
           memcmp(deny, claim->name, claim->name_len) == 0;
}

static int
mock_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct client *client = state;
    struct entry *entry = NULL;
    struct lock *lock;
    int rc = dibs__mock_send(client, deadline, err);

    if (rc)
        return rc;
    if (is_denied(client, claim))
        return client->host->fail(err, DIBS_EDENIED, "the URL says deny=");
    dibs__mock_lock(client->service);
    lock = dibs__mock_find_lock(client->service, claim->name, claim->name_len,
                                claim->name_hash, 1);
    if (lock) {
        dibs__mock_settle(client->service, lock);
        rc = serve_attempt(client, lock, claim, &entry);
    } else {
        rc = DIBS_ENOMEM;
    }
    rc = dibs__mock_reply(client, rc, err);
    /* only who is told to wait is rung: after any other answer the claim may go away */
    if (entry)
        entry->bell = rc == DIBS_EBUSY && client->session->caps & DIBS_CAP_WAKE
                          ? claim->bell
                          : NULL;
    if (lock)
        dibs__mock_tidy(client->service, lock);
    dibs__mock_unlock(client->service);
    return rc;
}

/* attempt has already told the service which bell to ring, so this only keeps the place.
 * An engine that must subscribe first does it here. */
static int
mock_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct client *client = state;
    struct entry *entry;
    struct lock *lock;
    int rc = dibs__mock_send(client, deadline, err);

    if (rc)
        return rc;
    dibs__mock_lock(client->service);
    entry = find(client, claim, &lock);
    if (entry && entry->state == WAITING)
        entry->expires = lease_end(client, waiter_lease_ms(claim));
    rc = dibs__mock_reply(client, DIBS_OK, err);
    dibs__mock_unlock(client->service);
    return rc;
}

static int
serve_renew(struct client *client, const dibs_claim *claim)
{
    struct lock *lock;
    struct entry *entry = find(client, claim, &lock);

    if (!entry || entry->state != HELD)
        return DIBS_ELOST;
    entry->expires = min_time(lease_end(client, claim->lease_ms), entry->lose_at);
    return DIBS_OK;
}

/* A batch is one round trip: it arrives as a whole or not at all. */
static void
mock_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
           dibs_time deadline, dibs_error *err)
{
    struct client *client = state;
    int sent = dibs__mock_send(client, deadline, err), replied;

    dibs__mock_lock(client->service);
    for (size_t i = 0; i < n; i++)
        results[i] = sent ? sent : serve_renew(client, claims[i]);
    replied = sent ? sent : dibs__mock_reply(client, DIBS_OK, err);
    dibs__mock_unlock(client->service);
    for (size_t i = 0; replied && i < n; i++)
        results[i] = replied;
}

static int
serve_release(struct client *client, struct lock *lock, struct entry *entry,
              uint32_t linger_ms)
{
    int held = entry->state == HELD;

    if (held && linger_ms) {
        entry->state = LINGERING;
        entry->serial = 0; /* nobody's any more */
        entry->expires = lease_end(client, linger_ms);
        dibs__mock_tell_observers(client->service, lock);
    } else {
        dibs__mock_drop(client->service, lock, entry);
    }
    dibs__mock_settle(client->service, lock);
    return held ? DIBS_OK : DIBS_ENOTHELD;
}

static int
mock_release(void *state, dibs_claim *claim, uint32_t linger_ms, dibs_time deadline,
             dibs_error *err)
{
    struct client *client = state;
    struct entry *entry;
    struct lock *lock;
    int rc = dibs__mock_send(client, deadline, err);

    dibs__mock_lock(client->service);
    entry = find(client, claim, &lock);
    if (entry)
        entry->bell = NULL; /* the claim goes away, whether this arrives or not */
    if (!rc) {
        rc = entry ? serve_release(client, lock, entry, linger_ms) : DIBS_ENOTHELD;
        rc = dibs__mock_reply(client, rc, err);
    }
    if (lock)
        dibs__mock_tidy(client->service, lock);
    dibs__mock_unlock(client->service);
    return rc;
}

static int
mock_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct client *client = state;
    struct entry *entry;
    struct lock *lock;
    int rc = dibs__mock_send(client, deadline, err);

    if (rc)
        return rc;
    dibs__mock_lock(client->service);
    entry = find(client, claim, &lock);
    rc = entry && entry->state == HELD ? DIBS_OK : DIBS_ELOST;
    if (!rc) {
        entry->mode = DIBS_SHARED;
        dibs__mock_settle(client->service, lock);
    }
    rc = dibs__mock_reply(client, rc, err);
    dibs__mock_unlock(client->service);
    if (!rc)
        claim->mode = DIBS_SHARED;
    return rc;
}

static int
report_entry(struct service *service, const struct entry *entry, dibs_sink *sink)
{
    char host[64] = "";
    dibs_party party = {
        .mode = entry->mode,
        .permits = entry->permits,
        .token = entry->token,
        .pid = getpid(),
        .since_ms = entry->since_ms,
        .lease_left_ms = -1,
        .host = host,
        .app = entry->client ? entry->client->session->app : "",
        .note = entry->note,
    };

    (void)gethostname(host, sizeof(host) - 1);
    if (entry->expires != DIBS_NEVER)
        party.lease_left_ms = (entry->expires - dibs__mock_now(service)) / DIBS_MS;
    return sink->party(sink, entry->state == WAITING || entry->state == OFFERED, &party);
}

static int
report_lock(struct service *service, struct lock *lock, dibs_sink *sink)
{
    int rc = 0, named = 0, mode = lock->permits ? DIBS_PERMITS : DIBS_EXCLUSIVE;

    dibs__mock_settle(service, lock);
    for (const struct entry *e = lock->entries; e && !rc; e = e->next) {
        if (e->mode == DIBS_OBSERVE)
            continue;
        if (!named++)
            rc = sink->lock(sink, lock->name, lock->name_len,
                            lock->permits ? mode : e->mode, lock->limit);
        if (!rc)
            rc = report_entry(service, e, sink);
    }
    return rc;
}

static int
mock_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct client *client = state;
    struct lock *lock;
    int rc = dibs__mock_send(client, deadline, err);

    if (rc)
        return client->host->fail(err, DIBS_EUNAVAIL, "no answer");
    dibs__mock_lock(client->service);
    lock = dibs__mock_next_lock(client->service, NULL);
    for (; lock && !rc; lock = dibs__mock_next_lock(client->service, lock))
        rc = report_lock(client->service, lock, sink);
    dibs__mock_unlock(client->service);
    return rc;
}

static int
mock_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
             dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct client *client = state;
    struct lock *lock;
    int rc = dibs__mock_send(client, deadline, err);

    if (rc)
        return client->host->fail(err, DIBS_EUNAVAIL, "no answer");
    dibs__mock_lock(client->service);
    lock = dibs__mock_find_lock(client->service, name, name_len, name_hash, 0);
    if (lock)
        rc = report_lock(client->service, lock, sink);
    dibs__mock_unlock(client->service);
    return rc;
}

static int
mock_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
           size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct client *client = state;
    struct lock *lock;
    int rc = dibs__mock_send(client, deadline, err);

    if (rc)
        return client->host->fail(err, DIBS_EUNAVAIL, "no answer");
    *broken = 0;
    dibs__mock_lock(client->service);
    lock = dibs__mock_find_lock(client->service, name, name_len, name_hash, 0);
    if (lock) {
        dibs__mock_settle(client->service, lock);
        for (struct entry *e = lock->entries, *next; e; e = next) {
            next = e->next;
            if (e->state != HELD && e->state != LINGERING)
                continue;
            dibs__mock_take_away(client->service, lock, e, DIBS_PREVIOUS_BROKEN);
            ++*broken;
        }
        dibs__mock_settle(client->service, lock);
    }
    dibs__mock_unlock(client->service);
    return DIBS_OK;
}

static int
mock_cell_read(void *state, const dibs_cell_key *key, dibs_cell *out, dibs_time deadline,
               dibs_error *err)
{
    struct client *client = state;
    int rc = dibs__mock_send(client, deadline, err);

    if (rc)
        return client->host->fail(err, DIBS_EUNAVAIL, "no answer");
    dibs__mock_lock(client->service);
    rc = dibs__mock_cell_read(client->service, key, out);
    dibs__mock_unlock(client->service);
    return rc;
}

static int
mock_cell_swap(void *state, const dibs_cell_key *key, uint64_t version, const void *value,
               size_t len, uint64_t *new_version, dibs_time deadline, dibs_error *err)
{
    struct client *client = state;
    int rc = dibs__mock_send(client, deadline, err);

    if (rc)
        return rc;
    dibs__mock_lock(client->service);
    rc = dibs__mock_cell_swap(client->service, key, version, value, len, new_version);
    rc = dibs__mock_reply(client, rc, err);
    dibs__mock_unlock(client->service);
    return rc;
}

static const char *const mock_schemes[] = { "mock", NULL };

__attribute__((visibility("default"))) extern const dibs_engine dibs_engine_table;

const dibs_engine dibs_engine_table = {
    .abi = DIBS_ENGINE_ABI,
    .name = "mock",
    .schemes = mock_schemes,
    .params = dibs__mock_params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_PERMITS |
            DIBS_CAP_TOKEN | DIBS_CAP_PREVIOUS | DIBS_CAP_CELL | DIBS_CAP_INSPECT |
            DIBS_CAP_BREAK | DIBS_CAP_LINGER | DIBS_CAP_WAKE | DIBS_CAP_DETAIL |
            DIBS_CAP_OBSERVE,
    .min_lease_ms = 0,
    .state_size = sizeof(struct client),
    .open = mock_open,
    .close = mock_close,
    .attempt = mock_attempt,
    .watch = mock_watch,
    .renew = mock_renew,
    .release = mock_release,
    .downgrade = mock_downgrade,
    .list = mock_list,
    .inspect = mock_inspect,
    .evict = mock_evict,
    .cell_read = mock_cell_read,
    .cell_swap = mock_cell_swap,
};
