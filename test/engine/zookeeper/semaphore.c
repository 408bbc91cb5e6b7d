/* SPDX-License-Identifier: MIT */
/* Semaphores of the layout curator: their nodes, and those that somebody else makes and
 * deletes. See faults.h. */
#include "faults.h"

#define NAME "semaphore"
#define LOCKS ROOT "/" NAME "/locks"
#define LEASES ROOT "/" NAME "/leases"
#define LIMIT 3
#define LONG_MS ((uint32_t)slowly(6000))

static tree raw; /* somebody else's session */

static dibs *
start(void)
{
    start_one(NULL);
    CHECK_SAME(tree_open(&raw, one.port, 30000), 0);
    return open_at(lines.ports[0]);
}

static void
stop(dibs *client)
{
    dibs_close(client);
    tree_close(&raw);
}

static int
count_at(const char *path)
{
    int count = 0;
    char *names = tree_children(&raw, path, NULL);
    for (const char *at = names; at && *at; at++)
        count += *at == '\n';
    free(names);
    return count;
}

static dibs_request
permits(uint32_t count, int64_t wait_ms)
{
    dibs_request request = want(NAME, LONG_MS);
    request.mode = DIBS_PERMITS;
    request.permits = count;
    request.limit = LIMIT;
    request.wait_ms = wait_ms;
    return request;
}

static dibs_hold *
take_permits(dibs *client, uint32_t count)
{
    dibs_hold *hold;
    dibs_request request = permits(count, slowly(10000));
    OK(dibs_acquire(&hold, client, &request, &oops));
    return hold;
}

static int
try_permits(dibs *client, uint32_t count)
{
    dibs_hold *hold = NULL;
    dibs_request request = permits(count, DIBS_WAIT_NONE);
    int rc = dibs_acquire(&hold, client, &request, &oops);
    if (!rc)
        give(hold);
    return rc;
}

static dibs_op *
begin_permits(dibs *client, uint32_t count)
{
    dibs_op *op;
    dibs_request request = permits(count, slowly(20000));
    OK(dibs_acquire_async(&op, client, &request, NULL, NULL, &oops));
    return op;
}

static void
delete_at(const char *folder, const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    CHECK_SAME(tree_delete(&raw, path), 0);
}

/* the last (by number) child there is deleted */
static void
delete_last(const char *folder)
{
    char *names = tree_children(&raw, folder, NULL), *rest = NULL, *last = NULL;
    CHECK(names != NULL);
    for (char *at = strtok_r(names, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest))
        if (!last || strcmp(at + strlen(at) - 10, last + strlen(last) - 10) > 0)
            last = at;
    CHECK(last != NULL);
    delete_at(folder, last);
    free(names);
}

/* a lease for each permit, and no place in the queue behind a grant */
static void
test_written_down(void)
{
    dibs *client = start();
    dibs_hold *two = take_permits(client, 2), *third = take_permits(client, 1);
    CHECK_SAME(count_at(LEASES), 3);
    CHECK_SAME(count_at(LOCKS), 0);
    CHECK(dibs_token(third) > dibs_token(two));
    char *names = tree_children(&raw, LEASES, NULL);
    CHECK(names && strncmp(names, "_c_", 3) == 0 && strstr(names, "-lease-0"));
    free(names);
    GIVES(DIBS_EBUSY, try_permits(client, 1));
    CHECK_SAME(count_at(LEASES), 3);
    CHECK_SAME(count_at(LOCKS), 0);
    give(two);
    CHECK_SAME(count_at(LEASES), 1);
    GIVES(DIBS_EBUSY, try_permits(client, 3));
    OK(try_permits(client, 2));
    give(third);
    CHECK_SAME(count_at(LEASES), 0);
    stop(client);
}

/* who waits is served in order, also behind one who wants many */
static void
test_in_order(void)
{
    dibs *client = start(), *other = open_at(one.port);
    dibs_hold *first = take_permits(client, 1), *second = take_permits(client, 1);
    dibs_op *many = begin_permits(other, 3);
    EVENTUALLY(slowly(2000), count_at(LOCKS) == 1);
    dibs_op *few = begin_permits(client, 1);
    EVENTUALLY(slowly(2000), count_at(LOCKS) == 2);
    CHECK(!has_ended(few, slowly(100)));
    give(first);
    CHECK(!has_ended(many, slowly(100)) && !has_ended(few, 0));
    give(second);
    dibs_hold *hold = end_wait(many, slowly(2000));
    CHECK(!has_ended(few, slowly(50)));
    uint64_t token = dibs_token(hold);
    give(hold);
    hold = end_wait(few, slowly(2000));
    CHECK(dibs_token(hold) > token);
    give(hold);
    EVENTUALLY(slowly(2000), count_at(LOCKS) + count_at(LEASES) == 0);
    dibs_close(other);
    stop(client);
}

