/* SPDX-License-Identifier: MIT */
/* What the tests of faults know of MariaDB. See sql.h and members.h. */
#include "sql.h"

const members_engine engine = {
    .scheme = "mysql",
    .user = "root@",
    SQL_MEMBERS,
};

static void
print_tls(char *out, size_t size, const char *authority)
{
    (void)snprintf(out, size,
                   "&tls=yes&ca=%s/%s.crt&cert=%s/client.crt&key=%s/client.key", folder,
                   authority, folder, folder);
}

static void
make_read_only(server *of)
{
    sql_do(of, NULL, "SET GLOBAL read_only = 1");
    sql_cut(of);
}

/* what can be granted before there are tables */
#define USE "GRANT SELECT, INSERT, UPDATE, DELETE ON " DATABASE ".* TO app@127.0.0.1"

const sql_engine database = {
    .start = mariadb_start,
    .brief = { .more = (const char *const[]){ "--wait-timeout=1",
                                              "--interactive-timeout=1", NULL } },
    .few = { .more = (const char *const[]){ "--max-connections=10", NULL } },
    .strict = { .more = (const char *const[]){ "--transaction-isolation=SERIALIZABLE",
                                               NULL } },
    .is_name = "name = '" NAME "'",
    .now = "cast(unix_timestamp(sysdate(6)) * 1000000 AS signed)",
    .old_rows = "INSERT INTO dibs_locks (name, version, token, until, previous, state) "
                "SELECT concat('old-', seq), 1, 1, 1, 0, '' FROM seq_%d_to_%d",
    .old_unique = "INSERT INTO dibs_unique (name, owner, count, until) "
                  "SELECT concat('old-', seq), 'gone', 1, 1 FROM seq_%d_to_%d",
    .create_user = "CREATE USER app@127.0.0.1 IDENTIFIED BY 'secret'",
    .grant_connect = USE,
    .grant_all = "GRANT ALL ON " DATABASE ".* TO app@127.0.0.1",
    .grant_use = USE,
    .print_tls = print_tls,
    .make_read_only = make_read_only,
};

const fault_stage stage = {
    .title = "mariadb",
    .is_present = mariadb_present,
    .nowhere = "mysql://nobody@127.0.0.1:1/nowhere",
    SQL_STAGE,
};
