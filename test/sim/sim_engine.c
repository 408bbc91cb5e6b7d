/* SPDX-License-Identifier: MIT */
/*
 * The engine sim: is the mock engine behind a bad network. Each call of core's becomes a
 * request that travels, one step of the server that nothing interrupts, and a reply that
 * travels back; the seed decides what is slow or lost, and mock's own fault switches
 * carry it out. Most mutants live here too: an engine, or a network, that does what the
 * rule of the same number forbids. (K4's and K10's are in sim_sys.c, K5's in sim_lock.c.)
 *
 * In this order: the network, requests that arrive late, mutants, the slots.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/registry.h"
#include "core/sys.h"
#include "engine/mock/mock.h"
#include "sim.h"

#define SERVICE "/sim"

extern const dibs_engine dibs_engine_table; /* mock's */
static const dibs_engine *const mock = &dibs_engine_table;

/* core's table of engines wants one; it is never opened here */
extern const dibs_engine dibs__engine_local;
const dibs_engine dibs__engine_local = { .abi = DIBS_ENGINE_ABI, .name = "local" };

struct sim_network sim_network;

struct link {
    struct client mock; /* the engine's state */
    int process;
    int lost_outcome; /* K11: some attempt's outcome was lost */
};

enum fate { DELIVERED, REQUEST_LOST, REPLY_LOST, REFUSED };

static struct link *links[SIM_PROCESSES]; /* the open ones */
static uint8_t sessions[SIM_PROCESSES][16];
static dibs_time last_fault[SIM_PROCESSES];
static struct late_request *late_requests;
static struct service *service;

struct service *
sim_service(void)
{
    return service;
}

int
sim_link_had_faults(int process, dibs_time since)
{
    return last_fault[process] > since || (sim_network.cut_from[process] <= sim_now() &&
                                           sim_network.cut_until[process] > since);
}

int
sim_process_of(const uint8_t *session)
{
    for (int i = 1; i < SIM_PROCESSES; i++)
        if (memcmp(sessions[i], session, sizeof(sessions[i])) == 0)
            return i;
    return -1;
}

/* ---- the network ---- */

static void
sleep_within(dibs_time how_long, dibs_time deadline)
{
    dibs_time until = dibs__now() + how_long;

    dibs__sleep_until(until < deadline ? until : deadline);
}

static int
is_cut(int process)
{
    return sim_network.cut_from[process] <= sim_now() &&
           sim_now() < sim_network.cut_until[process];
}

static dibs_time
some_delay(void)
{
    return sim_between(STREAM_NETWORK, 0, sim_network.delay_max);
}

static enum fate
decide(struct link *link, dibs_time reply_delay, dibs_time deadline)
{
    int cut = is_cut(link->process);

    if (cut && sim_chance(STREAM_NETWORK, 50))
        return REFUSED;
    if (cut || sim_chance(STREAM_NETWORK, sim_network.drop_percent) ||
        dibs__now() > deadline)
        return REQUEST_LOST;
    if (sim_chance(STREAM_NETWORK, sim_network.drop_percent) ||
        dibs__now() + reply_delay > deadline)
        return REPLY_LOST;
    return DELIVERED;
}

/* One call of core's, from here ... */
struct exchange {
    struct link *link;
    enum fate fate;
    dibs_time reply_delay, deadline, began;
};

static struct exchange
send_request(void *state, dibs_time deadline)
{
    struct exchange x = { .link = state, .deadline = deadline, .began = sim_now() };
    struct faults *faults = &x.link->mock.faults;

    sleep_within(some_delay(), deadline);
    x.reply_delay = some_delay();
    x.fate = decide(x.link, x.reply_delay, deadline);
    if (x.fate != DELIVERED)
        last_fault[x.link->process] = sim_now();
    faults->drop_request = x.fate == REQUEST_LOST;
    faults->drop_reply = x.fate == REPLY_LOST;
    faults->fail_from = x.fate == REFUSED ? 0 : DIBS_NEVER;
    faults->fail_end = DIBS_NEVER;
    sim_enter(SIM_SERVER);
    sim_server_before();
    return x;
}

static void
trace_call(const struct exchange *x, const char *verb, const uint64_t *serials,
           size_t count)
{
    static const char *const fates[] = { "", "request lost", "reply lost", "refused" };

    if (!sim_run.trace)
        return;
    printf("%12.3f ms  process %d  thread %llu calls %s", (double)sim_now() / DIBS_MS,
           x->link->process, (unsigned long long)dibs__thread_number(), verb);
    for (size_t i = 0; i < count; i++)
        printf(" %llu", (unsigned long long)serials[i]);
    printf("  %s\n", fates[x->fate]);
}

/* ... to here; in between mock does the server's part. */
static void
receive_reply(struct exchange *x, const char *verb, const uint64_t *serials, size_t count)
{
    trace_call(x, verb, serials, count);
    sim_server_after(verb, x->link->process, serials, count);
    sim_leave();
    if (x->fate == DELIVERED)
        sleep_within(x->reply_delay, x->deadline);
    else if (x->fate == REFUSED)
        sleep_within(DIBS_MS, x->deadline);
    else /* a broken connection shows at once, silence only at the deadline */
        sleep_within(sim_chance(STREAM_NETWORK, 50) ? some_delay() : x->deadline,
                     x->deadline);
}

