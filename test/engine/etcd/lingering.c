/* SPDX-License-Identifier: MIT */
/* Watches that stay for a moment when nobody waits there: they are found again, they are not
 * many, and they go. The server counts them. See faults.h. */
#include "faults.h"

/* a wake-up by a watch; nobody who only looks now and then is as fast */
#define AT_ONCE slowly(250)
/* what stays at most, and what is being ended */
#define STAY_MOST 16
#define AT_WORK 8

static dibs *holder, *waiter;

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

/* ---- what the server counts ---- */

static int64_t
metric(const char *name)
{
    char line[128];
    char *text = etcd_do(&one, "/metrics", "%s", "");
    (void)snprintf(line, sizeof(line), "\n%s", name);
    const char *at = strstr(text, line);
    const char *value = at ? strchr(at + 1, ' ') : NULL;
    CHECK(value != NULL);
    int64_t count = strtoll(value, NULL, 10);
    free(text);
    return count;
}

static int64_t
watchers(void)
{
    return metric("etcd_debugging_mvcc_watcher_total");
}

/* that ask for watches, or end them */
static int64_t
messages(void)
{
    return metric("grpc_server_msg_received_total{grpc_method=\"Watch\","
                  "grpc_service=\"etcdserverpb.Watch\"");
}

/* ---- waiting ---- */

static int
count_of(const char *name)
{
    char root[64];
    (void)snprintf(root, sizeof(root), ROOT "%s/", name);
    return etcd_count_keys(&one, root);
}

/* the one waits until the other gives it back, and is told so */
static void
one_turn(const char *name)
{
    dibs_hold *hold = take(holder, name, LONG_MS);
    dibs_op *wait = begin_wait(waiter, name, LONG_MS);
    EVENTUALLY(slowly(5000), count_of(name) == 2);
    CHECK(!has_ended(wait, slowly(50)));
    int64_t from = now_ms();
    give(hold);
    hold = end_wait(wait, slowly(5000));
    CHECK_WITHIN(now_ms() - from, 0, AT_ONCE);
    give(hold);
}

static void
test_found_again(void)
{
    enum { TURNS = 10, EACH = 4 /* two are made and ended */ };
    open_both();
    one_turn(NAME);
    int64_t before = messages();
    for (int i = 0; i < TURNS; i++)
        one_turn(NAME);
    CHECK_WITHIN(messages() - before, 0, TURNS * EACH / 2);
    close_both();
}

/* many that waited at the same time have ended: without a limit all would stay */
static void
test_not_many(void)
{
    enum { NAMES = 2 * STAY_MOST };
    dibs_hold *holds[NAMES];
    dibs_op *waits[NAMES];
    char name[32];
    open_both();
    for (int i = 0; i < NAMES; i++) {
        (void)snprintf(name, sizeof(name), NAME "%d", i);
        holds[i] = take(holder, name, LONG_MS);
        waits[i] = begin_wait(waiter, name, LONG_MS);
    }
    EVENTUALLY(slowly(5000), watchers() == 2 * NAMES);
    for (int i = 0; i < NAMES; i++)
        give(holds[i]);
    for (int i = 0; i < NAMES; i++)
        holds[i] = end_wait(waits[i], slowly(5000));
    CHECK_WITHIN(watchers(), 0, STAY_MOST + AT_WORK);
    for (int i = 0; i < NAMES; i++)
        give(holds[i]);
    close_both();
}

/* also while the client stays, and does nothing */
static void
test_gone_soon(void)
{
    open_both();
    for (int i = 0; i < 2; i++) {
        one_turn(NAME);
        CHECK_WITHIN(watchers(), 1, 2);
        EVENTUALLY(slowly(5000), watchers() == 0);
    }
    close_both();
}

/* those of a connection that is lost are of no use */
static void
test_cut(void)
{
    open_both();
    one_turn(NAME);
    wires_cut(&lines, 0);
    EVENTUALLY(slowly(5000), watchers() == 0);
    one_turn(NAME);
    close_both();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "found_again", test_found_again },
        { "not_many", test_not_many },
        { "gone_soon", test_gone_soon },
        { "cut", test_cut },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
