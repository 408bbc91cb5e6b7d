/* SPDX-License-Identifier: MIT */
/* One server, at the address in the URL: redis:, rediss: and redis+unix:. */
#include <string.h>

#include "redis.h"

#define DEFAULT_PORT 6379

static int
single_address(const struct redis *redis, const dibs_url_parts *url,
               resp_address *address, dibs_error *err)
{
    if (strcmp(url->scheme, "redis+unix") == 0) {
        if (!*url->path || strlen(url->path) >= sizeof address->host)
            return redis->host->fail(err, DIBS_ECONFIG,
                                     "redis+unix: wants the path of a socket, as in "
                                     "redis+unix:///run/redis/redis.sock");
        memcpy(address->host, url->path, strlen(url->path) + 1);
        address->port = 0;
        return DIBS_OK;
    }
    const char *hosts = *url->hosts ? url->hosts : "127.0.0.1";
    if (strchr(hosts, ',') ||
        dibs__resp_address_parse(address, hosts, strlen(hosts), DEFAULT_PORT) != 0)
        return redis->host->fail(err, DIBS_ECONFIG,
                                 "%s: is for one server, as in %s://127.0.0.1:6379; "
                                 "there are redis+sentinel:, redis+cluster: and redlock: "
                                 "for several",
                                 url->scheme, url->scheme);
    return DIBS_OK;
}

static int
single_open(struct redis *redis, const dibs_url_parts *url, dibs_time deadline,
            dibs_error *err)
{
    resp_address address;
    (void)deadline;
    int rc = single_address(redis, url, &address, err);
    if (rc)
        return rc;
    return dibs__redis_server_for(redis, &address) ? DIBS_OK : DIBS_ENOMEM;
}

static void
single_close(struct redis *redis, int forked)
{
    (void)redis, (void)forked;
}

static int
single_server(struct redis *redis, uint16_t slot, dibs_time deadline, resp_server **out,
              dibs_error *err)
{
    (void)slot, (void)deadline, (void)err;
    *out = redis->servers[0];
    return DIBS_OK;
}

static void
single_rethink(struct redis *redis, uint16_t slot, resp_server *server, const char *said)
{
    (void)redis, (void)slot, (void)server, (void)said;
}

static resp_server *
single_asked(struct redis *redis, const resp_server *server, const char *said)
{
    (void)redis, (void)server, (void)said;
    return NULL;
}

static int
single_each(struct redis *redis, dibs_time deadline,
            int (*visit)(void *context, resp_server *server), void *context,
            dibs_error *err)
{
    (void)deadline, (void)err;
    return visit(context, redis->servers[0]);
}

const struct topology dibs__redis_single = {
    .open = single_open,
    .close = single_close,
    .server = single_server,
    .rethink = single_rethink,
    .asked = single_asked,
    .each = single_each,
};
