/* SPDX-License-Identifier: MIT */
/* PgBouncer, which lends connections to a PostgreSQL for a transaction each. See
 * servers.h. */
#include <string.h>

#include "parts.h"

int
pgbouncer_present(void)
{
    struct words words = { .count = 0 };
    return server_present(word_daemon(&words, "pgbouncer")) && postgres_present();
}

static void
write_config(const server *of)
{
    FILE *file = server_file(of, "pgbouncer.ini");
    fprintf(file, "[databases]\n* = host=127.0.0.1 port=%d user=postgres\n",
            of->found_at);
    fprintf(file, "[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = %d\n", of->port);
    fputs("unix_socket_dir =\nauth_type = any\npool_mode = transaction\n"
          "max_client_conn = 1000\ndefault_pool_size = 20\nserver_idle_timeout = 5\n"
          "ignore_startup_parameters = extra_float_digits,options\n",
          file);
    fprintf(file, "%s\n", of->options.config != NULL ? of->options.config : "");
    CHECK(fclose(file) == 0);
}

void
pgbouncer_words(struct words *to, const server *of)
{
    as_postgres(to, "KILL");
    word_add(to, word_daemon(to, "pgbouncer"));
    word_add(to, word_make(to, "%s/pgbouncer.ini", of->folder));
    word_list(to, of->options.more);
}

void
pgbouncer_start(server *out, const server *behind, const server_options *options)
{
    data_prepare(out, KIND_PGBOUNCER, options);
    out->found_at = behind->port;
    write_config(out);
    own_folder(out);
    server_run(out);
}
