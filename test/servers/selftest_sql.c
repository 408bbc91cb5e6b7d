/* SPDX-License-Identifier: MIT */
/* Tests of PostgreSQL, PgBouncer and MariaDB as servers, so that a test that uses them can
 * rely on what it is told: `test_sql_servers CASE`. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <sys/stat.h>
#include <time.h>

#include "cases.h"
#include "parts.h"

static server one, front;
static server_set pair;
static wires between;
static char folder[64];

static void
clean_up(void)
{
    server_stop(&front);
    server_stop(&one);
    set_stop(&pair);
    wires_stop(&between);
    if (folder[0] != '\0') {
        remove_tree(folder);
    }
}

/* runs a command and says whether it worked */
static int
works(const char *const *list)
{
    struct words words;
    int status;
    memset(&words, 0, sizeof(words));
    word_list(&words, list);
    free(run_words(&words, &status));
    return status == 0;
}
#define WORKS(...) works((const char *const[]){ __VA_ARGS__, NULL })

/* a client that is there for a while */
static pid_t
begin_client(const server *of, const char *sleep)
{
    struct words words;
    memset(&words, 0, sizeof(words));
    sql_words(&words, of, NULL, sleep);
    pid_t pid = spawn_program(words.list, "/dev/null");
    for (int64_t until = now_ms() + slowly(5000); sql_count_clients(of) < 1;) {
        CHECK(now_ms() < until);
    }
    return pid;
}

/* what is told is there after kill -9; clients are counted and can be cut; it stands still */
static void
check_database(const char *sleep)
{
    sql_do(&one, NULL, "CREATE DATABASE other");
    sql_do(&one, "other", "CREATE TABLE a (b int)");
    sql_do(&one, "other", "INSERT INTO a VALUES (1), (2)");
    CHECK(sql_ask(&one, "other", "SELECT nothing") == NULL);
    CHECK_SAME(sql_count_locks(&one, "other"), 0);
    server_kill(&one);
    CHECK(sql_ask(&one, NULL, "SELECT 1") == NULL);
    server_restart(&one);
    CHECK_SAME(sql_number(&one, "other", "SELECT count(*) FROM a"), 2);

    sql_drop(&one, "other");
    CHECK(sql_ask(&one, "other", "SELECT 1") == NULL);

    CHECK_SAME(sql_count_clients(&one), 0);
    pid_t client = begin_client(&one, sleep);
    sql_cut(&one);
    CHECK(reap(client, slowly(5000)) != 0);
    CHECK_SAME(sql_count_clients(&one), 0);
}

/* a statement that need not end: whether it did, in a moment */
static int
is_done_soon(const server *of, const char *text)
{
    char limit[16];
    struct words words;
    memset(&words, 0, sizeof(words));
    (void)snprintf(limit, sizeof(limit), "%d", slow_factor());
    word_pair(&words, "timeout", limit);
    sql_words(&words, of, NULL, text);
    return works(words.list);
}

static void
check_stands_still(void)
{
    CHECK(is_done_soon(&one, "SELECT 1"));
    server_pause(&one);
    CHECK(!is_done_soon(&one, "SELECT 1"));
    server_resume(&one);
    CHECK(is_done_soon(&one, "SELECT 1"));
}

static void
check_stops(void)
{
    struct stat info;
    char kept[64];
    memcpy(kept, one.folder, sizeof(kept));
    server_stop(&one);
    CHECK(stat(kept, &info) != 0 && errno == ENOENT);
    server_stop(&one);
}

/* off from ours by so much */
static void
check_clock(int64_t off_ms)
{
    int64_t seconds = sql_number(&one, NULL, "SELECT %s",
                                 one.kind == KIND_MARIADB
                                     ? "floor(unix_timestamp(sysdate(6)))"
                                     : "floor(extract(epoch from clock_timestamp()))");
    CHECK_WITHIN(seconds - time(NULL), off_ms / 1000 - slow_factor(), off_ms / 1000 + 1);
}

static void
check_clocks(void)
{
    check_clock(0);
    server_set_clock(&one, 3600 * 1000);
    check_clock(3600 * 1000);
    server_set_clock(&one, -3600 * 1000);
    check_clock(-3600 * 1000);
}

/* ---- PostgreSQL ---- */

static void
test_postgres_one(void)
{
    struct shmid_ds info;
    postgres_start(&one, NULL);
    check_database("SELECT pg_sleep(60)");
    check_stands_still();
    int segment = postgres_segment(&one);
    CHECK(shmctl(segment, IPC_STAT, &info) == 0);
    check_stops();
    CHECK(shmctl(segment, IPC_STAT, &info) != 0);
}

