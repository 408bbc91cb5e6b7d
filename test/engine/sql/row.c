/* SPDX-License-Identifier: MIT */
/*
 * The layout row: what a plain session sees of it, and rows of tables that are not ours. That
 * the connection is what holds a lock is in bound.c. See sql.h.
 *
 * Parts: one row; waiting; rows that come and go; other tables.
 */
#include "sql.h"

#define OTHER "other-job"
/* a session of somebody else has its row for so long */
#define SESSION_S "1"

static dibs *holder, *waiter;

static int
is_postgres(void)
{
    return strcmp(engine.scheme, "postgres") == 0;
}

static dibs *
open_with(const char *parameters)
{
    char url[256];
    print_url(url, sizeof(url), engine.user, parameters);
    return open_url("%s", url);
}

static void
begin(const char *parameters)
{
    start_one(NULL);
    holder = open_with(parameters);
    waiter = open_with(parameters);
}

/* MariaDB looks at its transactions anew only if nobody has asked for them for 0.1 s. */
static void
let_it_look(void)
{
    sleep_ms(is_postgres() ? 0 : 150);
}

/* who has a transaction, and who waits in one */
static int
count_open(void)
{
    let_it_look();
    return (int)sql_number(
        &one, DATABASE, "SELECT count(*) FROM %s",
        is_postgres() ? "pg_stat_activity WHERE xact_start IS NOT NULL AND backend_type "
                        "= 'client backend' AND pid <> pg_backend_pid()"
                      : "information_schema.innodb_trx");
}

static int
count_waiting(void)
{
    let_it_look();
    return (int)sql_number(&one, DATABASE, "SELECT count(*) FROM %s",
                           is_postgres()
                               ? "pg_stat_activity WHERE wait_event_type = 'Lock'"
                               : "information_schema.innodb_trx WHERE trx_state = "
                                 "'LOCK WAIT'");
}

static void
end(void)
{
    EVENTUALLY(slowly(5000), count_open() == 0);
    dibs_close(holder);
    dibs_close(waiter);
    EVENTUALLY(slowly(5000), sql_count_clients(&one) == 0);
}

/* ---- one row ---- */

/* The lock of a name is its row, and no other: for dibs, and for others. */
static void
test_apart(void)
{
    begin("");
    give(take(holder, NAME, LONG_MS));
    give(take(holder, OTHER, LONG_MS));
    dibs_hold *hold = take(holder, NAME, LONG_MS), *other = take(waiter, OTHER, LONG_MS);
    GIVES(DIBS_EBUSY, try_take(waiter, NAME));
    GIVES(DIBS_EBUSY, try_take(holder, OTHER));
    CHECK_SAME(count_open(), 2);
    CHECK(sql_ask(&one, DATABASE, "SELECT 1 FROM dibs_rows WHERE %s FOR UPDATE NOWAIT",
                  database.is_name) == NULL);
    give(hold);
    sql_do(&one, DATABASE, "SELECT 1 FROM dibs_rows WHERE %s FOR UPDATE NOWAIT",
           database.is_name);
    CHECK(dibs_held(other));
    give(other);
    end();
}

/* any bytes are a name, and no two names are one */
static void
test_names(void)
{
    static const char *const names[] = { "it's", "a\"b",     "\\x41",    "A",
                                         "a",    "a ",       "%s",       "$1",
                                         "?1",   "\xff\xfe", "\xc3\xa9", "e\xcc\x81" };
    enum { COUNT = sizeof(names) / sizeof(names[0]) };
    dibs_hold *holds[COUNT], *last;
    char longest[DIBS_NAME_MAX + 1];
    memset(longest, '\'', DIBS_NAME_MAX);
    longest[DIBS_NAME_MAX] = '\0';
    begin("");
    for (int i = 0; i < COUNT; i++) {
        holds[i] = take(holder, names[i], LONG_MS);
    }
    last = take(holder, longest, LONG_MS);
    GIVES(DIBS_EBUSY, try_take(waiter, longest));
    CHECK_SAME(sql_number(&one, DATABASE, "SELECT count(*) FROM dibs_rows"), COUNT + 1);
    for (int i = 0; i < COUNT; i++) {
        GIVES(DIBS_EBUSY, try_take(waiter, names[i]));
        give(holds[i]);
        OK(try_take(waiter, names[i]));
    }
    give(last);
    end();
}

/* ---- waiting ---- */

/* who waits is in the server's queue, and asks nothing meanwhile */
static void
test_waits_in_server(void)
{
    begin("");
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_waiting() == 1);
    CHECK(!has_ended(wait, 0));
    int64_t from = now_ms();
    give(hold);
    hold = end_wait(wait, slowly(1000));
    printf("has it after %lld ms\n", (long long)(now_ms() - from));
    give(hold);
    end();
}

