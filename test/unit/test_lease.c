/* SPDX-License-Identifier: MIT */
/*
 * core/lease.c: the arithmetic on which exclusion rests, over tables of lengths, graces and
 * clock errors. The formulas are written down here a second time, from lease.h.
 */
#include "unit.h"

#include "core/lease.h"

#define SENT (INT64_C(86400) * 1000 * DIBS_MS)

static const uint32_t lengths[] = {
    1,  2,  3,   4,   5,   6,   7,    8,    9,     10,    11,       12,
    15, 19, 20,  21,  24,  25,  30,   39,   40,    41,    49,       50,
    60, 99, 100, 101, 250, 999, 1000, 5000, 10000, 30000, 86400000, UINT32_MAX
};
static const uint32_t graces[] = { 0, 1, 5, 9, 10, 11, 100, 1000, 15000, UINT32_MAX };
static const uint32_t drifts[] = { 1, 50, 1000, 20000, 100000 };

static dibs_time
larger(dibs_time a, dibs_time b)
{
    return a > b ? a : b;
}

static dibs_time
smaller(dibs_time a, dibs_time b)
{
    return a < b ? a : b;
}

static dibs_time
margin_of(dibs_time length)
{
    return smaller(larger(length / 100, 10 * DIBS_MS), length / 4);
}

typedef void check(const dibs__lease *lease, uint32_t drift_ppm);

static void
for_all(check *each)
{
    for (size_t i = 0; i < COUNT(lengths); i++) {
        for (size_t j = 0; j < COUNT(graces); j++) {
            for (size_t k = 0; k < COUNT(drifts); k++) {
                dibs__lease lease;
                dibs__lease_init(&lease, lengths[i], graces[j], drifts[k]);
                assert_true(lease.length == lengths[i] * DIBS_MS);
                each(&lease, drifts[k]);
            }
        }
    }
}

static void
ends_in_time(const dibs__lease *lease, uint32_t drift_ppm)
{
    dibs_time until = dibs__lease_until(lease, SENT);
    /* a clock that is slow by the drift shows the lease's true end this much earlier */
    dibs_time drift = (dibs_time)((double)lease->length * drift_ppm / 1e6);
    dibs_time latest = SENT + lease->length - margin_of(lease->length) - drift;
    if (until > latest + 1 * DIBS_MS / 1000)
        fail_msg("a lease of %lld ns is believed %lld ns too long",
                 (long long)lease->length, (long long)(until - latest));
    if (until + lease->grace > latest + 1 * DIBS_MS / 1000)
        fail_msg("a grace of %lld ns is not kept", (long long)lease->grace);
}

CASE(never_believed_beyond_its_end)
{
    for_all(ends_in_time);
}

static void
is_usable(const dibs__lease *lease, uint32_t drift_ppm)
{
    if (drift_ppm > 1000)
        return;
    dibs_time until = dibs__lease_until(lease, SENT);
    if (until <= SENT + lease->length / 8)
        fail_msg("of a lease of %lld ns only %lld can be used", (long long)lease->length,
                 (long long)(until - SENT));
}

CASE(tiny_leases_can_be_used)
{
    for_all(is_usable);
}

static void
is_renewed_in_time(const dibs__lease *lease, uint32_t drift_ppm)
{
    dibs_time at = dibs__lease_renew_at(lease, SENT);
    dibs_time until = dibs__lease_until(lease, SENT);
    (void)drift_ppm;
    if (until <= SENT + 1)
        return; /* nothing to be kept */
    if (at < SENT || at >= until)
        fail_msg("a lease of %lld ns, grace %lld: renewed after %lld, lost after %lld",
                 (long long)lease->length, (long long)lease->grace,
                 (long long)(at - SENT), (long long)(until - SENT));
    if (at > SENT + lease->length / 3)
        fail_msg("a lease of %lld ns is renewed late", (long long)lease->length);
}

CASE(renewed_before_it_is_lost)
{
    for_all(is_renewed_in_time);
}

CASE(grace_bounds)
{
    static const struct {
        uint32_t lease_ms, asked_ms;
        dibs_time grace;
    } table[] = {
        { 30000, 0, 1000 * DIBS_MS },
        { 10000, 0, 1000 * DIBS_MS },
        { 9990, 0, 999 * DIBS_MS },
        { 5000, 0, 500 * DIBS_MS },
        { 100, 0, 10 * DIBS_MS },
        { 50, 0, 10 * DIBS_MS },
        { 20, 0, 10 * DIBS_MS },
        { 10, 0, 5 * DIBS_MS },
        { 1, 0, DIBS_MS / 2 },
        { 1000, 1, DIBS_MS },
        { 1000, 300, 300 * DIBS_MS },
        { 1000, 500, 500 * DIBS_MS },
        { 1000, 501, 500 * DIBS_MS },
        { 1000, UINT32_MAX, 500 * DIBS_MS },
        { UINT32_MAX, 0, 1000 * DIBS_MS },
    };
    for (size_t i = 0; i < COUNT(table); i++) {
        dibs__lease lease;
        dibs__lease_init(&lease, table[i].lease_ms, table[i].asked_ms, 1000);
        if (lease.grace != table[i].grace)
            fail_msg("row %zu: %lld", i, (long long)lease.grace);
    }
}

