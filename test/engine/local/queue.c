/* SPDX-License-Identifier: MIT */
/*
 * Who is granted what, in one process. In order: the queue, sharing, permits, lingering,
 * breaking, observing, names, cells, looking, and everything at once from many threads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "core/name.h"
#include "core/sys.h"
#include "drive.h"

static drive d;

static int
setup(void **state)
{
    (void)state;
    return drive_open(&d, drive_folder());
}

static int
teardown(void **state)
{
    (void)state;
    assert_int_equal(drive_count(&d, KIND_CLAIM), 0);
    assert_int_equal(drive_count(&d, KIND_LOCK), 0);
    drive_verify(&d);
    drive_close(&d);
    drive_remove();
    return 0;
}

static int
ask(dibs_claim *claim, int mode, uint32_t permits, uint32_t limit)
{
    drive_claim(claim, "x", mode, permits, limit);
    return drive_attempt(&d, claim);
}

static void
first_come_first_served(void **state)
{
    dibs_claim c[50];
    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(ask(&c[i], DIBS_EXCLUSIVE, 1, 0), i ? DIBS_EBUSY : DIBS_OK);
        assert_int_equal(c[i].position, i);
    }
    drive_verify(&d);
    for (int i = 0; i < 50; i++) {
        uint32_t seen = c[i].seen;
        assert_int_equal(drive_attempt(&d, &c[i]), DIBS_OK);
        assert_true(i == 0 || c[i].token > c[i - 1].token);
        assert_true(i == 0 || c[i].seen == seen);
        if (i < 49)
            assert_int_equal(drive_attempt(&d, &c[49]), DIBS_EBUSY);
        assert_int_equal(drive_release(&d, &c[i]), DIBS_OK);
        assert_int_equal(drive_release(&d, &c[i]), DIBS_ENOTHELD);
    }
}

static void
withdrawn_from_anywhere(void **state)
{
    dibs_claim c[5];
    (void)state;
    for (int i = 0; i < 5; i++)
        (void)ask(&c[i], DIBS_EXCLUSIVE, 1, 0);
    uint32_t seen = dibs_bell_seen(c[3].bell);
    dibs_bell *bell = c[3].bell;
    assert_int_equal(drive_release(&d, &c[2]), DIBS_ENOTHELD);
    assert_int_not_equal(dibs_bell_seen(bell), seen); /* it has another one to watch */
    assert_int_equal(drive_release(&d, &c[1]), DIBS_ENOTHELD);
    assert_int_equal(drive_release(&d, &c[4]), DIBS_ENOTHELD);
    assert_int_equal(drive_attempt(&d, &c[3]), DIBS_EBUSY);
    assert_int_equal(c[3].position, 1);
    assert_int_equal(drive_release(&d, &c[0]), DIBS_OK);
    assert_int_equal(drive_attempt(&d, &c[3]), DIBS_OK);
    assert_int_equal(drive_release(&d, &c[3]), DIBS_OK);
}

static void
put_cell(const dibs_cell_key *key, const void *value, size_t len)
{
    uint64_t version = 0;
    assert_int_equal(
        dibs__engine_local.cell_swap(&d.state, key, 0, value, len, &version, 0, NULL),
        DIBS_OK);
}

/* A bell may be rung when its claim has gone. Whatever the record is by then (the texts of a
 * cell, the cell, a lock), it is none the worse for it. */
static void
late_ring(void **state)
{
    static unsigned char value[DIBS_CELL_MAX];
    static dibs_cell cell;
    const dibs_cell_key key = { DIBS_SPACE_CELL, "x", 1, dibs__hash("x", 1) };
    dibs_claim c[40], other;
    dibs_bell *bells[40];
    (void)state;
    memset(value, 'v', sizeof value);
    for (int i = 0; i < 40; i++) {
        (void)ask(&c[i], DIBS_EXCLUSIVE, 1, 0);
        bells[i] = c[i].bell;
    }
    for (int i = 39; i >= 0; i--)
        (void)drive_release(&d, &c[i]);
    put_cell(&key, value, sizeof value);
    assert_int_equal(ask(&other, DIBS_EXCLUSIVE, 1, 0), DIBS_OK);
    for (int i = 1; i < 40; i++)
        dibs__bell_ring(bells[i]);
    assert_int_equal(dibs__engine_local.cell_read(&d.state, &key, &cell, 0, NULL),
                     DIBS_OK);
    assert_int_equal(cell.len, sizeof value);
    assert_memory_equal(cell.value, value, sizeof value);
    assert_int_equal(drive_release(&d, &other), DIBS_OK);
}

