/* SPDX-License-Identifier: MIT */
/*
 * Requests: their memory, sending them, and storing the answers.
 *
 * The library calls completions from zookeeper_process, zookeeper_interest and
 * zookeeper_close, always with the session's mutex held (but in a forked child). They store
 * what came, and wake the caller whose last answer it was.
 *
 * Parts: memory; answers; sending.
 */
#include "link.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

struct flight {
    struct batch *batch;
    enum op_kind kind;
    size_t watch_len; /* what the library will set its watch again with; 0: none */
    char *name;       /* OP_CREATE: room for what was created */
    /* of an OP_MULTI */
    int part_count;
    zoo_op_t *parts;
    zoo_op_result_t *results;
    struct Stat *stats;
};

/* ---- memory ---- */

#define SEQUENCE_LEN 12 /* "-", ten digits, NUL */

static int
is_create(const zoo_op_t *part)
{
    return part->type == ZOO_CREATE_OP || part->type == ZOO_CREATE_CONTAINER_OP;
}

static void
free_flight(const dibs_host *host, struct flight *flight)
{
    for (int i = 0; flight->parts && i < flight->part_count; i++) {
        if (is_create(&flight->parts[i]))
            host->free(flight->parts[i].create_op.buf);
    }
    host->free(flight->parts);
    host->free(flight->results);
    host->free(flight->stats);
    host->free(flight->name);
}

void
dibs__zk_batch_free(struct batch *batch)
{
    const dibs_host *host = batch->session->zk->host;
    for (int i = 0; i < batch->count; i++)
        free_flight(host, &batch->flights[i]);
    host->free(batch);
}

static char *
room_for_name(const dibs_host *host, const struct op *op)
{
    return host->alloc(strlen(op->path) + SEQUENCE_LEN);
}

static int
prepare_part(const struct zk *zk, struct flight *flight, int i, struct op *op)
{
    op->host = zk->host;
    zoo_op_t *part = &flight->parts[i];
    char *name;
    switch (op->kind) {
    case OP_CREATE:
        name = room_for_name(zk->host, op);
        zoo_create_op_init(part, op->path, op->data, op->data_len, &zk->acl, op->mode,
                           name, (int)strlen(op->path) + SEQUENCE_LEN);
        return name != NULL;
    case OP_DELETE:
        zoo_delete_op_init(part, op->path, op->version);
        return 1;
    case OP_SET:
        zoo_set_op_init(part, op->path, op->data, op->data_len, op->version,
                        &flight->stats[i]);
        return 1;
    default:
        zoo_check_op_init(part, op->path, op->version);
        return 1;
    }
}

static int
prepare_multi(const struct zk *zk, struct flight *flight, const struct op *op)
{
    size_t n = (size_t)op->part_count;
    flight->part_count = op->part_count;
    flight->parts = zk->host->alloc(n * sizeof *flight->parts);
    flight->results = zk->host->alloc(n * sizeof *flight->results);
    flight->stats = zk->host->alloc(n * sizeof *flight->stats);
    if (!flight->parts || !flight->results || !flight->stats)
        return 0;
    int ok = 1;
    for (int i = 0; i < op->part_count; i++)
        ok &= prepare_part(zk, flight, i, &op->parts[i]);
    return ok;
}

static int
prepare(const struct zk *zk, struct flight *flight, const struct op *op)
{
    flight->kind = op->kind;
    if (op->watch)
        flight->watch_len = dibs__zk_watch_len(op->path);
    if (op->kind == OP_MULTI)
        return prepare_multi(zk, flight, op);
    if (op->kind != OP_CREATE)
        return 1;
    flight->name = room_for_name(zk->host, op);
    return flight->name != NULL;
}

struct batch *
dibs__zk_batch_new(struct session *session, struct op *ops, int count)
{
    const struct zk *zk = session->zk;
    struct batch *batch =
        zk->host->alloc(sizeof *batch + (size_t)count * sizeof *batch->flights);
    if (!batch)
        return NULL;
    batch->session = session;
    batch->ops = ops;
    batch->count = count;
    batch->flights = (struct flight *)(batch + 1);
    int ok = 1;
    for (int i = 0; i < count; i++) {
        batch->flights[i].batch = batch;
        ok &= prepare(zk, &batch->flights[i], &ops[i]);
        ops[i].host = zk->host;
        ops[i].rc = ZCONNECTIONLOSS;
    }
    if (!ok) {
        dibs__zk_batch_free(batch);
        return NULL;
    }
    return batch;
}

void
dibs__zk_batch_leave(struct batch *batch)
{
    batch->ops = NULL;
    if (batch->pending == 0)
        dibs__zk_batch_free(batch);
}