/* ---- requests that were given up for lost, and arrive after all ---- */

struct late_request {
    struct late_request *next;
    int process;
    dibs_claim claim;
    char name[DIBS_NAME_MAX];
};

static void
deliver_late(void *arg)
{
    struct late_request *late = arg;
    struct link *link;

    sim_sleep(sim_between(STREAM_NETWORK, 0, LATE_MAX));
    sim_enter(SIM_SERVER);
    link = links[late->process];
    if (link) {
        link->mock.faults.drop_request = link->mock.faults.drop_reply = 0;
        link->mock.faults.fail_from = DIBS_NEVER;
        sim_server_before();
        (void)mock->attempt(&link->mock, &late->claim, 0, NULL);
        sim_server_after("late attempt", late->process, &late->claim.serial, 1);
    }
    sim_leave();
}

static void
maybe_send_later(const struct exchange *x, const dibs_claim *claim)
{
    struct late_request *late;

    if (x->fate != REQUEST_LOST || !sim_chance(STREAM_NETWORK, sim_network.late_percent))
        return;
    late = calloc(1, sizeof(*late));
    late->process = x->link->process;
    late->claim = *claim;
    memcpy(late->name, claim->name, claim->name_len);
    late->claim.name = late->name;
    late->claim.note = "";
    late->claim.bell = &late->claim.own_bell;
    late->next = late_requests;
    late_requests = late;
    sim_spawn(SIM_SERVER, deliver_late, late);
}

/* ---- mutants: what each rule is there to catch ---- */

/* K1: a deadline that counts from the reply instead of the request is as late as the call
 * took. Core reads its clock before the call; so the clock stands still during it. */
static void
mutate_deadline(const struct exchange *x)
{
    if (sim_run.mutant == K1)
        sim_turn_clock_back(x->link->process, sim_now() - x->began);
}

/* K3: a counter that starts again, as one without memory does on a restart. */
static void
mutate_token(dibs_claim *claim)
{
    if (sim_run.mutant == K3)
        claim->token = claim->token % (3 * (TOKEN_ROOM + 1)) + 1;
}

/* K6: release by name: whoever has the lock loses it. */
static void
mutate_release(const dibs_claim *claim)
{
    struct lock *lock =
        dibs__mock_find_lock(service, claim->name, claim->name_len, claim->name_hash, 0);

    if (sim_run.mutant == K6 && lock && lock->entries)
        dibs__mock_drop(service, lock, lock->entries);
}

/* K7: whoever comes last is next. */
static void
mutate_order(const dibs_claim *claim)
{
    struct lock *lock =
        dibs__mock_find_lock(service, claim->name, claim->name_len, claim->name_hash, 0);
    struct entry **first, **last;

    if (sim_run.mutant != K7 || !lock)
        return;
    for (first = &lock->entries; *first && (*first)->state != WAITING;)
        first = &(*first)->next;
    if (!*first || !(*first)->next)
        return;
    for (last = &(*first)->next; (*last)->next;)
        last = &(*last)->next;
    (*last)->next = *first;
    *first = *last;
    *last = NULL;
}

/* K8: the dead keep their places in the queue. K11: an engine whose sessions keep
 * alive all that they ever asked for. */
static void
mutate_leases(void)
{
    struct lock *lock = NULL;

    while ((sim_run.mutant == K8 || sim_run.mutant == K11) &&
           (lock = dibs__mock_next_lock(service, lock)))
        for (struct entry *e = lock->entries; e; e = e->next) {
            int process = sim_process_of(e->session);
            int dead = process > 0 && sim_is_dead(process);

            if (sim_run.mutant == K8 ? dead && e->state != HELD : process > 0 && !dead)
                e->expires = sim_now() + LEASE_MAX_MS * DIBS_MS;
        }
}

/* ---- the slots ---- */

static int
sim_open(void *state, dibs_session *session, const dibs_url_parts *url,
         dibs_time deadline, dibs_error *err)
{
    struct link *link = state;
    int rc;

    link->process = sim_process();
    sim_enter(SIM_SERVER);
    rc = mock->open(&link->mock, session, url, deadline, err);
    sim_leave();
    link->mock.faults.seeded = 1;
    links[link->process] = link;
    memcpy(sessions[link->process], session->id, sizeof(session->id));
    service = link->mock.service;
    return rc;
}

static void
sim_close(void *state, int forked)
{
    struct link *link = state;

    sim_enter(SIM_SERVER);
    sim_server_before();
    mock->close(&link->mock, forked);
    sim_server_after("close", link->process, NULL, 0);
    links[link->process] = NULL;
    sim_leave();
}

