/* SPDX-License-Identifier: MIT */
/* SQLite has no server: here, it is a folder. */
#include <stdio.h>
#include <unistd.h>

#include "sqlite_bench.h"

static char folders[LOGS][400];

void
server_start(server *s, const char *dir)
{
    snprintf(folders[s->log], sizeof folders[s->log], "%s", dir);
    s->pid = getpid();
}

void
server_url(char *out, size_t size, const server *s, const char *layout)
{
    (void)layout; /* it has one */
    snprintf(out, size, "sqlite:%s/locks", folders[s->log]);
}

server_counts
server_count(const server *s)
{
    (void)s;
    return (server_counts){ 0, 0 };
}

void
sqlite_floor(char *out, size_t size, const server *s)
{
    snprintf(out, size, "%s/floor", folders[s->log]);
}
