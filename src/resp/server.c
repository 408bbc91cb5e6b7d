/* SPDX-License-Identifier: MIT */
/*
 * One server: a few links to it, and which of them to take.
 *
 * Two threads on one link cost each other more than two links do; but many threads on a
 * link are carried along by each other. So a caller takes a link that nobody uses, if
 * there are fewer callers than links; then few threads have a connection each, and a lone
 * one always uses the first. Else the lane's number decides.
 *
 * Order is kept per lane, which is some bits of the hash. As long as anything of a lane may
 * still be executed, its next op goes over the same link, and so behind it; also if it had
 * no answer because the connection was lost, for only that link knows what to kill. As soon
 * as an answer has come, all before it is settled, and any link will do.
 */
#include "resp/link.h"

#define LANES 64
/* for a server that owes us answers when we close */
#define DRAIN_LIMIT (250 * DIBS_MS)

struct resp_server {
    const resp_access *access;
    resp_address address;
    struct lane lanes[LANES];
    unsigned count;
    resp_link *links[];
};

resp_server *
dibs__resp_server_new(const resp_access *access, const resp_address *address)
{
    const dibs_host *host = access->host;
    unsigned count = access->connections > 0 ? access->connections : 1;
    resp_server *server = host->alloc(sizeof(*server) + count * sizeof(resp_link *));
    if (server == NULL)
        return NULL;
    server->access = access;
    server->address = *address;
    server->count = count;
    for (unsigned i = 0; i < LANES; i++)
        pthread_mutex_init(&server->lanes[i].mutex, NULL);
    for (unsigned i = 0; i < count; i++) {
        server->links[i] = dibs__link_new(access, address);
        if (server->links[i] == NULL) {
            dibs__resp_server_free(server, 0);
            return NULL;
        }
    }
    return server;
}

void
dibs__resp_server_free(resp_server *server, int forked)
{
    if (server == NULL)
        return;
    dibs_time limit = forked ? 0 : server->access->host->now() + DRAIN_LIMIT;
    for (unsigned i = 0; i < server->count; i++) {
        if (!forked && server->links[i] != NULL)
            dibs__link_drain(server->links[i], limit);
        dibs__link_free(server->links[i], forked);
    }
    if (forked)
        return;
    for (unsigned i = 0; i < LANES; i++)
        pthread_mutex_destroy(&server->lanes[i].mutex);
    server->access->host->free(server);
}

const resp_address *
dibs__resp_server_address(const resp_server *server)
{
    return &server->address;
}

/* ---- which link ---- */

/* The low bits of a hash choose other things, too: mix first. */
unsigned
dibs__resp_lane(const resp_server *server, uint64_t hash)
{
    (void)server;
    return (unsigned)(hash * 0x9E3779B97F4A7C15u >> 32) % LANES;
}

/* reserves a link that is not bound by order */
static resp_link *
choose(resp_server *server, unsigned number)
{
    unsigned load = 0;
    for (unsigned i = 0; i < server->count; i++)
        load += dibs__link_load(server->links[i]);
    for (unsigned i = 0; i < server->count && load < server->count; i++) {
        if (dibs__link_try_reserve(server->links[i]))
            return server->links[i];
    }
    resp_link *link = server->links[number % server->count];
    dibs__link_reserve(link);
    return link;
}

static int
is_bound(const struct lane *lane)
{
    return atomic_load(&lane->pending) > 0 || atomic_load(&lane->is_unsettled);
}

/* reserves the link for the next op of a lane, and counts that as pending */
static resp_link *
enter(resp_server *server, unsigned number)
{
    struct lane *lane = &server->lanes[number];
    pthread_mutex_lock(&lane->mutex);
    if (is_bound(lane))
        dibs__link_reserve(lane->link);
    else
        lane->link = choose(server, number);
    resp_link *link = lane->link;
    atomic_fetch_add(&lane->pending, 1);
    pthread_mutex_unlock(&lane->mutex);
    return link;
}

/* ---- the ways in ---- */

int
dibs__resp_send(resp_server *server, uint64_t hash, const resp_request *request,
                dibs_time deadline, resp_op **op, dibs_error *err)
{
    unsigned number = dibs__resp_lane(server, hash);
    resp_link *link = enter(server, number);
    return dibs__link_send(link, &server->lanes[number], request, deadline, op, err);
}

int
dibs__resp_call(resp_server *server, uint64_t hash, const resp_request *request,
                dibs_time deadline, redisReply **replies, dibs_error *err)
{
    unsigned number = dibs__resp_lane(server, hash);
    resp_link *link = enter(server, number);
    return dibs__link_call(link, &server->lanes[number], request, deadline, replies, err);
}

int
dibs__resp_is_stalled(resp_server *server, uint64_t hash)
{
    struct lane *lane = &server->lanes[dibs__resp_lane(server, hash)];
    int is_stalled = 0;
    pthread_mutex_lock(&lane->mutex);
    if (is_bound(lane)) {
        is_stalled = dibs__link_is_stalled(lane->link);
    } else {
        for (unsigned i = 0; i < server->count; i++)
            is_stalled |= dibs__link_is_stalled(server->links[i]);
    }
    pthread_mutex_unlock(&lane->mutex);
    return is_stalled;
}
