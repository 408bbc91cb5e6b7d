/* SPDX-License-Identifier: MIT */
/* What names of nodes mean: who comes before whom, which name is which lock's, and what
 * stands in a node. All without a server. */
#include "engine/zookeeper/zk.h"

#include <stdio.h>
#include <string.h>

#include "cases.h"
#include "core/mem.h"

#define UUID "01234567-89ab-cdef-0123-456789abcdef"
#define OTHER "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee"
#define HEX "0123456789abcdef0123456789abcdef"

static const dibs_host host = { .alloc = dibs__alloc, .free = dibs__free };
static dibs_session session = { .host = &host };
static struct zk zk = { .session = &session, .host = &host, .root = "/dibs" };

/* ---- queues ---- */

/* the children of a test, separated by blanks; `text` is changed */
static void
list(struct String_vector *out, char *text, char **room)
{
    char *rest = NULL;
    out->count = 0;
    out->data = room;
    for (char *at = strtok_r(text, " ", &rest); at; at = strtok_r(NULL, " ", &rest))
        out->data[out->count++] = at;
}

/* The order of `children` must be `order`; and for each, in `before`, the index of the one
 * it waits for, as a letter, or '-'. */
static void
check_queue(const char *children, const char *order, const char *before)
{
    char text[2048], got[2048] = "", *room[32];
    struct String_vector vector;
    struct queue queue;
    snprintf(text, sizeof text, "%s", children);
    list(&vector, text, room);
    CHECK_SAME(dibs__zk_queue_read(&queue, &zk, &vector, NULL), DIBS_OK);
    for (int i = 0; i < queue.count; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "",
                 queue.items[i].node);
    if (strcmp(got, order) != 0)
        FAIL("the order of %s\n  is %s\n  and not %s", children, got, order);
    CHECK_SAME(strlen(before), queue.count);
    int holders = 0;
    for (int i = 0; i < queue.count; i++) {
        int at = dibs__zk_queue_before(&queue, i);
        CHECK_SAME(at < 0 ? '-' : 'a' + at, before[i]);
        holders += at < 0;
    }
    CHECK_SAME(dibs__zk_queue_holders(&queue), holders);
    CHECK_SAME(queue.own, -1);
    dibs__free(queue.items);
}

static void
orders(void)
{
    check_queue("", "", "");
    check_queue("_c_" OTHER "-lock-0000000010 _c_" UUID "-lock-0000000009",
                "_c_" UUID "-lock-0000000009 _c_" OTHER "-lock-0000000010", "-a");
    /* by the number, whatever is before it */
    check_queue("x-123-0000000003 " HEX "__lock__0000000002 lock-0000000001 "
                "_c_" HEX "-lock-0000000004 dibs-lock-0000000000",
                "dibs-lock-0000000000 lock-0000000001 " HEX "__lock__0000000002 "
                "x-123-0000000003 _c_" HEX "-lock-0000000004",
                "-abcd");
}

static void
readers(void)
{
    check_queue("a__READ__0000000001 b__READ__0000000002 c__WRIT__0000000003 "
                "d__READ__0000000004 e__READ__0000000005 f__WRIT__0000000006",
                "a__READ__0000000001 b__READ__0000000002 c__WRIT__0000000003 "
                "d__READ__0000000004 e__READ__0000000005 f__WRIT__0000000006",
                "--bcce");
    /* the nearest writer is what they wait for; kazoo's and .NET's readers are readers */
    check_queue("write-0000000001 write-0000000002 read-0000000003 "
                "" HEX "__rlock__0000000004",
                "write-0000000001 write-0000000002 read-0000000003 "
                "" HEX "__rlock__0000000004",
                "-abb");
    /* what only looks like a reader is none */
    check_queue("lock-0000000001 xread-0000000002", "lock-0000000001 xread-0000000002",
                "-a");
}

/* A writer's own reader has the writer's number. */
static void
same_number(void)
{
    check_queue("_c_" UUID "-__READ__0000000005 _c_" OTHER "-__WRIT__0000000005 "
                "z__READ__0000000006 y__WRIT__0000000007",
                "_c_" OTHER "-__WRIT__0000000005 _c_" UUID "-__READ__0000000005 "
                "z__READ__0000000006 y__WRIT__0000000007",
                "--ac");
    check_queue("a__WRIT__0000000004 _c_" UUID "-__READ__0000000005 "
                "_c_" OTHER "-__WRIT__0000000005",
                "a__WRIT__0000000004 _c_" OTHER "-__WRIT__0000000005 "
                "_c_" UUID "-__READ__0000000005",
                "-aa");
}

/* The server's counter has 32 bits and a sign. */
static void
wraps(void)
{
    check_queue("lock--2147483648 lock-2147483647 lock--2147483647 lock-2147483646",
                "lock-2147483646 lock-2147483647 lock--2147483648 lock--2147483647",
                "-abc");
    check_queue("a__READ__-2147483648 b__WRIT__2147483647 c__READ__-1999999999",
                "b__WRIT__2147483647 a__READ__-2147483648 c__READ__-1999999999", "-aa");
    check_queue("lock-0000000000 lock--000000001 lock-0000000001 lock--000000002",
                "lock--000000002 lock--000000001 lock-0000000000 lock-0000000001",
                "-abc");
    check_queue("x__READ__-000000001 y__READ__0000000000",
                "x__READ__-000000001 y__READ__0000000000", "--");
    check_queue("lock-2000000000 lock-0000000005", "lock-0000000005 lock-2000000000",
                "-a");
}

