/* SPDX-License-Identifier: MIT */
/*
 * kit/tenure.c: the lives of a client at a store. The store is a variable here, which
 * answers what a case wants; time and threads are real. Where a case waits for the kit's
 * thread, only what must come in the end is checked, with much time for it.
 *
 * In this order: the store, how long tenures are, beginning and sharing, keeping by hand,
 * what the thread does, all at once.
 */
#include "unit.h"

#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/mem.h"
#include "core/session.h"
#include "kit/kit.h"

#define HOUR_MS 3600000
#define SOON_MS slowly(5000) /* when what must come has come */

static dibs_error err;
static dibs_session session;
static kit_lapses *lapses;
static kit_tenures *tenures;

/* ---- the store ---- */

static struct {
    _Atomic int begun, kept, ended, lost, lapsed; /* calls */
    _Atomic int begin_rc, keep_rc;                /* what failures say */
    _Atomic int begin_failures, keep_failures;    /* how many there still are */
    _Atomic int64_t asked_ms;                     /* the ttl that was wanted last */
    _Atomic int64_t gives_ms;                     /* 0: what is wanted */
    _Atomic int64_t safe_ms;                      /* of a keep; 0: the ttl */
    _Atomic uint64_t lost_birth;
    _Atomic int is_shut; /* begin and keep do not answer until it is not */
} store;

static int
answer(_Atomic int *failures, int rc, dibs_time deadline, dibs_error *error)
{
    while (store.is_shut && dibs__host.now() < deadline)
        sleep_ms(1);
    if (store.is_shut)
        return (dibs__host.fail)(error, DIBS_EUNKNOWN, "no answer");
    int left = *failures;
    while (left > 0 && !atomic_compare_exchange_weak(failures, &left, left - 1))
        continue;
    return left > 0 ? (dibs__host.fail)(error, rc, "a failure") : DIBS_OK;
}

static int
begin(void *state, char id[KIT_ID_MAX], int64_t *ttl_ms, dibs_time deadline,
      dibs_error *error)
{
    CHECK(state == &store);
    (void)snprintf(id, KIT_ID_MAX, "id-%d", ++store.begun);
    store.asked_ms = *ttl_ms;
    if (store.gives_ms)
        *ttl_ms = store.gives_ms;
    return answer(&store.begin_failures, store.begin_rc, deadline, error);
}

static int
keep(void *state, const char *id, int64_t ttl_ms, dibs_time *safe_until,
     dibs_time deadline, dibs_error *error)
{
    CHECK(state == &store && strncmp(id, "id-", 3) == 0);
    dibs_time sent = dibs__host.now();
    store.kept++;
    int rc = answer(&store.keep_failures, store.keep_rc, deadline, error);
    if (!rc)
        *safe_until = sent + (store.safe_ms ? store.safe_ms : ttl_ms) * DIBS_MS;
    return rc;
}

static int
end(void *state, const char *id, dibs_time deadline)
{
    CHECK(state == &store && strncmp(id, "id-", 3) == 0 && deadline > 0);
    store.ended++;
    return DIBS_EUNAVAIL; /* that is no reason to try again */
}

static void
lose(void *state, uint64_t birth)
{
    CHECK(state == &store && dibs__kit_tenure_find(tenures, birth) == NULL);
    store.lost_birth = birth;
    store.lost++;
}

static int
lapse(void *state, dibs_claim *claim)
{
    CHECK(state == &store && claim->serial == 5);
    store.lapsed++;
    return 1;
}

static kit_tenure_ops ops = { .begin = begin, .keep = keep, .end = end, .lost = lose };

/* tenures that are as long as the store says; 0: as long as leases want them */
static void
start(int64_t fixed_ms)
{
    session.host = &dibs__host;
    session.keeper_bell = &session.own_keeper_bell;
    ops.least_ms = 1000;
    ops.most_ms = 100 * HOUR_MS;
    ops.extra_ms = 0;
    ops.fixed_ms = fixed_ms;
    lapses = dibs__kit_lapses_new(&dibs__host, lapse, &store);
    assert_non_null(lapses);
    tenures = dibs__kit_tenures_new(&session, &ops, lapses, &store);
    assert_non_null(tenures);
}

