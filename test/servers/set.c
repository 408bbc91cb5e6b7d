/* SPDX-License-Identifier: MIT */
/*
 * Several servers: side by side, with Sentinels, as a Cluster. See servers.h.
 *
 * Sentinels and nodes of a Cluster find each other in seconds when they start with
 * nothing. Here they start with the files they would have written by then, and so are in
 * order as soon as they have talked to each other once.
 */
#include "servers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "parts.h"

#define READY_LIMIT_MS 30000
#define LEADER_LIMIT_MS 30000
#define SENTINELS 3
#define DATA_SERVERS 3 /* with Sentinels */
#define SHARDS 3
#define SLOTS 16384

static const set_options no_options;

/* the name of a Sentinel or a node: 40 hexadecimal digits */
struct identity {
    char text[41];
};

static void
make_identities(struct identity *out, int count)
{
    unsigned char random[20];
    for (int i = 0; i < count; i++) {
        CHECK(getrandom(random, sizeof(random), 0) == (ssize_t)sizeof(random));
        for (size_t j = 0; j < sizeof(random); j++) {
            (void)snprintf(out[i].text + 2 * j, 3, "%02x", random[j]);
        }
    }
}

static server *
new_server(server_set *in, int kind, const set_options *options)
{
    CHECK(in->count < SET_MAX);
    server *new = &in->servers[in->count++];
    server_prepare(new, kind, &options->each);
    new->down_after_ms = options->down_after_ms != 0 ? options->down_after_ms : 5000;
    return new;
}

void
set_await(const server_set *set)
{
    for (int i = 0; i < set->count; i++) {
        if (set->servers[i].pid > 0) {
            server_await(&set->servers[i]);
        }
    }
}

/* all at once, which takes no longer than one */
void
set_run(server_set *set)
{
    for (int i = 0; i < set->count; i++) {
        server_respawn(&set->servers[i]);
    }
    set_await(set);
}

int
set_leader(const server_set *set, int (*leads)(const server *))
{
    int64_t until = now_ms() + slowly(LEADER_LIMIT_MS);
    while (now_ms() < until) {
        for (int i = 0; i < set->count; i++) {
            if (set->servers[i].pid > 0 && leads(&set->servers[i])) {
                return i;
            }
        }
        sleep_ms(10);
    }
    FAIL("none of the %d servers leads", set->count);
}

void
set_start_apart(server_set *out, int count, const server_options *each)
{
    set_options options = no_options;
    memset(out, 0, sizeof(*out));
    if (each != NULL) {
        options.each = *each;
    }
    for (int i = 0; i < count; i++) {
        (void)new_server(out, KIND_ALONE, &options);
    }
    set_run(out);
}

/* ---- wires ---- */

int
server_port(const server *of)
{
    return of->wire_port != 0 ? of->wire_port : of->port;
}

/* for servers that are prepared and do not run yet */
static void
put_wires(server_set *set, struct wires *before)
{
    int targets[SET_MAX];
    for (int i = 0; i < set->count; i++) {
        targets[i] = set->servers[i].port;
    }
    wires_start_sparing(before, targets, set->count);
    for (int i = 0; i < set->count; i++) {
        set->servers[i].wire_port = before->ports[i];
    }
}

/* ---- Sentinels ---- */

static void
write_sentinel(const server_set *set, int index, const struct identity *identities)
{
    const server *self = &set->servers[DATA_SERVERS + index];
    FILE *file = server_file(self, "sentinel.conf");
    fprintf(file, "port %d\nbind 127.0.0.1\ndir %s\n", self->port, self->folder);
    if (self->wire_port != 0) {
        fprintf(file, "bind-source-addr " SPARED "\nsentinel announce-ip 127.0.0.1\n");
    }
    fprintf(file, "sentinel myid %s\n", identities[index].text);
    fprintf(file, "sentinel monitor " SET_MASTER_NAME " 127.0.0.1 %d 2\n",
            server_port(&set->servers[0]));
    fprintf(file, "sentinel down-after-milliseconds " SET_MASTER_NAME " %d\n",
            self->down_after_ms);
    fprintf(file, "sentinel failover-timeout " SET_MASTER_NAME " 6000\n");
    for (int i = 1; i < DATA_SERVERS; i++) {
        fprintf(file, "sentinel known-replica " SET_MASTER_NAME " 127.0.0.1 %d\n",
                server_port(&set->servers[i]));
    }
    for (int i = 0; i < SENTINELS; i++) {
        if (i != index) {
            fprintf(file, "sentinel known-sentinel " SET_MASTER_NAME " 127.0.0.1 %d %s\n",
                    set->servers[DATA_SERVERS + i].port, identities[i].text);
        }
    }
    CHECK(fclose(file) == 0);
}

void
set_start_sentinel(server_set *out, const set_options *options)
{
    struct identity identities[SENTINELS];
    memset(out, 0, sizeof(*out));
    options = options != NULL ? options : &no_options;
    for (int i = 0; i < DATA_SERVERS + SENTINELS; i++) {
        (void)new_server(out, i < DATA_SERVERS ? KIND_ALONE : KIND_SENTINEL, options);
    }
    out->sentinels = SENTINELS;
    if (options->before != NULL) {
        put_wires(out, options->before);
    }
    for (int i = 1; i < DATA_SERVERS; i++) {
        out->servers[i].replica_of = server_port(&out->servers[0]);
    }
    make_identities(identities, SENTINELS);
    for (int i = 0; i < SENTINELS; i++) {
        write_sentinel(out, i, identities);
    }
    set_run(out);
    set_wait_ready(out);
}

