/* SPDX-License-Identifier: MIT */
/* Who may use what, and in which sessions holds live. See faults.h. */
#include "faults.h"

#define NAME "access"

static dibs *
open_as(const char *user, const char *path, const char *more)
{
    return open_url("zk://%s127.0.0.1:%d%s?layout=%s&tick=%dms%s", user, one.port, path,
                    layout, ZOOKEEPER_TICK_MS, more);
}

/* who has the password gets in, and nobody else */
static void
test_digest(void)
{
    start_one(NULL);
    dibs *first = open_as("app:secret@", ROOT, ""), *same, *wrong, *nobody;
    same = open_as("app:secret@", ROOT, "");
    wrong = open_as("app:guess@", ROOT, "");
    nobody = open_as("", ROOT, "");
    dibs_hold *hold = take(first, NAME, LEASE_MS);
    GIVES(DIBS_EBUSY, try_take(same, NAME));
    GIVES(DIBS_EDENIED, try_take(wrong, NAME));
    CHECK_SAYS(NAME);
    GIVES(DIBS_EDENIED, try_take(nobody, NAME));
    give(hold);
    OK(try_take(same, NAME));
    GIVES(DIBS_EDENIED, try_take(nobody, NAME));
    GIVES(DIBS_EDENIED, try_take(nobody, "another"));
    if (strstr(oops.text, "secret") != NULL || strstr(oops.text, "guess") != NULL) {
        FAIL("'%s' has a password in it", oops.text);
    }
    dibs_close(first);
    dibs_close(same);
    dibs_close(wrong);
    dibs_close(nobody);
}

/* a password does not keep others out, if that is what is asked for */
static void
test_open_to_all(void)
{
    start_one(NULL);
    dibs *user = open_as("app:secret@", ROOT, "&acl=open");
    dibs *nobody = open_as("", ROOT, "");
    dibs_hold *hold = take(user, NAME, LEASE_MS);
    GIVES(DIBS_EBUSY, try_take(nobody, NAME));
    give(hold);
    hold = take(nobody, NAME, LEASE_MS);
    GIVES(DIBS_EBUSY, try_take(user, NAME));
    give(hold);
    dibs_close(user);
    dibs_close(nobody);
}

static void
test_missing_root(void)
{
    start_one(NULL);
    dibs *deep = open_as("", "/not/there/at/all", ""), *top = open_as("", "/", "");
    dibs_hold *hold = take(deep, NAME, LEASE_MS);
    CHECK_SAME(tree_count(&one, "/not/there/at/all"), 1);
    dibs_hold *other = take(top, NAME, LEASE_MS);
    CHECK_SAME(tree_count(&one, "/"), 2);
    give(hold);
    give(other);
    CHECK_SAME(tree_count(&one, "/"), 0);
    dibs_close(deep);
    dibs_close(top);
}

/* a hold lives in a session that fits its lease */
static void
test_leases_apart(void)
{
    start_one(NULL);
    dibs *client = open_at(one.port);
    dibs_hold *brief = take(client, "brief", LEASE_MS);
    dibs_hold *same = take(client, "same", LEASE_MS);
    dibs_hold *lasting = take(client, "lasting", 20 * LEASE_MS);
    CHECK(owner_of(&one, "brief") == owner_of(&one, "same"));
    CHECK(owner_of(&one, "brief") != owner_of(&one, "lasting"));
    give(brief);
    give(same);
    give(lasting);
    dibs_close(client);
}

static void
test_leases_together(void)
{
    start_one(NULL);
    dibs *client = open_as("", ROOT, "&session=60s");
    dibs_hold *brief = take(client, "brief", LEASE_MS);
    dibs_hold *lasting = take(client, "lasting", 8 * LEASE_MS);
    CHECK(owner_of(&one, "brief") == owner_of(&one, "lasting"));
    sleep_ms(2 * LEASE_MS);
    CHECK(dibs_held(brief) && dibs_held(lasting));
    give(brief);
    give(lasting);
    dibs_close(client);
}

/* what the servers allow is too short for the lease: that is said, and what to do */
static void
test_too_short(void)
{
    server_options options = { .config = "maxSessionTimeout=2000" };
    start_one(&options);
    dibs *client = open_at(one.port);
    dibs_hold *hold = take(client, NAME, 1000);
    dibs_request request = want("long", 60000);
    dibs_hold *none = NULL;
    GIVES(DIBS_EINVAL, dibs_acquire(&none, client, &request, &oops));
    CHECK_SAYS("maxSessionTimeout");
    give(hold);
    dibs_close(client);
}

/* a server that has lost the others and still lets people read is no server for locks */
static void
test_read_only(void)
{
    const char *const more[] = { "-Dreadonlymode.enabled=true", NULL };
    server_options options = { .more = more };
    dibs *client = NULL;
    char url[128];
    start_three(&options);
    server_kill(&set.servers[0]);
    server_kill(&set.servers[1]);
    EVENTUALLY(slowly(20000), zookeeper_number(&set.servers[2], "isro", "ro") == 0);
    (void)snprintf(url, sizeof(url), "zk://127.0.0.1:%d" ROOT "?layout=%s",
                   set.servers[2].port, layout);
    GIVES(DIBS_EUNAVAIL, try_open(&client, url, (uint32_t)slowly(500)));
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "digest", test_digest },
        { "open_to_all", test_open_to_all },
        { "missing_root", test_missing_root },
        { "leases_apart", test_leases_apart },
        { "leases_together", test_leases_together },
        { "too_short", test_too_short },
        { "read_only", test_read_only },
        { NULL, NULL },
    };
    return fault_main(argc, argv, cases);
}