static void
stop(void)
{
    dibs__kit_tenures_free(tenures, 0, dibs__host.now() + SOON_MS * DIBS_MS);
    dibs__kit_lapses_free(lapses, 0);
}

static dibs_time
in_ms(int64_t ms)
{
    return dibs__host.now() + ms * DIBS_MS;
}

static int
join(uint32_t lease_ms, unsigned n, kit_tenure **out)
{
    *out = NULL;
    return dibs__kit_tenure_join(tenures, lease_ms, n, in_ms(SOON_MS), out, &err);
}

static kit_tenure *
must_join(uint32_t lease_ms, unsigned n)
{
    kit_tenure *tenure;
    int rc = join(lease_ms, n, &tenure);
    if (rc)
        FAIL("join: %s: %s", dibs_errname(rc), err.text);
    return tenure;
}

static int
secure(kit_tenure *tenure, int64_t ms)
{
    return dibs__kit_tenure_secure(tenures, tenure, in_ms(ms), in_ms(SOON_MS), &err);
}

static void
leave(const kit_tenure *tenure)
{
    dibs__kit_tenure_leave(tenures, dibs__kit_tenure_birth(tenure));
}

static void
await(const _Atomic int *count, int least)
{
    int64_t until = now_ms() + SOON_MS;
    while (*count < least) {
        if (now_ms() > until)
            FAIL("%d of %d came", *count, least);
        sleep_ms(1);
    }
}

/* ---- how long they are ---- */

static void
check_length(uint32_t lease_ms, int64_t want_ms)
{
    kit_tenure *tenure = must_join(lease_ms, 0);
    if (store.asked_ms != want_ms)
        FAIL("a lease of %u ms wants %lld and not %lld ms", lease_ms,
             (long long)store.asked_ms, (long long)want_ms);
    dibs__kit_tenure_dead(tenures, dibs__kit_tenure_birth(tenure));
    leave(tenure);
}

CASE(lengths)
{
    start(0);
    check_length(1, 1000);
    check_length(750, 1000);
    check_length(752, 1500);
    check_length(1500, 2000);
    check_length(1502, 3000);
    check_length(3000, 4000);
    check_length(4500, 6000);
    check_length(4502, 8000);
    check_length(30000, 48000);
    check_length(HOUR_MS, 6144000);
    ops.extra_ms = 1000;
    check_length(1, 1500);
    check_length(1000, 3000);
    check_length(30000, 48000);
    stop();
}

CASE(bounds_of_the_store)
{
    kit_tenure *tenure;
    start(0);
    ops.least_ms = 10000;
    ops.most_ms = 50000;
    check_length(1, 10000);
    check_length(9000, 12000);
    check_length(37500, 50000);
    assert_int_equal(join(37600, 0, &tenure), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "gives 50000: use a shorter lease");
    assert_null(tenure);
    ops.fixed_ms = 20000;
    check_length(1, 20000);
    check_length(15000, 20000);
    assert_int_equal(join(15100, 0, &tenure), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "or a longer session=");
    stop();
}

/* The store gives another length than it was asked for. */
CASE(another_length)
{
    kit_tenure *tenure;
    start(0);
    store.gives_ms = 2000;
    assert_int_equal(join(2000, 0, &tenure), DIBS_EINVAL);
    assert_says(&err, DIBS_EINVAL, "needs 2666 ms at the store, which gives 2000");
    /* what fits into it is in another class */
    tenure = must_join(1500, 0);
    leave(tenure);
    store.gives_ms = HOUR_MS;
    tenure = must_join(10000, 0);
    assert_true(dibs__kit_tenure_safe_until(tenure) > in_ms(HOUR_MS / 2));
    assert_int_equal(store.kept, 0);
    leave(tenure);
    stop();
}

/* ---- beginning and sharing ---- */