/* who gives up is out of the queue at once, and no transaction of it is left */
static void
test_gives_up(void)
{
    begin("");
    dibs_hold *hold = take(holder, NAME, LONG_MS), *none = NULL;
    for (int i = 0; i < 3; i++) {
        GIVES(DIBS_ETIMEDOUT, dibs_timedlock(&none, waiter, NAME, slowly(100), &oops));
        EVENTUALLY(slowly(2000), count_waiting() == 0 && count_open() == 1);
    }
    CHECK(dibs_held(hold));
    give(hold);
    end();
}

static void
cancel(void)
{
    if (is_postgres()) {
        sql_do(&one, DATABASE,
               "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE "
               "wait_event_type = 'Lock'");
        return;
    }
    sql_do(&one, DATABASE, "KILL QUERY %d",
           (int)sql_number(&one, DATABASE,
                           "SELECT trx_mysql_thread_id FROM information_schema."
                           "innodb_trx WHERE trx_state = 'LOCK WAIT'"));
}

/* an administrator ends the statement that waits: it waits again */
static void
test_cancelled(void)
{
    begin("");
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    for (int i = 0; i < 3; i++) {
        EVENTUALLY(slowly(5000), count_waiting() == 1);
        cancel();
        sleep_ms(slowly(150));
    }
    EVENTUALLY(slowly(5000), count_waiting() == 1);
    CHECK(dibs_held(hold) && !has_ended(wait, 0));
    give(hold);
    give(end_wait(wait, slowly(5000)));
    end();
}

/* the server ends the waiting because of a deadlock that somebody makes: it waits again */
static void
lock_all(void *arg, int index)
{
    (void)arg, (void)index;
    sql_do(&one, DATABASE,
           "BEGIN; SELECT 1 FROM dibs_rows WHERE %s FOR UPDATE; SELECT pg_sleep(1); "
           "LOCK TABLE dibs_rows IN EXCLUSIVE MODE; COMMIT",
           database.is_name);
}

static void
test_deadlock(void)
{
    static const server_options soon = { .config = "deadlock_timeout = 3s" };
    start_one(&soon);
    holder = open_with("");
    waiter = open_with("");
    give(take(holder, NAME, LONG_MS));
    gang *session = gang_start(1, lock_all, NULL);
    EVENTUALLY(slowly(5000), count_open() == 1);
    dibs_hold *hold = end_wait(begin_wait(waiter, NAME, LONG_MS), slowly(15000));
    gang_join(session);
    EVENTUALLY(slowly(5000), sql_number(&one, DATABASE,
                                        "SELECT deadlocks FROM pg_stat_database WHERE "
                                        "datname = current_database()") == 1);
    give(hold);
    end();
}

/* ---- rows that come and go ---- */

/* tries that fail, waits that end, names that are new: none leaves a transaction open */
static void
test_nothing_open(void)
{
    dibs_hold *none = NULL;
    begin("");
    for (int i = 0; i < 3; i++) {
        char name[32];
        (void)snprintf(name, sizeof(name), "new-%d", i);
        dibs_hold *hold = take(holder, name, LONG_MS);
        GIVES(DIBS_EBUSY, try_take(waiter, name));
        EVENTUALLY(slowly(2000), count_open() == 1);
        GIVES(DIBS_ETIMEDOUT, dibs_timedlock(&none, waiter, name, slowly(100), &oops));
        give(hold);
        EVENTUALLY(slowly(2000), count_open() == 0);
    }
    end();
}

static void
delete_row(void *arg, int index)
{
    (void)arg, (void)index;
    sql_do(&one, DATABASE, "DELETE FROM dibs_rows");
}

/* somebody tidies up while one has the lock and one waits: the row is there again */
static void
test_deleted(void)
{
    begin("");
    dibs_hold *hold = take(holder, NAME, LONG_MS);
    gang *tidy = gang_start(1, delete_row, NULL);
    EVENTUALLY(slowly(5000), count_waiting() == 1);
    dibs_op *wait = begin_wait(waiter, NAME, LONG_MS);
    EVENTUALLY(slowly(5000), count_waiting() == 2);
    uint64_t token = dibs_token(hold);
    give(hold);
    gang_join(tidy);
    hold = end_wait(wait, slowly(5000));
    CHECK(dibs_token(hold) > token);
    GIVES(DIBS_EBUSY, try_take(holder, NAME));
    give(hold);
    end();
}

/* ---- other tables ---- */

#define ITEMS "&table=items&column=id"

static void
make_items(const char *key)
{
    sql_do(&one, DATABASE, "CREATE TABLE items (id %s, stock int)%s", key,
           is_postgres() ? "" : " ENGINE = InnoDB");
    sql_do(&one, DATABASE, "INSERT INTO items VALUES (17, 5), (18, 5)");
}

static void
buy(void *arg, int index)
{
    int64_t *ended_ms = arg;
    (void)index;
    sql_do(&one, DATABASE,
           "BEGIN; SELECT 1 FROM items WHERE id = 17 FOR UPDATE; SELECT %s(" SESSION_S
           "); UPDATE items SET stock = stock - 1 WHERE id = 17; COMMIT",
           is_postgres() ? "pg_sleep" : "SLEEP");
    *ended_ms = now_ms();
}

