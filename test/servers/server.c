/* SPDX-License-Identifier: MIT */
/* One server, from start to end. See servers.h. */
#include "servers.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parts.h"

#define READY_LIMIT_MS 30000

int
server_present(const char *program)
{
    char path[4096];
    const char *folders = getenv("PATH");
    if (strchr(program, '/') != NULL) {
        return access(program, X_OK) == 0;
    }
    while (folders != NULL && *folders != '\0') {
        size_t len = strcspn(folders, ":");
        (void)snprintf(path, sizeof(path), "%.*s/%s", (int)len, folders, program);
        if (access(path, X_OK) == 0) {
            return 1;
        }
        folders += len + (folders[len] == ':');
    }
    return 0;
}

FILE *
server_file(const server *of, const char *name)
{
    char path[128];
    (void)snprintf(path, sizeof(path), "%s/%s", of->folder, name);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL);
    return file;
}

void
server_copy(const char *from, const server *to, const char *as)
{
    struct words words;
    memset(&words, 0, sizeof(words));
    word_pair(&words, "cp", "-a");
    word_pair(&words, from, word_make(&words, "%s/%s", to->folder, as));
    run_surely(&words);
}

static void
write_acl(const server *of)
{
    FILE *file = server_file(of, "users.acl");
    fprintf(file, "%s\nuser %s on >%s ~* &* +@all\n", of->options.acl, TESTS_USER,
            TESTS_PASSWORD);
    CHECK(fclose(file) == 0);
}

static void
add_tls(struct words *to, const server *of)
{
    const char *folder = of->options.certs;
    const char *cert = of->options.cert != NULL ? of->options.cert : "server";
    word_pair(to, "--tls-port", word_make(to, "%d", of->tls_port));
    word_pair(to, "--tls-ca-cert-file", word_make(to, "%s/ca.crt", folder));
    word_pair(to, "--tls-cert-file", word_make(to, "%s/%s.crt", folder, cert));
    word_pair(to, "--tls-key-file", word_make(to, "%s/%s.key", folder, cert));
    /* a certificate of the client's is welcome, but not asked for */
    word_pair(to, "--tls-auth-clients", "optional");
}

/* where a server sends clients and the others, and whence it comes itself */
static void
add_wire(struct words *to, const server *of)
{
    int is_node = of->kind == KIND_CLUSTER;
    word_pair(to, "--bind-source-addr", SPARED);
    word_pair(to, is_node ? "--cluster-announce-ip" : "--replica-announce-ip",
              "127.0.0.1");
    word_pair(to, is_node ? "--cluster-announce-port" : "--replica-announce-port",
              word_make(to, "%d", of->wire_port));
}

static void
add_role(struct words *to, const server *of)
{
    /* a replica may have the data at once */
    word_pair(to, "--repl-diskless-sync-delay", "0");
    if (of->replica_of != 0) {
        word_pair(to, "--replicaof", "127.0.0.1");
        word_add(to, word_make(to, "%d", of->replica_of));
    }
    if (of->kind == KIND_CLUSTER) {
        word_pair(to, "--cluster-enabled", "yes");
        word_pair(to, "--cluster-port", word_make(to, "%d", of->bus_port));
        word_pair(to, "--cluster-node-timeout", word_make(to, "%d", of->down_after_ms));
    }
    if (of->wire_port != 0) {
        add_wire(to, of);
    }
}

static void
add_options(struct words *to, const server *of)
{
    word_pair(to, "--port", word_make(to, "%d", of->port));
    word_pair(to, "--bind", "127.0.0.1");
    word_pair(to, "--dir", of->folder);
    word_pair(to, "--save", "");
    word_pair(to, "--appendonly",
              of->options.durable || of->options.everysec ? "yes" : "no");
    word_pair(to, "--appendfsync", of->options.everysec ? "everysec" : "always");
    word_pair(to, "--enable-debug-command", "yes");
    if (of->options.unix_socket) {
        word_pair(to, "--unixsocket", of->socket_path);
    }
    if (of->options.acl != NULL) {
        word_pair(to, "--aclfile", word_make(to, "%s/users.acl", of->folder));
    }
    if (of->options.certs != NULL) {
        add_tls(to, of);
    }
    add_role(to, of);
    word_list(to, of->options.more);
}

static void
add_sentinel(struct words *to, const server *of)
{
    /* all the rest is in the file, which the Sentinel itself rewrites */
    word_add(to, word_make(to, "%s/sentinel.conf", of->folder));
    word_add(to, "--sentinel");
}

/* it answers, it is this very process, and it has its data */
static int
redis_is_ready(const server *of)
{
    char mark[64];
    (void)snprintf(mark, sizeof(mark), "process_id:%d\r", (int)of->pid);
    char *info = server_ask(of, "INFO");
    int ready = info != NULL && strstr(info, mark) != NULL &&
                strstr(info, "\nloading:1") == NULL &&
                strstr(info, "async_loading:1") == NULL;
    free(info);
    return ready;
}