CASE(shared)
{
    start(0);
    kit_tenure *first = must_join(30000, 0), *same = must_join(31000, 0);
    kit_tenure *next = must_join(30000, 1), *longer = must_join(60000, 0);
    assert_true(first == same && first != next && first != longer && next != longer);
    assert_int_equal(store.begun, 3);
    uint64_t birth = dibs__kit_tenure_birth(first);
    assert_true(birth && birth != dibs__kit_tenure_birth(next));
    assert_string_equal(dibs__kit_tenure_id(first), "id-1");
    assert_string_equal(dibs__kit_tenure_id(longer), "id-3");
    assert_ptr_equal(dibs__kit_tenure_find(tenures, birth), first);
    assert_null(dibs__kit_tenure_find(tenures, 0));
    assert_null(dibs__kit_tenure_find(tenures, 1000));
    assert_int_equal(*dibs__kit_tenure_word(first), 0);
    *dibs__kit_tenure_word(first) = 7;
    assert_int_equal(*dibs__kit_tenure_word(same), 7);
    assert_int_equal(*dibs__kit_tenure_word(next), 0);
    leave(first);
    leave(first);
    leave(first); /* one too many */
    dibs__kit_tenure_leave(tenures, 0);
    dibs__kit_tenure_leave(tenures, 1000);
    assert_ptr_equal(must_join(30000, 0), first);
    stop();
    assert_int_equal(store.ended, 3);
    assert_int_equal(store.lost, 0);
}

static void
join_and_leave(void *arg, int index)
{
    (void)arg;
    (void)index;
    leave(must_join(30000, 0));
}

static void
open_store_later(void *arg, int index)
{
    if (index > 0) {
        join_and_leave(arg, index);
        return;
    }
    await(&store.begun, 1);
    sleep_ms(20); /* time for the others to come to it */
    store.is_shut = 0;
}

CASE(begun_once)
{
    start(0);
    store.is_shut = 1;
    gang_join(gang_start(6, open_store_later, NULL));
    assert_int_equal(store.begun, 1);
    stop();
    assert_int_equal(store.ended, 1);
}

CASE(not_begun)
{
    static const int codes[][2] = { { DIBS_EUNAVAIL, DIBS_EUNAVAIL },
                                    { DIBS_EUNKNOWN, DIBS_EUNAVAIL },
                                    { DIBS_EDENIED, DIBS_EDENIED } };
    kit_tenure *tenure;
    start(0);
    for (size_t i = 0; i < COUNT(codes); i++) {
        store.begin_rc = codes[i][0];
        store.begin_failures = 1;
        assert_int_equal(join(30000, 0, &tenure), codes[i][1]);
        assert_null(tenure);
    }
    must_join(30000, 0);
    assert_int_equal(store.begun, 4);
    stop();
    assert_int_equal(store.ended, 1);
}

static void
count_failures(void *arg, int index)
{
    _Atomic int *failed = arg;
    kit_tenure *tenure;
    if (index == 0) {
        open_store_later(NULL, 0);
    } else if (dibs__kit_tenure_join(tenures, 30000, 0, in_ms(SOON_MS), &tenure, NULL)) {
        ++*failed;
    } else {
        leave(tenure);
    }
}

/* Those who wait for a beginning that fails begin by themselves. */
CASE(begun_by_another)
{
    _Atomic int failed = 0;
    start(0);
    store.is_shut = 1;
    store.begin_rc = DIBS_EUNAVAIL;
    store.begin_failures = 1;
    gang_join(gang_start(5, count_failures, &failed));
    assert_int_equal(failed, 1);
    assert_int_equal(store.begun, 2);
    stop();
    assert_int_equal(store.ended, 1);
}

static void
hold_the_beginning(void *arg, int index)
{
    kit_tenure *tenure;
    if (index == 0) {
        leave(must_join(30000, 0));
        return;
    }
    await(&store.begun, 1);
    CHECK_SAME(dibs__kit_tenure_join(tenures, 30000, 0, in_ms(20), &tenure, arg),
               DIBS_EUNAVAIL);
    CHECK_SAME(dibs__kit_tenure_join(tenures, 30000, 0, 0, &tenure, arg), DIBS_EUNAVAIL);
    store.is_shut = 0;
}

