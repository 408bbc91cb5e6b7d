/* SPDX-License-Identifier: MIT */
/*
 * Where a database begins: its files, which take a second to make and a moment to copy; its
 * certificates. See parts.h and servers.h.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"

void
own_folder(const server *of)
{
    struct words words;
    if (geteuid() != 0) {
        return; /* it is ours, and so is the server */
    }
    memset(&words, 0, sizeof(words));
    word_pair(&words, "chown", "-R");
    word_pair(&words, "postgres:", of->folder);
    run_surely(&words);
}

/* ---- files ---- */

void
data_prepare(server *out, int kind, const server_options *options)
{
    server_prepare(out, kind, options);
    /* they have one port for both */
    port_give_back(out->tls_port);
    out->tls_port = 0;
}

static const struct maker {
    const char *kind;
    int number;
    void (*make)(const server *of);
} makers[] = {
    { "postgres", KIND_POSTGRES, postgres_make_data },
    { "mariadb", KIND_MARIADB, mariadb_make_data },
};

static const struct maker *
find_maker(const char *kind)
{
    for (size_t i = 0; i < sizeof(makers) / sizeof(makers[0]); i++) {
        if (strcmp(makers[i].kind, kind) == 0) {
            return &makers[i];
        }
    }
    FAIL("there are no servers of the kind '%s'", kind);
}

void
data_begin(const server *of, const char *kind)
{
    const char *made = getenv("SERVERS_DATA");
    char path[4096] = "";
    if (made != NULL) {
        (void)snprintf(path, sizeof(path), "%s/%s", made, kind);
    }
    if (made != NULL && access(path, R_OK) == 0) {
        server_copy(path, of, "data");
    } else {
        find_maker(kind)->make(of);
    }
}

void
data_make(const char *kind, const char *folder)
{
    const struct maker *maker = find_maker(kind);
    server nobody;
    struct words words;
    memset(&words, 0, sizeof(words));
    server_prepare(&nobody, maker->number, NULL);
    maker->make(&nobody);
    word_pair(&words, "cp", "-a");
    word_pair(&words, word_make(&words, "%s/data", nobody.folder), folder);
    run_surely(&words);
    server_stop(&nobody);
}

void
data_add_certs(const server *of)
{
    static const char *const suffixes[] = { "crt", "key" };
    const char *cert = of->options.cert != NULL ? of->options.cert : "server";
    char path[256], name[16];
    (void)snprintf(path, sizeof(path), "%s/ca.crt", of->options.certs);
    server_copy(path, of, "ca.crt");
    for (int i = 0; i < 2; i++) {
        (void)snprintf(path, sizeof(path), "%s/%s.%s", of->options.certs, cert,
                       suffixes[i]);
        (void)snprintf(name, sizeof(name), "own.%s", suffixes[i]);
        server_copy(path, of, name);
    }
}
