/* SPDX-License-Identifier: MIT */
/* See drive.h. */
#include "drive.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/name.h"
#include "core/sys.h"

/* ---------------------------------------------------------------- the host ---- */

static int
host_fail(dibs_error *err, int code, const char *format, ...)
{
    if (!err)
        return code;
    va_list args;
    err->code = code;
    va_start(args, format);
    vsnprintf(err->text, sizeof(err->text), format, args);
    va_end(args);
    return code;
}

static void *
host_alloc(size_t size)
{
    return calloc(1, size);
}

static const dibs_host host = {
    .now = dibs__now,
    .ring = dibs__bell_ring,
    .sleep_until = dibs__sleep_until,
    .fail = host_fail,
    .alloc = host_alloc,
    .free = free,
};

static char folder[64];

const char *
drive_folder(void)
{
    snprintf(folder, sizeof(folder), "/dev/shm/dibs-test-XXXXXX");
    if (!mkdtemp(folder))
        abort();
    return folder;
}

void
drive_remove(void)
{
    char path[80];
    snprintf(path, sizeof(path), "%s/table", folder);
    unlink(path);
    rmdir(folder);
}

int
drive_open(drive *d, const char *dir)
{
    dibs_url_parts url = { .scheme = "local", .hosts = "", .path = dir };
    memset(d, 0, sizeof(*d));
    d->session.host = &host;
    d->session.app = "drive";
    d->look_ms = 1000;
    d->session.keeper_bell = &d->session.own_keeper_bell;
    return dibs__engine_local.open(&d->state, &d->session, &url,
                                   dibs__now() + 2000 * DIBS_MS, &d->err);
}

void
drive_close(drive *d)
{
    dibs__engine_local.close(&d->state, 0);
}

/* ------------------------------------------------------------------- claims ---- */

void
drive_claim(dibs_claim *claim, const char *name, int mode, uint32_t permits,
            uint32_t limit)
{
    static _Atomic uint64_t serial;
    memset(claim, 0, sizeof(*claim));
    claim->name = name;
    claim->name_len = (uint16_t)strlen(name);
    claim->name_hash = dibs__hash(name, claim->name_len);
    claim->mode = (uint8_t)mode;
    claim->permits = permits;
    claim->limit = limit;
    claim->lease_ms = 30000;
    claim->serial = atomic_fetch_add(&serial, 1) + 1;
    claim->note = "";
    claim->bell = &claim->own_bell;
}

int
drive_attempt(drive *d, dibs_claim *claim)
{
    if (claim->bell == &claim->own_bell)
        claim->seen = dibs_bell_seen(claim->bell);
    return dibs__engine_local.attempt(&d->state, claim, DIBS_NEVER, &d->err);
}

int
drive_wait(drive *d, dibs_claim *claim, int ms)
{
    dibs_time deadline = dibs__now() + ms * DIBS_MS;
    for (;;) {
        int rc = drive_attempt(d, claim);
        if (rc != DIBS_EBUSY)
            return rc;
        rc = dibs__engine_local.watch(&d->state, claim, DIBS_NEVER, &d->err);
        if (rc != DIBS_OK)
            return rc;
        if ((rc = drive_attempt(d, claim)) != DIBS_EBUSY)
            return rc;
        int64_t pause_ms = claim->hint_ms ? claim->hint_ms : d->look_ms;
        dibs_time until = dibs__now() + pause_ms * DIBS_MS;
        dibs__bell_wait(claim->bell, claim->seen, until < deadline ? until : deadline);
        if (dibs__now() >= deadline)
            return DIBS_ETIMEDOUT;
    }
}

int
drive_release(drive *d, dibs_claim *claim)
{
    return dibs__engine_local.release(&d->state, claim, 0, DIBS_NEVER, &d->err);
}

int
drive_lock(drive *d, dibs_claim *claim, const char *name, int ms)
{
    drive_claim(claim, name, DIBS_EXCLUSIVE, 1, 0);
    return drive_wait(d, claim, ms);
}

/* ---------------------------------------------------------------- the table ---- */

uint32_t
drive_count(drive *d, uint32_t kind)
{
    table *t = d->state.table;
    uint32_t count = 0;
    for (uint32_t i = CHUNK; i < atomic_load(&t->head->cursor); i++)
        count += (word_of(at(t, i)) & KIND_MASK) == kind;
    return count;
}

