/* SPDX-License-Identifier: MIT */
/*
 * Guard: stock in a table of your own, 64 writers, and nothing sold twice. Two guards that
 * cost one condition in an UPDATE each:
 *
 *  - without a lock, by version: "... WHERE version = ?". Who was too late changes no row,
 *    reads again and decides again. Best where clashes are rare.
 *  - with a lock, by its token: "... WHERE fence <= ?". A lock with a lease can be lost while
 *    its holder sleeps. The row remembers the largest token, and a late one changes no row.
 *
 * The table is in the SQLite file that the locks are in ($DIBS_URL is sqlite:FILE). On
 * PostgreSQL and MySQL the statements are the same. Next: docs/guides/guard.md.
 */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dibs.h>

enum { STOCK = 200, WRITERS = 64, WANTED = 5, BUSY_MS = 30000 };

static sqlite3 *
open_table(void)
{
    const char *url = getenv("DIBS_URL");
    sqlite3 *db = NULL;

    if (!url || strncmp(url, "sqlite:", 7) != 0 || sqlite3_open(url + 7, &db)) {
        fprintf(stderr, "guard: DIBS_URL must be sqlite:FILE\n");
        exit(1);
    }
    sqlite3_busy_timeout(db, BUSY_MS);
    return db;
}

/* run runs a statement with up to two numbers in it, stores the first row's numbers, and
 * returns how many rows it changed. */
static int
run(sqlite3 *db, const char *text, int64_t one, int64_t two, int64_t out[2])
{
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v2(db, text, -1, &statement, NULL);

    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(statement) > 0)
        sqlite3_bind_int64(statement, 1, one);
    if (rc == SQLITE_OK && sqlite3_bind_parameter_count(statement) > 1)
        sqlite3_bind_int64(statement, 2, two);
    while (rc == SQLITE_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        for (int i = 0; out && i < sqlite3_column_count(statement); i++)
            out[i] = sqlite3_column_int64(statement, i);
        rc = SQLITE_OK;
    }
    if (rc != SQLITE_DONE) {
        fprintf(stderr, "guard: %s: %s\n", text, sqlite3_errmsg(db));
        exit(1);
    }
    sqlite3_finalize(statement);
    return sqlite3_changes(db);
}

/* by_version returns 1 if a piece was sold, 0 if there is none left. */
static int
by_version(sqlite3 *db)
{
    for (;;) {
        int64_t row[2] = { 0, 0 };

        run(db, "SELECT pieces, version FROM stock", 0, 0, row);
        if (row[0] == 0)
            return 0;
        if (run(db,
                "UPDATE stock SET pieces = ?1, version = version + 1 WHERE version = ?2",
                row[0] - 1, row[1], NULL))
            return 1;
        /* somebody sold one in between: this ends when there is none left */
    }
}

static int
writer(void)
{
    sqlite3 *db = open_table();
    int sold = 0;

    for (int i = 0; i < WANTED; i++)
        sold += by_version(db);
    sqlite3_close(db);
    return sold;
}

/* by_token writes what the holder of a lock has made of the row. 1, or 0: too late. */
static int
by_token(sqlite3 *db, uint64_t token, int64_t pieces)
{
    return run(db, "UPDATE stock SET pieces = ?2, fence = ?1 WHERE fence <= ?1",
               (int64_t)token, pieces, NULL);
}

/* Takes the lock for a tenth of a second, and does not renew it. */
static dibs_hold *
take_briefly(dibs *client)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_error err;
    dibs_hold *hold;

    request.name = "examples/guard";
    request.lease_ms = 100;
    request.flags = DIBS_NO_RENEW;
    if (dibs_acquire(&hold, client, &request, &err) != DIBS_OK) {
        fprintf(stderr, "guard: %s\n", err.text);
        exit(1);
    }
    return hold;
}

/* The first holder sleeps through its lease, and the second one refills the stock. What the
 * first one writes when it wakes up must not be there: returns 1 if it was refused. */
static int
sleepers_write(sqlite3 *db)
{
    dibs_error err;
    dibs *client;
    int admitted, late;

    if (dibs_open(&client, NULL, NULL, &err) != DIBS_OK) {
        fprintf(stderr, "guard: %s\n", err.text);
        exit(1);
    }
    dibs_hold *sleeper = take_briefly(client);
    while (dibs_held(sleeper))
        usleep(10000);
    dibs_hold *second = take_briefly(client);
    admitted = by_token(db, dibs_token(second), STOCK);
    late = by_token(db, dibs_token(sleeper), 1);
    dibs_hold_free(second);
    dibs_hold_free(sleeper);
    dibs_close(client);
    return admitted == 1 && late == 0;
}

int
main(void)
{
    int64_t left[2] = { -1, 0 };
    int sold = 0, refused;
    sqlite3 *db = open_table();

    run(db, "PRAGMA journal_mode = WAL", 0, 0, NULL);
    run(db, "CREATE TABLE IF NOT EXISTS stock (pieces, version, fence)", 0, 0, NULL);
    run(db, "DELETE FROM stock", 0, 0, NULL);
    run(db, "INSERT INTO stock VALUES (?1, 1, 0)", STOCK, 0, NULL);
    sqlite3_close(db); /* SQLite must not be open across a fork */
    for (int i = 0; i < WRITERS; i++)
        if (fork() == 0)
            _exit(writer());
    for (int status; wait(&status) > 0;)
        sold += WEXITSTATUS(status);
    db = open_table();
    run(db, "SELECT pieces FROM stock", 0, 0, left);
    refused = sleepers_write(db);
    sqlite3_close(db);
    printf("%d writers sold %d of %d, %d left, the late one was %s\n", WRITERS, sold,
           STOCK, (int)left[0], refused ? "refused" : "let in");
    return sold != STOCK || left[0] != 0 || !refused;
}
