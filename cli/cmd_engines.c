/* SPDX-License-Identifier: MIT */
/* dibs engines: which engines are built in, which are installed, where modules live. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "common.h"
#include "table.h"

static const struct engine {
    const char *name, *url, *text;
} engines[] = {
    { "local", "local: local:/DIR", "shared memory on this machine" },
    { "mock", "mock:", "scripted faults, for tests" },
    { "redis", "redis://HOST rediss:// redis+unix: redis+sentinel: redis+cluster:",
      "Redis or Valkey" },
    { "redlock", "redlock://HOST,HOST,HOST", "a majority of independent Redis servers" },
    { "zookeeper", "zk://HOST,HOST,HOST/CHROOT", "ZooKeeper" },
    { "etcd", "etcd://HOST,HOST,HOST etcds://", "etcd" },
    { "consul", "consul://HOST consuls://", "Consul" },
    { "postgres", "postgres://HOST/DATABASE", "PostgreSQL" },
    { "mysql", "mysql://HOST/DATABASE mariadb://", "MySQL or MariaDB" },
    { "sqlite", "sqlite:/PATH", "a SQLite file on this machine" },
};
#define ENGINE_COUNT (sizeof engines / sizeof *engines)

/* where the library looks for modules, as it decides it */
static const char *
module_folder(void)
{
    const char *folder = secure_getenv("DIBS_ENGINE_DIR");
    return folder && *folder ? folder : DIBS_ENGINE_DIR;
}

static const char *
status_of(const char *name)
{
    char path[PATH_MAX];
    if (strcmp(name, "local") == 0)
        return "built in";
    snprintf(path, sizeof path, "%s/dibs-engine-%s.so", module_folder(), name);
    return access(path, F_OK) == 0 ? "installed" : "not installed";
}

static int
print_json(void)
{
    for (size_t i = 0; i < ENGINE_COUNT; i++) {
        struct json json;
        json_begin(&json);
        json_text(&json, "engine", engines[i].name);
        json_text(&json, "status", status_of(engines[i].name));
        json_text(&json, "url", engines[i].url);
        if (json_end(&json, stdout) != 0)
            return 1;
    }
    return 0;
}

static int
print_table(const struct options *options)
{
    static const char *const heads[] = { "ENGINE", "STATUS", "WHAT", "URL" };
    struct table table;
    table_init(&table, 4, heads);
    for (size_t i = 0; i < ENGINE_COUNT; i++) {
        table_add(&table, "%s", engines[i].name);
        table_add(&table, "%s", status_of(engines[i].name));
        table_add(&table, "%s", engines[i].text);
        table_add(&table, "%s", engines[i].url);
    }
    if (table_print(&table, stdout) != 0)
        return say_out_of_memory(options);
    printf("\nModules are looked for in %s\n", module_folder());
    return 0;
}

int
cmd_engines(int argc, char **argv)
{
    struct options options;
    int first = 0, end = opt_parse(&options, &first, argc, argv);
    if (end < 0)
        end = opt_operands(options.verb, argc - first, 0, 0);
    if (end >= 0)
        return end;
    return options.json ? print_json() : print_table(&options);
}
