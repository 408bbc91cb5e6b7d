/* SPDX-License-Identifier: MIT */
/* Others at the file: who write for long, who delete it; and many holds at once. */
#include <unistd.h>

#include "faults.h"

/* Somebody else's writer, in a thread of its own: locks the file and keeps it locked. */
struct writer {
    sqlite3 *db;
    int64_t for_ms;
};

static void
begin_writing(struct writer *writer)
{
    CHECK_SAME(sqlite3_open(file_path(), &writer->db), SQLITE_OK);
    CHECK_SAME(sqlite3_exec(writer->db, "BEGIN IMMEDIATE", NULL, NULL, NULL), SQLITE_OK);
}

static void
end_writing(struct writer *writer)
{
    CHECK_SAME(sqlite3_exec(writer->db, "COMMIT", NULL, NULL, NULL), SQLITE_OK);
    CHECK_SAME(sqlite3_close(writer->db), SQLITE_OK);
}

static void
write_for_a_while(void *arg, int index)
{
    struct writer *writer = arg;
    (void)index;
    sleep_ms(writer->for_ms);
    end_writing(writer);
}

static void
waits(void)
{
    struct writer writer = { .for_ms = 300 };
    dibs *client = open_url("%s", file_url());
    give(take(client, NAME, LEASE_MS));
    begin_writing(&writer);
    int64_t from = now_ms();
    gang *others = gang_start(1, write_for_a_while, &writer);
    dibs_hold *hold = take(client, NAME, (uint32_t)slowly(5000));
    CHECK_WITHIN(now_ms() - from, writer.for_ms - 5, slowly(5000));
    gang_join(others);
    give(hold);
    dibs_close(client);
    check_whole();
}

static void
gives_up(void)
{
    struct writer writer = { 0 };
    dibs *client = open_url("%s", file_url());
    dibs_request request = want(NAME, LEASE_MS);
    dibs_hold *hold = NULL;
    give(take(client, NAME, LEASE_MS));
    begin_writing(&writer);
    request.wait_ms = 200;
    int64_t from = now_ms();
    GIVES(DIBS_EUNAVAIL, dibs_acquire(&hold, client, &request, &oops));
    CHECK_SAYS("locked");
    CHECK_WITHIN(now_ms() - from, 100, slowly(1000));
    end_writing(&writer);
    give(take(client, NAME, LEASE_MS));
    dibs_close(client);
    check_whole();
}

/* whoever deletes the file takes away all locks; we go on in a new one */
static void
deleted(void)
{
    dibs *client = open_url("%s", file_url());
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    CHECK_SAME(unlink(file_path()), 0);
    CHECK(is_lost(hold, slowly(3000)));
    dibs_hold_free(hold);
    give(take(client, NAME, LEASE_MS));
    CHECK_SAME(sql(file_path(), "SELECT count(*) FROM dibs_locks"), 1);
    dibs_close(client);
    check_whole();
}

enum { MANY = 300 };

/* three hundred holds stay, because they are kept by one transaction at a time */
static void
renews_many(void)
{
    static dibs_hold *holds[MANY];
    dibs *client = open_url("%s", file_url());
    for (int i = 0; i < MANY; i++) {
        char name[32];
        (void)snprintf(name, sizeof name, "many/%d", i);
        holds[i] = take(client, name, (uint32_t)slowly(1500));
    }
    sleep_ms(slowly(2500));
    for (int i = 0; i < MANY; i++) {
        CHECK(dibs_held(holds[i]));
        give(holds[i]);
    }
    dibs_close(client);
    check_whole();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "waits", waits },     { "gives_up", gives_up },
        { "deleted", deleted }, { "renews_many", renews_many },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &sqlite_stage, cases);
}
