/* SPDX-License-Identifier: MIT */
/* Looking at locks among what others put there, breaking them, and cells that somebody
 * deletes by hand. See faults.h. */
#include "faults.h"

#include <unistd.h>

#define NAME "looked-at"
#define STRANGER "/_c_00112233-4455-6677-8899-aabbccddeeff-"
#define MANY 200
#define SESSION_MS 30000

static dibs *
open_here(const char *user, const char *more)
{
    return open_url("zk://%s127.0.0.1:%d" ROOT "?layout=%s&tick=%dms%s", user, one.port,
                    layout, ZOOKEEPER_TICK_MS, more);
}

/* a session of somebody else, with the root there */
static void
enter(tree *out)
{
    CHECK_SAME(tree_open(out, one.port, SESSION_MS), 0);
    int code = tree_make(out, ROOT, "", TREE_PLAIN, NULL, 0);
    CHECK(code == 0 || code == TREE_EXISTS);
}

static void
must_make(tree *by, const char *path, const char *data, int flags)
{
    CHECK_SAME(tree_make(by, path, data, flags, NULL, 0), 0);
}

static dibs_report *
look(dibs *client, const char *name)
{
    dibs_report *report = NULL;
    OK(dibs_inspect(&report, client, name, &oops));
    return report;
}

static size_t
count_waiters(dibs *client, const char *name)
{
    dibs_report *report = look(client, name);
    size_t count = report->waiter_count;
    dibs_report_free(report);
    return count;
}

static int
count_one(const dibs_report *report, void *arg)
{
    CHECK(report->holder_count + report->waiter_count > 0);
    ++*(int *)arg;
    return 0;
}

static int
listed(dibs *client, const char *glob)
{
    int count = 0;
    OK(dibs_list(client, glob, count_one, &count, &oops));
    return count;
}

static void
check_stranger(const dibs_party *party, const char *note)
{
    CHECK(strcmp(party->note, note) == 0);
    CHECK(party->host[0] == '\0' && party->app[0] == '\0');
    CHECK(party->pid == 0 && party->lease_left_ms == -1);
    CHECK(party->since_ms > 0);
}

/* what a node of another client does not say stays unknown; and it can be broken */
static void
test_stranger_holds(void)
{
    const int flags = TREE_EPHEMERAL | TREE_SEQUENCE;
    tree stranger;
    start_one(NULL);
    enter(&stranger);
    dibs *client = open_here("", "");
    must_make(&stranger, ROOT "/" NAME, "", TREE_PLAIN);
    CHECK_SAME(listed(client, NULL), 0);
    must_make(&stranger, ROOT "/" NAME "/not-numbered", "", TREE_EPHEMERAL);
    CHECK_SAME(listed(client, NULL), 0);
    must_make(&stranger, ROOT "/" NAME STRANGER "lock-", "10.0.0.9", flags);
    dibs_op *op = begin_wait(client, NAME, LEASE_MS);
    EVENTUALLY(slowly(5000), count_nodes(&one) == 3);
    dibs_report *report = look(client, NAME);
    CHECK(report->holder_count == 1 && report->waiter_count == 1);
    check_stranger(&report->holders[0], "10.0.0.9");
    CHECK(report->holders[0].token > 0 && report->waiters[0].token == 0);
    CHECK_SAME(report->waiters[0].pid, getpid());
    dibs_report_free(report);
    size_t broken = 0;
    OK(dibs_break(&broken, client, NAME, NULL, &oops));
    CHECK_SAME(broken, 1);
    give(end_wait(op, slowly(5000)));
    tree_close(&stranger);
    dibs_close(client);
}

/* more in one line than are asked for in one go */
static void
test_long_line(void)
{
    tree stranger;
    start_one(NULL);
    enter(&stranger);
    dibs *client = open_here("", "");
    must_make(&stranger, ROOT "/" NAME, "", TREE_PLAIN);
    for (int i = 0; i < 2 * MANY; i++) {
        must_make(&stranger, ROOT "/" NAME "/x-1-", "", TREE_EPHEMERAL | TREE_SEQUENCE);
    }
    dibs_report *report = look(client, NAME);
    CHECK(report->holder_count == 1 && report->waiter_count == 2 * MANY - 1);
    dibs_report_free(report);
    tree_close(&stranger);
    dibs_close(client);
}

/* names of all kinds, more than are looked at in one go */
static void
test_many(void)
{
    dibs_hold *holds[MANY];
    tree stranger;
    start_one(NULL);
    enter(&stranger);
    dibs *client = open_here("", "");
    must_make(&stranger, ROOT "/empty", "", TREE_PLAIN);
    must_make(&stranger, ROOT "/%zz", "", TREE_PLAIN);
    OK(dibs_cell_swap(NULL, client, "cell", 0, "x", 1, &oops));
    for (int i = 0; i < MANY; i++) {
        char name[32];
        snprintf(name, sizeof(name), "%s/%%\n%c%d", i % 2 ? "odd" : "even", 1 + i % 255,
                 i);
        holds[i] = take(client, name, 30000);
    }
    CHECK_SAME(listed(client, NULL), MANY);
    CHECK_SAME(listed(client, "odd*"), MANY / 2);
    for (int i = 0; i < MANY; i++) {
        give(holds[i]);
    }
    CHECK_SAME(listed(client, NULL), 0);
    tree_close(&stranger);
    dibs_close(client);
}

static void
make_semaphore(tree *by, const char *name)
{
    char path[128];
    const char *const parts[] = { "", "/locks", "/leases" };
    for (int i = 0; i < 3; i++) {
        snprintf(path, sizeof(path), ROOT "/%s%s", name, parts[i]);
        must_make(by, path, "", TREE_PLAIN);
    }
}