/* Who waits for another's beginning waits no longer than it wants to. */
CASE(waits_no_longer)
{
    dibs_error other;
    start(0);
    store.is_shut = 1;
    gang_join(gang_start(2, hold_the_beginning, &other));
    assert_says(&other, DIBS_EUNAVAIL, "does not answer");
    assert_int_equal(store.begun, 1);
    stop();
}

/* ---- keeping by hand ---- */

CASE(secured)
{
    start(0);
    kit_tenure *tenure = must_join(HOUR_MS, 0); /* of 6144 s */
    assert_int_equal(secure(tenure, HOUR_MS), DIBS_OK);
    assert_int_equal(store.kept, 0);
    sleep_ms(2);
    dibs_time before = dibs__kit_tenure_safe_until(tenure);
    assert_int_equal(
        dibs__kit_tenure_secure(tenures, tenure, before + 1, in_ms(SOON_MS), &err),
        DIBS_OK);
    assert_int_equal(store.kept, 1);
    assert_true(dibs__kit_tenure_safe_until(tenure) > before);
    assert_int_equal(secure(tenure, 6144001), DIBS_EINVAL);
    assert_int_equal(store.kept, 1);
    stop();
}

CASE(not_secured)
{
    static const int codes[] = { DIBS_EUNAVAIL, DIBS_EUNKNOWN };
    start(0);
    store.gives_ms = 2 * HOUR_MS;
    kit_tenure *tenure = must_join(HOUR_MS, 0);
    dibs_time until = dibs__kit_tenure_safe_until(tenure);
    sleep_ms(2);
    for (size_t i = 0; i < COUNT(codes); i++) {
        store.keep_rc = codes[i];
        store.keep_failures = 1;
        assert_int_equal(
            dibs__kit_tenure_secure(tenures, tenure, until + 1, in_ms(SOON_MS), &err),
            codes[i]);
        await(&store.kept, 2 * ((int)i + 1)); /* the thread tries again by itself */
        while (dibs__kit_tenure_safe_until(tenure) == until)
            sleep_ms(1);
        until = dibs__kit_tenure_safe_until(tenure);
        sleep_ms(2);
    }
    /* the store says that it is kept, and not that it is for long */
    store.safe_ms = 1;
    assert_int_equal(
        dibs__kit_tenure_secure(tenures, tenure, until + 1, in_ms(SOON_MS), &err),
        DIBS_EUNAVAIL);
    assert_true(dibs__kit_tenure_safe_until(tenure) == until);
    stop();
}

static void
check_is_over(kit_tenure *tenure, int losses)
{
    uint64_t birth = dibs__kit_tenure_birth(tenure);
    assert_int_equal(store.lost, losses);
    assert_int_equal(store.lost_birth, birth);
    assert_null(dibs__kit_tenure_find(tenures, birth));
    assert_int_equal(secure(tenure, 1), DIBS_ELOST);
    kit_tenure *other = must_join(1000, 0);
    assert_true(dibs__kit_tenure_birth(other) != birth);
    assert_string_equal(dibs__kit_tenure_id(tenure), "id-1");
    leave(tenure);
    leave(other);
}

CASE(lost_when_kept)
{
    start(HOUR_MS);
    kit_tenure *tenure = must_join(1000, 0);
    uint32_t seen = dibs_bell_seen(session.keeper_bell);
    sleep_ms(2);
    store.keep_rc = DIBS_ELOST;
    store.keep_failures = 1;
    assert_int_equal(secure(tenure, HOUR_MS), DIBS_ELOST);
    assert_true(dibs_bell_seen(session.keeper_bell) != seen);
    check_is_over(tenure, 1);
    stop();
    assert_int_equal(store.ended, 1);
}