static void
free_answer(struct op *op)
{
    if (op->host) {
        op->host->free(op->created);
        op->host->free(op->got.text);
    }
    deallocate_String_vector(&op->children);
    memset(&op->children, 0, sizeof op->children);
    op->created = NULL;
    op->got.text = NULL;
    op->got.len = 0;
}

void
dibs__zk_ops_free(struct op *ops, int count)
{
    for (int i = 0; i < count; i++) {
        if (ops[i].kind == OP_MULTI)
            dibs__zk_ops_free(ops[i].parts, ops[i].part_count);
        free_answer(&ops[i]);
    }
}

/* ---- answers ---- */

int
dibs__zk_is_answer(int rc)
{
    switch (rc) {
    case ZCONNECTIONLOSS:
    case ZOPERATIONTIMEOUT:
    case ZSESSIONEXPIRED:
    case ZAUTHFAILED:
    case ZCLOSING:
    case ZSESSIONMOVED:
    case ZRUNTIMEINCONSISTENCY:
    case ZINVALIDSTATE:
        return 0;
    default:
        return 1;
    }
}

/* Whether the leader had a quorum when it said this. Requests that fail are agreed upon as
 * those that do not, but some servers refuse things by themselves. */
static int
by_quorum(enum op_kind kind, int rc)
{
    if (kind != OP_CREATE && kind != OP_DELETE && kind != OP_SET && kind != OP_MULTI)
        return 0;
    return rc == ZOK || rc == ZNONODE || rc == ZNODEEXISTS || rc == ZBADVERSION ||
           rc == ZNOTEMPTY || rc == ZNOAUTH;
}

/* The op that a flight answers, or NULL if its caller has left. */
static struct op *
op_of(const struct flight *flight)
{
    const struct batch *batch = flight->batch;
    return batch->ops ? &batch->ops[flight - batch->flights] : NULL;
}

static void
landed(struct flight *flight, int rc)
{
    struct batch *batch = flight->batch;
    struct session *session = batch->session;
    struct op *op = op_of(flight);
    if (op)
        op->rc = rc;
    if (dibs__zk_is_answer(rc))
        dibs__zk_life_sign(&session->life, batch->sent, session->zk->host->now(),
                           by_quorum(flight->kind, rc));
    else if (rc == ZSESSIONEXPIRED)
        session->fate = rc;
    if (rc == ZOK || rc == ZNONODE)
        session->watch_bytes += flight->watch_len;
    session->flights--;
    session->beat_flies &= !batch->is_beat;
    if (--batch->pending > 0)
        return;
    if (batch->ops)
        pthread_cond_signal(&batch->answered);
    else
        dibs__zk_batch_free(batch);
}

static void
void_came(int rc, const void *data)
{
    landed((struct flight *)(uintptr_t)data, rc);
}

static void
string_came(int rc, const char *value, const void *data)
{
    (void)value;
    void_came(rc, data);
}

static void
stat_came(int rc, const struct Stat *stat, const void *data)
{
    struct flight *flight = (struct flight *)(uintptr_t)data;
    struct op *op = op_of(flight);
    if (op && stat)
        op->stat = *stat;
    landed(flight, rc);
}

static void
name_came(int rc, const char *name, const struct Stat *stat, const void *data)
{
    struct flight *flight = (struct flight *)(uintptr_t)data;
    struct op *op = op_of(flight);
    if (op && name && stat) {
        op->stat = *stat;
        (void)strncpy(flight->name, name, strlen(op->path) + SEQUENCE_LEN - 1);
        op->created = flight->name;
        flight->name = NULL;
    }
    landed(flight, rc);
}

static void
data_came(int rc, const char *value, int len, const struct Stat *stat, const void *data)
{
    struct flight *flight = (struct flight *)(uintptr_t)data;
    struct op *op = op_of(flight);
    if (op && rc == ZOK) {
        len = value && len > 0 ? len : 0;
        op->got.text = op->host->alloc((size_t)len + 1);
        if (op->got.text && len)
            memcpy(op->got.text, value, (size_t)len);
        op->got.len = op->got.text ? len : 0;
        op->stat = *stat;
        rc = op->got.text ? ZOK : ZSYSTEMERROR;
    }
    landed(flight, rc);
}

static void
children_came(int rc, const struct String_vector *names, const struct Stat *stat,
              const void *data)
{
    struct flight *flight = (struct flight *)(uintptr_t)data;
    struct op *op = op_of(flight);
    if (op && names && stat) {
        /* the library frees its vector next; taking it spares a copy of every name */
        struct String_vector *taken = (struct String_vector *)(uintptr_t)names;
        op->children = *taken;
        memset(taken, 0, sizeof *taken);
        op->stat = *stat;
    }
    landed(flight, rc);
}