static void
strangers(void)
{
    check_queue("locks leases lock- lock-12 lock-9999999999 0123 __READ__ - "
                "lock-00000000x1 lock-0000000001",
                "lock-0000000001", "-");
    /* a prefix that ends in a dash, and digits that are all padding, are no sign */
    check_queue("a--0000000002 b_-0000000003 0000000001",
                "0000000001 a--0000000002 "
                "b_-0000000003",
                "-ab");
}

static void
own(void)
{
    char text[] = "_c_" UUID "-lock-0000000003 _c_" OTHER "-lock-0000000001 "
                  "_c_" UUID "-lock-0000000002";
    char *room[4];
    struct String_vector vector;
    struct queue queue;
    list(&vector, text, room);
    CHECK_SAME(dibs__zk_queue_read(&queue, &zk, &vector, "_c_" UUID "-lock-"), DIBS_OK);
    CHECK_SAME(queue.own, 1);
    CHECK(!queue.items[0].is_ours && queue.items[1].is_ours && queue.items[2].is_ours);
    dibs__free(queue.items);
    CHECK(dibs__zk_same_owner("_c_" UUID "-lock-0000000001", "_c_" UUID "-lease-1"));
    CHECK(!dibs__zk_same_owner("_c_" UUID "-lock-0000000001", "_c_" OTHER "-lease-1"));
    CHECK(!dibs__zk_same_owner("lease-0000000001", "lease-0000000001"));
}

/* ---- names ---- */

static void
check_name(const char *name, size_t len, const char *want)
{
    char back[DIBS_NAME_MAX];
    size_t back_len = 0;
    struct path path;
    CHECK_SAME(dibs__zk_lock_path(&path, &zk, name, len), DIBS_OK);
    CHECK_SAME(path.len, strlen(path.text));
    if (strcmp(path.text, want) != 0)
        FAIL("%s is the node %s and not %s", name, path.text, want);
    const char *node = path.text + strlen(zk.root) + 1;
    CHECK_SAME(dibs__zk_name_of(node, back, &back_len), 0);
    CHECK(back_len == len && memcmp(back, name, len) == 0);
}

static void
names(void)
{
    check_name("deploy", 6, "/dibs/deploy");
    check_name("a b", 3, "/dibs/a b");
    check_name("a/b", 3, "/dibs/a%2Fb");
    check_name("100%", 4, "/dibs/100%25");
    check_name(".", 1, "/dibs/%2E");
    check_name("..", 2, "/dibs/%2E%2E");
    check_name("...", 3, "/dibs/...");
    check_name("a.b", 3, "/dibs/a.b");
    check_name("\x01\x7f\xc3\xa4", 4, "/dibs/%01%7F%C3%A4");
    check_name("zookeeper", 9, "/dibs/zookeeper");
    zk.root[0] = '\0';
    check_name("zookeeper", 9, "/%7Aookeeper");
    check_name("zookeepers", 10, "/zookeepers");
    snprintf(zk.root, sizeof zk.root, "/dibs");
}

/* Every name of two bytes is another node, and found again. */
static void
names_differ(void)
{
    for (int first = 1; first < 256; first++) {
        for (int second = 1; second < 256; second++) {
            char name[2] = { (char)first, (char)second }, back[DIBS_NAME_MAX];
            size_t len = 0;
            struct path path;
            CHECK_SAME(dibs__zk_lock_path(&path, &zk, name, 2), DIBS_OK);
            CHECK_SAME(dibs__zk_name_of(path.text + 6, back, &len), 0);
            CHECK(len == 2 && memcmp(back, name, 2) == 0);
            CHECK(strchr(path.text + 6, '/') == NULL);
        }
    }
}

static void
no_names(void)
{
    static const char *const nodes[] = { "",     "%cells", "%fences", "%2f", "%2", "%",
                                         "%41",  "%00",    "a%zz",    ".",   "..", "\x01",
                                         "\xc3", "a/b",    "%2E",     "%2Ea" };
    char back[DIBS_NAME_MAX], longest[DIBS_NAME_MAX + 2];
    size_t len = 77;
    for (size_t i = 0; i < sizeof nodes / sizeof *nodes; i++) {
        int is_name = strcmp(nodes[i], "%2E") == 0;
        if ((dibs__zk_name_of(nodes[i], back, &len) == 0) != is_name)
            FAIL("%s is%s a name", nodes[i], is_name ? " not" : "");
        CHECK_SAME(len, is_name ? 1 : 77);
        len = 77;
    }
    memset(longest, 'x', sizeof longest);
    longest[DIBS_NAME_MAX + 1] = '\0';
    CHECK_SAME(dibs__zk_name_of(longest, back, &len), -1);
    longest[DIBS_NAME_MAX] = '\0';
    CHECK_SAME(dibs__zk_name_of(longest, back, &len), 0);
    CHECK_SAME(len, DIBS_NAME_MAX);
}

