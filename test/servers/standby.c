/* SPDX-License-Identifier: MIT */
/*
 * A PostgreSQL and its standby. What a primary has that was lost and what its standby has may
 * both be unknown to the other; so one that is to follow takes all files of the other anew,
 * which are few. See servers.h.
 */
#include <stdlib.h>
#include <string.h>

#include "parts.h"

#define FOLLOW_LIMIT_MS 30000

static int
is_primary(const server *of)
{
    char *answer = sql_ask(of, NULL, "SELECT pg_is_in_recovery()");
    int is = answer != NULL && strcmp(answer, "f\n") == 0;
    free(answer);
    return is;
}

int
postgres_primary(const server_set *set)
{
    return set_leader(set, is_primary);
}

/* whether commits wait for a standby; ALTER SYSTEM itself does not */
static void
set_waiting(const server *primary, int waits)
{
    sql_do(primary, NULL, "ALTER SYSTEM %s",
           waits ? "RESET synchronous_standby_names"
                 : "SET synchronous_standby_names = ''");
    sql_do(primary, NULL, "SELECT pg_reload_conf()");
}

void
postgres_promote(server *standby)
{
    set_waiting(standby, 0);
    char *answer = sql_ask(standby, NULL, "SELECT pg_promote()");
    CHECK(answer != NULL && strcmp(answer, "t\n") == 0);
    free(answer);
    CHECK(is_primary(standby));
    standby->replica_of = 0;
}

/* ---- following ---- */

static int
waits_for_standby(const server *of)
{
    return of->options.config != NULL &&
           strstr(of->options.config, POSTGRES_SYNCED) != NULL;
}

static void
take_data(const server *to, const server *from)
{
    struct words words;
    char data[96];
    (void)snprintf(data, sizeof(data), "%s/data", to->folder);
    postgres_forget(to);
    remove_tree(data);
    memset(&words, 0, sizeof(words));
    word_add(&words, "setpriv");
    as_postgres(&words, "KILL");
    word_add(&words, postgres_program(&words, "pg_basebackup"));
    word_pair(&words, "-h", from->folder);
    word_pair(&words, "-p", word_make(&words, "%d", from->port));
    word_pair(&words, "-U", "postgres");
    word_pair(&words, "-D", data);
    word_pair(&words, "--checkpoint=fast", "--no-sync");
    run_surely(&words);
    CHECK(fclose(server_file(to, "data/standby.signal")) == 0);
    /* whether the other one waits for it is none of its own settings */
    CHECK(fclose(server_file(to, "data/postgresql.auto.conf")) == 0);
}

/* until it hears of all that happens and, if it should be, is waited for */
static void
await_following(const server *primary, int is_synced)
{
    int64_t until = now_ms() + slowly(FOLLOW_LIMIT_MS);
    while (sql_number(primary, NULL,
                      "SELECT count(*) FROM pg_stat_replication WHERE application_name = "
                      "'" POSTGRES_STANDBY "' AND state = 'streaming' AND sync_state = "
                      "'%s'",
                      is_synced ? "sync" : "async") == 0) {
        CHECK(now_ms() < until);
        sleep_ms(10);
    }
}

void
postgres_follow(server_set *set, int index, const struct wires *between)
{
    int first = postgres_primary(set);
    const server *primary = &set->servers[first];
    server *standby = &set->servers[index];
    CHECK(set->count == 2 && first != index);
    take_data(standby, primary);
    standby->replica_of = between != NULL ? between->ports[first] : primary->port;
    postgres_configure(standby);
    server_run(standby);
    await_following(primary, 0);
    set_waiting(primary, 1);
    await_following(primary, waits_for_standby(primary));
}

/* ---- starting ---- */

void
postgres_start_pair(server_set *out, const server_options *options, struct wires *between)
{
    CHECK(options == NULL || (options->certs == NULL && !options->clock));
    memset(out, 0, sizeof(*out));
    out->count = 2;
    postgres_start(&out->servers[0], options);
    set_waiting(&out->servers[0], 0);
    data_prepare(&out->servers[1], KIND_POSTGRES, options);
    own_folder(&out->servers[1]);
    if (between != NULL) {
        const int ports[] = { out->servers[0].port, out->servers[1].port };
        wires_start(between, ports, 2);
    }
    postgres_follow(out, 1, between);
}
