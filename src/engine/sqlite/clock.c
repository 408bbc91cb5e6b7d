/* SPDX-License-Identifier: MIT */
/*
 * The clock that the processes on one file share, as the function dibs_now() of their
 * statements: microseconds since 1970, about, which never step. All that is needed is that
 * everybody has the same time, so it is boot time, which counts suspend and which nobody sets,
 * plus a number that is in the file together with the boot it is for. The first one after a
 * boot makes it anew: from the wall clock, but never so that time would go back behind what is
 * written in the file.
 *
 * Boot time is shifted in time namespaces; the shift is taken off.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sqlite.h"
#include "util/shortage.h"

#define BOOT_ID "/proc/sys/kernel/random/boot_id"
#define SHIFTS "/proc/self/timens_offsets"
#define SECOND_US INT64_C(1000000)
/* how old what the file says of the time may be, before somebody writes it down again */
#define SEEN_US (3600 * SECOND_US)

/* the columns of read_clock */
enum { BOOT, AHEAD, SEEN };

static const char read_clock[] = "SELECT boot, ahead, seen FROM dibs_clock WHERE id = 1";

/* ?1 boot ?2 boot time ?3 wall clock. Ticks and versions are times, or a little more. */
static const char set_clock[] =
    "INSERT INTO dibs_clock (id, boot, ahead, seen) SELECT 1, ?1, max(?3, "
    "coalesce((SELECT max(max(version, token)) FROM dibs_locks), 0), "
    "coalesce((SELECT max(version) FROM dibs_cells), 0)) - ?2, 0 WHERE true "
    "ON CONFLICT (id) DO UPDATE SET boot = excluded.boot, "
    "ahead = max(excluded.ahead, seen - ?2) WHERE boot <> excluded.boot";

static const char see_clock[] = "UPDATE dibs_clock SET seen = max(seen, ?1)";

/* a clock that is read without its shift would be another than that of the others */
static int
cannot_read(const struct sqlite *lite, const char *path, dibs_error *err)
{
    return lite->sql.host->fail(err, is_shortage(errno) ? DIBS_ENOMEM : DIBS_EUNSUPPORTED,
                                "%s cannot be read: %s", path, strerror(errno));
}

static int
read_shift(struct sqlite *lite, dibs_error *err)
{
    char line[128];
    long long seconds, rest;
    FILE *file = fopen(SHIFTS, "re");
    if (!file) /* a kernel without time namespaces */
        return errno == ENOENT ? DIBS_OK : cannot_read(lite, SHIFTS, err);
    while (fgets(line, sizeof line, file)) {
        if (sscanf(line, "boottime %lld %lld", &seconds, &rest) == 2)
            lite->shift_us = seconds * SECOND_US + rest / 1000;
    }
    (void)fclose(file);
    return DIBS_OK;
}

int
dibs__sqlite_clock_open(struct sqlite *lite, dibs_error *err)
{
    FILE *file = fopen(BOOT_ID, "re");
    char *line = file ? fgets(lite->boot, sizeof lite->boot, file) : NULL;
    int rc = DIBS_OK;
    if (file && !line && feof(file)) /* which sets no errno */
        errno = EIO;
    if (!line)
        rc = cannot_read(lite, BOOT_ID, err);
    if (file)
        (void)fclose(file);
    if (rc)
        return rc;
    lite->boot[strcspn(lite->boot, "\n")] = '\0';
    return read_shift(lite, err);
}

static int64_t
boot_us(const struct sqlite *lite)
{
    return lite->sql.host->now() / 1000 - lite->shift_us;
}

static int64_t
wall_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * SECOND_US + now.tv_nsec / 1000;
}

static void
now_function(sqlite3_context *context, int count, sqlite3_value **values)
{
    const struct lite_conn *conn = sqlite3_user_data(context);
    (void)count, (void)values;
    sqlite3_result_int64(context, boot_us(conn->lite) + conn->ahead_us);
}

static int
read_row(struct lite_conn *conn, struct sql_result *row, dibs_time deadline,
         dibs_error *err)
{
    dibs__sql_result_free(row);
    return dibs__sqlite_query(conn, NULL, read_clock, NULL, 0, row, deadline, err);
}

static int
is_set(const struct sqlite *lite, const struct sql_result *row)
{
    const struct sql_value *boot = dibs__sql_at(row, 0, BOOT);
    return boot->kind == SQL_TEXT && strcmp(boot->text, lite->boot) == 0;
}

static int
set(struct lite_conn *conn, struct sql_result *row, dibs_time deadline, dibs_error *err)
{
    const struct sqlite *lite = conn->lite;
    const struct sql_value params[] = { sql_text(lite->boot, strlen(lite->boot)),
                                        sql_number(boot_us(lite)),
                                        sql_number(wall_us()) };
    int rc = dibs__sqlite_query(conn, NULL, set_clock, params, 3, NULL, deadline, err);
    if (!rc)
        rc = read_row(conn, row, deadline, err);
    if (!rc && !is_set(lite, row))
        rc = lite->sql.host->fail(err, DIBS_ECORRUPT,
                                  "table dibs_clock does not keep what it is told");
    return rc;
}

/* so that a clock that is wrong after the next boot does not take the time back */
static int
remember(struct lite_conn *conn, const struct sql_result *row, dibs_time deadline,
         dibs_error *err)
{
    int64_t now = boot_us(conn->lite) + conn->ahead_us;
    const struct sql_value params[] = { sql_number(now) };
    if (dibs__sql_at(row, 0, SEEN)->number > now - SEEN_US)
        return DIBS_OK;
    return dibs__sqlite_query(conn, NULL, see_clock, params, 1, NULL, deadline, err);
}

static int
start(struct lite_conn *conn, struct sql_result *row, dibs_time deadline, dibs_error *err)
{
    int rc = read_row(conn, row, deadline, err);
    if (rc == SQL_NO_TABLE) {
        rc = dibs__sqlite_make_tables(conn, deadline, err);
        if (!rc)
            rc = read_row(conn, row, deadline, err);
    }
    if (!rc && !is_set(conn->lite, row))
        rc = set(conn, row, deadline, err);
    if (rc)
        return rc;
    conn->ahead_us = dibs__sql_at(row, 0, AHEAD)->number;
    return remember(conn, row, deadline, err);
}

int
dibs__sqlite_clock_start(struct lite_conn *conn, dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = conn->lite->sql.host;
    struct sql_result row;
    if (sqlite3_create_function_v2(conn->handle->db, "dibs_now", 0,
                                   SQLITE_UTF8 | SQLITE_DIRECTONLY, conn, now_function,
                                   NULL, NULL, NULL))
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    dibs__sql_result_init(&row, host);
    int rc = start(conn, &row, deadline, err);
    dibs__sql_result_free(&row);
    if (rc == SQL_NO_TABLE)
        rc = host->fail(err, DIBS_ECORRUPT, "its tables are not those of dibs");
    return rc;
}
