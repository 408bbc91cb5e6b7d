/* SPDX-License-Identifier: MIT */
/* MariaDB. It runs as whoever we are, also as root. See servers.h. */
#include <string.h>
#include <unistd.h>

#include "parts.h"

/* few and small files */
#define SMALL "--innodb-log-file-size=8M"

int
mariadb_present(void)
{
    struct words words = { .count = 0 };
    return server_present("setpriv") && server_present(word_daemon(&words, "mariadbd")) &&
           server_present("mariadb-install-db") && server_present("mariadb");
}

static void
add_user(struct words *to)
{
    if (geteuid() == 0) {
        word_add(to, "--user=root");
    }
}

void
mariadb_make_data(const server *of)
{
    struct words words;
    memset(&words, 0, sizeof(words));
    word_pair(&words, "mariadb-install-db", "--no-defaults");
    word_add(&words, word_make(&words, "--datadir=%s/data", of->folder));
    word_pair(&words, "--auth-root-authentication-method=normal", "--skip-test-db");
    word_add(&words, SMALL);
    add_user(&words);
    run_surely(&words);
}

static void
add_tls(struct words *to, const server *of)
{
    word_add(to, word_make(to, "--ssl-ca=%s/ca.crt", of->folder));
    word_add(to, word_make(to, "--ssl-cert=%s/own.crt", of->folder));
    word_add(to, word_make(to, "--ssl-key=%s/own.key", of->folder));
    word_add(to, "--require-secure-transport=ON");
}

void
mariadb_words(struct words *to, const server *of)
{
    word_pair(to, "--pdeathsig", "KILL");
    word_pair(to, word_daemon(to, "mariadbd"), "--no-defaults");
    add_user(to);
    word_add(to, word_make(to, "--datadir=%s/data", of->folder));
    word_add(to, word_make(to, "--socket=%s/socket", of->folder));
    word_add(to, word_make(to, "--pid-file=%s/pid", of->folder));
    word_add(to, word_make(to, "--tmpdir=%s", of->folder));
    word_add(to, word_make(to, "--port=%d", of->port));
    word_pair(to, "--bind-address=127.0.0.1", "--skip-name-resolve");
    word_add(to, word_make(to, "--innodb-flush-log-at-trx-commit=%d",
                           of->options.durable ? 1 : 2));
    word_pair(to, SMALL, "--innodb-buffer-pool-size=32M");
    word_pair(to, "--max-connections=400",
              "--loose-innodb-buffer-pool-dump-at-shutdown=0");
    if (of->options.certs != NULL) {
        add_tls(to, of);
    }
    word_list(to, of->options.more);
}

void
mariadb_start(server *out, const server_options *options)
{
    data_prepare(out, KIND_MARIADB, options);
    data_begin(out, "mariadb");
    if (out->options.certs != NULL) {
        data_add_certs(out);
    }
    server_run(out);
}

void
mariadb_ask_words(struct words *to, const server *of, const char *database,
                  const char *text)
{
    word_pair(to, "mariadb", "--no-defaults");
    word_pair(to, "-u", "root");
    word_add(to, word_make(to, "--socket=%s/socket", of->folder));
    word_add(to, "-NB");
    if (database != NULL) {
        word_pair(to, "-D", database);
    }
    word_pair(to, "-e", text);
}