static void
part_came(struct flight *flight, int i, struct op *op)
{
    op->rc = flight->results[i].err;
    if (op->kind == OP_CREATE && op->rc == ZOK) {
        op->created = flight->parts[i].create_op.buf;
        flight->parts[i].create_op.buf = NULL;
    } else if (op->kind == OP_SET) {
        op->stat = flight->stats[i];
    }
}

static void
multi_came(int rc, const void *data)
{
    struct flight *flight = (struct flight *)(uintptr_t)data;
    struct op *op = op_of(flight);
    for (int i = 0; op && i < flight->part_count; i++)
        part_came(flight, i, &op->parts[i]);
    landed(flight, rc);
}

/* ---- sending ---- */

static pthread_mutex_t xid_mutex = PTHREAD_MUTEX_INITIALIZER;

void
dibs__zk_xid_lock(void)
{
    pthread_mutex_lock(&xid_mutex);
}

void
dibs__zk_xid_unlock(void)
{
    pthread_mutex_unlock(&xid_mutex);
}

/* so that a child can open clients of its own, whatever the parent's threads did */
__attribute__((constructor)) static void
guard_forks(void)
{
    (void)pthread_atfork(dibs__zk_xid_lock, dibs__zk_xid_unlock, dibs__zk_xid_unlock);
}

static int
send_read(struct session *session, const struct op *op, struct flight *flight)
{
    watcher_fn watcher = op->watch ? dibs__zk_watch_fired : NULL;
    switch (op->kind) {
    case OP_EXISTS:
        return zoo_awexists(session->handle, op->path, watcher, session, stat_came,
                            flight);
    case OP_GET:
        return zoo_awget(session->handle, op->path, watcher, session, data_came, flight);
    case OP_CHILDREN:
        return zoo_awget_children2(session->handle, op->path, watcher, session,
                                   children_came, flight);
    default:
        return zoo_async(session->handle, op->path, string_came, flight);
    }
}

static int
send_op(struct session *session, const struct op *op, struct flight *flight)
{
    zhandle_t *handle = session->handle;
    switch (op->kind) {
    case OP_CREATE:
        return zoo_acreate2(handle, op->path, op->data, op->data_len, &session->zk->acl,
                            op->mode, name_came, flight);
    case OP_DELETE:
        return zoo_adelete(handle, op->path, op->version, void_came, flight);
    case OP_SET:
        return zoo_aset(handle, op->path, op->data, op->data_len, op->version, stat_came,
                        flight);
    case OP_MULTI:
        return zoo_amulti(handle, flight->part_count, flight->parts, flight->results,
                          multi_came, flight);
    default:
        return send_read(session, op, flight);
    }
}

/* A path the library refuses would make zoo_amulti free what it never had. */
static int
is_path(const char *path)
{
    size_t len = path ? strlen(path) : 0;
    return len > 0 && path[0] == '/' && (len == 1 || path[len - 1] != '/') &&
           !strstr(path, "//");
}

static int
has_paths(const struct op *op)
{
    if (op->kind != OP_MULTI)
        return is_path(op->path);
    int ok = 1;
    for (int i = 0; i < op->part_count; i++)
        ok &= is_path(op->parts[i].path);
    return ok;
}

static int
is_write(enum op_kind kind)
{
    return kind == OP_CREATE || kind == OP_DELETE || kind == OP_SET || kind == OP_MULTI;
}

/* The library writes each request in two parts, and would send two packets for it. */
static void
hold_back(const struct session *session, int is_on)
{
    (void)setsockopt(session->fd, IPPROTO_TCP, TCP_CORK, &is_on, sizeof is_on);
}

void
dibs__zk_batch_send(struct batch *batch)
{
    struct session *session = batch->session;
    batch->sent = session->zk->host->now();
    session->asked_any = batch->sent;
    dibs__zk_xid_lock();
    hold_back(session, 1);
    for (int i = 0; i < batch->count && !session->has_debris; i++) {
        struct op *op = &batch->ops[i];
        if (is_write(op->kind))
            session->asked_quorum = batch->sent;
        op->rc = has_paths(op) ? send_op(session, op, &batch->flights[i]) : ZBADARGUMENTS;
        if (op->rc != ZOK)
            continue;
        op->rc = ZCONNECTIONLOSS;
        batch->pending++;
        if (session->flights++ == 0)
            session->asked_first = batch->sent;
        session->has_debris = zoo_state(session->handle) != ZOO_CONNECTED_STATE;
    }
    dibs__zk_xid_unlock();
    if (session->has_debris)
        dibs__zk_check(session);
    else
        hold_back(session, 0);
}