/* marks what a list holds; returns its length */
static uint32_t
mark_list(table *t, uint32_t first, uint32_t kind, unsigned char *seen)
{
    uint32_t count = 0;
    for (uint32_t i = first; i; i = at(t, i)->next) {
        assert_true(i < atomic_load(&t->head->cursor));
        assert_int_equal(word_of(at(t, i)) & KIND_MASK, kind);
        assert_int_equal(seen[i], 0);
        seen[i] = 1;
        count++;
    }
    return count;
}

static void
verify_lock(table *t, uint32_t index, unsigned char *seen)
{
    const record *l = at(t, index);
    uint64_t ticket = 0, token = UINT64_MAX;
    uint32_t permits = 0, exclusive = 0;
    assert_int_equal(mark_list(t, l->lock.head, KIND_CLAIM, seen), l->lock.waiter_count);
    assert_int_equal(mark_list(t, l->lock.holders, KIND_CLAIM, seen),
                     l->lock.holder_count);
    mark_list(t, l->lock.observers, KIND_CLAIM, seen);
    for (uint32_t i = l->lock.head, prev = 0; i; prev = i, i = at(t, i)->next) {
        assert_int_equal(at(t, i)->prev, prev);
        assert_int_equal(at(t, i)->claim.lock, index);
        assert_true(at(t, i)->claim.ticket > ticket);
        ticket = at(t, i)->claim.ticket;
    }
    for (uint32_t i = l->lock.holders; i; i = at(t, i)->next) {
        assert_true(at(t, i)->claim.token < token);
        token = at(t, i)->claim.token;
        permits += at(t, i)->claim.permits;
        exclusive += at(t, i)->mode == DIBS_EXCLUSIVE;
    }
    assert_int_equal(permits, l->lock.permits_out);
    assert_true(exclusive == 0 || l->lock.holder_count == 1);
    assert_true(l->mode != DIBS_PERMITS || permits <= l->lock.limit);
    if (l->lock.name.text)
        mark_list(t, l->lock.name.text, KIND_TEXT, seen);
}

static void
verify_named(table *t, uint32_t index, unsigned char *seen)
{
    assert_int_equal(seen[index], 0);
    seen[index] = 1;
    if ((word_of(at(t, index)) & KIND_MASK) == KIND_LOCK) {
        verify_lock(t, index, seen);
        return;
    }
    assert_int_equal(word_of(at(t, index)) & KIND_MASK, KIND_CELL);
    mark_list(t, at(t, index)->cell.value, KIND_TEXT, seen);
    mark_list(t, at(t, index)->cell.name.text, KIND_TEXT, seen);
}

/* all that a shard's records say is about records of the same shard */
static void
verify_shard(table *t, uint32_t n, unsigned char *seen)
{
    mark_list(t, t->shards[n].free, KIND_FREE, seen);
    mark_list(t, t->shards[n].members, KIND_MEMBER, seen);
    for (uint32_t b = n * BUCKETS; n < SHARDS && b < (n + 1) * BUCKETS; b++)
        for (uint32_t i = t->buckets[b]; i; i = at(t, i)->next)
            verify_named(t, i, seen);
    for (uint32_t i = dibs__local_next(t, 0, n); i; i = dibs__local_next(t, i, n))
        if ((word_of(at(t, i)) & KIND_MASK) == KIND_CLAIM)
            mark_list(t, at(t, i)->claim.text, KIND_TEXT, seen);
    for (uint32_t i = dibs__local_next(t, 0, n); i; i = dibs__local_next(t, i, n)) {
        assert_int_equal(at(t, i)->shard, n);
        assert_int_equal(seen[i], 1); /* else it has leaked */
    }
}

void
drive_verify(drive *d)
{
    table *t = d->state.table;
    unsigned char *seen = calloc(t->room, 1);
    for (uint32_t n = 0; n <= MEMBER_SHARD; n++) {
        assert_int_equal(dibs__local_lock(t, n, NULL), DIBS_OK);
        verify_shard(t, n, seen);
        dibs__local_unlock(t, n);
    }
    assert_int_equal(atomic_load(&t->damaged), 0);
    free(seen);
}

int
drive_reap(pid_t pid)
{
    int status = 0;
    for (int i = 0; i < 5000; i++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return status;
        usleep(1000);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

int
drive_main(int argc, char **argv, const struct CMUnitTest *tests, size_t count)
{
    for (size_t i = 0; argc == 2 && i < count; i++) {
        const struct CMUnitTest one[] = { tests[i] };
        if (strcmp(tests[i].name, argv[1]) == 0)
            return cmocka_run_group_tests(one, NULL, NULL) != 0;
    }
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
}