/* ---- Cluster ---- */

/* servers 0 to 2 are the masters, and server i + 3 is the replica of server i */
static void
write_node(const server_set *set, int index, const struct identity *identities)
{
    FILE *file = server_file(&set->servers[index], "nodes.conf");
    for (int i = 0; i < set->count; i++) {
        const server *node = &set->servers[i];
        int shard = i % SHARDS, is_master = i < SHARDS;
        fprintf(file, "%s 127.0.0.1:%d@%d %s%s %s 0 0 %d connected", identities[i].text,
                server_port(node), node->bus_port, i == index ? "myself," : "",
                is_master ? "master" : "slave", is_master ? "-" : identities[shard].text,
                shard + 1);
        if (is_master) {
            fprintf(file, " %d-%d", SLOTS * shard / SHARDS,
                    SLOTS * (shard + 1) / SHARDS - 1);
        }
        fprintf(file, "\n");
    }
    fprintf(file, "vars currentEpoch %d lastVoteEpoch 0\n", SHARDS);
    CHECK(fclose(file) == 0);
}

void
set_start_cluster(server_set *out, const set_options *options)
{
    struct identity identities[2 * SHARDS];
    memset(out, 0, sizeof(*out));
    options = options != NULL ? options : &no_options;
    for (int i = 0; i < 2 * SHARDS; i++) {
        (void)new_server(out, KIND_CLUSTER, options);
    }
    if (options->before != NULL) {
        put_wires(out, options->before);
    }
    make_identities(identities, 2 * SHARDS);
    for (int i = 0; i < 2 * SHARDS; i++) {
        write_node(out, i, identities);
    }
    set_run(out);
    set_wait_ready(out);
}

/* ---- both ---- */

/* a master that is missed, or replaced, has more flags */
static int
knows_its_master(const server *sentinel)
{
    static const char *const parts[] = { "\nflags\nmaster\n", "\nrole-reported\nmaster\n",
                                         "\nnum-slaves\n2\n" };
    char *told = server_ask(sentinel, "SENTINEL", "MASTER", SET_MASTER_NAME);
    int yes = told != NULL;
    for (size_t i = 0; yes && i < sizeof(parts) / sizeof(parts[0]); i++) {
        yes = strstr(told, parts[i]) != NULL;
    }
    free(told);
    return yes;
}

static int
is_in_order(const server *of)
{
    if (of->kind == KIND_SENTINEL) {
        return server_answers(of, "OK 3 usable", "SENTINEL", "CKQUORUM",
                              SET_MASTER_NAME) &&
               knows_its_master(of) &&
               !server_answers(of, "s_down", "SENTINEL", "REPLICAS", SET_MASTER_NAME);
    }
    return (of->kind != KIND_CLUSTER ||
            server_answers(of, "cluster_state:ok", "CLUSTER", "INFO")) &&
           (server_is_master(of) ||
            server_answers(of, "master_link_status:up", "INFO", "replication"));
}

void
set_wait_ready(const server_set *set)
{
    int64_t until = now_ms() + slowly(READY_LIMIT_MS);
    for (int i = 0; i < set->count;) {
        if (is_in_order(&set->servers[i])) {
            i++;
        } else if (now_ms() > until) {
            FAIL("server %d of %d, at port %d, is not in order", i, set->count,
                 set->servers[i].port);
        } else {
            sleep_ms(10);
        }
    }
}

void
set_stop(server_set *set)
{
    for (int i = 0; i < set->count; i++) {
        server_stop(&set->servers[i]);
    }
}

server *
set_master(server_set *set, int index)
{
    for (int i = 0; i < set->count - set->sentinels; i++) {
        if (server_is_master(&set->servers[i]) && index-- == 0) {
            return &set->servers[i];
        }
    }
    return NULL;
}

void
set_flush(server_set *set)
{
    for (int i = 0; set_master(set, i) != NULL; i++) {
        server_do(set_master(set, i), "FLUSHALL");
    }
}

void
set_cut(server_set *set)
{
    for (int i = 0; set_master(set, i) != NULL; i++) {
        server_cut(set_master(set, i));
    }
}

int
set_count_keys(server_set *set)
{
    int count = 0;
    for (int i = 0; set_master(set, i) != NULL; i++) {
        count += server_count_keys(set_master(set, i));
    }
    return count;
}

void
set_pause(server_set *set)
{
    server *masters[SET_MAX];
    int count = 0;
    /* those that stand still cannot be asked */
    while (set_master(set, count) != NULL) {
        masters[count] = set_master(set, count);
        count++;
    }
    for (int i = 0; i < count; i++) {
        server_pause(masters[i]);
    }
}

void
set_resume(server_set *set)
{
    for (int i = 0; i < set->count; i++) {
        if (set->servers[i].pid > 0) {
            server_resume(&set->servers[i]);
        }
    }
}

void
set_hosts(char *out, size_t size, const server_set *set)
{
    int from = set->sentinels > 0 ? set->count - set->sentinels : 0;
    size_t len = 0;
    for (int i = from; i < set->count; i++) {
        len += (size_t)snprintf(out + len, size - len, "%s127.0.0.1:%d",
                                i > from ? "," : "", server_port(&set->servers[i]));
        CHECK(len < size);
    }
}