CASE(dead)
{
    start(HOUR_MS);
    kit_tenure *tenure = must_join(1000, 0);
    uint64_t birth = dibs__kit_tenure_birth(tenure);
    uint32_t seen = dibs_bell_seen(session.keeper_bell);
    dibs__kit_tenure_dead(tenures, birth);
    assert_true(dibs_bell_seen(session.keeper_bell) != seen);
    dibs__kit_tenure_dead(tenures, birth);
    dibs__kit_tenure_dead(tenures, 1000);
    check_is_over(tenure, 1);
    dibs__kit_tenure_dead(tenures, birth);
    stop();
    assert_int_equal(store.ended, 1);
}

/* A tenure that has too little time left is kept before it is joined, or left alone. */
CASE(too_little_time)
{
    kit_tenure *tenure;
    start(0);
    ops.fixed_ms = 2 * HOUR_MS;
    store.gives_ms = 2 * HOUR_MS;
    dibs_time until = dibs__kit_tenure_safe_until(must_join(1000, 0));
    store.is_shut = 1; /* before the thread can keep it */
    dibs__host.advance_clock(HOUR_MS);
    assert_int_equal(dibs__kit_tenure_join(tenures, HOUR_MS + HOUR_MS / 4, 0, in_ms(20),
                                           &tenure, &err),
                     DIBS_EUNAVAIL);
    store.is_shut = 0;
    tenure = must_join(HOUR_MS + HOUR_MS / 4, 0);
    assert_true(dibs__kit_tenure_safe_until(tenure) > until);
    assert_int_equal(store.begun, 1);
    /* if it is over, another one is begun; whether the thread finds out, or who joins */
    store.keep_rc = DIBS_ELOST;
    store.keep_failures = 1;
    dibs__host.advance_clock(HOUR_MS);
    must_join(HOUR_MS + HOUR_MS / 4, 0);
    assert_int_equal(store.begun, 2);
    stop();
}

/* They all want it kept, and the store is asked once. */
static void
secure_together(void *arg, int index)
{
    kit_tenure *tenure = arg;
    dibs_time until = dibs__kit_tenure_safe_until(tenure) + 1;
    if (index > 0) {
        CHECK_SAME(dibs__kit_tenure_secure(tenures, tenure, until, in_ms(SOON_MS), NULL),
                   DIBS_OK);
        return;
    }
    await(&store.kept, 1);
    CHECK_SAME(dibs__kit_tenure_secure(tenures, tenure, until, in_ms(20), NULL),
               DIBS_EUNAVAIL);
    store.is_shut = 0;
}

CASE(secured_once)
{
    start(HOUR_MS);
    kit_tenure *tenure = must_join(1000, 0);
    sleep_ms(2);
    store.is_shut = 1;
    gang_join(gang_start(6, secure_together, tenure));
    assert_int_equal(store.kept, 1);
    stop();
}

/* ---- what the thread does ---- */

CASE(kept)
{
    start(300);
    kit_tenure *tenure = must_join(10, 0);
    dibs_time until = dibs__kit_tenure_safe_until(tenure);
    await(&store.kept, 5);
    assert_true(dibs__kit_tenure_safe_until(tenure) > until);
    assert_true(dibs__kit_tenure_find(tenures, dibs__kit_tenure_birth(tenure)) == tenure);
    assert_int_equal(store.lost, 0);
    stop();
    assert_int_equal(store.ended, 1);
}

/* An answer that promises little is no reason to ask all the time. */
CASE(not_all_the_time)
{
    start(400);
    store.safe_ms = 1;
    must_join(10, 0);
    await(&store.kept, 3);
    int before = store.kept;
    int64_t since = now_ms();
    sleep_ms(100);
    assert_in_range(store.kept - before, 0, (now_ms() - since) / 20 + 1);
    stop();
}

CASE(retries)
{
    start(300);
    store.keep_rc = DIBS_EUNAVAIL;
    store.keep_failures = 8;
    kit_tenure *tenure = must_join(10, 0);
    dibs_time until = dibs__kit_tenure_safe_until(tenure);
    await(&store.kept, 9);
    while (dibs__kit_tenure_safe_until(tenure) == until)
        sleep_ms(1);
    assert_int_equal(store.lost, 0);
    stop();
    assert_int_equal(store.ended, 1);
}