static void
sharers_and_writers(void **state)
{
    dibs_claim r[4], w;
    (void)state;
    assert_int_equal(ask(&r[0], DIBS_SHARED, 1, 0), DIBS_OK);
    assert_int_equal(ask(&r[1], DIBS_SHARED, 1, 0), DIBS_OK);
    assert_int_equal(ask(&w, DIBS_EXCLUSIVE, 1, 0), DIBS_EBUSY);
    assert_int_equal(ask(&r[2], DIBS_SHARED, 1, 0), DIBS_EBUSY); /* behind the writer */
    assert_int_equal(ask(&r[3], DIBS_SHARED, 1, 0), DIBS_EBUSY);
    assert_int_equal(drive_release(&d, &r[0]), DIBS_OK);
    assert_int_equal(drive_attempt(&d, &w), DIBS_EBUSY);
    assert_int_equal(drive_release(&d, &r[1]), DIBS_OK);
    assert_int_equal(drive_attempt(&d, &w), DIBS_OK);
    assert_int_equal(drive_attempt(&d, &r[2]), DIBS_EBUSY);
    assert_int_equal(dibs__engine_local.downgrade(&d.state, &w, DIBS_NEVER, NULL),
                     DIBS_OK);
    assert_int_equal(w.mode, DIBS_SHARED);
    assert_int_equal(drive_attempt(&d, &r[2]), DIBS_OK);
    assert_int_equal(drive_attempt(&d, &r[3]), DIBS_OK);
    drive_verify(&d);
    assert_int_equal(drive_release(&d, &w), DIBS_OK);
    assert_int_equal(drive_release(&d, &r[3]), DIBS_OK);
    assert_int_equal(drive_release(&d, &r[2]), DIBS_OK);
}

static void
permits_in_order(void **state)
{
    dibs_claim c[4];
    (void)state;
    assert_int_equal(ask(&c[0], DIBS_PERMITS, 2, 3), DIBS_OK);
    assert_int_equal(ask(&c[1], DIBS_PERMITS, 3, 3), DIBS_EBUSY);
    assert_int_equal(ask(&c[2], DIBS_PERMITS, 1, 3), DIBS_EBUSY); /* would fit */
    assert_int_equal(ask(&c[3], DIBS_PERMITS, 1, 4), DIBS_EMISMATCH);
    assert_non_null(strstr(d.err.text, "3 permits"));
    assert_int_equal(ask(&c[3], DIBS_SHARED, 1, 0), DIBS_EMISMATCH);
    assert_int_equal(ask(&c[3], DIBS_PERMITS, 9, 3), DIBS_EINVAL);
    assert_int_equal(drive_release(&d, &c[0]), DIBS_OK);
    assert_int_equal(drive_attempt(&d, &c[1]), DIBS_OK);
    assert_int_equal(drive_attempt(&d, &c[2]), DIBS_EBUSY);
    assert_int_equal(drive_release(&d, &c[1]), DIBS_OK);
    assert_int_equal(drive_attempt(&d, &c[2]), DIBS_OK);
    assert_int_equal(drive_release(&d, &c[2]), DIBS_OK);
    assert_int_equal(ask(&c[0], DIBS_EXCLUSIVE, 1, 0), DIBS_OK); /* free for any use */
    assert_int_equal(ask(&c[1], DIBS_PERMITS, 1, 1), DIBS_EMISMATCH);
    assert_non_null(strstr(d.err.text, "not as a semaphore"));
    assert_int_equal(drive_release(&d, &c[0]), DIBS_OK);
}