/* Curator's leases beside ours, and one who waits: broken are those who hold */
static void
test_semaphore(void)
{
    const int flags = TREE_EPHEMERAL | TREE_SEQUENCE;
    tree stranger;
    start_one(NULL);
    enter(&stranger);
    dibs *client = open_here("", "");
    make_semaphore(&stranger, NAME);
    must_make(&stranger, ROOT "/" NAME "/leases" STRANGER "lease-", "10.0.0.9", flags);
    dibs_report *report = look(client, NAME);
    CHECK(report->mode == DIBS_PERMITS && report->limit == 0);
    CHECK(report->holder_count == 1 && report->waiter_count == 0);
    check_stranger(&report->holders[0], "10.0.0.9");
    dibs_report_free(report);

    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold;
    dibs_op *op;
    request.mode = DIBS_PERMITS;
    request.limit = 3;
    request.permits = 2;
    OK(dibs_acquire(&hold, client, &request, &oops));
    dibs *other = open_here("", "");
    OK(dibs_acquire_async(&op, other, &request, NULL, NULL, &oops));
    EVENTUALLY(slowly(5000), count_waiters(client, NAME) == 1);
    report = look(client, NAME);
    CHECK(report->limit == 3 && report->holder_count == 2);
    CHECK(report->holders[0].permits == 1 && report->holders[1].permits == 2);
    CHECK_SAME(report->holders[1].token, dibs_token(hold));
    CHECK_SAME(report->waiters[0].permits, 2);
    dibs_report_free(report);

    size_t broken = 0;
    OK(dibs_break(&broken, client, NAME, NULL, &oops));
    CHECK_SAME(broken, 2);
    dibs_hold *next = end_wait(op, slowly(5000));
    CHECK(dibs_token(next) > dibs_token(hold));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    give(next);
    tree_close(&stranger);
    dibs_close(other);
    dibs_close(client);
}

/* what may not be seen is left out of a list, and refused by itself */
static void
test_denied(void)
{
    start_one(NULL);
    dibs *owner = open_here("app:secret@", ""), *other = open_here("", "");
    dibs_hold *own = take(owner, "secret", LEASE_MS);
    dibs_report *report = NULL;
    int none = 0;
    /* the root is the owner's too, so the other may not even list it */
    GIVES(DIBS_EDENIED, dibs_list(other, NULL, count_one, &none, &oops));
    GIVES(DIBS_EDENIED, dibs_inspect(&report, other, "secret", &oops));
    GIVES(DIBS_EDENIED, dibs_break(NULL, other, "secret", NULL, &oops));
    CHECK_SAME(listed(owner, NULL), 1);
    give(own);
    dibs_close(owner);
    dibs_close(other);
}

static void
test_denied_one(void)
{
    start_one(NULL);
    dibs *other = open_here("", ""), *owner = open_here("app:secret@", "");
    dibs_hold *free_for_all = take(other, "open", LEASE_MS);
    dibs_hold *own = take(owner, "secret", LEASE_MS);
    CHECK_SAME(listed(owner, NULL), 2);
    CHECK_SAME(listed(other, NULL), 1);
    give(own);
    give(free_for_all);
    dibs_close(owner);
    dibs_close(other);
}

/* a cell that is deleted and made again: what was read before is not current */
static void
test_cell_again(void)
{
    uint64_t first, second, third;
    dibs_cell cell;
    tree hand;
    start_one(NULL);
    enter(&hand);
    dibs *client = open_here("", "");
    OK(dibs_cell_swap(&first, client, NAME, 0, "one", 3, &oops));
    CHECK_SAME(tree_delete(&hand, ROOT "/%cells/" NAME), 0);
    GIVES(DIBS_ECONFLICT, dibs_cell_swap(&second, client, NAME, first, "x", 1, &oops));
    GIVES(DIBS_ENOTFOUND, dibs_cell_read(&cell, client, NAME, &oops));
    OK(dibs_cell_swap(&second, client, NAME, 0, "two", 3, &oops));
    CHECK(second > first);
    GIVES(DIBS_ECONFLICT, dibs_cell_swap(&third, client, NAME, first, "x", 1, &oops));
    OK(dibs_cell_swap(&third, client, NAME, second, "three", 5, &oops));
    OK(dibs_cell_read(&cell, client, NAME, &oops));
    CHECK(cell.version == third && cell.len == 5 && memcmp(cell.value, "three", 5) == 0);
    tree_close(&hand);
    dibs_close(client);
}

static void
test_cell_too_large(void)
{
    static char large[DIBS_CELL_MAX + 2];
    dibs_cell cell;
    tree hand;
    start_one(NULL);
    enter(&hand);
    dibs *client = open_here("", "");
    memset(large, 'x', sizeof(large) - 1);
    OK(dibs_cell_swap(NULL, client, "first", 0, "", 0, &oops));
    must_make(&hand, ROOT "/%cells/" NAME, large, TREE_PLAIN);
    GIVES(DIBS_ECORRUPT, dibs_cell_read(&cell, client, NAME, &oops));
    tree_close(&hand);
    dibs_close(client);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = { { "stranger_holds", test_stranger_holds },
                                        { "long_line", test_long_line },
                                        { "many", test_many },
                                        { "semaphore", test_semaphore },
                                        { "denied", test_denied },
                                        { "denied_one", test_denied_one },
                                        { "cell_again", test_cell_again },
                                        { "cell_too_large", test_cell_too_large },
                                        { NULL, NULL } };
    return fault_main(argc, argv, cases);
}
