/* SPDX-License-Identifier: MIT */
/* kit/place.c: numbers for claims of one client on one name. */
#include "unit.h"

#include "core/mem.h"
#include "core/session.h"
#include "kit/kit.h"

static dibs_claim
claim_on(uint64_t name_hash, uint64_t serial)
{
    return (dibs_claim){
        .name = "n", .name_len = 1, .name_hash = name_hash, .serial = serial
    };
}

CASE(the_least_free)
{
    kit_places *places = dibs__kit_places_new(&dibs__host);
    dibs_claim claims[8];
    for (int i = 0; i < 8; i++) {
        claims[i] = claim_on(5, (uint64_t)i + 1);
        assert_int_equal(dibs__kit_place_take(places, &claims[i]), i);
    }
    static const int given[] = { 6, 0, 3 };
    for (size_t i = 0; i < COUNT(given); i++)
        assert_int_equal(dibs__kit_place_give(places, &claims[given[i]], given[i]), 1);
    static const int taken[] = { 0, 3, 6 };
    for (size_t i = 0; i < COUNT(taken); i++)
        assert_int_equal(dibs__kit_place_take(places, &claims[taken[i]]), taken[i]);
    dibs_claim last = claim_on(5, 100);
    assert_int_equal(dibs__kit_place_take(places, &last), 8);
    dibs__kit_places_free(places, 0);
}

/* 5 and 5 + 256 are in one bucket. */
CASE(names_apart)
{
    kit_places *places = dibs__kit_places_new(&dibs__host);
    for (uint64_t i = 0; i < 3; i++) {
        dibs_claim here = claim_on(5, i), there = claim_on(5 + 256, i + 10);
        assert_int_equal(dibs__kit_place_take(places, &here), i);
        assert_int_equal(dibs__kit_place_take(places, &there), i);
    }
    dibs_claim here = claim_on(5, 1), other = claim_on(5, 77), there = claim_on(261, 88);
    assert_int_equal(dibs__kit_place_give(places, &here, 1), 1);
    assert_int_equal(dibs__kit_place_take(places, &there), 3);
    assert_int_equal(dibs__kit_place_take(places, &other), 1);
    dibs__kit_places_free(places, 0);
}

/* Whoever comes later than another, for the same claim, gives nothing. */
CASE(given_once)
{
    kit_places *places = dibs__kit_places_new(&dibs__host);
    dibs_claim first = claim_on(5, 1), second = claim_on(5, 2);
    assert_int_equal(dibs__kit_place_give(places, &first, 0), 0);
    assert_int_equal(dibs__kit_place_take(places, &first), 0);
    assert_int_equal(dibs__kit_place_give(places, &second, 0), 0);
    assert_int_equal(dibs__kit_place_give(places, &first, 1), 0);
    assert_int_equal(dibs__kit_place_give(places, &first, 0), 1);
    assert_int_equal(dibs__kit_place_take(places, &second), 0);
    assert_int_equal(dibs__kit_place_give(places, &first, 0), 0);
    assert_int_equal(dibs__kit_place_take(places, &first), 1);
    dibs__kit_places_free(places, 0);
}

CASE(more_than_one)
{
    kit_places *places = dibs__kit_places_new(&dibs__host);
    dibs_claim claim = claim_on(5, 1);
    for (int i = 0; i < 3; i++)
        assert_int_equal(dibs__kit_place_take(places, &claim), i);
    assert_int_equal(dibs__kit_place_give(places, &claim, 1), 1);
    assert_int_equal(dibs__kit_place_give(places, &claim, 1), 0);
    assert_int_equal(dibs__kit_place_take(places, &claim), 1);
    dibs__kit_places_free(places, 0);
}

CASE(no_memory)
{
    dibs__alloc_fail_after(0);
    assert_null(dibs__kit_places_new(&dibs__host));
    dibs__alloc_fail_after(-1);
    kit_places *places = dibs__kit_places_new(&dibs__host);
    dibs_claim claim = claim_on(5, 1);
    dibs__alloc_fail_after(0);
    assert_int_equal(dibs__kit_place_take(places, &claim), -1);
    dibs__alloc_fail_after(-1);
    assert_int_equal(dibs__kit_place_give(places, &claim, 0), 0);
    assert_int_equal(dibs__kit_place_take(places, &claim), 0);
    dibs__kit_places_free(places, 0);
    dibs__kit_places_free(NULL, 0);
}

#define THREADS 6
#define ROUNDS 2000

struct crowd {
    kit_places *places;
    _Atomic int taken[THREADS];
};

/* Who has a place has it alone, and nobody gets a larger one than there are threads. */
static void
take_and_give(void *arg, int index)
{
    struct crowd *crowd = arg;
    for (uint64_t i = 0; i < ROUNDS; i++) {
        dibs_claim claim = claim_on(9, (uint64_t)index * ROUNDS + i);
        int place = dibs__kit_place_take(crowd->places, &claim);
        CHECK_WITHIN(place, 0, THREADS - 1);
        CHECK_SAME(crowd->taken[place]++, 0);
        CHECK_SAME(--crowd->taken[place], 0);
        CHECK_SAME(dibs__kit_place_give(crowd->places, &claim, place), 1);
    }
}

CASE(threads)
{
    struct crowd crowd = { .places = dibs__kit_places_new(&dibs__host) };
    gang_join(gang_start(THREADS, take_and_give, &crowd));
    dibs__kit_places_free(crowd.places, 0);
}
