/* SPDX-License-Identifier: MIT */
/*
 * The servers: what the URL says of them, and which one is asked first. That is the one in
 * front until it fails; then the next one, and so on around.
 */
#include "http/parts.h"

#include <stdio.h>
#include <string.h>

#include "util/port.h"

/* Many threads find the same server unwilling at the same time: they turn away once. */
#define TURN_ONCE (100 * DIBS_MS)

struct address {
    char host[256]; /* with the brackets of IPv6 */
    uint16_t port;
};

/* What has a meaning in a URL is no part of a host. */
static int
is_host(const char *text, size_t len)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                "0123456789-._";
    int is_v6 = len > 2 && text[0] == '[' && text[len - 1] == ']';
    for (size_t i = is_v6; i < len - is_v6; i++) {
        if (text[i] == '\0' ||
            (!strchr(plain, text[i]) && !(is_v6 && (text[i] == ':' || text[i] == '%'))))
            return 0;
    }
    return len > 0;
}

static int
parse_address(struct address *out, const char *text, size_t len, uint16_t port)
{
    const char *bracket = len > 0 && text[0] == '[' ? memchr(text, ']', len) : NULL;
    size_t skip = bracket ? (size_t)(bracket - text) : 0;
    const char *colon = memchr(text + skip, ':', len - skip);
    size_t host_len = colon ? (size_t)(colon - text) : len;
    if (host_len >= sizeof out->host || !is_host(text, host_len))
        return -1;
    if (colon && parse_port(&port, colon + 1, len - host_len - 1) != 0)
        return -1;
    memcpy(out->host, text, host_len);
    out->host[host_len] = '\0';
    out->port = port;
    return 0;
}

/* A certificate's name that is not the host takes its place in the URL, and libcurl is told
 * where that name really is. */
static void
describe(struct http_server *server, const http_settings *settings,
         const struct address *at)
{
    const char *name = settings->tls && settings->name ? settings->name : at->host;
    (void)snprintf(server->where, sizeof server->where, "%s:%u", at->host, at->port);
    (void)snprintf(server->url, sizeof server->url, "http%s://%s:%u/",
                   settings->tls ? "s" : "", name, at->port);
    if (strcmp(name, at->host) != 0)
        (void)snprintf(server->route, sizeof server->route, "%s:%u:%s:%u", name, at->port,
                       at->host, at->port);
}

static unsigned
count_hosts(const char *hosts)
{
    unsigned count = 1;
    for (; *hosts; hosts++)
        count += *hosts == ',';
    return count;
}

int
dibs__http_servers_parse(http *client, const char *hosts, dibs_error *err)
{
    struct address address;
    const char *text = *hosts ? hosts : "127.0.0.1";
    unsigned count = count_hosts(text);
    const char *name = client->settings.name;
    if (name && (strlen(name) >= sizeof address.host || !is_host(name, strlen(name))))
        return client->host->fail(err, DIBS_ECONFIG, "not the name of a host: %s", name);
    client->servers = client->host->alloc(count * sizeof *client->servers);
    if (!client->servers)
        return client->host->fail(err, DIBS_ENOMEM, "out of memory");
    client->count = count;
    for (unsigned i = 0; i < count; i++) {
        size_t len = strcspn(text, ",");
        if (parse_address(&address, text, len, client->settings.port) != 0)
            return client->host->fail(err, DIBS_ECONFIG,
                                      "not a host, or not a port: %.*s", (int)len, text);
        describe(&client->servers[i], &client->settings, &address);
        text += len + 1;
    }
    return DIBS_OK;
}

/* ---- which one ---- */

unsigned
dibs__http_first(http *client)
{
    return atomic_load_explicit(&client->first, memory_order_acquire);
}

void
dibs__http_failed(http *client, unsigned server)
{
    if (atomic_compare_exchange_strong(&client->first, &server,
                                       (server + 1) % client->count))
        atomic_store(&client->turned, client->host->now());
}

void
dibs__http_avoid(http *client)
{
    if (client->host->now() > atomic_load(&client->turned) + TURN_ONCE)
        dibs__http_failed(client, dibs__http_first(client));
}

void
dibs__http_server(http *client, char *out, size_t size)
{
    (void)snprintf(out, size, "%s", client->servers[dibs__http_first(client)].where);
}