/* psql as another user, over TCP */
static int
postgres_lets(const char *how)
{
    char target[512];
    struct words words;
    memset(&words, 0, sizeof(words));
    (void)snprintf(target, sizeof(target), "host=127.0.0.1 port=%d dbname=postgres %s",
                   one.port, how);
    return WORKS(postgres_program(&words, "psql"), "-Xw", "-c", "SELECT 1", target);
}

static void
test_postgres_users(void)
{
    server_options options = { .durable = 1, .config = "max_connections = 7" };
    postgres_start(&one, &options);
    CHECK_SAME(sql_number(&one, NULL, "SHOW max_connections"), 7);
    sql_do(&one, NULL, "CREATE ROLE app LOGIN PASSWORD 'secret'");
    CHECK(postgres_lets("user=postgres"));
    CHECK(postgres_lets("user=app password=secret"));
    CHECK(!postgres_lets("user=app password=guess"));
    CHECK(!postgres_lets("user=app"));
}

static void
test_postgres_tls(void)
{
    server_options options = { .certs = folder };
    char how[400];
    certs_folder(folder, sizeof(folder));
    postgres_start(&one, &options);
    sql_do(&one, NULL, "CREATE ROLE app LOGIN PASSWORD 'secret'");
    (void)snprintf(how, sizeof(how),
                   "user=app password=secret sslmode=verify-full sslrootcert=%s/ca.crt "
                   "sslcert=%s/client.crt sslkey=%s/client.key",
                   folder, folder, folder);
    CHECK(postgres_lets(how));
    (void)snprintf(how, sizeof(how), "user=app password=secret sslmode=require");
    CHECK(!postgres_lets(how));
    CHECK(!postgres_lets("user=postgres sslmode=disable"));
}

static void
test_postgres_clock(void)
{
    server_options options = { .clock = 1 };
    postgres_start(&one, &options);
    check_clocks();
}

/* one that follows another, of which it has not heard for a while */
static void
test_postgres_standby(void)
{
    postgres_start(&one, NULL);
    server_kill(&one);
    CHECK(fclose(server_file(&one, "data/standby.signal")) == 0);
    own_folder(&one);
    server_restart(&one);
    CHECK(sql_ask(&one, NULL, "CREATE DATABASE other") == NULL);
    sql_do(&one, NULL, "SELECT 1");
}

/* ---- two of them ---- */

static const server *const left = &pair.servers[0], *const right = &pair.servers[1];