/* Out of reach for longer than it lives; then the store says that it is gone. */
CASE(gone_in_an_outage)
{
    start(200);
    store.keep_rc = DIBS_ELOST;
    store.keep_failures = 1;
    kit_tenure *tenure = must_join(10, 0);
    store.is_shut = 1;
    while (dibs__host.now() < dibs__kit_tenure_safe_until(tenure))
        sleep_ms(1);
    await(&store.kept, 1);
    assert_int_equal(store.lost, 0); /* nobody has said so */
    store.is_shut = 0;
    await(&store.lost, 1);
    assert_null(dibs__kit_tenure_find(tenures, dibs__kit_tenure_birth(tenure)));
    leave(tenure);
    stop();
    assert_int_equal(store.ended, 0);
}

CASE(ended_when_unused)
{
    start(100);
    kit_tenure *tenure = must_join(10, 0);
    uint64_t birth = dibs__kit_tenure_birth(tenure);
    await(&store.kept, 2);
    assert_int_equal(store.ended, 0);
    leave(tenure);
    await(&store.ended, 1);
    assert_null(dibs__kit_tenure_find(tenures, birth));
    assert_true(dibs__kit_tenure_birth(must_join(10, 0)) > birth);
    stop();
    assert_int_equal(store.ended, 2);
    assert_int_equal(store.lost, 0);
}

static _Atomic int freed;

static void
free_and_count(void *memory)
{
    freed++;
    dibs__free(memory);
}

/* Somebody may still be looking at one that is over: it stays for long, and goes then. */
CASE(forgotten_in_the_end)
{
    dibs_host host = dibs__host;
    host.free = free_and_count;
    start(HOUR_MS);
    session.host = &host;
    kit_tenures *counting = dibs__kit_tenures_new(&session, &ops, lapses, &store);
    dibs__kit_tenures_free(tenures, 0, 0);
    tenures = counting;
    kit_tenure *over = must_join(1000, 0), *other = must_join(1000, 1);
    dibs__kit_tenure_dead(tenures, dibs__kit_tenure_birth(over));
    leave(over);
    int rounds = 0;
    int64_t until = now_ms() + SOON_MS;
    for (; !freed && now_ms() < until; rounds++) {
        dibs__host.advance_clock(1001);
        assert_int_equal(secure(other, HOUR_MS), DIBS_OK); /* and so wakes the thread */
        sleep_ms(1);
        if (rounds < 100)
            assert_string_equal(dibs__kit_tenure_id(over), "id-1");
    }
    assert_int_equal(freed, 1);
    assert_true(rounds > 100);
    stop();
}

/* There is no tenure, so there is nothing else that the thread would wake up for. */
CASE(runs_lapses)
{
    kit_tenure *tenure;
    start(HOUR_MS);
    store.begin_rc = DIBS_EUNAVAIL;
    store.begin_failures = 1;
    assert_int_equal(join(1000, 0, &tenure), DIBS_EUNAVAIL);
    sleep_ms(20); /* it has gone to sleep for long */
    dibs_claim claim = {
        .name = "n", .name_len = 1, .lease_ms = 30, .serial = 5, .sent = dibs__host.now()
    };
    assert_int_equal(dibs__kit_lapse_add(lapses, &claim), DIBS_OK);
    await(&store.lapsed, 1);
    assert_true(dibs__host.now() >= claim.sent + 30 * DIBS_MS);
    stop();
    assert_int_equal(store.lapsed, 1);
}

/* Without a tenure there is no thread; when all is over there is none any more. */
CASE(no_thread)
{
    start_first_thread();
    int before = count_threads();
    start(HOUR_MS);
    assert_int_equal(count_threads(), before);
    must_join(1000, 0);
    assert_int_equal(count_threads(), before + 1);
    must_join(1000, 1);
    assert_int_equal(count_threads(), before + 1);
    stop();
    assert_int_equal(threads_settle(before, SOON_MS), before);
    start(HOUR_MS);
    stop();
    dibs__kit_tenures_free(NULL, 0, 0);
}

