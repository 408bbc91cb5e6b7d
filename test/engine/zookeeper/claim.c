/* SPDX-License-Identifier: MIT */
/* What the layout curator writes down, and how it gets along with nodes that others make
 * and delete. See faults.h. */
#include "faults.h"

#include <ctype.h>

#define NAME "claim"
#define PLACE ROOT "/" NAME
#define LONG_MS ((uint32_t)slowly(6000))
#define HEX "0123456789abcdef0123456789abcdef"

/* ---- looking ---- */

static tree raw; /* somebody else's session */

static dibs *
start_with(const char *more)
{
    start_one(NULL);
    CHECK_SAME(tree_open(&raw, one.port, 30000), 0);
    return open_url("zk://127.0.0.1:%d%s?tick=%dms%s", lines.ports[0], ROOT,
                    ZOOKEEPER_TICK_MS, more);
}

/* the children of the lock, one per line, in no order; for free() */
static char *
children(void)
{
    char *names = tree_children(&raw, PLACE, NULL);
    CHECK(names != NULL);
    return names;
}

static int
count_children(void)
{
    int count = 0;
    char *names = tree_children(&raw, PLACE, NULL);
    for (const char *at = names; at && *at; at++)
        count += *at == '\n';
    free(names);
    return count;
}

/* the only child; for free() */
static char *
only_child(void)
{
    char *name = children();
    char *end = strchr(name, '\n');
    CHECK(end != NULL && end[1] == '\0');
    *end = '\0';
    return name;
}

/* fits compares a name with a form, in which 'h' is a hexadecimal digit and 'd' a decimal
 * one, '^' makes the next character stand for itself. */
static int
fits(const char *name, const char *form)
{
    for (; *form; form++, name++) {
        int exact = *form == '^';
        form += exact;
        if (!exact && *form == 'h'   ? !isxdigit((unsigned char)*name)
            : !exact && *form == 'd' ? !isdigit((unsigned char)*name)
                                     : *name != *form)
            return 0;
    }
    return *name == '\0';
}

#define UUID_FORM "hhhhhhhh-hhhh-hhhh-hhhh-hhhhhhhhhhhh"
#define HEX_FORM "hhhhhhhhhhhhhhhhhhhhhhhhhhhhhhhh"
#define NUMBER_FORM "dddddddddd"

static void
check_written(dibs *client, const dibs_request *request, const char *form)
{
    dibs_hold *hold;
    tree_stat stat;
    char path[300];
    OK(dibs_acquire(&hold, client, request, &oops));
    char *name = only_child();
    if (!fits(name, form))
        FAIL("the node is %s, and not as %s", name, form);
    snprintf(path, sizeof path, PLACE "/%s", name);
    CHECK_SAME(tree_stat_of(&raw, path, &stat), 0);
    CHECK(stat.owner != 0);
    CHECK_SAME(dibs_token(hold), stat.czxid * 256);
    char *data = tree_read(&raw, path, NULL);
    CHECK(data && strncmp(data, "a note\ndibs1 id=", 16) == 0);
    free(data);
    free(name);
    give(hold);
    CHECK_SAME(count_children(), 0);
}

static void
check_forms(const char *more, const char *lock, const char *leader, const char *reader)
{
    dibs *client = open_url("zk://127.0.0.1:%d%s?tick=%dms%s", one.port, ROOT,
                            ZOOKEEPER_TICK_MS, more);
    dibs_request request = want(NAME, LONG_MS);
    request.note = "a note";
    check_written(client, &request, lock);
    request.flags = DIBS_ELECTION;
    check_written(client, &request, leader);
    request.flags = 0;
    request.mode = DIBS_SHARED;
    check_written(client, &request, reader);
    dibs_close(client);
}

static void
test_written_down(void)
{
    dibs_close(start_with(""));
    check_forms("", "_c_" UUID_FORM "-lock-" NUMBER_FORM,
                "_c_" UUID_FORM "-latc^h-" NUMBER_FORM,
                "_c_" UUID_FORM "-__READ__" NUMBER_FORM);
    check_forms("&form=rw", "_c_" UUID_FORM "-__WRIT__" NUMBER_FORM,
                "_c_" UUID_FORM "-latc^h-" NUMBER_FORM,
                "_c_" UUID_FORM "-__READ__" NUMBER_FORM);
    check_forms("&naming=kazoo", HEX_FORM "__lock__" NUMBER_FORM,
                HEX_FORM "__lock__" NUMBER_FORM, HEX_FORM "__rlock__" NUMBER_FORM);
    check_forms("&naming=bare", "lock-" NUMBER_FORM, "lock-" NUMBER_FORM,
                "rea^d-" NUMBER_FORM);
    tree_close(&raw);
}

/* ---- others ---- */

/* a contender of somebody else's */
static void
make_node(const char *prefix, char *path, size_t size)
{
    char wanted[300];
    snprintf(wanted, sizeof wanted, PLACE "/%s", prefix);
    CHECK_SAME(tree_make(&raw, wanted, "", TREE_EPHEMERAL | TREE_SEQUENCE, path, size),
               0);
}

