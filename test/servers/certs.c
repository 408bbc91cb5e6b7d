/* SPDX-License-Identifier: MIT */
/* Certificates for TLS, made by the openssl command. See servers.h. */
#include "servers.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#define WORDS_MAX 40

/* runs a command that is given as one text; its words have no blanks */
static void __attribute__((format(printf, 2, 3)))
run(const char *folder, const char *format, ...)
{
    char text[1024], log[160], *rest = NULL;
    const char *words[WORDS_MAX + 1] = { NULL };
    int count = 0;
    va_list args;
    va_start(args, format);
    CHECK(vsnprintf(text, sizeof(text), format, args) < (int)sizeof(text));
    va_end(args);
    for (char *at = text; (at = strtok_r(at, " ", &rest)) != NULL; at = NULL) {
        CHECK(count < WORDS_MAX);
        words[count++] = at;
    }
    (void)snprintf(log, sizeof(log), "%s/log", folder);
    int status = reap(spawn_program(words, log), slowly(10000));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        FAIL("%s %s fails with status 0x%x", words[0], words[1], (unsigned)status);
    }
}

#define NEW_KEY "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"

static void
make_authority(const char *folder, const char *name)
{
    run(folder,
        "openssl req -x509 " NEW_KEY " -days 2 -subj /CN=dibs-test-%s -keyout "
        "%s/%s.key -out %s/%s.crt",
        name, folder, name, folder, name);
}

static void
make_signed(const char *folder, const char *name, const char *hosts, int days)
{
    run(folder,
        "openssl req -new " NEW_KEY " -subj /CN=dibs-test-%s -addext "
        "subjectAltName=%s -keyout %s/%s.key -out %s/%s.csr",
        name, hosts, folder, name, folder, name);
    run(folder,
        "openssl x509 -req -CA %s/ca.crt -CAkey %s/ca.key -CAcreateserial "
        "-copy_extensions copyall -days %d -in %s/%s.csr -out %s/%s.crt",
        folder, folder, days, folder, name, folder, name);
}

int
certs_make(const char *folder)
{
    if (!server_present("openssl")) {
        return -1;
    }
    make_authority(folder, "ca");
    make_authority(folder, "other");
    make_signed(folder, "server", "IP:127.0.0.1,DNS:localhost", 2);
    make_signed(folder, "client", "DNS:client", 2);
    make_signed(folder, "elsewhere", "DNS:elsewhere.example", 2);
    make_signed(folder, "expired", "IP:127.0.0.1,DNS:localhost", -1);
    return 0;
}

void
certs_folder(char *out, size_t size)
{
    temp_dir(out, size, "/tmp");
    if (certs_make(out) != 0) {
        remove_tree(out);
        printf("skipped: there is no openssl command\n");
        exit(EXIT_SKIPPED);
    }
}
