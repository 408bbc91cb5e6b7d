/* SPDX-License-Identifier: MIT */
/* The layout advisory: the numbers of locks in the server, sessions that somebody ends, and
 * poolers. See sql.h. */
#include "sql.h"

#define ADVISORY "FROM pg_locks WHERE locktype = 'advisory'"

static dibs *
open_with(const char *parameters)
{
    char url[256];
    print_url(url, sizeof(url), engine.user, parameters);
    return open_url("%s", url);
}

static int
count_locks(const char *condition)
{
    return (int)sql_number(&one, DATABASE, "SELECT count(*) " ADVISORY " AND %s",
                           condition);
}

static int
count_sessions(void)
{
    return (int)sql_number(&one, DATABASE,
                           "SELECT count(*) FROM pg_stat_activity WHERE datname = "
                           "'" DATABASE "' AND pid <> pg_backend_pid()");
}

/* ---- numbers ---- */

/* another client with that line of SQL, which takes nothing, finds it taken */
static void
check_number(const char *map, const char *name, const char *arguments)
{
    char parameters[64];
    (void)snprintf(parameters, sizeof(parameters), "&map=%s", map);
    dibs *client = open_with(parameters);
    dibs_hold *hold = take(client, name, LONG_MS);
    CHECK_SAME(
        sql_number(&one, DATABASE, "SELECT pg_try_advisory_lock(%s)::int", arguments), 0);
    CHECK_SAME(count_locks("granted"), 1);
    give(hold);
    CHECK_SAME(
        sql_number(&one, DATABASE, "SELECT pg_try_advisory_lock(%s)::int", arguments), 1);
    dibs_close(client);
}

static void
test_numbers(void)
{
    start_one(NULL);
    unsetenv("WITH_ADVISORY_LOCK_PREFIX");
    check_number("dibs", "a name", "('x' || left(md5('a name'), 16))::bit(64)::bigint");
    check_number("dotnet", "orders", "-540334498, 1558183935");
    check_number("dotnet", "my-long-lock-name", "-6292990556957758089");
    check_number("rails", "orders", "1697644014, 0");
    check_number("rails-migration", "app_production", "4615154450383096620");
    check_number("tooz", "orders", "18, 197");
    check_number("raw", "42", "42");
    check_number("raw", "1,-2", "1, -2");
    dibs *client = open_with("&map=raw");
    GIVES(DIBS_EINVAL, try_take(client, "forty-two"));
    dibs_close(client);
}

/* Two names with one number (the same CRC-32) are one lock to the server: they exclude each
 * other, also for one client, because each hold has a session of its own. */
static void
test_collision(void)
{
    start_one(NULL);
    dibs *client = open_with("&map=rails"), *other = open_with("&map=rails");
    dibs_hold *hold = take(client, "plumless", LONG_MS);
    GIVES(DIBS_EBUSY, try_take(other, "buckeroo"));
    GIVES(DIBS_EBUSY, try_take(client, "buckeroo"));
    CHECK(dibs_held(hold));
    give(hold);
    OK(try_take(other, "buckeroo"));
    CHECK_SAME(count_locks("true"), 0);
    dibs_close(client);
    dibs_close(other);
}

/* ---- no room ---- */

/* A session of somebody else takes all that there is room for, and has it until there is a file:
 * the server has no room for another session that could end it. */
static void
fill_the_table(void *arg, int index)
{
    (void)index;
    sql_do(&one, DATABASE,
           "DO $$ BEGIN PERFORM (pg_stat_file('%s', true)).size; "
           "FOR n IN 1..1000000 LOOP PERFORM pg_advisory_lock(n); END LOOP; "
           "EXCEPTION WHEN out_of_memory THEN "
           "WHILE (pg_stat_file('%s', true)).size IS NULL LOOP PERFORM pg_sleep(0.05); "
           "END LOOP; END $$",
           (const char *)arg, (const char *)arg);
}

static void
make_file(const char *path)
{
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fclose(file) == 0);
}

/* The server has room for so many locks of all sessions, and no more: that is said, what is
 * held stays held, and when there is room again all is well. */
static void
test_table_full(void)
{
    char enough[96];
    start_one(NULL);
    dibs *client = open_with("");
    dibs_hold *hold = take(client, NAME, LONG_MS);
    give(take(client, "another", LONG_MS)); /* so that it has a connection */
    (void)snprintf(enough, sizeof(enough), "%s/enough", one.folder);
    gang *somebody = gang_start(1, fill_the_table, enough);
    EVENTUALLY(slowly(20000), try_take(client, "another") != DIBS_OK);
    GIVES(DIBS_EUNAVAIL, try_take(client, "another"));
    CHECK_SAYS("out of shared memory");
    CHECK(dibs_held(hold));
    make_file(enough);
    gang_join(somebody);
    EVENTUALLY(slowly(5000), try_take(client, "another") == DIBS_OK);
    CHECK(dibs_held(hold));
    give(hold);
    dibs_close(client);
}

