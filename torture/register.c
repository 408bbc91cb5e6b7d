/* SPDX-License-Identifier: MIT */
/*
 * The resource that a lock protects: it refuses tokens that are older than one it has seen.
 * Who is killed while it changes the register leaves its pid in `busy`; the next one sees
 * that nobody has that pid any more, and goes on with what is there.
 */
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include "parts.h"

/* so long at most, in naps of a millisecond: a paused process may be in there */
#define TRIES_MAX 60000

static struct fenced_register *
register_of(const struct worker *worker)
{
    return &worker->scene->history->registers[worker->errand.name];
}

static int
is_gone(int64_t pid)
{
    return kill((pid_t)pid, 0) != 0 && errno == ESRCH;
}

static int
enter(struct fenced_register *reg)
{
    int64_t self = getpid();
    for (int tries = 0; tries < TRIES_MAX; tries++) {
        int64_t inside = 0;
        if (atomic_compare_exchange_strong(&reg->busy, &inside, self))
            return 0;
        if (is_gone(inside) && atomic_compare_exchange_strong(&reg->busy, &inside, self))
            return 0;
        nap(1000);
    }
    return -1;
}

static void
leave(struct fenced_register *reg)
{
    atomic_store(&reg->busy, 0);
}

/* raises the mark, or refuses */
static int
admit(const struct worker *worker, struct fenced_register *reg)
{
    uint64_t token = worker->turn->token;
    if (!worker->moves.admits(atomic_load(&reg->largest), token))
        return DIBS_ESTALE;
    atomic_store(&reg->largest, token);
    return DIBS_OK;
}

int
register_seal(struct worker *worker)
{
    struct fenced_register *reg = register_of(worker);
    if (enter(reg) != 0)
        return DIBS_EUNAVAIL;
    int code = admit(worker, reg);
    leave(reg);
    return code;
}

int
register_write(struct worker *worker)
{
    struct fenced_register *reg = register_of(worker);
    if (enter(reg) != 0)
        return DIBS_EUNAVAIL;
    int code = admit(worker, reg);
    if (code == DIBS_OK) {
        atomic_fetch_add(&reg->sum, worker->turn->token);
        atomic_store(&worker->turn->wrote, atomic_fetch_add(&reg->writes, 1) + 1);
    }
    leave(reg);
    return code;
}
