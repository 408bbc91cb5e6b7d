/* SPDX-License-Identifier: MIT */
/* The servers of a URL for HTTP (http/servers.c): nothing of it becomes another part of the
 * URL that is asked. */
#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "fuzz.h"
#include "http/parts.h"

static void
check_server(const struct http_server *server)
{
    const char *host = strstr(server->url, "://") + 3;
    HOLDS(strncmp(server->url, "http", 4) == 0);
    HOLDS(strcspn(host, "/?#@ \r\n\\") == strlen(host) - 1);
    HOLDS(host[strlen(host) - 1] == '/');
    HOLDS(fuzz_is_line(server->where) && strrchr(server->where, ':'));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    http client = { .host = &dibs__host, .settings = { .port = 2379 } };
    size_t name_len, hosts_len;
    client.settings.tls = fuzz_byte(&input) & 1;
    const char *part = fuzz_part(&input, 1000, &name_len);
    char *name = name_len ? fuzz_text(part, name_len) : NULL;
    client.settings.name = name;
    part = fuzz_part(&input, SIZE_MAX, &hosts_len);
    char *hosts = fuzz_text(part, hosts_len);
    dibs_error err = { 0 };
    int rc = dibs__http_servers_parse(&client, hosts, &err);
    HOLDS(rc == DIBS_OK || rc == DIBS_ECONFIG);
    for (unsigned i = 0; !rc && i < client.count; i++)
        check_server(&client.servers[i]);
    dibs__host.free(client.servers);
    free(hosts);
    free(name);
    return 0;
}