/* leases and places of others count */
static void
test_strangers(void)
{
    dibs *client = start();
    char lease[400], place[400];
    give(take_permits(client, 1));
    CHECK_SAME(tree_make(&raw, LEASES "/_c_x-lease-", "", TREE_EPHEMERAL | TREE_SEQUENCE,
                         lease, sizeof lease),
               0);
    GIVES(DIBS_EBUSY, try_permits(client, 3));
    OK(try_permits(client, 2));
    CHECK_SAME(tree_make(&raw, LOCKS "/_c_x-lock-", "", TREE_EPHEMERAL | TREE_SEQUENCE,
                         place, sizeof place),
               0);
    GIVES(DIBS_EBUSY, try_permits(client, 1));
    dibs_op *wait = begin_permits(client, 3);
    EVENTUALLY(slowly(2000), count_at(LOCKS) == 2);
    /* it does not hold on to leases while it is not its turn */
    EVENTUALLY(slowly(2000), count_at(LEASES) == 1);
    CHECK_SAME(tree_delete(&raw, place), 0);
    CHECK(!has_ended(wait, slowly(100)));
    CHECK_SAME(count_at(LOCKS), 1);
    CHECK_SAME(tree_delete(&raw, lease), 0);
    give(end_wait(wait, slowly(1000)));
    CHECK_SAME(count_at(LOCKS) + count_at(LEASES), 0);
    stop(client);
}

/* one lease of several is enough to lose them all; the rest goes with the hold */
static void
test_deleted_while_held(void)
{
    dibs *client = start();
    dibs_hold *hold;
    dibs_request request = permits(3, slowly(5000));
    request.lease_ms = LEASE_MS;
    OK(dibs_acquire(&hold, client, &request, &oops));
    delete_last(LEASES);
    CHECK(is_lost(hold, LEASE_MS + slowly(200)));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    EVENTUALLY(slowly(3000), count_at(LEASES) == 0);
    OK(try_permits(client, 3));
    stop(client);
}

static void
test_deleted_while_waiting(void)
{
    dibs *client = start(), *other = open_at(one.port);
    dibs_hold *hold = take_permits(other, 2);
    dibs_op *wait = begin_permits(client, 3);
    EVENTUALLY(slowly(2000), count_at(LOCKS) == 1 && count_at(LEASES) == 5);
    delete_last(LEASES);
    EVENTUALLY(slowly(2000), count_at(LEASES) == 5);
    delete_last(LOCKS);
    delete_last(LEASES); /* so that it looks */
    EVENTUALLY(slowly(2000), count_at(LOCKS) == 1 && count_at(LEASES) == 5);
    CHECK(!has_ended(wait, slowly(50)));
    give(hold);
    give(end_wait(wait, slowly(2000)));
    CHECK_SAME(count_at(LOCKS) + count_at(LEASES), 0);
    dibs_close(other);
    stop(client);
}

/* the answer is lost: all is found again, and nothing is made twice */
static void
test_reply_lost(void)
{
    dibs *client = start();
    give(take_permits(client, 2));
    wires_mute(&lines, 0);
    dibs_op *wait = begin_permits(client, 2);
    EVENTUALLY(slowly(2000), count_at(LEASES) == 2);
    wires_cut(&lines, 0);
    wires_flow(&lines, 0);
    dibs_hold *hold = end_wait(wait, slowly(5000));
    CHECK_SAME(count_at(LEASES), 2);
    CHECK_SAME(count_at(LOCKS), 0);
    give(hold);
    CHECK_SAME(count_at(LEASES), 0);
    stop(client);
}

/* who gives up leaves nothing, whether it was next or not, or did not hear an answer */
static void
test_given_up(void)
{
    dibs *client = start(), *other = open_at(one.port);
    dibs_hold *hold = take_permits(other, 3), *none;
    dibs_request request = permits(2, slowly(150));
    GIVES(DIBS_ETIMEDOUT, dibs_acquire(&none, client, &request, &oops));
    EVENTUALLY(slowly(1000), count_at(LEASES) == 3 && count_at(LOCKS) == 0);
    dibs_op *next = begin_permits(other, 1);
    EVENTUALLY(slowly(2000), count_at(LOCKS) == 1);
    GIVES(DIBS_ETIMEDOUT, dibs_acquire(&none, client, &request, &oops));
    EVENTUALLY(slowly(1000), count_at(LEASES) == 4 && count_at(LOCKS) == 1);
    give(hold);
    give(end_wait(next, slowly(2000)));
    wires_mute(&lines, 0);
    CHECK(dibs_acquire(&none, client, &request, &oops) != DIBS_OK);
    wires_cut(&lines, 0);
    wires_flow(&lines, 0);
    EVENTUALLY(slowly(5000), count_at(LEASES) + count_at(LOCKS) == 0);
    dibs_close(other);
    stop(client);
}

/* more at once than a request can carry is refused with the reason */
static void
test_too_many(void)
{
    dibs *client = start();
    dibs_hold *hold;
    dibs_request request = permits(500, slowly(10000));
    request.limit = 1000000;
    OK(dibs_acquire(&hold, client, &request, &oops));
    CHECK_SAME(count_at(LEASES), 500);
    give(hold);
    CHECK_SAME(count_at(LEASES), 0);
    request.permits = 500000;
    GIVES(DIBS_EINVAL, dibs_acquire(&hold, client, &request, &oops));
    CHECK_SAYS("too many");
    CHECK_SAME(count_at(LEASES) + count_at(LOCKS), 0);
    stop(client);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "written_down", test_written_down },
        { "in_order", test_in_order },
        { "strangers", test_strangers },
        { "deleted_while_held", test_deleted_while_held },
        { "deleted_while_waiting", test_deleted_while_waiting },
        { "reply_lost", test_reply_lost },
        { "given_up", test_given_up },
        { "too_many", test_too_many },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