CASE(exact_values)
{
    dibs__lease lease;
    dibs__lease_init(&lease, 30000, 0, 1000);
    /* 30 s less 30 ms drift, 300 ms margin, 1 s grace */
    assert_true(dibs__lease_until(&lease, SENT) == SENT + 28670 * DIBS_MS);
    assert_true(dibs__lease_renew_at(&lease, SENT) == SENT + 10000 * DIBS_MS);
    assert_true(lease.end_at == DIBS_NEVER && lease.renew_at == DIBS_NEVER);
    dibs__lease_init(&lease, 1000, 0, 1000);
    assert_true(dibs__lease_until(&lease, SENT) == SENT + 889 * DIBS_MS);
    dibs__lease_set_length(&lease, 30000);
    assert_true(dibs__lease_until(&lease, SENT) == SENT + 28670 * DIBS_MS);
}

CASE(without_a_lease)
{
    dibs__lease lease;
    dibs__lease_init(&lease, 0, 0, 1000);
    assert_true(dibs__lease_until(&lease, SENT) == DIBS_NEVER);
    lease.end_at = SENT + 5;
    assert_true(dibs__lease_until(&lease, SENT) == SENT + 5);
}

CASE(max_hold_ends_it_sooner)
{
    dibs__lease lease;
    dibs__lease_init(&lease, 30000, 0, 1000);
    lease.end_at = SENT + 100 * DIBS_MS;
    assert_true(dibs__lease_until(&lease, SENT) == SENT + 100 * DIBS_MS);
    lease.end_at = SENT + 29000 * DIBS_MS;
    assert_true(dibs__lease_until(&lease, SENT) == SENT + 28670 * DIBS_MS);
}

CASE(drift_of_any_size)
{
    const uint32_t silly[] = { 1000000, 1000001, 5000000, UINT32_MAX };
    for (size_t i = 0; i < COUNT(silly); i++) {
        for (size_t j = 0; j < COUNT(lengths); j++) {
            dibs__lease lease;
            dibs__lease_init(&lease, lengths[j], 0, silly[i]);
            /* a clock that may stand still: nothing can be promised */
            assert_true(dibs__lease_until(&lease, SENT) <= SENT);
        }
    }
}

static void
retries_come_closer(const dibs__lease *lease, uint32_t drift_ppm)
{
    dibs_time until = dibs__lease_until(lease, SENT);
    dibs_time now = SENT + lease->length / 3, last_step = INT64_MAX, before = now;
    int steps = 0;
    (void)drift_ppm;
    for (; now < until && steps < 1000; steps++) {
        dibs_time at = dibs__lease_retry_at(lease, now, until);
        assert_true(at - now >= 5 * DIBS_MS); /* no storm */
        assert_true(at - now <= last_step);
        last_step = at - now;
        before = now;
        now = at;
    }
    assert_true(steps < 200);
    /* the last try comes shortly before the end */
    if (steps)
        assert_true(until - before <= 20 * DIBS_MS);
}

CASE(retries_closer_and_closer)
{
    for_all(retries_come_closer);
}

CASE(retry_after_the_end_is_in_the_future)
{
    dibs__lease lease;
    dibs__lease_init(&lease, 1000, 0, 1000);
    dibs_time at = dibs__lease_retry_at(&lease, SENT, SENT - 1000 * DIBS_MS);
    assert_true(at == SENT + 5 * DIBS_MS);
}

CASE(io_limits)
{
    static const struct {
        uint32_t lease_ms;
        int64_t limit_ms;
    } table[] = { { 0, 50 },           { 1, 50 },       { 299, 50 },
                  { 300, 50 },         { 600, 100 },    { 3000, 500 },
                  { 30000, 5000 },     { 30001, 5000 }, { 86400000, 5000 },
                  { UINT32_MAX, 5000 } };
    for (size_t i = 0; i < COUNT(table); i++)
        assert_int_equal(dibs__lease_io_limit(table[i].lease_ms),
                         table[i].limit_ms * DIBS_MS);
}