/* how a server is run: with what program and words, and on how many ports of its own
 * besides the one for clients */
static const struct kind {
    const char *program;
    int ports;
    void (*add)(struct words *to, const server *of);
    int (*is_ready)(const server *of);
} kinds[] = {
    [KIND_ALONE] = { "redis-server", 0, add_options, redis_is_ready },
    [KIND_SENTINEL] = { "redis-server", 0, add_sentinel, redis_is_ready },
    [KIND_CLUSTER] = { "redis-server", 1, add_options, redis_is_ready },
    [KIND_ZOOKEEPER] = { "java", 2, zookeeper_words, zookeeper_is_ready },
    [KIND_ETCD] = { "etcd", 1, etcd_words, etcd_is_ready },
    [KIND_CONSUL] = { "consul", 2, consul_words, consul_is_ready },
    [KIND_POSTGRES] = { "setpriv", 0, postgres_words, sql_is_ready },
    [KIND_PGBOUNCER] = { "setpriv", 0, pgbouncer_words, sql_is_ready },
    [KIND_MARIADB] = { "setpriv", 0, mariadb_words, sql_is_ready },
};

void
server_prepare(server *out, int kind, const server_options *options)
{
    memset(out, 0, sizeof(*out));
    if (options != NULL) {
        out->options = *options;
    }
    if (out->options.program == NULL) {
        out->options.program = kinds[kind].program;
    }
    out->kind = kind;
    temp_dir(out->folder, sizeof(out->folder),
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    out->port = port_take();
    out->bus_port = kinds[kind].ports > 0 ? port_take() : 0;
    out->elect_port = kinds[kind].ports > 1 ? port_take() : 0;
    if (out->options.certs != NULL) {
        out->tls_port = port_take();
    }
    if (out->options.unix_socket) {
        (void)snprintf(out->socket_path, sizeof(out->socket_path), "%s/socket",
                       out->folder);
    }
    if (out->options.acl != NULL) {
        write_acl(out);
    }
    preload_begin(out);
}

void
server_respawn(server *again)
{
    struct words words;
    char log[96];
    CHECK(again->pid == 0 && !again->kept);
    memset(&words, 0, sizeof(words));
    preload_words(&words, again);
    word_add(&words, again->options.program);
    kinds[again->kind].add(&words, again);
    (void)snprintf(log, sizeof(log), "%s/log", again->folder);
    again->pid = spawn_program(words.list, log);
}

/* what the server printed, into our own output, for whoever looks for the reason */
static void
show_log(const server *of)
{
    char path[96], line[512];
    (void)snprintf(path, sizeof(path), "%s/log", of->folder);
    FILE *log = fopen(path, "re");
    while (log != NULL && fgets(line, sizeof(line), log) != NULL) {
        fputs(line, stderr);
    }
    if (log != NULL) {
        fclose(log);
    }
}

void
server_await(const server *of)
{
    int64_t until = now_ms() + slowly(READY_LIMIT_MS);
    while (!kinds[of->kind].is_ready(of)) {
        siginfo_t end = { 0 };
        waitid(P_PID, (id_t)of->pid, &end, WEXITED | WNOHANG | WNOWAIT);
        if (end.si_pid != 0 || now_ms() > until) {
            show_log(of);
            FAIL("%s at port %d %s", of->options.program, of->port,
                 end.si_pid != 0 ? "ends" : "does not answer");
        }
        sleep_ms(5);
    }
}

void
server_run(server *prepared)
{
    server_respawn(prepared);
    server_await(prepared);
}

void
server_restart(server *again)
{
    server_run(again);
}

void
server_start(server *out, const server_options *options)
{
    server_prepare(out, KIND_ALONE, options);
    server_run(out);
}

void
server_kill(server *running)
{
    CHECK(!running->kept);
    family_kill(running->pid);
    running->pid = 0;
}

void
server_stop(server *old)
{
    if (old->kept) {
        /* others use it after us: it must not stay paused */
        family_resume(old->pid);
        return;
    }
    if (old->folder[0] == '\0') {
        return;
    }
    family_kill(old->pid);
    old->pid = 0;
    if (old->kind == KIND_POSTGRES) {
        postgres_forget(old);
    }
    remove_tree(old->folder);
    old->folder[0] = '\0';
    port_give_back(old->port);
    port_give_back(old->bus_port);
    port_give_back(old->elect_port);
    port_give_back(old->tls_port);
}

void
server_pause(const server *running)
{
    family_pause(running->pid);
}

void
server_resume(const server *running)
{
    CHECK(running->pid > 0);
    family_resume(running->pid);
}
