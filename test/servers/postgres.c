/* SPDX-License-Identifier: MIT */
/* PostgreSQL. It does not run as root: then it is the user "postgres". See servers.h. */
#include <fcntl.h>
#include <glob.h>
#include <stdlib.h>
#include <string.h>
#include <sys/shm.h>
#include <unistd.h>

#include "parts.h"

#define SUPERUSER "postgres"

/* ---- programs ---- */

/* the newest of those that Debian keeps side by side; "": what is on the path. It is looked
 * for once, so that it is known in a signal handler too. */
static const char *
programs(void)
{
    static char best[128];
    static int known;
    glob_t found;
    if (known) {
        return best;
    }
    known = 1;
    if (glob("/usr/lib/postgresql/*/bin/", 0, NULL, &found) != 0) {
        return best;
    }
    for (size_t i = 0; i < found.gl_pathc; i++) {
        if (strverscmp(found.gl_pathv[i], best) > 0) {
            (void)snprintf(best, sizeof(best), "%s", found.gl_pathv[i]);
        }
    }
    globfree(&found);
    return best;
}

const char *
postgres_program(struct words *in, const char *name)
{
    return word_make(in, "%s%s", programs(), name);
}

int
postgres_present(void)
{
    struct words words = { .count = 0 };
    return server_present("setpriv") &&
           server_present(postgres_program(&words, "initdb")) &&
           server_present(postgres_program(&words, "postgres")) &&
           server_present(postgres_program(&words, "psql"));
}

void
as_postgres(struct words *to, const char *signal)
{
    if (geteuid() == 0) {
        word_add(to, "--reuid=" SUPERUSER);
        word_add(to, "--regid=" SUPERUSER);
        word_add(to, "--init-groups");
    }
    /* to become another user ends what was said of our death before */
    word_pair(to, "--pdeathsig", signal);
}

/* ---- starting ---- */

void
postgres_make_data(const server *of)
{
    struct words words;
    own_folder(of);
    memset(&words, 0, sizeof(words));
    word_add(&words, "setpriv");
    as_postgres(&words, "KILL");
    word_add(&words, postgres_program(&words, "initdb"));
    word_pair(&words, "-D", word_make(&words, "%s/data", of->folder));
    word_pair(&words, "-U", SUPERUSER);
    word_pair(&words, "-E", "UTF8");
    word_pair(&words, "-A", "trust");
    word_pair(&words, "--no-sync", "--no-locale");
    word_add(&words, "--wal-segsize=1");
    run_surely(&words);
}

static void
write_config(const server *of)
{
    FILE *file = server_file(of, "data/postgresql.conf");
    fprintf(file, "port = %d\nlisten_addresses = '127.0.0.1'\n", of->port);
    fprintf(file, "unix_socket_directories = '%s'\n", of->folder);
    fprintf(file, "fsync = %s\n", of->options.durable ? "on" : "off");
    fputs("max_connections = 300\nshared_buffers = 16MB\njit = off\n"
          /* in its folder, which goes away */
          "dynamic_shared_memory_type = mmap\n",
          file);
    if (of->options.certs != NULL) {
        fprintf(file, "ssl = on\nssl_ca_file = '%s/ca.crt'\n", of->folder);
        fprintf(file, "ssl_cert_file = '%s/own.crt'\nssl_key_file = '%s/own.key'\n",
                of->folder, of->folder);
    }
    if (of->replica_of != 0) {
        fprintf(file,
                "primary_conninfo = 'host=127.0.0.1 port=%d user=" SUPERUSER
                " application_name=" POSTGRES_STANDBY "'\n"
                "wal_retrieve_retry_interval = 100ms\n",
                of->replica_of);
    }
    fprintf(file, "%s\n", of->options.config != NULL ? of->options.config : "");
    CHECK(fclose(file) == 0);
}

static void
write_access(const server *of)
{
    FILE *file = server_file(of, "data/pg_hba.conf");
    int tls = of->options.certs != NULL;
    const char *kind = tls ? "hostssl" : "host";
    fputs("local all,replication " SUPERUSER " trust\n", file);
    fprintf(file, "%s all,replication " SUPERUSER " 127.0.0.1/32 trust\n", kind);
    fprintf(file, "%s all " SUPERUSER " ::1/128 trust\n", kind);
    fprintf(file, "%s all all 127.0.0.1/32 scram-sha-256%s\n", kind,
            tls ? " clientcert=verify-ca" : "");
    CHECK(fclose(file) == 0);
}

void
postgres_words(struct words *to, const server *of)
{
    /* ended so, it leaves nothing in the system */
    as_postgres(to, "QUIT");
    word_add(to, postgres_program(to, "postgres"));
    word_pair(to, "-D", word_make(to, "%s/data", of->folder));
    word_list(to, of->options.more);
}

void
postgres_configure(const server *of)
{
    write_config(of);
    write_access(of);
    own_folder(of);
}

void
postgres_start(server *out, const server_options *options)
{
    data_prepare(out, KIND_POSTGRES, options);
    data_begin(out, "postgres");
    if (out->options.certs != NULL) {
        data_add_certs(out);
    }
    postgres_configure(out);
    server_run(out);
}

/* ---- asking ---- */

/* over its Unix socket, or over TCP if it is a PgBouncer */
void
postgres_ask_words(struct words *to, const server *of, const char *database,
                   const char *text)
{
    word_add(to, postgres_program(to, "psql"));
    word_add(to, "-XqAt");
    word_pair(to, "-v", "ON_ERROR_STOP=1");
    word_pair(to, "-F", "\t");
    word_pair(to, "-U", SUPERUSER);
    word_pair(to, "-h", of->kind == KIND_POSTGRES ? of->folder : "127.0.0.1");
    word_pair(to, "-p", word_make(to, "%d", of->port));
    word_pair(to, "-d", database != NULL ? database : SUPERUSER);
    word_pair(to, "-c", text);
}

/* ---- ending ---- */

/* the seventh line of this file is "KEY ID" */
int
postgres_segment(const server *of)
{
    char path[96], text[512];
    (void)snprintf(path, sizeof(path), "%s/data/postmaster.pid", of->folder);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t len = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    if (fd >= 0) {
        close(fd);
    }
    text[len > 0 ? len : 0] = '\0';
    const char *line = text;
    for (int i = 1; line != NULL && i < 7; i++) {
        line = strchr(line, '\n');
        line = line != NULL ? line + 1 : NULL;
    }
    char *id = NULL;
    int found = line != NULL && strtoul(line, &id, 10) != 0 && *id == ' ';
    return found ? (int)strtol(id, NULL, 10) : -1;
}

void
postgres_forget(const server *of)
{
    int id = postgres_segment(of);
    if (id >= 0) {
        (void)shmctl(id, IPC_RMID, NULL);
    }
}