/* Whatever they are called, we wait behind them, and others behind us. */
static void
test_strangers(void)
{
    static const char *const prefixes[] = { "lock-",        "_c_" HEX "-lock-",
                                            HEX "__lock__", "x-123456789-",
                                            "write-",       HEX "__rlock__" };
    dibs *client = start_with("");
    char first[300], last[300];
    give(take(client, NAME, LONG_MS));
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        make_node(prefixes[i], first, sizeof first);
        GIVES(DIBS_EBUSY, try_take(client, NAME));
        CHECK_SAME(count_children(), 1);
        dibs_op *wait = begin_wait(client, NAME, LONG_MS);
        EVENTUALLY(slowly(2000), count_children() == 2);
        make_node(prefixes[i], last, sizeof last);
        CHECK(!has_ended(wait, slowly(20)));
        CHECK_SAME(tree_delete(&raw, first), 0);
        give(end_wait(wait, slowly(500)));
        CHECK_SAME(tree_delete(&raw, last), 0);
    }
    dibs_close(client);
    tree_close(&raw);
}

static int
try_shared(dibs *client, dibs_hold **hold)
{
    dibs_request request = want(NAME, LONG_MS);
    request.mode = DIBS_SHARED;
    request.wait_ms = DIBS_WAIT_NONE;
    return dibs_acquire(hold, client, &request, &oops);
}

/* Readers of others are readers; and a writer's own reader, with its number, too. */
static void
test_strange_readers(void)
{
    static const char *const prefixes[] = { "_c_" HEX "-__READ__", HEX "__rlock__",
                                            "read-" };
    dibs *client = start_with("");
    char path[300], twin[300];
    dibs_hold *hold;
    give(take(client, NAME, LONG_MS));
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        make_node(prefixes[i], path, sizeof path);
        OK(try_shared(client, &hold));
        GIVES(DIBS_EBUSY, try_take(client, NAME));
        give(hold);
        CHECK_SAME(tree_delete(&raw, path), 0);
    }
    make_node("_c_" HEX "-__WRIT__", path, sizeof path);
    snprintf(twin, sizeof twin, PLACE "/_c_x-__READ__%s", path + strlen(path) - 10);
    CHECK_SAME(tree_make(&raw, twin, "", TREE_EPHEMERAL, NULL, 0), 0);
    GIVES(DIBS_EBUSY, try_shared(client, &hold));
    CHECK_SAME(tree_delete(&raw, path), 0);
    OK(try_shared(client, &hold));
    GIVES(DIBS_EBUSY, try_take(client, NAME));
    give(hold);
    dibs_close(client);
    tree_close(&raw);
}

/* ---- nodes that somebody deletes ---- */

static void
delete_child(const char *name)
{
    char path[300];
    snprintf(path, sizeof path, PLACE "/%s", name);
    CHECK_SAME(tree_delete(&raw, path), 0);
}

static void
test_deleted_while_held(void)
{
    dibs *client = start_with("");
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    char *name = only_child();
    delete_child(name);
    CHECK(is_lost(hold, LEASE_MS + slowly(200)));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    free(name);
    dibs_close(client);
    tree_close(&raw);
}

static void
test_deleted_while_waiting(void)
{
    dibs *client = start_with("");
    char before[300], behind[300];
    give(take(client, NAME, LONG_MS));
    make_node("lock-", before, sizeof before);
    dibs_op *wait = begin_wait(client, NAME, LONG_MS);
    EVENTUALLY(slowly(2000), count_children() == 2);
    char *names = children(), *rest = NULL;
    for (char *at = strtok_r(names, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest))
        if (strncmp(at, "_c_", 3) == 0)
            delete_child(at);
    free(names);
    make_node("lock-", behind, sizeof behind);
    CHECK_SAME(tree_delete(&raw, before), 0);
    /* it has lost its place, so it goes behind who came meanwhile */
    EVENTUALLY(slowly(2000), count_children() == 2);
    CHECK(!has_ended(wait, slowly(50)));
    CHECK_SAME(tree_delete(&raw, behind), 0);
    give(end_wait(wait, slowly(2000)));
    CHECK_SAME(count_children(), 0);
    dibs_close(client);
    tree_close(&raw);
}

/* Without a UUID in its name a node is found again by what stands in it. */
static void
test_found_by_data(void)
{
    dibs *client = start_with("&naming=bare");
    char other[300];
    give(take(client, NAME, LONG_MS));
    make_node("lock-", other, sizeof other);
    wires_mute(&lines, 0);
    dibs_op *wait = begin_wait(client, NAME, LONG_MS);
    EVENTUALLY(slowly(2000), count_children() == 2);
    wires_cut(&lines, 0);
    wires_flow(&lines, 0);
    CHECK(!has_ended(wait, slowly(300)));
    CHECK_SAME(count_children(), 2);
    CHECK_SAME(tree_delete(&raw, other), 0);
    dibs_hold *hold = end_wait(wait, slowly(3000));
    CHECK_SAME(count_children(), 1);
    give(hold);
    CHECK_SAME(count_children(), 0);
    dibs_close(client);
    tree_close(&raw);
}