static void
await_rows(const server *of, int count)
{
    for (int64_t until = now_ms() + slowly(5000);
         sql_number(of, NULL, "SELECT count(*) FROM a") != count;) {
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
}

/* the one is lost, the other takes over, and the one follows it */
static void
fail_over(int from)
{
    server_kill(&pair.servers[from]);
    postgres_promote(&pair.servers[1 - from]);
    CHECK_SAME(postgres_primary(&pair), 1 - from);
    CHECK(is_done_soon(&pair.servers[1 - from], "CREATE TABLE alone (b int)"));
    sql_do(&pair.servers[1 - from], NULL, "DROP TABLE alone");
    wires_cut(&between, WIRES_ALL);
    wires_flow(&between, WIRES_ALL);
    postgres_follow(&pair, from, &between);
    CHECK_SAME(postgres_primary(&pair), 1 - from);
}

/* what the standby has not heard of is lost, and nothing else; each can follow the other */
static void
test_postgres_pair(void)
{
    postgres_start_pair(&pair, NULL, &between);
    CHECK_SAME(postgres_primary(&pair), 0);
    sql_do(left, NULL, "CREATE TABLE a (b int)");
    sql_do(left, NULL, "INSERT INTO a VALUES (1)");
    await_rows(right, 1);
    CHECK(sql_ask(right, NULL, "INSERT INTO a VALUES (2)") == NULL);

    wires_hold(&between, 0);
    sql_do(left, NULL, "INSERT INTO a VALUES (3), (4)");
    fail_over(0);
    await_rows(right, 1);
    await_rows(left, 1);
    sql_do(right, NULL, "INSERT INTO a VALUES (5)");
    await_rows(left, 2);
    CHECK(sql_ask(left, NULL, "INSERT INTO a VALUES (6)") == NULL);

    fail_over(1);
    sql_do(left, NULL, "INSERT INTO a VALUES (7)");
    await_rows(right, 3);
}

/* a commit that the standby has not heard of is not answered */
static void
test_postgres_synced(void)
{
    server_options options = { .config = POSTGRES_SYNCED };
    postgres_start_pair(&pair, &options, &between);
    sql_do(left, NULL, "CREATE TABLE a (b int)");
    CHECK(is_done_soon(left, "INSERT INTO a VALUES (1)"));
    wires_hold(&between, 0);
    CHECK(!is_done_soon(left, "INSERT INTO a VALUES (2)"));
    CHECK_SAME(sql_number(left, NULL, "SELECT count(*) FROM a"), 1);
    wires_flow(&between, 0);
    await_rows(left, 2);

    wires_hold(&between, 0);
    CHECK(!is_done_soon(left, "INSERT INTO a VALUES (3)"));
    fail_over(0);
    CHECK_SAME(sql_number(right, NULL, "SELECT count(*) FROM a"), 2);
    CHECK(is_done_soon(right, "INSERT INTO a VALUES (4)"));
    wires_hold(&between, 1);
    CHECK(!is_done_soon(right, "INSERT INTO a VALUES (5)"));
}

static void
test_pgbouncer(void)
{
    postgres_start(&one, NULL);
    pgbouncer_start(&front, &one, NULL);
    sql_do(&one, NULL, "CREATE DATABASE other");
    sql_do(&front, "other", "CREATE TABLE a (b int)");
    CHECK_SAME(sql_number(&front, "other", "SELECT count(*) FROM a"), 0);
    server_kill(&front);
    server_restart(&front);
    sql_do(&front, "other", "SELECT 1");
}

/* ---- MariaDB ---- */

static void
test_mariadb_one(void)
{
    mariadb_start(&one, NULL);
    check_database("SELECT sleep(60)");
    check_stands_still();
    check_stops();
}

static int
mariadb_lets(const char *user, const char *const *more)
{
    struct words words;
    memset(&words, 0, sizeof(words));
    word_pair(&words, "mariadb", "--no-defaults");
    word_pair(&words, "--protocol=tcp", "-h127.0.0.1");
    word_add(&words, word_make(&words, "-P%d", one.port));
    word_add(&words, word_make(&words, "-u%s", user));
    word_list(&words, more);
    word_pair(&words, "-e", "SELECT 1");
    return works(words.list);
}
#define MARIADB_LETS(user, ...)                                                          \
    mariadb_lets(user, (const char *const[]){ __VA_ARGS__, NULL })

static void
test_mariadb_users(void)
{
    server_options options = { .durable = 1,
                               .more =
                                   (const char *const[]){ "--wait-timeout=77", NULL } };
    mariadb_start(&one, &options);
    CHECK_SAME(sql_number(&one, NULL, "SELECT @@wait_timeout"), 77);
    sql_do(&one, NULL, "CREATE USER app@127.0.0.1 IDENTIFIED BY 'secret'");
    CHECK(MARIADB_LETS("root", NULL));
    CHECK(MARIADB_LETS("app", "-psecret"));
    CHECK(!MARIADB_LETS("app", "-pguess"));
}

static void
test_mariadb_tls(void)
{
    server_options options = { .certs = folder };
    char ca[96];
    certs_folder(folder, sizeof(folder));
    mariadb_start(&one, &options);
    (void)snprintf(ca, sizeof(ca), "--ssl-ca=%s/ca.crt", folder);
    CHECK(MARIADB_LETS("root", ca, "--ssl-verify-server-cert"));
    CHECK(!MARIADB_LETS("root", "--skip-ssl"));
    (void)snprintf(ca, sizeof(ca), "--ssl-ca=%s/other.crt", folder);
    CHECK(!MARIADB_LETS("root", ca, "--ssl-verify-server-cert"));
}

static void
test_mariadb_clock(void)
{
    server_options options = { .clock = 1 };
    mariadb_start(&one, &options);
    check_clocks();
}

/* ---- running ---- */

static const struct test_case cases[] = {
    { "postgres/one", test_postgres_one },
    { "postgres/users", test_postgres_users },
    { "postgres/tls", test_postgres_tls },
    { "postgres/clock", test_postgres_clock },
    { "postgres/standby", test_postgres_standby },
    { "postgres/pair", test_postgres_pair },
    { "postgres/synced", test_postgres_synced },
    { "pgbouncer/one", test_pgbouncer },
    { "mariadb/one", test_mariadb_one },
    { "mariadb/users", test_mariadb_users },
    { "mariadb/tls", test_mariadb_tls },
    { "mariadb/clock", test_mariadb_clock },
};

static void
need_server(const char *name)
{
    if (strncmp(name, "mariadb/", 8) == 0) {
        need(mariadb_present(), "mariadb");
    } else if (strncmp(name, "pgbouncer/", 10) == 0) {
        need(pgbouncer_present(), "pgbouncer");
    } else {
        need(postgres_present(), "postgres");
    }
}

int
main(int argc, char **argv)
{
    need_server(argc == 2 ? argv[1] : "");
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