static void
paths(void)
{
    char name[DIBS_NAME_MAX];
    struct path path, child;
    dibs_cell_key key = { .space = DIBS_SPACE_CELL, .name = "a/b", .name_len = 3 };
    CHECK_SAME(dibs__zk_cell_path(&path, &zk, &key), DIBS_OK);
    CHECK(strcmp(path.text, "/dibs/%cells/a%2Fb") == 0);
    key.space = DIBS_SPACE_FENCE;
    CHECK_SAME(dibs__zk_cell_path(&path, &zk, &key), DIBS_OK);
    CHECK(strcmp(path.text, "/dibs/%fences/a%2Fb") == 0);
    CHECK_SAME(dibs__zk_child(&child, &path, "x"), DIBS_OK);
    CHECK(strcmp(child.text, "/dibs/%fences/a%2Fb/x") == 0);
    CHECK_SAME(dibs__zk_child(&child, &child, "y"), DIBS_OK);
    CHECK(strcmp(child.text, "/dibs/%fences/a%2Fb/x/y") == 0);
    /* the longest name fits, but not everything behind it */
    memset(name, '/', sizeof name);
    CHECK_SAME(dibs__zk_lock_path(&path, &zk, name, sizeof name), DIBS_OK);
    int rc = DIBS_OK;
    for (int i = 0; i < 10 && !rc; i++)
        rc = dibs__zk_child(&path, &path,
                            "0123456789012345678901234567890123456789"
                            "0123456789012345678901234567890123456789");
    CHECK_SAME(rc, DIBS_EINVAL);
}

/* ---- what nodes of ours are called, and what stands in them ---- */

static dibs_claim
claim_of(uint64_t serial)
{
    for (int i = 0; i < 16; i++)
        session.id[i] = (uint8_t)(i * 17);
    return (dibs_claim){ .serial = serial, .permits = 1, .lease_ms = 9, .note = "" };
}

static void
check_prefix(enum naming naming, enum contender_kind kind, uint32_t limit,
             const char *want)
{
    char got[CONTENDER_MAX];
    dibs_claim claim = claim_of(0x0102);
    claim.limit = limit;
    zk.naming = naming;
    dibs__zk_contender_prefix(got, &zk, &claim, kind);
    if (strcmp(got, want) != 0)
        FAIL("%s and not %s", got, want);
}

static void
prefixes(void)
{
#define OURS                                                                             \
    "00112233-4455-6677-8899-aabbccddeffd" /* the serial is in the last two bytes */
#define OURS_HEX "00112233445566778899aabbccddeffd"
    dibs_claim claim = claim_of(0x0102);
    char uuid[UUID_LEN + 1];
    dibs__zk_uuid(&zk, &claim, uuid);
    CHECK(strncmp(uuid, "00112233-4455-6677-8899-aabbccdd", 32) == 0);
    check_prefix(NAMING_CURATOR, CONTENDER_LOCK, 0, "_c_" OURS "-lock-");
    check_prefix(NAMING_CURATOR, CONTENDER_READ, 0, "_c_" OURS "-__READ__");
    check_prefix(NAMING_CURATOR, CONTENDER_WRITE, 0, "_c_" OURS "-__WRIT__");
    check_prefix(NAMING_CURATOR, CONTENDER_LATCH, 0, "_c_" OURS "-latch-");
    check_prefix(NAMING_CURATOR, CONTENDER_LEASE, 3, "_c_" OURS "-lease-");
    check_prefix(NAMING_KAZOO, CONTENDER_LOCK, 0, OURS_HEX "__lock__");
    check_prefix(NAMING_KAZOO, CONTENDER_READ, 0, OURS_HEX "__rlock__");
    check_prefix(NAMING_KAZOO, CONTENDER_LEASE, 3, "_c_" OURS "-lease-");
    check_prefix(NAMING_BARE, CONTENDER_LOCK, 0, "lock-");
    check_prefix(NAMING_BARE, CONTENDER_LATCH, 0, "lock-");
    check_prefix(NAMING_BARE, CONTENDER_READ, 0, "read-");
    check_prefix(NAMING_BARE, CONTENDER_LOCK, 3, "_c_" OURS "-lock-");
    zk.naming = NAMING_CURATOR;
}

static const struct test_case cases[] = {
    { "orders", orders },
    { "readers", readers },
    { "same_number", same_number },
    { "wraps", wraps },
    { "strangers", strangers },
    { "own", own },
    { "names", names },
    { "names_differ", names_differ },
    { "no_names", no_names },
    { "paths", paths },
    { "prefixes", prefixes },
};

int
main(int argc, char **argv)
{
    const struct test_case *found =
        find_case(argc, argv, cases, sizeof cases / sizeof *cases);
    if (!found)
        return 2;
    limit_time(30);
    found->run();
    return 0;
}
