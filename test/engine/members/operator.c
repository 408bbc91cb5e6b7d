/* SPDX-License-Identifier: MIT */
/* Somebody ends leases, sessions and keys by hand; and there are many holds of one client.
 * See members.h. */
#include "members.h"

/* the holder is told and the next one has it, long before the lease would end */
static void
check_ended(void (*harm)(const server *))
{
    start_one(NULL);
    dibs *holder = open_at(one.port), *waiter = open_at(one.port);
    uint32_t lease_ms = 4 * LEASE_MS;
    dibs_hold *hold = take(holder, NAME, lease_ms);
    dibs_op *wait = begin_wait(waiter, NAME, lease_ms);
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
    sleep_ms(slowly(200));
    harm(&one);
    int64_t from = now_ms();
    CHECK(is_lost(hold, lease_ms));
    CHECK(!dibs_held(hold));
    dibs_hold *next = end_wait(wait, slowly(5000));
    printf("the next one has it %lld ms after\n", (long long)(now_ms() - from));
    CHECK(dibs_token(next) > dibs_token(hold));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK(dibs_held(next));
    /* the client goes on with another */
    dibs_op *again = begin_wait(holder, NAME, lease_ms);
    CHECK(!has_ended(again, slowly(200)));
    give(next);
    give(end_wait(again, slowly(5000)));
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(&one);
}

static void
test_life_ended(void)
{
    check_ended(engine.end_life);
}

static void
test_key_deleted(void)
{
    check_ended(engine.delete_key);
}

/* ---- many holds ---- */

#define MANY 10000
#define THREADS 4

static dibs *many_client;
static dibs_hold *holds[MANY];

static void
take_some(void *arg, int index)
{
    char name[32];
    (void)arg;
    for (int i = index; i < MANY; i += THREADS) {
        dibs_request request = want(name, (uint32_t)slowly(5000));
        (void)snprintf(name, sizeof(name), "many-%d", i);
        OK(dibs_acquire(&holds[i], many_client, &request, &oops));
    }
}

static void
give_some(void *arg, int index)
{
    (void)arg;
    for (int i = index; i < MANY; i += THREADS) {
        give(holds[i]);
    }
}

/* they share what keeps them, and are kept in few requests */
static void
test_many(void)
{
    start_one(NULL);
    many_client = open_at(one.port);
    int64_t from = now_ms();
    gang_join(gang_start(THREADS, take_some, NULL));
    printf("%d holds after %lld ms\n", MANY, (long long)(now_ms() - from));
    CHECK_WITHIN(engine.count_lives(&one), 1, engine.most_lives);
    sleep_ms(slowly(5000) + 1000);
    CHECK_WITHIN(engine.count_lives(&one), 1, engine.most_lives);
    for (int i = 0; i < MANY; i++) {
        CHECK(dibs_held(holds[i]));
    }
    gang_join(gang_start(THREADS, give_some, NULL));
    dibs_close(many_client);
    check_nothing_left(&one);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "life_ended", test_life_ended },
        { "key_deleted", test_key_deleted },
        { "many", test_many },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
