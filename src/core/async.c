/* SPDX-License-Identifier: MIT */
/*
 * Acquiring in the background. An op is a small thread that runs dibs_acquire and lives as
 * long as the wait does: simple, and right for every engine. Since the thread's number is
 * never used again, the hold belongs to the op alone.
 */
#include "core/core.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

enum stage {
    WAITING,
    ENDED, /* the result is there, and `done` may be running */
    OVER   /* ... and has returned */
};

struct dibs_op {
    dibs *client;
    dibs_request request;
    char *name, *owner, *note; /* the request's, copied */
    dibs_canceller cancel;
    void (*done)(dibs_op *op, void *arg);
    void *arg;
    int fd;
    _Atomic uint32_t refs;   /* the thread's and the user's */
    _Atomic int stage;       /* enum stage */
    dibs_bell bell;          /* rung when the stage changes */
    _Atomic uint64_t thread; /* the op's own */
    int rc;
    dibs_hold *hold;
    dibs_error error;
};

static void
op_unref(dibs_op *op)
{
    if (atomic_fetch_sub(&op->refs, 1) != 1)
        return;
    if (op->fd >= 0)
        close(op->fd);
    dibs__mutex_done(&op->cancel.mutex);
    dibs__free(op->name);
    dibs__free(op->owner);
    dibs__free(op->note);
    dibs__free(op);
}

static void
enter_stage(dibs_op *op, int stage)
{
    atomic_store(&op->stage, stage);
    dibs__bell_ring(&op->bell);
}

static void *
op_main(void *arg)
{
    dibs_op *op = arg;
    dibs *client = op->client;
    uint64_t one = 1;
    atomic_store(&op->thread, dibs__thread_number());
    op->rc = dibs_acquire(&op->hold, client, &op->request, &op->error);
    enter_stage(op, ENDED);
    (void)!write(op->fd, &one, sizeof one);
    if (op->done)
        op->done(op, op->arg);
    enter_stage(op, OVER);
    op_unref(op);
    dibs__client_leave(client);
    return NULL;
}

static int
copy_bytes(char **out, const char *from, size_t len)
{
    if (!from)
        return 0;
    *out = dibs__alloc(len + 1);
    if (*out)
        memcpy(*out, from, len);
    return *out ? 0 : -1;
}

static int
fill_op(dibs_op *op, dibs *client, const dibs_request *request, size_t name_len)
{
    size_t size = request->size && request->size < sizeof *request ? request->size
                                                                   : sizeof *request;
    memcpy(&op->request, request, size);
    op->client = client;
    op->fd = -1;
    atomic_init(&op->refs, 1);
    dibs__canceller_init(&op->cancel);
    dibs_request *own = &op->request;
    if (copy_bytes(&op->name, own->name, name_len) ||
        copy_bytes(&op->owner, own->owner, own->owner ? strlen(own->owner) : 0) ||
        copy_bytes(&op->note, own->note, own->note ? strlen(own->note) : 0))
        return -1;
    own->name = op->name;
    own->name_len = name_len;
    own->owner = op->owner;
    own->note = op->note;
    op->cancel.outer = own->cancel;
    own->cancel = &op->cancel;
    op->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return op->fd < 0 ? -1 : 0;
}

int
dibs_acquire_async(dibs_op **out, dibs *client, const dibs_request *request,
                   void (*done)(dibs_op *op, void *arg), void *arg, dibs_error *err)
{
    UNCANCELLED;
    size_t name_len;
    int rc = dibs__client_check(client, err);
    if (rc)
        return rc;
    if (!out || !request)
        return dibs__fail(err, DIBS_EINVAL, "%s is NULL", out ? "request" : "out");
    rc = dibs__name_check(&name_len, request->name, request->name_len, "name", err);
    if (rc)
        return rc;
    dibs_op *op = dibs__alloc(sizeof *op);
    if (!op)
        return dibs__fail_memory(err);
    if (fill_op(op, client, request, name_len)) {
        op_unref(op);
        return dibs__fail(err, DIBS_ENOMEM, "cannot prepare an op: %s", strerror(errno));
    }
    op->done = done;
    op->arg = arg;
    dibs__client_enter(client);
    atomic_fetch_add(&op->refs, 1);
    rc = dibs__thread_start(NULL, "dibs-op", op_main, op, 1);
    if (rc) {
        dibs__client_leave(client);
        op_unref(op);
        op_unref(op);
        return dibs__fail(err, DIBS_ENOMEM, "cannot start a thread: %s", strerror(rc));
    }
    *out = op;
    return DIBS_OK;
}

int
dibs_op_fd(const dibs_op *op)
{
    return op ? op->fd : DIBS_EINVAL;
}

void
dibs_op_cancel(dibs_op *op)
{
    if (op)
        dibs_cancel(&op->cancel);
}

static void
wait_for_stage(dibs_op *op, int stage)
{
    for (;;) {
        uint32_t seen = dibs_bell_seen(&op->bell);
        if (atomic_load(&op->stage) >= stage)
            return;
        (void)dibs__bell_wait(&op->bell, seen, DIBS_NEVER);
    }
}

/* What `done` uses may be gone once this returns, so it waits for that too, unless it is
 * `done` itself that calls. */
int
dibs_op_finish(dibs_hold **out, dibs_op *op, dibs_error *err)
{
    UNCANCELLED;
    if (!op || !out)
        return dibs__fail(err, DIBS_EINVAL, "%s is NULL", op ? "out" : "op");
    wait_for_stage(op, atomic_load(&op->thread) == dibs__thread_number() ? ENDED : OVER);
    int rc = op->rc;
    if (rc && err)
        *err = op->error;
    if (!rc)
        *out = op->hold;
    op_unref(op);
    return rc;
}
