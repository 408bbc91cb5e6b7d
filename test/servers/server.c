/* SPDX-License-Identifier: MIT */
/* One server, from start to end. See servers.h. */
#include "servers.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "parts.h"

#define READY_LIMIT_MS 10000
#define ARGUMENTS_MAX 64
#define MADE_MAX 16

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

static void
write_acl(const server *of)
{
    FILE *file = server_file(of, "users.acl");
    fprintf(file, "%s\nuser %s on >%s ~* &* +@all\n", of->options.acl, TESTS_USER,
            TESTS_PASSWORD);
    CHECK(fclose(file) == 0);
}

void
server_prepare(server *out, int kind, const server_options *options)
{
    memset(out, 0, sizeof(*out));
    if (options != NULL) {
        out->options = *options;
    }
    if (out->options.program == NULL) {
        out->options.program = kind == KIND_ZOOKEEPER ? "java" : "redis-server";
    }
    out->kind = kind;
    temp_dir(out->folder, sizeof(out->folder),
             access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    out->port = port_take();
    if (kind == KIND_CLUSTER || kind == KIND_ZOOKEEPER) {
        out->bus_port = port_take();
    }
    if (kind == KIND_ZOOKEEPER) {
        out->elect_port = port_take();
    }
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
}

/* The arguments of a server, and memory for those that are made here. */
struct arguments {
    const char *words[ARGUMENTS_MAX + 1];
    char made[MADE_MAX][160];
    int count, made_count;
};

static void
add(struct arguments *to, const char *word)
{
    CHECK(to->count < ARGUMENTS_MAX);
    to->words[to->count++] = word;
}

static void
add_pair(struct arguments *to, const char *option, const char *value)
{
    add(to, option);
    add(to, value);
}

static const char *__attribute__((format(printf, 2, 3)))
make(struct arguments *in, const char *format, ...)
{
    CHECK(in->made_count < MADE_MAX);
    char *text = in->made[in->made_count++];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof(in->made[0]), format, args);
    va_end(args);
    return text;
}

static void
add_tls(struct arguments *to, const server *of)
{
    const char *folder = of->options.certs;
    const char *cert = of->options.cert != NULL ? of->options.cert : "server";
    add_pair(to, "--tls-port", make(to, "%d", of->tls_port));
    add_pair(to, "--tls-ca-cert-file", make(to, "%s/ca.crt", folder));
    add_pair(to, "--tls-cert-file", make(to, "%s/%s.crt", folder, cert));
    add_pair(to, "--tls-key-file", make(to, "%s/%s.key", folder, cert));
    /* a certificate of the client's is welcome, but not asked for */
    add_pair(to, "--tls-auth-clients", "optional");
}

static void
add_role(struct arguments *to, const server *of)
{
    /* a replica may have the data at once */
    add_pair(to, "--repl-diskless-sync-delay", "0");
    if (of->replica_of != 0) {
        add_pair(to, "--replicaof", "127.0.0.1");
        add(to, make(to, "%d", of->replica_of));
    }
    if (of->kind == KIND_CLUSTER) {
        add_pair(to, "--cluster-enabled", "yes");
        add_pair(to, "--cluster-port", make(to, "%d", of->bus_port));
        add_pair(to, "--cluster-node-timeout", make(to, "%d", of->down_after_ms));
    }
}

static void
add_options(struct arguments *to, const server *of)
{
    add_pair(to, "--port", make(to, "%d", of->port));
    add_pair(to, "--bind", "127.0.0.1");
    add_pair(to, "--dir", of->folder);
    add_pair(to, "--save", "");
    add_pair(to, "--appendonly", of->options.durable ? "yes" : "no");
    add_pair(to, "--appendfsync", "always");
    add_pair(to, "--enable-debug-command", "yes");
    if (of->options.unix_socket) {
        add_pair(to, "--unixsocket", of->socket_path);
    }
    if (of->options.acl != NULL) {
        add_pair(to, "--aclfile", make(to, "%s/users.acl", of->folder));
    }
    if (of->options.certs != NULL) {
        add_tls(to, of);
    }
    add_role(to, of);
    for (int i = 0; of->options.more != NULL && of->options.more[i] != NULL; i++) {
        add(to, of->options.more[i]);
    }
}

static void
add_zookeeper(struct arguments *to, const server *of)
{
    const char *words[ZOOKEEPER_ARGUMENTS];
    zookeeper_arguments(words, of, make(to, "%s/zoo.cfg", of->folder));
    for (int i = 0; words[i] != NULL; i++) {
        add(to, words[i]);
    }
}

static void
add_all(struct arguments *to, const server *of)
{
    add(to, of->options.program);
    if (of->kind == KIND_ZOOKEEPER) {
        add_zookeeper(to, of);
    } else if (of->kind == KIND_SENTINEL) {
        /* all the rest is in the file, which the Sentinel itself rewrites */
        add(to, make(to, "%s/sentinel.conf", of->folder));
        add(to, "--sentinel");
    } else {
        add_options(to, of);
    }
}

void
server_respawn(server *again)
{
    struct arguments arguments;
    char log[96];
    CHECK(again->pid == 0 && !again->kept);
    memset(&arguments, 0, sizeof(arguments));
    add_all(&arguments, again);
    (void)snprintf(log, sizeof(log), "%s/log", again->folder);
    again->pid = spawn_program(arguments.words, log);
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

/* it answers, it is this very process, and it has its data */
static int
is_ready(const server *of)
{
    char mark[64];
    if (of->kind == KIND_ZOOKEEPER) {
        return zookeeper_is_ready(of);
    }
    (void)snprintf(mark, sizeof(mark), "process_id:%d\r", (int)of->pid);
    char *info = server_ask(of, "INFO");
    int ready = info != NULL && strstr(info, mark) != NULL &&
                strstr(info, "\nloading:1") == NULL &&
                strstr(info, "async_loading:1") == NULL;
    free(info);
    return ready;
}

void
server_await(const server *of)
{
    int64_t until = now_ms() + slowly(READY_LIMIT_MS);
    while (!is_ready(of)) {
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
    kill_spawned(running->pid);
    running->pid = 0;
}

void
server_stop(server *old)
{
    if (old->kept) {
        /* others use it after us: it must not stay paused */
        (void)kill(old->pid, SIGCONT);
        return;
    }
    if (old->folder[0] == '\0') {
        return;
    }
    kill_spawned(old->pid);
    old->pid = 0;
    remove_tree(old->folder);
    old->folder[0] = '\0';
    port_give_back(old->port);
    port_give_back(old->bus_port);
    port_give_back(old->elect_port);
    port_give_back(old->tls_port);
}

/* the third word after the name in /proc/PID/stat is the state; T is stopped */
static int
stands_still(pid_t pid)
{
    char path[64], line[256] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "re");
    CHECK(file != NULL);
    (void)!fgets(line, sizeof(line), file);
    fclose(file);
    const char *state = strrchr(line, ')');
    return state != NULL && state[1] == ' ' && state[2] == 'T';
}

void
server_pause(const server *running)
{
    int64_t until = now_ms() + slowly(5000);
    CHECK(running->pid > 0 && kill(running->pid, SIGSTOP) == 0);
    while (!stands_still(running->pid)) {
        CHECK(now_ms() < until);
        sleep_ms(1);
    }
}

void
server_resume(const server *running)
{
    CHECK(running->pid > 0 && kill(running->pid, SIGCONT) == 0);
}
