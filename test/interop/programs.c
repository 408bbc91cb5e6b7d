/* SPDX-License-Identifier: MIT */
/* Which peers there are, where scripts/get-peers put them, and how to run them. See
 * interop.h. */
#include "interop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PATH_SIZE 1024
/* the system's own interpreter: python3-redis belongs to it */
#define PYTHON "/usr/bin/python3"

const struct program program_dibs = { "dibs", "dibs", 1, 1, 1, 1, 1 };

static const struct program incumbents[] = {
    { "redisson", "Redisson", 1, 1, 1, 1, 0 },
    { "python", "redis-py", 0, 0, 1, 0, 0 },
    { "oldpython", "redis-py 2.9", 0, 0, 0, 0, 0 },
    { "node", "node-redlock 4", 0, 0, 1, 0, 0 },
    { "node5", "node-redlock 5", 0, 0, 1, 0, 0 },
    { "go", "redsync", 0, 0, 1, 0, 0 },
    { "curator", "Curator", 1, 1, 1, 1, 1 },
    { "kazoo", "kazoo", 1, 1, 1, 0, 0 },
    { "etcdctl", "etcdctl", 1, 1, 1, 0, 0 },
    { "etcdservices", "etcd's services", 1, 1, 1, 0, 0 },
    { "etcdgo", "etcd's Go client", 1, 1, 1, 0, 0 },
    { "pyetcd3", "python-etcd3", 1, 1, 1, 0, 0 },
    { "consul", "consul lock", 1, 1, 1, 0, 0 },
    { "consulgo", "Consul's Go client", 1, 1, 1, 0, 0 },
    { "shedlock", "ShedLock's SQL", 0, 0, 1, 0, 0 },
    { "spring", "Spring's SQL", 0, 0, 1, 0, 0 },
    /* its locks last longer than the test of that */
    { "oldspring", "Spring's older SQL", 1, 0, 1, 0, 0 },
    { "rails", "with_advisory_lock's SQL", 1, 0, 1, 0, 0 },
    { "dotnet", "DistributedLock's SQL", 1, 0, 1, 0, 0 },
    { "get_lock", "GET_LOCK", 1, 0, 1, 0, 0 },
    { "row", "SELECT FOR UPDATE", 1, 0, 1, 0, 0 },
};

const struct program *
program_find(const char *name)
{
    for (size_t i = 0; i < sizeof(incumbents) / sizeof(incumbents[0]); i++) {
        if (strcmp(incumbents[i].name, name) == 0) {
            return &incumbents[i];
        }
    }
    FAIL("there is no incumbent '%s'", name);
}

static int
is(const struct program *program, const char *name)
{
    return strcmp(program->name, name) == 0;
}

/* the folder of a program: both versions for node come together, and both stores of Go */
static const char *
folder_of(const struct program *program)
{
    if (is(program, "etcdgo") || is(program, "consulgo")) {
        return "gostore";
    }
    return is(program, "node5") ? "node" : program->name;
}

static void
place(char out[PATH_SIZE], const struct program *program, const char *file)
{
    const char *base = getenv("DIBS_PEERS");
    snprintf(out, PATH_SIZE, "%s/%s%s", base != NULL ? base : "peers", folder_of(program),
             file);
}

/* sessions of psql and mariadb */
static int
is_sql(const struct program *program)
{
    static const char *const names[] = { "shedlock", "spring",   "oldspring", "rails",
                                         "dotnet",   "get_lock", "row" };
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if (is(program, names[i])) {
            return 1;
        }
    }
    return 0;
}

/* these come with the servers */
static int
is_at_hand(const struct program *program)
{
    return is(program, "etcdctl") || is(program, "consul") ||
           is(program, "etcdservices") || is_sql(program);
}

const char *
program_missing(const struct program *program)
{
    static char why[256];
    char path[PATH_SIZE];
    if (is_at_hand(program)) {
        return access(PYTHON, X_OK) == 0 ? NULL : "there is no " PYTHON;
    }
    place(path, program, "");
    if (access(path, F_OK) == 0) {
        return NULL;
    }
    place(path, program, ".why");
    FILE *file = fopen(path, "r");
    if (file == NULL || fgets(why, sizeof(why), file) == NULL) {
        snprintf(why, sizeof(why), "%s is not there; scripts/get-peers fetches it",
                 program->title);
    }
    if (file != NULL) {
        fclose(file);
    }
    why[strcspn(why, "\n")] = '\0';
    return why;
}

static void
run_java(const struct program *program)
{
    char classes[2 * PATH_SIZE + 16], path[PATH_SIZE];
    place(path, program, "");
    snprintf(classes, sizeof(classes), "%s:%s/jars/*", path, path);
    /* what starts fastest, and leaves room for others */
    execlp("java", "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx128m",
           "-cp", classes, "Peer", (char *)NULL);
}

static void
run_python(const struct program *program)
{
    char path[PATH_SIZE];
    place(path, program, "");
    if (is(program, "oldpython")) {
        setenv("PYTHONPATH", path, 1);
    }
    execl(PYTHON, "python3", INTEROP_SOURCE "/python/peer.py", (char *)NULL);
}

static void
run_kazoo(const struct program *program)
{
    char path[PATH_SIZE];
    place(path, program, "");
    setenv("PYTHONPATH", path, 1);
    execl(PYTHON, "python3", INTEROP_SOURCE "/kazoo/peer.py", (char *)NULL);
}

/* those that share actors.py; nothing is to be compiled into the source folder */
static void
run_actors(const struct program *program, const char *script)
{
    char path[PATH_SIZE], both[2 * PATH_SIZE];
    place(path, program, "");
    snprintf(both, sizeof(both), "%s:%s", INTEROP_SOURCE, path);
    setenv("PYTHONPATH", both, 1);
    execl(PYTHON, "python3", "-B", script, program->name, (char *)NULL);
}

static void
run_node(const struct program *program)
{
    char path[PATH_SIZE];
    place(path, program, "/node_modules");
    setenv("NODE_PATH", path, 1);
    execlp("node", "node", INTEROP_SOURCE "/node/peer.js",
           is(program, "node5") ? "redlock5" : "redlock", (char *)NULL);
}

static void
run_go(const struct program *program)
{
    char path[PATH_SIZE];
    place(path, program, "/peer");
    execl(path, "peer", (char *)NULL);
}

void
program_run(const struct program *program)
{
    if (is(program, "dibs")) {
        execl("/proc/self/exe", "interop", "dibs", (char *)NULL);
    } else if (is(program, "redisson") || is(program, "curator")) {
        run_java(program);
    } else if (is(program, "kazoo")) {
        run_kazoo(program);
    } else if (strstr(program->name, "python") != NULL) {
        run_python(program);
    } else if (is(program, "etcdctl") || is(program, "consul")) {
        run_actors(program, INTEROP_SOURCE "/commands/peer.py");
    } else if (is(program, "etcdservices")) {
        run_actors(program, INTEROP_SOURCE "/services/peer.py");
    } else if (is_sql(program)) {
        run_actors(program, INTEROP_SOURCE "/sql/peer.py");
    } else if (is(program, "pyetcd3")) {
        run_actors(program, INTEROP_SOURCE "/pyetcd3/peer.py");
    } else if (strcmp(folder_of(program), "gostore") == 0 || is(program, "go")) {
        run_go(program);
    } else {
        run_node(program);
    }
    perror(program->title);
    _exit(127);
}
