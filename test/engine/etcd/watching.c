/* SPDX-License-Identifier: MIT */
/* Watches and what they live through, and places in the line that are taken away. See
 * faults.h. */
#include "faults.h"

/* a wake-up by a watch; nobody who only looks now and then is as fast */
#define AT_ONCE slowly(250)

static dibs *holder, *waiter;

/* the one who waits has a wire that can be cut */
static void
open_both(void)
{
    start_one(NULL);
    holder = open_at(one.port);
    waiter = open_at(lines.ports[0]);
}

static void
close_both(void)
{
    dibs_close(holder);
    dibs_close(waiter);
    check_nothing_left(&one);
}

/* waits until a wait stands in the line and watches */
static dibs_op *
begin_watching(uint32_t lease_ms)
{
    dibs_op *wait = begin_wait(waiter, NAME, lease_ms);
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
    sleep_ms(slowly(200));
    CHECK(!has_ended(wait, 0));
    return wait;
}

static void
write_a_lot(void)
{
    for (int i = 0; i < 100; i++) {
        etcd_put(&one, "other", "value");
    }
    etcd_delete(&one, "other");
}

/* all that a watch may have missed is compacted while its connection is gone */
static void
test_compacted(void)
{
    open_both();
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *wait = begin_watching(LONG_MS);
    for (int i = 0; i < 3; i++) {
        wires_refuse(&lines, 0);
        write_a_lot();
        etcd_compact(&one);
        wires_flow(&lines, 0);
        sleep_ms(slowly(300));
        write_a_lot();
        etcd_compact(&one);
        CHECK(dibs_held(hold) && !has_ended(wait, 0));
    }
    give(hold);
    give(end_wait(wait, slowly(5000)));
    close_both();
}

/* what happens while the watch is gone is seen when it is back */
static void
test_missed(void)
{
    open_both();
    for (int i = 0; i < 3; i++) {
        dibs_hold *hold = take(holder, NAME, LONG_MS);
        dibs_op *wait = begin_watching(LONG_MS);
        wires_refuse(&lines, 0);
        give(hold);
        write_a_lot();
        etcd_compact(&one);
        CHECK(!has_ended(wait, slowly(50)));
        wires_flow(&lines, 0);
        give(end_wait(wait, slowly(5000)));
    }
    close_both();
}

/* the same after the watch was made anew: it is a watch, and not a look now and then */
static void
test_again(void)
{
    open_both();
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *wait = begin_watching(LONG_MS);
    for (int i = 0; i < 5; i++) {
        wires_cut(&lines, 0);
        sleep_ms(slowly(300));
    }
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    int64_t from = now_ms();
    give(hold);
    hold = end_wait(wait, slowly(5000));
    CHECK_WITHIN(now_ms() - from, 0, AT_ONCE);
    give(hold);
    close_both();
}

/* who waits is put at the end of the line when its key is gone, and told so at once: no
 * two hold it, and nobody waits for ever */
static void
check_place_lost(void (*harm)(void))
{
    open_both();
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *wait = begin_watching(LONG_MS);
    harm();
    EVENTUALLY(slowly(1500), count_keys(&one) == line_keys(1));
    CHECK(dibs_held(hold) && !has_ended(wait, slowly(100)));
    give(hold);
    hold = end_wait(wait, slowly(5000));
    CHECK_SAME(count_keys(&one), 1);
    give(hold);
    close_both();
}

static void
revoke_newest(void)
{
    char key[256];
    etcd_revoke(&one, etcd_find_key(key, sizeof(key), &one, ROOT NAME, 1));
}

static void
delete_newest(void)
{
    char key[256];
    (void)etcd_find_key(key, sizeof(key), &one, ROOT NAME, 1);
    etcd_delete(&one, key);
}

static void
test_waiter_revoked(void)
{
    check_place_lost(revoke_newest);
}

static void
test_waiter_deleted(void)
{
    check_place_lost(delete_newest);
}

/* a lease is no shorter than the server allows: what it says counts, not what was asked */
static void
test_least_lease(void)
{
    static const char *const more[] = { "--heartbeat-interval", "400",
                                        "--election-timeout", "4000", NULL };
    server_options options = { .more = more };
    char key[256];
    start_one(&options);
    holder = open_at(one.port), waiter = open_at(one.port);
    dibs_hold *hold = take(holder, NAME, LEASE_MS);
    int64_t lease = etcd_find_key(key, sizeof(key), &one, ROOT NAME, 0);
    char *answer =
        etcd_do(&one, "/v3/lease/timetolive", "{\"ID\":\"%lld\"}", (long long)lease);
    CHECK(strstr(answer, "\"grantedTTL\":\"") != NULL);
    CHECK_WITHIN(strtoll(strstr(answer, "\"grantedTTL\":\"") + 14, NULL, 10), 6, 60);
    free(answer);
    sleep_ms(2 * LEASE_MS);
    CHECK(dibs_held(hold));
    give(hold);
    give(take(waiter, NAME, LEASE_MS));
    close_both();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "compacted", test_compacted },
        { "missed", test_missed },
        { "again", test_again },
        { "waiter_revoked", test_waiter_revoked },
        { "waiter_deleted", test_waiter_deleted },
        { "least_lease", test_least_lease },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
