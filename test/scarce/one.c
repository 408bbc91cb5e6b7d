/* SPDX-License-Identifier: MIT */
/* One server that is started with options, for the cases that need them. See scarce.h. */
#include "scarce.h"

/* the database that URLs of the sweeps name */
#define DATABASE "sweeps"

server one;

static int
has_databases(void)
{
    return strcmp(at->engine, "postgres") == 0 || strcmp(at->engine, "mysql") == 0;
}

void
one_start(const server_options *options)
{
    static const struct {
        const char *engine;
        void (*start)(server *out, const server_options *options);
    } starts[] = {
        { "redis", server_start },      { "zookeeper", zookeeper_start },
        { "etcd", etcd_start },         { "consul", consul_start },
        { "postgres", postgres_start }, { "mysql", mariadb_start },
    };
    for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
        if (strcmp(starts[i].engine, at->engine) == 0) {
            starts[i].start(&one, options);
        }
    }
    if (has_databases()) {
        sql_do(&one, NULL, "CREATE DATABASE " DATABASE);
    }
}

void
one_url(char *out, size_t size, const char *host)
{
    char hosts[80];
    (void)snprintf(hosts, sizeof(hosts), "%s:%d", host, one.port);
    at->print_url(out, size, hosts);
}

void
one_clean_up(void)
{
    server_stop(&one);
    at->stage.clean_up();
}