/* ---- waiting ---- */

/* who waits is in the server's queue, and asks nothing meanwhile */
static void
test_waits_in_server(void)
{
    start_one(NULL);
    dibs *holder = open_with(""), *waiter = open_with("");
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_locks("NOT granted") == 1);
    CHECK_SAME(sql_number(&one, DATABASE,
                          "SELECT count(*) FROM pg_stat_activity "
                          "WHERE wait_event = 'advisory'"),
               1);
    give(hold);
    give(end_wait(wait, slowly(5000)));
    CHECK_SAME(count_locks("true"), 0);
    dibs_close(holder);
    dibs_close(waiter);
}

/* for each client one for its holds and one for all else */
#define SESSIONS 4

/* who gives up is out of the queue at once, and its connection serves the next */
static void
test_gives_up(void)
{
    start_one(NULL);
    dibs *holder = open_with(""), *waiter = open_with("");
    dibs_hold *hold = take(holder, NAME, LONG_MS), *none = NULL;
    for (int i = 0; i < 5; i++) {
        GIVES(DIBS_ETIMEDOUT, dibs_timedlock(&none, waiter, NAME, slowly(100), &oops));
        CHECK_SAME(count_locks("true"), 1);
    }
    EVENTUALLY(slowly(5000), count_sessions() <= SESSIONS);
    CHECK(dibs_held(hold));
    give(hold);
    dibs_close(holder);
    dibs_close(waiter);
}

/* an administrator ends the statement that waits: it waits again */
static void
test_cancelled(void)
{
    start_one(NULL);
    dibs *holder = open_with(""), *waiter = open_with("");
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    for (int i = 0; i < 3; i++) {
        EVENTUALLY(slowly(5000), count_locks("NOT granted") == 1);
        sql_do(&one, DATABASE,
               "SELECT pg_cancel_backend(pid) " ADVISORY " AND NOT granted");
    }
    EVENTUALLY(slowly(5000), count_locks("NOT granted") == 1);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    give(hold);
    give(end_wait(wait, slowly(5000)));
    dibs_close(holder);
    dibs_close(waiter);
}

/* ---- the end of a session ---- */

/* a hold whose session is over is known to be lost long before its lease ends */
static void
test_lost_at_once(void)
{
    start_one(NULL);
    dibs *client = open_with("");
    dibs_hold *hold = take(client, NAME, (uint32_t)slowly(60000));
    int64_t from = now_ms();
    sql_cut(&one);
    CHECK(is_lost(hold, slowly(2000)));
    printf("known after %lld ms\n", (long long)(now_ms() - from));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    give(take(client, NAME, LONG_MS));
    dibs_close(client);
}

/* a holder that cannot be reached: the server itself ends its session with its lease */
static void
test_cut_off(void)
{
    start_one(NULL);
    dibs *client = open_at(lines.ports[0]), *other = open_with("");
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    wires_hold(&lines, 0);
    dibs_hold *next =
        hand_over_after(hold, begin_wait(other, NAME, LEASE_MS), slowly(10000));
    CHECK(dibs_token(next) > 0);
    give(next);
    wires_flow(&lines, 0);
    dibs_close(client);
    dibs_close(other);
}

/* ---- poolers ---- */

static void
test_pooler(void)
{
    char url[256];
    if (!pgbouncer_present()) {
        printf("skipped: there is no PgBouncer\n");
        exit(EXIT_SKIPPED);
    }
    start_one(NULL);
    set.count = 1; /* so that it is ended too */
    pgbouncer_start(&set.servers[0], &one, NULL);
    (void)snprintf(url, sizeof(url), "postgres://%s127.0.0.1:%d/" DATABASE, engine.user,
                   set.servers[0].port);
    dibs *lease = open_url("%s", url);
    CHECK(strstr(dibs_notice(lease), "pooler") != NULL);
    give(take(lease, NAME, LONG_MS));
    dibs_close(lease);
    dibs *client = open_url("%s?layout=advisory&form=xact", url);
    dibs_hold *hold = take(client, NAME, LONG_MS);
    CHECK_SAME(count_locks("granted"), 1);
    give(hold);
    CHECK_SAME(count_locks("true"), 0);
    dibs_close(client);
    (void)strcat(url, "?layout=advisory");
    GIVES(DIBS_EUNSUPPORTED, try_open(&client, url, (uint32_t)slowly(5000)));
    CHECK_SAYS("form=xact");
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "numbers", test_numbers },
        { "collision", test_collision },
        { "table_full", test_table_full },
        { "waits_in_server", test_waits_in_server },
        { "gives_up", test_gives_up },
        { "cancelled", test_cancelled },
        { "lost_at_once", test_lost_at_once },
        { "cut_off", test_cut_off },
        { "pooler", test_pooler },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
