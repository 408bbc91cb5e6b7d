/* SPDX-License-Identifier: MIT */
/* Looking at locks, and breaking them, among what is not ours: other data under the prefix,
 * holders that are not dibs, and more of them than a transaction can end. */
#include "faults.h"

#define ID_LEN 36
#define LOCK_FLAGS "3304740253564472344"
#define SEMAPHORE_FLAGS "16210313421097356768"
#define MANY 70 /* a transaction has 64 ops at most */

static dibs *client;

static void
open_all(void)
{
    start_one(NULL);
    client = open_at(one.port);
}

/* a session as others make it */
static void
new_session(char out[ID_LEN + 1])
{
    char *answer =
        consul_do(&one, "PUT", "session/create",
                  "{\"Name\":\"a stranger\",\"TTL\":\"60s\",\"LockDelay\":\"0s\","
                  "\"Behavior\":\"delete\"}");
    const char *id = strchr(strstr(answer, "ID") + 3, '"');
    CHECK(id != NULL);
    (void)snprintf(out, ID_LEN + 1, "%.*s", ID_LEN, id + 1);
    free(answer);
}

static void
lock_entry(const char *key, const char *session, const char *flags)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "kv/%s?acquire=%s&flags=%s", key, session, flags);
    char *answer = consul_do(&one, "PUT", path, "");
    CHECK(strncmp(answer, "true", 4) == 0);
    free(answer);
}

static void
put_entry(const char *key, const char *flags, const char *value)
{
    char path[512];
    (void)snprintf(path, sizeof(path), "kv/%s?flags=%s", key, flags);
    free(consul_do(&one, "PUT", path, value));
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

/* neither data, nor what others leave behind, nor a semaphore that is none */
static void
test_other_data(void)
{
    dibs_report *report = NULL;
    open_all();
    put_entry(ROOT "settings", "0", "x");
    put_entry(ROOT "settings/deep/er", "0", "x");
    put_entry(ROOT "free/.lock", LOCK_FLAGS, "");
    put_entry(ROOT "odd/.lock", SEMAPHORE_FLAGS, "x");
    CHECK_SAME(listed(), 0);
    GIVES(DIBS_ECORRUPT, dibs_inspect(&report, client, "odd", &oops));
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    CHECK_SAME(listed(), 1);
    give(hold);
    CHECK_SAME(listed(), 0);
    dibs_close(client);
}

/* a holder that is not dibs is shown by its session; a break ends that hold and no other */
static void
test_stranger(void)
{
    size_t broken = 0;
    char session[ID_LEN + 1], holder[ID_LEN + 1];
    open_all();
    new_session(session);
    lock_entry(KEY, session, LOCK_FLAGS);
    lock_entry(ROOT "other/.lock", session, LOCK_FLAGS);
    dibs_report *report = look(NAME);
    CHECK_SAME(report->holder_count, 1);
    CHECK(strcmp(report->holders[0].app, "a stranger") == 0);
    CHECK(report->holders[0].host[0] != '\0');
    uint64_t token = report->holders[0].token;
    dibs_report_free(report);
    dibs_op *wait = begin_wait(client, NAME, LEASE_MS);
    CHECK(!has_ended(wait, slowly(200)));
    OK(dibs_break(&broken, client, NAME, NULL, &oops));
    CHECK_SAME(broken, 1);
    dibs_hold *hold = end_wait(wait, slowly(5000));
    CHECK(token > 0 && dibs_token(hold) > token);
    give(hold);
    consul_session_of(holder, sizeof(holder), &one, ROOT "other/.lock");
    CHECK(strcmp(holder, session) == 0);
    consul_end_session(&one, session);
    dibs_close(client);
    check_nothing_left(&one);
}

static void
test_many_holders(void)
{
    static char list[MANY * (ID_LEN + 16) + 64];
    char session[ID_LEN + 1], key[128], sessions[MANY][ID_LEN + 1];
    size_t broken = 0, len = 0;
    open_all();
    for (int i = 0; i < MANY; i++) {
        new_session(session);
        memcpy(sessions[i], session, sizeof(session));
        (void)snprintf(key, sizeof(key), ROOT NAME "/%s", session);
        lock_entry(key, session, SEMAPHORE_FLAGS);
        len += (size_t)snprintf(list + len, sizeof(list) - len, "%s\"%s\":true",
                                i > 0 ? "," : "{\"Limit\":99,\"Holders\":{", session);
    }
    (void)snprintf(list + len, sizeof(list) - len, "}}");
    put_entry(KEY, SEMAPHORE_FLAGS, list);
    dibs_report *report = look(NAME);
    CHECK(report->mode == DIBS_PERMITS && report->limit == 99);
    CHECK_SAME(report->holder_count, MANY);
    dibs_report_free(report);
    OK(dibs_break(&broken, client, NAME, NULL, &oops));
    CHECK_SAME(broken, MANY);
    CHECK_SAME(count_keys(&one), 0);
    for (int i = 0; i < MANY; i++) {
        consul_end_session(&one, sessions[i]);
    }
    dibs_close(client);
    check_nothing_left(&one);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "other_data", test_other_data },
        { "stranger", test_stranger },
        { "many_holders", test_many_holders },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