static void
lingers(void **state)
{
    dibs_claim c[2];
    (void)state;
    assert_int_equal(ask(&c[0], DIBS_EXCLUSIVE, 1, 0), DIBS_OK);
    dibs_time before = dibs__now();
    assert_int_equal(dibs__engine_local.release(&d.state, &c[0], 100, DIBS_NEVER, NULL),
                     DIBS_OK);
    assert_int_not_equal(*c[0].alive, c[0].alive_value);
    assert_int_equal(drive_release(&d, &c[0]), DIBS_ENOTHELD);
    assert_int_equal(ask(&c[1], DIBS_EXCLUSIVE, 1, 0), DIBS_EBUSY);
    assert_in_range(c[1].hint_ms, 1, 101);
    assert_int_equal(drive_wait(&d, &c[1], 2000), DIBS_OK);
    assert_in_range((dibs__now() - before) / DIBS_MS, 100, 600);
    assert_int_equal(c[1].previous, DIBS_PREVIOUS_CLEAN);
    assert_int_equal(drive_release(&d, &c[1]), DIBS_OK);
}

static int
evict(size_t *broken)
{
    return dibs__engine_local.evict(&d.state, "x", 1, dibs__hash("x", 1), broken,
                                    DIBS_NEVER, NULL);
}

static void
broken(void **state)
{
    dibs_claim c[3], *renewed[] = { &c[0], &c[1] };
    int results[2];
    size_t count;
    uint32_t keeper = dibs_bell_seen(d.session.keeper_bell);
    (void)state;
    assert_int_equal(ask(&c[0], DIBS_SHARED, 1, 0), DIBS_OK);
    assert_int_equal(ask(&c[1], DIBS_SHARED, 1, 0), DIBS_OK);
    assert_int_equal(ask(&c[2], DIBS_EXCLUSIVE, 1, 0), DIBS_EBUSY);
    dibs__engine_local.renew(&d.state, renewed, results, 2, DIBS_NEVER, NULL);
    assert_int_equal(results[0] + results[1], DIBS_OK);
    assert_int_equal(evict(&count), DIBS_OK);
    assert_int_equal(count, 2);
    assert_int_not_equal(dibs_bell_seen(d.session.keeper_bell), keeper);
    assert_int_not_equal(*c[0].alive, c[0].alive_value);
    dibs__engine_local.renew(&d.state, renewed, results, 2, DIBS_NEVER, NULL);
    assert_int_equal(results[0], DIBS_ELOST);
    assert_int_equal(results[1], DIBS_ELOST);
    assert_int_equal(drive_release(&d, &c[0]), DIBS_ENOTHELD);
    assert_int_equal(drive_attempt(&d, &c[2]), DIBS_OK);
    assert_int_equal(c[2].previous, DIBS_PREVIOUS_BROKEN);
    assert_true(c[2].token > c[1].token);
    assert_int_equal(drive_release(&d, &c[2]), DIBS_OK);
    assert_int_equal(evict(&count), DIBS_OK);
    assert_int_equal(count, 0);
}

/* Granted, then broken before the owner has looked: it queues anew. */
static void
broken_unseen(void **state)
{
    dibs_claim c[2];
    size_t count;
    (void)state;
    assert_int_equal(ask(&c[0], DIBS_EXCLUSIVE, 1, 0), DIBS_OK);
    assert_int_equal(ask(&c[1], DIBS_EXCLUSIVE, 1, 0), DIBS_EBUSY);
    assert_int_equal(drive_release(&d, &c[0]), DIBS_OK);
    assert_int_equal(evict(&count), DIBS_OK);
    assert_int_equal(count, 1);
    assert_int_equal(drive_attempt(&d, &c[1]), DIBS_OK);
    assert_int_equal(c[1].previous, DIBS_PREVIOUS_BROKEN);
    assert_int_equal(drive_release(&d, &c[1]), DIBS_OK);
}

