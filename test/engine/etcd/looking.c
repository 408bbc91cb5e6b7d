/* SPDX-License-Identifier: MIT */
/* Looking at locks, and breaking them, among what is not ours: other data under the prefix,
 * contenders that dibs did not make, and more of them than come in one answer. */
#include "faults.h"

#include <inttypes.h>

#define TTL_S 60
#define PAGE 500 /* of look.c */

static dibs *client;
static int64_t lease;

static void
open_all(void)
{
    start_one(NULL);
    client = open_at(one.port);
    char *answer = etcd_do(&one, "/v3/lease/grant", "{\"TTL\":%d}", TTL_S);
    const char *id = strstr(answer, "\"ID\":\"");
    CHECK(id != NULL);
    lease = strtoll(id + strlen("\"ID\":\""), NULL, 10);
    free(answer);
}

static void
close_all(void)
{
    etcd_revoke(&one, lease);
    dibs_close(client);
}

/* a contender as others make it, NAME "/" `folder` and the lease, and what is behind it */
static void
contend(const char *name, const char *folder_of, const char *behind)
{
    char key[256];
    (void)snprintf(key, sizeof(key), ROOT "%s/%s%" PRIx64 "%s", name, folder_of,
                   (uint64_t)lease, behind);
    free(etcd_do(&one, "/v3/kv/put", "{\"key\":\"%s\",\"lease\":\"%" PRId64 "\"}",
                 etcd_key(key), lease));
}

static int
count_one(const dibs_report *report, void *arg)
{
    (void)report;
    ++*(int *)arg;
    return 0;
}

static int
listed(void)
{
    int count = 0;
    OK(dibs_list(client, NULL, count_one, &count, &oops));
    return count;
}

static dibs_report *
look(const char *name)
{
    dibs_report *report = NULL;
    OK(dibs_inspect(&report, client, name, &oops));
    return report;
}

static void
test_other_data(void)
{
    open_all();
    etcd_put(&one, ROOT "settings", "x");
    etcd_put(&one, ROOT "settings/deep/er", "x");
    etcd_put(&one, ROOT "settings/abc", "a name like a lease's, but it has none");
    contend("elsewhere", "not/a/contender/", "");
    contend("elsewhere", "", "-no-lease");
    CHECK_SAME(listed(), 0);
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    CHECK_SAME(listed(), 1);
    give(hold);
    CHECK_SAME(listed(), 0);
    close_all();
}

/* what stands in the way is shown, but what has no lease is nobody's hold */
static void
test_data_in_the_way(void)
{
    open_all();
    etcd_put(&one, ROOT NAME "/data", "x");
    GIVES(DIBS_EBUSY, try_take(client, NAME));
    dibs_report *report = look(NAME);
    CHECK_SAME(report->holder_count, 1);
    CHECK_SAME(report->holders[0].lease_left_ms, -1);
    dibs_report_free(report);
    GIVES(DIBS_ENOTHELD, dibs_break(NULL, client, NAME, NULL, &oops));
    CHECK_SAME(count_keys(&one), 1);
    etcd_delete(&one, ROOT NAME "/data");
    OK(try_take(client, NAME));
    close_all();
}

/* one that dibs did not make holds, waits, and is broken like any other */
static void
test_stranger(void)
{
    size_t broken = 0;
    open_all();
    contend(NAME, "", "");
    dibs_op *wait = begin_wait(client, NAME, LEASE_MS);
    EVENTUALLY(slowly(5000), count_keys(&one) == 2);
    dibs_report *report = look(NAME);
    CHECK(report->holder_count == 1 && report->waiter_count == 1);
    CHECK_WITHIN(report->holders[0].lease_left_ms, 1, TTL_S * 1000);
    CHECK(report->holders[0].app[0] == '\0' && report->waiters[0].app[0] != '\0');
    uint64_t token = report->holders[0].token;
    dibs_report_free(report);
    OK(dibs_break(&broken, client, NAME, NULL, &oops));
    CHECK_SAME(broken, 1);
    dibs_hold *hold = end_wait(wait, slowly(5000));
    CHECK(token > 0 && dibs_token(hold) > token);
    give(hold);
    close_all();
}

static void
test_many_locks(void)
{
    char name[32];
    open_all();
    for (int i = 0; i < PAGE + 1; i++) {
        (void)snprintf(name, sizeof(name), "many %d", i);
        contend(name, "", "");
    }
    CHECK_SAME(listed(), PAGE + 1);
    close_all();
}

/* a line that goes over the end of a page, and a break that is several transactions */
static void
test_many_sharers(void)
{
    size_t broken = 0;
    char behind[16];
    open_all();
    for (int i = 0; i < PAGE + 1; i++) {
        (void)snprintf(behind, sizeof(behind), ".%d", i);
        contend(NAME, "read/", behind);
    }
    contend(NAME, "write/", "");
    CHECK_SAME(listed(), 1);
    dibs_report *report = look(NAME);
    CHECK(report->mode == DIBS_SHARED && report->waiter_count == 1);
    CHECK_SAME(report->holder_count, PAGE + 1);
    dibs_report_free(report);
    OK(dibs_break(&broken, client, NAME, NULL, &oops));
    CHECK_SAME(broken, PAGE + 1);
    report = look(NAME);
    CHECK(report->mode == DIBS_EXCLUSIVE && report->holder_count == 1);
    dibs_report_free(report);
    close_all();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "other_data", test_other_data },
        { "data_in_the_way", test_data_in_the_way },
        { "stranger", test_stranger },
        { "many_locks", test_many_locks },
        { "many_sharers", test_many_sharers },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