static int
sim_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct exchange x = send_request(state, deadline);
    int rc;

    mutate_leases();
    rc = mock->attempt(&x.link->mock, claim, deadline, err);
    maybe_send_later(&x, claim);
    receive_reply(&x, "attempt", &claim->serial, 1);
    if (rc == DIBS_OK)
        mutate_token(claim);
    if (rc == DIBS_EBUSY && sim_run.mutant == K10)
        claim->hint_ms = 0;
    x.link->lost_outcome |= rc == DIBS_EUNKNOWN;
    mutate_deadline(&x);
    return rc;
}

static int
sim_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct exchange x = send_request(state, deadline);
    int rc = mock->watch(&x.link->mock, claim, deadline, err);

    receive_reply(&x, "watch", &claim->serial, 1);
    return rc;
}

static void
sim_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
          dibs_time deadline, dibs_error *err)
{
    struct exchange x = send_request(state, deadline);
    uint64_t serials[64];

    mutate_leases();
    for (size_t i = 0; i < n && i < 64; i++)
        serials[i] = claims[i]->serial;
    mock->renew(&x.link->mock, claims, results, n, deadline, err);
    receive_reply(&x, "renew", serials, n < 64 ? n : 64);
    mutate_deadline(&x);
}

static int
sim_release(void *state, dibs_claim *claim, uint32_t linger_ms, dibs_time deadline,
            dibs_error *err)
{
    struct exchange x = send_request(state, deadline);
    int rc,
        swallow = sim_run.mutant == K9 || (sim_run.mutant == K11 && x.link->lost_outcome);

    if (swallow)
        x.link->mock.faults.drop_request = 1;
    mutate_order(claim);
    rc = mock->release(&x.link->mock, claim, linger_ms, deadline, err);
    if (swallow)
        rc = DIBS_OK;
    if (rc == DIBS_ENOTHELD)
        mutate_release(claim);
    receive_reply(&x, "release", &claim->serial, 1);
    return rc;
}

static int
sim_downgrade(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct exchange x = send_request(state, deadline);
    int rc = mock->downgrade(&x.link->mock, claim, deadline, err);

    receive_reply(&x, "downgrade", &claim->serial, 1);
    return rc;
}

static int
sim_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct exchange x = send_request(state, deadline);
    int rc = mock->list(&x.link->mock, sink, deadline, err);

    receive_reply(&x, "list", NULL, 0);
    return rc;
}

static int
sim_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
            dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct exchange x = send_request(state, deadline);
    int rc = mock->inspect(&x.link->mock, name, name_len, name_hash, sink, deadline, err);

    receive_reply(&x, "inspect", NULL, 0);
    return rc;
}

static int
sim_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
          size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct exchange x = send_request(state, deadline);
    int rc = mock->evict(&x.link->mock, name, name_len, name_hash, broken, deadline, err);

    receive_reply(&x, "evict", NULL, 0);
    return rc;
}

static int
sim_cell_read(void *state, const dibs_cell_key *key, dibs_cell *out, dibs_time deadline,
              dibs_error *err)
{
    struct exchange x = send_request(state, deadline);
    int rc = mock->cell_read(&x.link->mock, key, out, deadline, err);

    receive_reply(&x, "cell_read", NULL, 0);
    /* K2: nobody checks the fence */
    if (sim_run.mutant == K2 && rc == DIBS_OK) {
        out->version = out->len = 0;
        rc = DIBS_ENOTFOUND;
    }
    return rc;
}

static int
sim_cell_swap(void *state, const dibs_cell_key *key, uint64_t version, const void *value,
              size_t len, uint64_t *new_version, dibs_time deadline, dibs_error *err)
{
    struct exchange x = send_request(state, deadline);
    dibs_cell there;
    int rc;

    if (sim_run.mutant == K2 && dibs__mock_cell_read(service, key, &there) == DIBS_OK)
        version = there.version;
    rc = mock->cell_swap(&x.link->mock, key, version, value, len, new_version, deadline,
                         err);
    receive_reply(&x, "cell_swap", NULL, 0);
    return rc;
}

void
sim_engine_register(void)
{
    static const char *const schemes[] = { "sim", NULL };
    dibs_engine engine = *mock;
    dibs_error err;

    engine.name = "sim";
    engine.schemes = schemes;
    engine.state_size = sizeof(struct link);
    engine.open = sim_open;
    engine.close = sim_close;
    engine.attempt = sim_attempt;
    engine.watch = sim_watch;
    engine.renew = sim_renew;
    engine.release = sim_release;
    engine.downgrade = sim_downgrade;
    engine.list = sim_list;
    engine.inspect = sim_inspect;
    engine.evict = sim_evict;
    engine.cell_read = sim_cell_read;
    engine.cell_swap = sim_cell_swap;
    if (dibs__registry_add(&engine, &err)) {
        fprintf(stderr, "dibs_sim: %s\n", err.text);
        exit(2);
    }
}

void
sim_engine_reset(void)
{
    struct late_request *late;

    dibs__mock_forget(SERVICE);
    service = NULL;
    while ((late = late_requests)) {
        late_requests = late->next;
        free(late);
    }
    memset(links, 0, sizeof(links));
    memset(sessions, 0, sizeof(sessions));
    memset(last_fault, 0, sizeof(last_fault));
    memset(&sim_network, 0, sizeof(sim_network));
}
