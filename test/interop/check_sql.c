/* SPDX-License-Identifier: MIT */
/* What stands in the tables of ShedLock and Spring, and what must not happen to it. See
 * interop.h. */
#include "interop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_MS 400
/* where the server's own tables are is room for ours */
#define POSTGRES_DATABASE "postgres"
#define MARIADB_DATABASE "mysql"
/* the key of the name "dibs", as Java makes it */
#define DIBS_UUID "c0eb34a2-6b4a-3f41-a82e-20e7c81ab780"

static const server *
server_of(const struct stage *stage)
{
    return &stage->servers.servers[0];
}

static const char *
database_of(const struct stage *stage)
{
    return stage->store == MARIADB ? MARIADB_DATABASE : POSTGRES_DATABASE;
}

void
check_sql_tables(const struct stage *stage, int is_old)
{
    int is_mariadb = stage->store == MARIADB;
    const char *time = is_mariadb ? "DATETIME(6)" : "TIMESTAMP";
    const char *shed_time = is_mariadb ? "TIMESTAMP(3)" : "TIMESTAMP";
    sql_do(server_of(stage), database_of(stage),
           "CREATE TABLE shedlock (name VARCHAR(64) NOT NULL, lock_until %s NOT NULL, "
           "locked_at %s NOT NULL DEFAULT CURRENT_TIMESTAMP%s, "
           "locked_by VARCHAR(255) NOT NULL, PRIMARY KEY (name))",
           shed_time, shed_time, is_mariadb ? "(3)" : "");
    sql_do(server_of(stage), database_of(stage),
           "CREATE TABLE INT_LOCK (LOCK_KEY CHAR(36) NOT NULL, REGION VARCHAR(100) NOT "
           "NULL, CLIENT_ID CHAR(36), CREATED_DATE %s NOT NULL, "
           "CONSTRAINT INT_LOCK_PK PRIMARY KEY (LOCK_KEY, REGION))",
           time);
    sql_do(server_of(stage), database_of(stage),
           "CREATE TABLE dibs_rows (name %s NOT NULL PRIMARY KEY)",
           is_mariadb ? "VARBINARY(512)" : "BYTEA");
    if (!is_old) {
        sql_do(server_of(stage), database_of(stage),
               "ALTER TABLE INT_LOCK ADD EXPIRED_AFTER %s NOT NULL", time);
    }
}

/* ---- shape ---- */

/* seconds from one time to another */
static void
print_seconds(char *out, size_t size, const struct stage *stage, const char *from,
              const char *to)
{
    if (stage->store == MARIADB) {
        snprintf(out, size, "TIMESTAMPDIFF(SECOND, %s, %s)", from, to);
    } else {
        snprintf(out, size, "extract(epoch FROM %s - %s)", to, from);
    }
}

/* A row, with times as what they are compared with now: in UTC, within seconds. */
static char *
row_shape(const struct stage *stage, const char *kind)
{
    const char *utc = stage->store == MARIADB ? "UTC_TIMESTAMP(6)"
                                              : "timezone('utc', clock_timestamp())";
    int is_spring = strcmp(kind, "spring") == 0;
    char begun[160], left[160];
    print_seconds(begun, sizeof(begun), stage, is_spring ? "CREATED_DATE" : "locked_at",
                  utc);
    print_seconds(left, sizeof(left), stage, utc,
                  is_spring ? "EXPIRED_AFTER" : "lock_until");
    char *found = sql_ask(
        server_of(stage), database_of(stage),
        "SELECT %s, %s BETWEEN -1 AND 10, %s BETWEEN %d AND %d, %s FROM %s",
        is_spring ? "LOCK_KEY, REGION" : "name", begun, left, LONG_MS / 1000 - 10,
        LONG_MS / 1000 + 1, is_spring ? "CHAR_LENGTH(CLIENT_ID)" : "locked_by <> ''",
        is_spring ? "INT_LOCK" : "shedlock WHERE name = 'dibs'");
    CHECK(found != NULL);
    return found;
}

void
check_sql_row(struct stage *stage, const char *kind)
{
    struct peer *both[] = { &stage->ours[0], &stage->theirs[0] };
    char *shapes[2];
    for (int i = 0; i < 2; i++) {
        peer_must(both[i], 1, "ok", "lock %s dibs %d 0", kind, LONG_MS);
        shapes[i] = row_shape(stage, kind);
        peer_must(both[i], 1, "ok", "unlock %s dibs", kind);
    }
    if (strcmp(shapes[0], shapes[1]) != 0) {
        FAIL("dibs writes\n%s\nand not\n%s", shapes[0], shapes[1]);
    }
    CHECK(strstr(shapes[0], strcmp(kind, "spring") == 0 ? DIBS_UUID : "dibs") != NULL);
    done("%s: the same row as %s", kind, both[1]->program->title);
    for (int i = 0; i < 2; i++) {
        free(shapes[i]);
    }
}

/* ---- late releases ---- */

static void
late(struct peer *sleeper, struct peer *other, const char *kind)
{
    char name[64];
    snprintf(name, sizeof(name), "late-%s-%s", kind, sleeper->program->name);
    peer_must(sleeper, 1, "ok", "lock %s %s %d 0", kind, name, SHORT_MS);
    sleep_ms(SHORT_MS + 200);
    peer_must(other, 1, "ok", "lock %s %s %d 1000", kind, name, LONG_MS);
    peer_must(sleeper, 1, "lost", "unlock %s %s", kind, name);
    peer_must(other, 1, "yes", "held %s %s", kind, name);
    peer_must(sleeper, 1, "busy", "lock %s %s %d 0", kind, name, LONG_MS);
    peer_must(other, 1, "ok", "unlock %s %s", kind, name);
}

void
check_sql_late(struct stage *stage, const char *kind)
{
    late(&stage->ours[0], &stage->theirs[0], kind);
    late(&stage->theirs[0], &stage->ours[0], kind);
    done("%s: a late release frees nobody else's", kind);
}

/* ---- ShedLock's rows ---- */

/* A ShedLock that knows of a row never inserts it again: it must be there after all that
 * dibs does to it. */
void
check_sql_kept_row(struct stage *stage)
{
    struct peer *ours = &stage->ours[0], *theirs = &stage->theirs[0];
    for (int i = 0; i < 2; i++) {
        peer_must(theirs, 1, "ok", "lock shedlock kept %d 0", LONG_MS);
        peer_must(theirs, 1, "ok", "unlock shedlock kept");
        peer_must(ours, 1, "ok", "lock shedlock kept %d 0", LONG_MS);
        peer_must(ours, 1, "ok", "unlock shedlock kept");
        CHECK_SAME(sql_number(server_of(stage), database_of(stage),
                              "SELECT count(*) FROM shedlock WHERE name = 'kept'"),
                   1);
    }
    done("shedlock: rows stay");
}