/* A row of the user's own, which a transaction of somebody else has: dibs waits for that,
 * and while dibs has it nobody changes it. */
static void
test_own_table(void)
{
    int64_t ended_ms = 0;
    start_one(NULL);
    make_items("int PRIMARY KEY");
    holder = open_with(ITEMS);
    waiter = open_with(ITEMS);
    gang *buyer = gang_start(1, buy, &ended_ms);
    EVENTUALLY(slowly(5000), count_open() == 1);
    GIVES(DIBS_EBUSY, try_take(holder, "17"));
    give(take(holder, "18", LONG_MS));
    dibs_hold *hold = take(holder, "17", LONG_MS);
    int64_t taken_ms = now_ms();
    CHECK(sql_ask(&one, DATABASE,
                  is_postgres() ? "SET lock_timeout = 200; UPDATE items SET stock = 0 "
                                  "WHERE id = 17"
                                : "SET innodb_lock_wait_timeout = 1; UPDATE items SET "
                                  "stock = 0 WHERE id = 17") == NULL);
    sql_do(&one, DATABASE, "UPDATE items SET stock = 9 WHERE id = 18");
    gang_join(buyer);
    CHECK(ended_ms <= taken_ms + slowly(100));
    give(hold);
    CHECK_SAME(sql_number(&one, DATABASE, "SELECT stock FROM items WHERE id = 17"), 4);
    end();
}

/* rows of others are not made */
static void
test_without_row(void)
{
    start_one(NULL);
    make_items("int PRIMARY KEY");
    holder = open_with(ITEMS);
    waiter = open_with(ITEMS);
    GIVES(DIBS_EINVAL, try_take(holder, "19"));
    CHECK_SAYS("items");
    CHECK_SAME(sql_number(&one, DATABASE, "SELECT count(*) FROM items"), 2);
    give(take(holder, "18", LONG_MS));
    end();
}

static int
try_items(const char *parameters)
{
    char url[256];
    dibs *client = NULL;
    print_url(url, sizeof(url), engine.user, parameters);
    int code = try_open(&client, url, (uint32_t)slowly(2000));
    if (code == DIBS_OK) {
        dibs_close(client);
    }
    return code;
}

/* what would lock more than one row is refused, and what to do is said */
static void
test_without_index(void)
{
    start_one(NULL);
    GIVES(DIBS_ECONFIG, try_items(ITEMS));
    CHECK_SAYS("there is no table items");
    GIVES(DIBS_ECONFIG, try_items("&table=items"));
    GIVES(DIBS_ECONFIG, try_items("&table=items%3B&column=id"));
    make_items("int");
    GIVES(DIBS_ECONFIG, try_items("&table=items&column=nothing"));
    GIVES(DIBS_ECONFIG, try_items(ITEMS));
    CHECK_SAYS("CREATE UNIQUE INDEX");
    sql_do(&one, DATABASE, "CREATE INDEX a_few ON items (id)");
    GIVES(DIBS_ECONFIG, try_items(ITEMS));
    sql_do(&one, DATABASE, "CREATE UNIQUE INDEX both_of_them ON items (id, stock)");
    GIVES(DIBS_ECONFIG, try_items(ITEMS));
    sql_do(&one, DATABASE, "CREATE UNIQUE INDEX dibs_row ON items (id)");
    OK(try_items(ITEMS));
    OK(try_items(is_postgres() ? "&table=public.items&column=ID"
                               : "&table=" DATABASE ".items&column=ID"));
}

/* Aria and MyISAM do not lock rows at all */
static void
test_other_engine(void)
{
    start_one(NULL);
    sql_do(&one, DATABASE, "CREATE TABLE items (id int PRIMARY KEY) ENGINE = Aria");
    GIVES(DIBS_ECONFIG, try_items(ITEMS));
    CHECK_SAYS("InnoDB");
}

/* a name that the column cannot have would make it look at all rows */
static void
test_narrow(void)
{
    start_one(NULL);
    sql_do(&one, DATABASE,
           "CREATE TABLE items (id varchar(20) CHARACTER SET latin1 PRIMARY KEY)");
    sql_do(&one, DATABASE, "INSERT INTO items VALUES ('plain'), ('others')");
    holder = open_with(ITEMS);
    waiter = open_with(ITEMS);
    dibs_hold *hold = take(holder, "plain", LONG_MS);
    give(take(waiter, "others", LONG_MS));
    GIVES(DIBS_EINVAL, try_take(waiter, "\xE2\x98\x83"));
    GIVES(DIBS_EINVAL, try_take(waiter, "\xFF"));
    give(hold);
    end();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "apart", test_apart },
        { "names", test_names },
        { "waits_in_server", test_waits_in_server },
        { "gives_up", test_gives_up },
        { "cancelled", test_cancelled },
        { "deadlock", test_deadlock },
        { "nothing_open", test_nothing_open },
        { "deleted", test_deleted },
        { "own_table", test_own_table },
        { "without_row", test_without_row },
        { "without_index", test_without_index },
        { "other_engine", test_other_engine },
        { "narrow", test_narrow },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
