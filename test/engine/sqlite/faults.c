/* SPDX-License-Identifier: MIT */
/* See faults.h. */
#include "faults.h"

#include <stdarg.h>

static char own_folder[64], own_path[96], own_url[128];

static int
is_present(void)
{
    return 1;
}

static void
clean_up(void)
{
    kill_all_spawned();
    if (own_folder[0] != '\0')
        remove_tree(own_folder);
    own_folder[0] = '\0';
}

const fault_stage sqlite_stage = {
    "SQLite", is_present, "sqlite:/there-is-no-such-folder/locks", "lease", 120, clean_up
};

const char *
folder(void)
{
    if (own_folder[0] == '\0') {
        temp_dir(own_folder, sizeof own_folder, "/tmp");
        (void)snprintf(own_path, sizeof own_path, "%s/locks", own_folder);
        (void)snprintf(own_url, sizeof own_url, "sqlite:%s", own_path);
    }
    return own_folder;
}

const char *
file_path(void)
{
    (void)folder();
    return own_path;
}

const char *
file_url(void)
{
    (void)folder();
    return own_url;
}

int64_t
sql(const char *path, const char *format, ...)
{
    char text[512];
    sqlite3 *db = NULL;
    sqlite3_stmt *statement = NULL;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    CHECK_SAME(sqlite3_open(path, &db), SQLITE_OK);
    CHECK_SAME(sqlite3_busy_timeout(db, 10000), SQLITE_OK);
    if (sqlite3_prepare_v2(db, text, -1, &statement, NULL) != SQLITE_OK)
        FAIL("%s: %s", text, sqlite3_errmsg(db));
    int rc = sqlite3_step(statement);
    int64_t number = rc == SQLITE_ROW ? sqlite3_column_int64(statement, 0) : 0;
    if (rc != SQLITE_ROW && rc != SQLITE_DONE)
        FAIL("%s: %s", text, sqlite3_errmsg(db));
    (void)sqlite3_finalize(statement);
    CHECK_SAME(sqlite3_close(db), SQLITE_OK);
    return number;
}

void
check_whole(void)
{
    CHECK_SAME(sql(file_path(), "SELECT count(*) FROM pragma_integrity_check "
                                "WHERE integrity_check <> 'ok'"),
               0);
    CHECK_SAME(sql(file_path(), "SELECT count(*) FROM dibs_locks WHERE state <> ''"), 0);
}