/* A child of a fork has no thread, and nothing to tell the store. */
CASE(forked)
{
    start(HOUR_MS);
    must_join(1000, 0);
    pid_t child = fork();
    if (child == 0) {
        dibs__kit_tenures_free(tenures, 1, in_ms(SOON_MS));
        dibs__kit_lapses_free(lapses, 1);
        _exit(store.ended || store.lost || store.kept ? 1 : 0);
    }
    int status = 1;
    assert_true(child > 0 && waitpid(child, &status, 0) == child);
    assert_int_equal(status, 0);
    stop();
    assert_int_equal(store.ended, 1);
}

/* ---- all at once ---- */

#define SWEEP_MAX 20

static int
use_once(void)
{
    kit_tenure *tenure = NULL;
    dibs_claim claim = { .name = "n",
                         .name_len = 1,
                         .lease_ms = HOUR_MS,
                         .serial = 5,
                         .sent = dibs__host.now() };
    int rc = DIBS_ENOMEM;
    lapses = dibs__kit_lapses_new(&dibs__host, lapse, &store);
    tenures = lapses ? dibs__kit_tenures_new(&session, &ops, lapses, &store) : NULL;
    if (tenures)
        rc = join(1000, 0, &tenure);
    if (!rc)
        rc = dibs__kit_lapse_add(lapses, &claim);
    if (tenure)
        leave(tenure);
    stop();
    return rc;
}

/* With the first allocation failing, then the second, and so on: what was begun is ended. */
CASE(no_memory)
{
    int rc = DIBS_ENOMEM, n = 0;
    start(HOUR_MS);
    stop();
    for (; n < SWEEP_MAX && rc; n++) {
        dibs__alloc_fail_after(n);
        rc = use_once();
        dibs__alloc_fail_after(-1);
        assert_true(!rc || rc == DIBS_ENOMEM);
        assert_int_equal(store.begun, store.ended);
    }
    assert_int_equal(rc, DIBS_OK);
    assert_true(n > 4);
}

#define THREADS 6

/* Whatever the others do, a user's tenure can be read, and the answers are possible ones. */
static void
live(void *arg, int index)
{
    int64_t until = *(int64_t *)arg;
    for (unsigned i = (unsigned)index; now_ms() < until; i++) {
        kit_tenure *tenure;
        int rc = dibs__kit_tenure_join(tenures, 10 + i % 3 * 40, i % 2, in_ms(50),
                                       &tenure, NULL);
        CHECK(!rc || rc == DIBS_EUNAVAIL);
        if (rc)
            continue;
        rc = dibs__kit_tenure_secure(tenures, tenure, in_ms(60), in_ms(50), NULL);
        CHECK(!rc || rc == DIBS_EUNAVAIL || rc == DIBS_ELOST);
        CHECK(strncmp(dibs__kit_tenure_id(tenure), "id-", 3) == 0);
        uint64_t birth = dibs__kit_tenure_birth(tenure);
        (void)dibs__kit_tenure_find(tenures, birth);
        ++*dibs__kit_tenure_word(tenure);
        if (i % 50 == 0)
            dibs__kit_tenure_dead(tenures, birth);
        if (i % 7 == 0) {
            store.keep_rc = i % 21 ? DIBS_EUNAVAIL : DIBS_ELOST;
            store.keep_failures = 1;
        }
        dibs__kit_tenure_leave(tenures, birth);
    }
}

CASE(threads)
{
    int64_t until = now_ms() + 400;
    start(0);
    ops.least_ms = 40;
    store.gives_ms = 130;
    gang_join(gang_start(THREADS, live, &until));
    stop();
    assert_true(store.begun > 3 && store.lost > 0);
    /* what was begun was ended, or lost, and nothing both */
    assert_int_equal(store.begun, store.ended + store.lost);
}
