/* SPDX-License-Identifier: MIT */
/* What is in the tables of the layouts lease and unique, and what others put there. See
 * sql.h. */
#include "sql.h"

#define OLD 1500

static int
count_rows(const char *where)
{
    return (int)sql_number(&one, DATABASE, "SELECT count(*) FROM %s WHERE %s",
                           sql_is_line() ? "dibs_locks" : "dibs_unique", where);
}

/* those that old_rows and old_unique add */
#define IS_OLD "until = 1"

#define CLIENTS 60
#define SWEEP_LIMIT_MS 60000

/* Rows that are not used any more go when somebody passes; those in use stay. When a client
 * looks for the first time is a matter of chance, some time within its first five minutes: of
 * so many, some do so soon. */
static void
test_swept(void)
{
    char statement[512];
    dibs *clients[CLIENTS];
    const char *old_rows = sql_is_line() ? database.old_rows : database.old_unique;
    start_one(NULL);
    for (int i = 0; i < CLIENTS; i++) {
        clients[i] = open_at(one.port);
    }
    dibs_hold *hold = take(clients[0], NAME, LONG_MS);
    give(take(clients[0], "recent", LEASE_MS));
    (void)snprintf(statement, sizeof(statement), old_rows, 1, OLD);
    sql_do(&one, DATABASE, "%s", statement);
    CHECK_SAME(count_rows(IS_OLD), OLD);
    int64_t until = now_ms() + SWEEP_LIMIT_MS;
    while (count_rows(IS_OLD) > 0) {
        CHECK(now_ms() < until);
        for (int i = 0; i < CLIENTS; i++) {
            give(take(clients[i], "recent", LEASE_MS));
        }
    }
    CHECK(dibs_held(hold));
    CHECK_SAME(count_rows(database.is_name), 1);
    give(hold);
    for (int i = 0; i < CLIENTS; i++) {
        dibs_close(clients[i]);
    }
    EVENTUALLY(slowly(5000), sql_count_clients(&one) == 0);
    CHECK_SAME(sql_count_locks(&one, DATABASE), 0);
}

/* what nobody of us has written is not touched, and told of */
static void
test_foreign(void)
{
    start_one(NULL);
    dibs *client = open_at(one.port);
    give(take(client, NAME, LEASE_MS));
    sql_do(&one, DATABASE, "UPDATE dibs_locks SET state = 'mine!' WHERE %s",
           database.is_name);
    GIVES(DIBS_ECORRUPT, try_take(client, NAME));
    printf("%s\n", oops.text);
    CHECK_SAYS(NAME);
    CHECK_SAME(count_rows("state = 'mine!'"), 1);
    sql_do(&one, DATABASE, "UPDATE dibs_locks SET state = '' WHERE %s", database.is_name);
    OK(try_take(client, NAME));
    dibs_close(client);
}

/* An administrator deletes the row of a hold: the holder is told when it renews; the next
 * one has a larger token all the same. */
static void
test_deleted(void)
{
    start_one(NULL);
    dibs *client = open_at(one.port), *other = open_at(one.port);
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    sql_do(&one, DATABASE, "DELETE FROM dibs_locks WHERE %s", database.is_name);
    CHECK(is_lost(hold, LEASE_MS));
    dibs_hold *next = take(other, NAME, LEASE_MS);
    CHECK(dibs_token(next) > dibs_token(hold));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    CHECK(dibs_held(next));
    give(next);
    dibs_close(client);
    dibs_close(other);
    check_nothing_left(&one);
}

/* the same to those who wait: they come again */
static void
test_deleted_waiting(void)
{
    start_one(NULL);
    dibs *client = open_at(one.port), *other = open_at(one.port);
    dibs_hold *hold = take(client, NAME, LONG_MS);
    dibs_op *wait = begin_wait(other, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_keys(&one) == line_keys(1));
    sql_do(&one, DATABASE, "DELETE FROM dibs_locks WHERE %s", database.is_name);
    give(end_wait(wait, slowly(12000)));
    CHECK(is_lost(hold, LONG_MS));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    dibs_close(client);
    dibs_close(other);
    check_nothing_left(&one);
}

/* somebody has dropped the tables: they are made again */
static void
test_dropped(void)
{
    start_one(NULL);
    dibs *client = open_at(one.port);
    give(take(client, NAME, LEASE_MS));
    sql_do(&one, DATABASE, "DROP TABLE dibs_locks");
    give(take(client, NAME, LEASE_MS));
    dibs_close(client);
    check_nothing_left(&one);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "swept", test_swept },     { "foreign", test_foreign },
        { "deleted", test_deleted }, { "deleted_waiting", test_deleted_waiting },
        { "dropped", test_dropped }, { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