static void
observed(void **state)
{
    dibs_claim o, c;
    (void)state;
    assert_int_equal(ask(&o, DIBS_OBSERVE, 1, 0), DIBS_EBUSY);
    uint32_t seen = o.seen;
    assert_int_equal(ask(&c, DIBS_EXCLUSIVE, 1, 0), DIBS_OK);
    assert_int_not_equal(dibs_bell_seen(o.bell), seen);
    assert_int_equal(drive_attempt(&d, &o), DIBS_OK);
    assert_int_equal(o.token, c.token);
    assert_int_equal(drive_attempt(&d, &o), DIBS_EBUSY);
    seen = o.seen;
    assert_int_equal(drive_release(&d, &c), DIBS_OK);
    assert_int_not_equal(dibs_bell_seen(o.bell), seen);
    assert_int_equal(drive_attempt(&d, &o), DIBS_OK);
    assert_int_equal(o.token, 0);
    assert_int_equal(drive_release(&d, &o), DIBS_ENOTHELD);
}

static void
names_in_full(void **state)
{
    static char names[3][DIBS_NAME_MAX + 1];
    dibs_claim c[3];
    (void)state;
    for (int i = 0; i < 3; i++) {
        memset(names[i], 'n', DIBS_NAME_MAX);
        names[i][DIBS_NAME_MAX - 1] = (char)('a' + i);
        drive_claim(&c[i], names[i], DIBS_EXCLUSIVE, 1, 0);
        c[i].name_hash = 7; /* names are never told apart by their hash alone */
        assert_int_equal(drive_attempt(&d, &c[i]), DIBS_OK);
    }
    drive_verify(&d);
    for (int i = 0; i < 3; i++)
        assert_int_equal(drive_release(&d, &c[i]), DIBS_OK);
    assert_int_equal(drive_count(&d, KIND_TEXT), 0);
}

static void
cells(void **state)
{
    static char value[DIBS_CELL_MAX];
    static dibs_cell cell;
    dibs_cell_key key = { 0, "c", 1, dibs__hash("c", 1) }, fence = key;
    uint64_t version = 0, last;
    (void)state;
    fence.space = DIBS_SPACE_FENCE;
    assert_int_equal(dibs__engine_local.cell_read(&d.state, &key, &cell, 0, NULL),
                     DIBS_ENOTFOUND);
    for (size_t len = 0; len <= sizeof(value); len += 512) {
        memset(value, (int)len / 512 + 1, sizeof(value));
        last = version;
        assert_int_equal(dibs__engine_local.cell_swap(&d.state, &key, last, value, len,
                                                      &version, 0, NULL),
                         DIBS_OK);
        assert_true(version > last);
        assert_int_equal(
            dibs__engine_local.cell_swap(&d.state, &key, last, value, len, NULL, 0, NULL),
            DIBS_ECONFLICT);
        assert_int_equal(dibs__engine_local.cell_read(&d.state, &key, &cell, 0, NULL),
                         DIBS_OK);
        assert_int_equal(cell.version, version);
        assert_int_equal(cell.len, len);
        assert_memory_equal(cell.value, value, len);
    }
    assert_int_equal(dibs__engine_local.cell_read(&d.state, &fence, &cell, 0, NULL),
                     DIBS_ENOTFOUND);
    assert_int_equal(drive_count(&d, KIND_CELL), 1);
}

typedef struct collected {
    dibs_sink sink;
    char text[400];
} collected;

static int
collect_lock(dibs_sink *sink, const char *name, size_t len, int mode, uint32_t limit)
{
    char *text = ((collected *)sink)->text;
    snprintf(text + strlen(text), 100, "%.*s:%d:%u", (int)len, name, mode, limit);
    return DIBS_OK;
}

static int
collect_party(dibs_sink *sink, int waiting, const dibs_party *party)
{
    char *text = ((collected *)sink)->text;
    assert_int_equal(party->pid, getpid());
    assert_string_equal(party->app, "drive");
    assert_int_equal(party->token == 0, waiting);
    snprintf(text + strlen(text), 200, " %c%d/%u'%s'", waiting ? 'w' : 'h', party->mode,
             party->permits, party->note);
    return DIBS_OK;
}