/* Who gives up while the answer is lost leaves nothing. */
static void
test_given_up(void)
{
    dibs *client = start_with("");
    dibs_hold *hold;
    dibs_request request = want(NAME, LONG_MS);
    give(take(client, NAME, LONG_MS));
    wires_mute(&lines, 0);
    request.wait_ms = slowly(100);
    CHECK(dibs_acquire(&hold, client, &request, &oops) != DIBS_OK);
    EVENTUALLY(slowly(2000), count_children() == 1);
    wires_cut(&lines, 0);
    wires_flow(&lines, 0);
    EVENTUALLY(slowly(5000), count_children() == 0);
    dibs_close(client);
    tree_close(&raw);
}

/* Who gives up while there is no connection, and there is none for longer than core tries,
 * leaves nothing either: the session lives on. */
static void
test_given_up_in_outage(void)
{
    dibs *client = start_with("&session=20s");
    char other[300];
    dibs_hold *none = NULL;
    give(take(client, NAME, LEASE_MS));
    make_node("lock-", other, sizeof other);
    dibs_op *wait = begin_wait(client, NAME, LEASE_MS);
    EVENTUALLY(slowly(2000), count_children() == 2);
    wires_refuse(&lines, 0);
    dibs_op_cancel(wait);
    GIVES(DIBS_ECANCELED, dibs_op_finish(&none, wait, &oops));
    sleep_ms(3 * LEASE_MS);
    CHECK_SAME(count_children(), 2);
    wires_flow(&lines, 0);
    EVENTUALLY(slowly(3000), count_children() == 1);
    dibs_close(client);
    tree_close(&raw);
}

/* ---- changes of a hold ---- */

static void
test_downgrade(void)
{
    dibs *client = start_with(""), *other = open_at(one.port);
    dibs_request request = want(NAME, LONG_MS);
    char form[100];
    request.mode = DIBS_SHARED;
    dibs_hold *hold = take(client, NAME, LEASE_MS), *reader = NULL;
    uint64_t token = dibs_token(hold);
    char *name = only_child();
    OK(dibs_downgrade(hold, &oops));
    snprintf(form, sizeof form, "_c_" UUID_FORM "-__READ__%s", name + strlen(name) - 10);
    free(name);
    name = only_child();
    CHECK(fits(name, form));
    OK(dibs_acquire(&reader, other, &request, &oops));
    CHECK(dibs_token(reader) > token && dibs_token(hold) == token);
    sleep_ms(2 * LEASE_MS);
    CHECK(dibs_held(hold));
    give(hold);
    CHECK_SAME(count_children(), 1);
    give(reader);
    free(name);
    dibs_close(other);
    dibs_close(client);
    tree_close(&raw);
}

/* A lease that becomes longer than its session moves to another one. Nobody gets in. */
static void
test_longer(void)
{
    dibs *client = start_with(""), *other = open_at(one.port);
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold;
    request.flags = DIBS_NO_RENEW;
    OK(dibs_acquire(&hold, client, &request, &oops));
    int64_t session = owner_of(&one, NAME);
    uint64_t token = dibs_token(hold);
    dibs_op *wait = begin_wait(other, NAME, LONG_MS);
    EVENTUALLY(slowly(2000), count_children() == 2);
    OK(dibs_renew(hold, 5 * LEASE_MS, &oops));
    sleep_ms(3 * LEASE_MS);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    CHECK_SAME(dibs_token(hold), token);
    give(hold);
    hold = end_wait(wait, slowly(2000));
    CHECK(dibs_token(hold) > token);
    CHECK(owner_of(&one, NAME) != session);
    give(hold);
    CHECK_SAME(count_children(), 0);
    dibs_close(other);
    dibs_close(client);
    tree_close(&raw);
}

/* A lease that nobody renews ends by itself, though the session goes on. */
static void
test_lapses(void)
{
    dibs *client = start_with(""), *other = open_at(one.port);
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold, *kept = take(client, "kept", LEASE_MS);
    request.flags = DIBS_NO_RENEW;
    OK(dibs_acquire(&hold, client, &request, &oops));
    dibs_op *wait = begin_wait(other, NAME, LONG_MS);
    EVENTUALLY(slowly(2000), count_children() == 2);
    dibs_hold *next = end_wait(wait, LEASE_MS + slowly(500));
    CHECK(!dibs_held(hold) && dibs_held(kept));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK(dibs_held(next));
    give(next);
    give(kept);
    CHECK_SAME(count_children(), 0);
    dibs_close(other);
    dibs_close(client);
    tree_close(&raw);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "written_down", test_written_down },
        { "strangers", test_strangers },
        { "strange_readers", test_strange_readers },
        { "deleted_while_held", test_deleted_while_held },
        { "deleted_while_waiting", test_deleted_while_waiting },
        { "found_by_data", test_found_by_data },
        { "given_up", test_given_up },
        { "given_up_in_outage", test_given_up_in_outage },
        { "downgrade", test_downgrade },
        { "longer", test_longer },
        { "lapses", test_lapses },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
