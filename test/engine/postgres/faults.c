/* SPDX-License-Identifier: MIT */
/* What the tests of faults know of PostgreSQL. See sql.h and members.h. */
#include "sql.h"

const members_engine engine = {
    .scheme = "postgres",
    .user = "postgres@",
    SQL_MEMBERS,
};

static void
print_tls(char *out, size_t size, const char *authority)
{
    (void)snprintf(out, size,
                   "&sslmode=verify-full&sslrootcert=%s/%s.crt&sslcert=%s/client.crt"
                   "&sslkey=%s/client.key",
                   folder, authority, folder, folder);
}

/* it follows another from now on, of which it does not hear */
static void
make_read_only(server *of)
{
    char path[96];
    server_kill(of);
    (void)snprintf(path, sizeof(path), "%s/data/standby.signal", of->folder);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fclose(file) == 0);
    server_restart(of);
}

const sql_engine database = {
    .start = postgres_start,
    .brief = { .config = "idle_session_timeout = 1000\n"
                         "idle_in_transaction_session_timeout = 1000" },
    .few = { .config = "max_connections = 10\nsuperuser_reserved_connections = 3" },
    .strict = { .config = "default_transaction_isolation = 'serializable'" },
    .is_name = "name = '" NAME "'",
    .now = "(extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
    .old_rows = "INSERT INTO dibs_locks (name, version, token, until, previous, state) "
                "SELECT convert_to('old-' || n, 'UTF8'), 1, 1, 1, 0, '' "
                "FROM generate_series(%d, %d) n",
    .old_unique = "INSERT INTO dibs_unique (name, owner, until) SELECT "
                  "convert_to('old-' || n, 'UTF8'), 'gone', 1 "
                  "FROM generate_series(%d, %d) n",
    .create_user = "CREATE ROLE app LOGIN PASSWORD 'secret'",
    .grant_connect = "SELECT 1",
    .grant_all = "GRANT ALL ON SCHEMA public TO app",
    .grant_use = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO "
                 "app; GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO app",
    .print_tls = print_tls,
    .make_read_only = make_read_only,
};

const fault_stage stage = {
    .title = "postgres",
    .is_present = postgres_present,
    .nowhere = "postgres://nobody@127.0.0.1:1/nowhere",
    SQL_STAGE,
};