static void
inspected(void **state)
{
    collected c = { { collect_lock, collect_party }, "" };
    dibs_claim a, b;
    (void)state;
    assert_int_equal(dibs__engine_local.inspect(&d.state, "x", 1, dibs__hash("x", 1),
                                                &c.sink, 0, NULL),
                     DIBS_OK);
    assert_string_equal(c.text, "");
    drive_claim(&a, "x", DIBS_PERMITS, 2, 2);
    a.note = "short";
    assert_int_equal(drive_attempt(&d, &a), DIBS_OK);
    drive_claim(&b, "x", DIBS_PERMITS, 1, 2);
    b.note = "a note of more bytes than there is room for in a claim";
    assert_int_equal(drive_attempt(&d, &b), DIBS_EBUSY);
    drive_verify(&d);
    assert_int_equal(dibs__engine_local.list(&d.state, &c.sink, 0, NULL), DIBS_OK);
    assert_string_equal(c.text,
                        "x:2:2 h2/2'short' w2/1'a note of more bytes than there is "
                        "room for in a claim'");
    assert_int_equal(drive_release(&d, &a), DIBS_OK);
    assert_int_equal(drive_release(&d, &b), DIBS_OK);
}

/* Threads with a client each do everything at once; every hold checks what it excludes. */
enum { THREADS = 6, STRESS_MS = 1500 };
static _Atomic int writers, readers, permits;

static void
stress_hold(const dibs_claim *claim)
{
    if (claim->mode == DIBS_EXCLUSIVE) {
        assert_int_equal(atomic_fetch_add(&writers, 1), 0);
        assert_int_equal(atomic_load(&readers), 0);
        atomic_fetch_sub(&writers, 1);
    } else if (claim->mode == DIBS_SHARED) {
        atomic_fetch_add(&readers, 1);
        assert_int_equal(atomic_load(&writers), 0);
        atomic_fetch_sub(&readers, 1);
    } else {
        assert_true(
            atomic_fetch_add(&permits, (int)claim->permits) + (int)claim->permits <= 3);
        atomic_fetch_sub(&permits, (int)claim->permits);
    }
}

static void *
stress_thread(void *arg)
{
    drive *mine = arg;
    uint64_t seed = dibs__random();
    dibs_time end = dibs__now() + STRESS_MS * DIBS_MS;
    while (dibs__now() < end) {
        dibs_claim claim;
        int mode = (int)((seed = seed * UINT64_C(6364136223846793005) + 1) >> 33) % 3;
        drive_claim(&claim, mode == DIBS_PERMITS ? "sem" : "rw", mode,
                    mode == DIBS_PERMITS ? 1 + (uint32_t)(seed >> 60) % 3 : 1,
                    mode == DIBS_PERMITS ? 3 : 0);
        int rc = drive_wait(mine, &claim, (int)(seed >> 40) % 4 ? 2000 : 0);
        if (rc == DIBS_OK)
            stress_hold(&claim);
        else
            assert_int_equal(rc, DIBS_ETIMEDOUT);
        rc = drive_release(mine, &claim);
        assert_true(rc == DIBS_OK || rc == DIBS_ENOTHELD);
    }
    return NULL;
}

static void
stressed(void **state)
{
    static drive drives[THREADS];
    pthread_t threads[THREADS];
    (void)state;
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(drive_open(&drives[i], d.session.endpoint + strlen("local:")),
                         DIBS_OK);
        assert_int_equal(pthread_create(&threads[i], NULL, stress_thread, &drives[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        drive_close(&drives[i]);
    }
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(first_come_first_served, setup, teardown),
        cmocka_unit_test_setup_teardown(withdrawn_from_anywhere, setup, teardown),
        cmocka_unit_test_setup_teardown(late_ring, setup, teardown),
        cmocka_unit_test_setup_teardown(sharers_and_writers, setup, teardown),
        cmocka_unit_test_setup_teardown(permits_in_order, setup, teardown),
        cmocka_unit_test_setup_teardown(lingers, setup, teardown),
        cmocka_unit_test_setup_teardown(broken, setup, teardown),
        cmocka_unit_test_setup_teardown(broken_unseen, setup, teardown),
        cmocka_unit_test_setup_teardown(observed, setup, teardown),
        cmocka_unit_test_setup_teardown(names_in_full, setup, teardown),
        cmocka_unit_test_setup_teardown(cells, setup, teardown),
        cmocka_unit_test_setup_teardown(inspected, setup, teardown),
        cmocka_unit_test_setup_teardown(stressed, setup, teardown),
    };
    return drive_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
