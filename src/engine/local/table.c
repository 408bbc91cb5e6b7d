/* SPDX-License-Identifier: MIT */
/*
 * The table file. In order: records out of range and growing, making it, checking it,
 * mapping it, the tables that are in use.
 *
 * The file is mapped once, at the largest size it may ever have: what lies behind its end
 * is never touched, since every index is checked against what the file is known to hold
 * (at() in local.h). So it grows without any process having to map again. Room is made
 * with posix_fallocate, so that a full disk is an error here and not a signal later.
 *
 * A process has one mapping per file, whatever the number of its clients. A fork child
 * closes the inherited descriptor, or its life would count as its parent's.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "engine/local/local.h"
#include "util/shortage.h"
#include "util/uncancelled.h"

#define ROOM_MAX (sizeof(void *) < 8 ? UINT32_C(1) << 20 : UINT32_C(1) << 26)

static pthread_mutex_t tables_mutex = PTHREAD_MUTEX_INITIALIZER;
static table *tables; /* guarded by tables_mutex */
static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

/* ------------------------------------------------------- records out of range ---- */

record *
dibs__local_wrong(table *t)
{
    static _Thread_local record nobody;
    atomic_store(&t->damaged, 1);
    memset(&nobody, 0, sizeof(nobody));
    return &nobody;
}

record *
dibs__local_extend(table *t, uint32_t index)
{
    uint32_t records = atomic_load(&t->head->records);
    struct stat st;
    if (index < records && records <= t->room && fstat(t->fd, &st) == 0 &&
        (uint64_t)st.st_size >= RECORDS_OFFSET + (uint64_t)records * sizeof(record)) {
        atomic_store(&t->known, records);
        return &t->records[index];
    }
    return dibs__local_wrong(t);
}

int
dibs__local_damage(const table *t, dibs_error *err)
{
    return t->host->fail(
        err, DIBS_ECORRUPT,
        "%s/table is damaged: stop the processes that use it and remove it", t->path);
}

int
dibs__local_unlinked(const table *t, dibs_error *err)
{
    struct stat st;
    if (fstat(t->fd, &st) == 0 && st.st_nlink > 0)
        return DIBS_OK;
    return t->host->fail(err, DIBS_EUNAVAIL,
                         "%s/table was removed while in use: open the client again",
                         t->path);
}

/* grow makes room for half as many records again; GROW_SHARD is locked. */
int
dibs__local_grow(table *t, dibs_error *err)
{
    UNCANCELLED;
    uint32_t records = atomic_load(&t->head->records);
    uint32_t more = records / 2 / CHUNK * CHUNK;
    if (more > t->room - records)
        more = (t->room - records) / CHUNK * CHUNK;
    if (!more)
        return t->host->fail(err, DIBS_ENOMEM, "no address space left for more locks");
    off_t end = (off_t)(RECORDS_OFFSET + (uint64_t)records * sizeof(record));
    int rc = posix_fallocate(t->fd, end, (off_t)((uint64_t)more * sizeof(record)));
    if (rc != 0)
        return t->host->fail(err, DIBS_ENOMEM,
                             "no space left in %s for %u more locks: %s", t->path,
                             more / 2, strerror(rc));
    atomic_store(&t->head->records, records + more);
    return DIBS_OK;
}

/* ------------------------------------------------------------------- making ---- */

static uint64_t
digest(const void *data, size_t len)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < len; i++)
        hash = (hash ^ ((const unsigned char *)data)[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static uint32_t
layout_digest(void)
{
#ifdef __GLIBC__
    const uint32_t libc = 1;
#else
    const uint32_t libc = 2;
#endif
    const uint32_t facts[] = { 0x01020304,
                               libc,
                               sizeof(pthread_mutex_t),
                               sizeof(header),
                               sizeof(local_shard),
                               sizeof(record),
                               sizeof(void *),
                               ALL_SHARDS,
                               BUCKETS,
                               RECORDS_OFFSET,
                               CHUNK };
    unsigned char bytes[sizeof(facts)];
    memcpy(bytes, facts, sizeof(facts));
    return (uint32_t)digest(bytes, sizeof(bytes));
}

static uint64_t
header_checksum(const header *h)
{
    return digest(&h->version, offsetof(header, checksum) - offsetof(header, version));
}

static int
read_boot_id(char out[40])
{
    memset(out, 0, 40);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, out, 36);
    int error = n < 0 ? errno : EIO;
    close(fd);
    errno = error;
    return n == 36 ? 0 : -1;
}

static void
mutexes_init(local_shard *shards)
{
    pthread_mutexattr_t attr;
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    for (uint32_t i = 0; i < ALL_SHARDS; i++)
        pthread_mutex_init(&shards[i].mutex, &attr);
    pthread_mutexattr_destroy(&attr);
}

/* The token goes on from the wall clock, so that it rises over reboots too. */
static uint64_t
counter_seed(uint64_t old)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    uint64_t now = (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
    return old > now ? old : now;
}

/* make writes an empty table, over one of an earlier boot, too. SETUP_OFFSET is locked. */
static int
make(table *t, const char boot_id[40], dibs_error *err)
{
    const uint64_t size = RECORDS_OFFSET + (uint64_t)FIRST_RECORDS * sizeof(record);
    uint64_t magic = LOCAL_MAGIC_INIT, counter = 0;
    (void)!pread(t->fd, &counter, sizeof(counter), offsetof(header, counter));
    if (pwrite(t->fd, &magic, sizeof(magic), 0) != sizeof(magic))
        return t->host->fail(err, DIBS_ENOMEM, "cannot write to %s/table: %s", t->path,
                             strerror(errno));
    /* only the counter outlives a boot */
    int rc = ftruncate(t->fd, SHARDS_OFFSET) != 0 ? errno : 0;
    if (rc == 0)
        rc = posix_fallocate(t->fd, 0, (off_t)size);
    if (rc != 0)
        return t->host->fail(err, DIBS_ENOMEM, "no space left in %s for a table: %s",
                             t->path, strerror(rc));
    char *base = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, t->fd, 0);
    if (base == MAP_FAILED)
        return t->host->fail(err, DIBS_ENOMEM, "cannot map %s/table: %s", t->path,
                             strerror(errno));
    header *h = (header *)(void *)base;
    atomic_store(&h->counter, counter_seed(counter));
    mutexes_init((local_shard *)(void *)(base + SHARDS_OFFSET));
    h->version = LOCAL_VERSION;
    h->layout = layout_digest();
    memcpy(h->boot_id, boot_id, sizeof(h->boot_id));
    h->checksum = header_checksum(h);
    atomic_store(&h->pid_namespace, 0);
    atomic_store(&h->records, FIRST_RECORDS);
    atomic_store(&h->cursor, CHUNK); /* index 0 means none: the first chunk is not used */
    /* last: whoever sees it sees all of the above */
    __atomic_store_n(&h->magic, LOCAL_MAGIC, __ATOMIC_RELEASE);
    munmap(base, size);
    return DIBS_OK;
}

/* ----------------------------------------------------------------- checking ---- */

static int
check_header(const table *t, const header *h, uint64_t size, dibs_error *err)
{
    const dibs_host *host = t->host;
    if (h->magic != LOCAL_MAGIC)
        return host->fail(err, DIBS_ECORRUPT,
                          "%s/table is not a table of dibs, or it is damaged", t->path);
    if (h->checksum != header_checksum(h))
        return host->fail(err, DIBS_ECORRUPT, "the header of %s/table is damaged",
                          t->path);
    if (h->version != LOCAL_VERSION)
        return host->fail(
            err, DIBS_EUNSUPPORTED,
            "%s/table has version %u, this library speaks version %u: use one "
            "version, or another folder",
            t->path, h->version, LOCAL_VERSION);
    if (h->layout != layout_digest())
        return host->fail(
            err, DIBS_EUNSUPPORTED,
            "%s/table was made by a library built differently: use one build, "
            "or another folder",
            t->path);
    uint32_t records = h->records, cursor = h->cursor;
    if (records < FIRST_RECORDS || records > ROOM_MAX || cursor < CHUNK ||
        cursor > records || cursor % CHUNK ||
        size < RECORDS_OFFSET + (uint64_t)records * sizeof(record))
        return host->fail(err, DIBS_ECORRUPT, "%s/table is truncated or damaged",
                          t->path);
    return DIBS_OK;
}

/* Of an older library, and nobody has it open any more: an upgrade need not wait for a
 * reboot. (One of that library that opens it in just this moment finds it damaged.) */
static int
is_outdated(const table *t, const header *h)
{
    struct flock lives = { .l_type = F_WRLCK, .l_start = LIFE_OFFSET };
    return h->magic == LOCAL_MAGIC && h->checksum == header_checksum(h) &&
           h->version < LOCAL_VERSION && fcntl(t->fd, F_OFD_GETLK, &lives) == 0 &&
           lives.l_type == F_UNLCK;
}

/* prove reads the header: DIBS_OK, or DIBS_EBUSY if the table must be made first. */
static int
prove(const table *t, const char boot_id[40], dibs_error *err)
{
    header h;
    struct stat st;
    memset(&h, 0, sizeof(h));
    if (fstat(t->fd, &st) != 0 || pread(t->fd, &h, sizeof(h), 0) < 0)
        return t->host->fail(err, DIBS_EUNAVAIL, "cannot read %s/table: %s", t->path,
                             strerror(errno));
    if (st.st_size == 0 || h.magic == LOCAL_MAGIC_INIT || is_outdated(t, &h))
        return DIBS_EBUSY;
    int rc = check_header(t, &h, (uint64_t)st.st_size, err);
    if (rc == DIBS_OK && memcmp(h.boot_id, boot_id, sizeof(h.boot_id)) != 0)
        return DIBS_EBUSY;
    return rc;
}

static int
no_proc(const table *t, dibs_error *err)
{
    return t->host->fail(err, is_shortage(errno) ? DIBS_ENOMEM : DIBS_EUNSUPPORTED,
                         "the engine needs /proc: %s", strerror(errno));
}

static int
setup_lock(int fd, short type)
{
    struct flock lock = { .l_type = type, .l_start = SETUP_OFFSET, .l_len = 1 };
    return fcntl(fd, F_OFD_SETLK, &lock);
}

static int
prove_or_make(table *t, dibs_time deadline, dibs_error *err)
{
    char boot_id[40];
    if (read_boot_id(boot_id) != 0)
        return no_proc(t, err);
    int rc = prove(t, boot_id, err);
    if (rc != DIBS_EBUSY)
        return rc;
    while (setup_lock(t->fd, F_WRLCK) != 0) {
        if (t->host->now() >= deadline)
            return t->host->fail(err, DIBS_ETIMEDOUT, "%s/table is still being made",
                                 t->path);
        t->host->sleep_until(t->host->now() + DIBS_MS);
    }
    rc = prove(t, boot_id, err);
    if (rc == DIBS_EBUSY)
        rc = make(t, boot_id, err);
    (void)setup_lock(t->fd, F_UNLCK);
    return rc;
}

/* ------------------------------------------------------------------ mapping ---- */

static int
map(table *t, dibs_error *err)
{
    /* less than the most is fine where the address space is limited */
    for (t->room = ROOM_MAX; t->room >= FIRST_RECORDS; t->room /= 2) {
        t->mapped = RECORDS_OFFSET + (size_t)t->room * sizeof(record);
        t->base = mmap(NULL, t->mapped, PROT_READ | PROT_WRITE,
                       MAP_SHARED | MAP_NORESERVE, t->fd, 0);
        if (t->base != MAP_FAILED)
            break;
    }
    if (t->base == MAP_FAILED)
        return t->host->fail(err, DIBS_ENOMEM, "cannot map %s/table: %s", t->path,
                             strerror(errno));
    (void)madvise(t->base, t->mapped, MADV_DONTDUMP);
    t->head = (header *)(void *)t->base;
    t->shards = (local_shard *)(void *)(t->base + SHARDS_OFFSET);
    t->buckets = (uint32_t *)(void *)(t->base + BUCKETS_OFFSET);
    t->records = (record *)(void *)(t->base + RECORDS_OFFSET);
    (void)dibs__local_extend(t, 0); /* which finds out how many there are */
    return atomic_load(&t->damaged) ? dibs__local_damage(t, err) : DIBS_OK;
}

static int
open_file(table *t, int folder, dibs_error *err)
{
    struct stat st;
    t->fd = openat(folder, "table", O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (t->fd < 0 || fstat(t->fd, &st) != 0)
        return t->host->fail(err, is_shortage(errno) ? DIBS_ENOMEM : DIBS_EDENIED,
                             "cannot open %s/table: %s", t->path, strerror(errno));
    if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
        return t->host->fail(err, DIBS_EDENIED,
                             "%s/table is not a file of this user: remove it", t->path);
    t->device = st.st_dev;
    t->inode = st.st_ino;
    return DIBS_OK;
}

static void
free_table(table *t)
{
    dibs__local_watch_stop(&t->watch);
    if (t->base && t->base != MAP_FAILED)
        munmap(t->base, t->mapped);
    if (t->fd >= 0)
        close(t->fd);
    t->host->free(t);
}

/* ------------------------------------------------------------- tables in use ---- */

static void
before_fork(void)
{
    pthread_mutex_lock(&tables_mutex);
}

static void
after_fork_parent(void)
{
    pthread_mutex_unlock(&tables_mutex);
}

static void
after_fork_child(void)
{
    for (table *t = tables; t; t = t->next) {
        t->forked = 1;
        close(t->fd);
        t->fd = -1;
        dibs__local_watch_forked(&t->watch);
    }
    tables = NULL;
    pthread_mutex_unlock(&tables_mutex);
}

static void
fork_init(void)
{
    (void)pthread_atfork(before_fork, after_fork_parent, after_fork_child);
}

static table *
find_table_locked(const table *like)
{
    for (table *t = tables; t; t = t->next)
        if (t->device == like->device && t->inode == like->inode)
            return t;
    return NULL;
}

static int
open_locked(table **out, table *t, int folder, dibs_time deadline, dibs_error *err)
{
    int rc = open_file(t, folder, err);
    if (rc != DIBS_OK)
        return rc;
    table *known = find_table_locked(t);
    if (known) {
        known->refs++;
        *out = known;
        return DIBS_OK;
    }
    if ((rc = prove_or_make(t, deadline, err)) != DIBS_OK ||
        (rc = map(t, err)) != DIBS_OK)
        return rc;
    if (dibs__local_self(&t->pid, &t->start) != 0)
        return no_proc(t, err);
    t->refs = 1;
    t->next = tables;
    tables = t;
    *out = t;
    return DIBS_OK;
}

int
dibs__local_open(table **out, int folder, const char *path, const dibs_host *host,
                 dibs_time deadline, dibs_error *err)
{
    table *t = host->alloc(sizeof(*t));
    if (!t)
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    t->fd = -1;
    t->host = host;
    snprintf(t->path, sizeof(t->path), "%s", path);
    dibs__local_watch_init(&t->watch);
    (void)pthread_once(&fork_once, fork_init);
    table *used = NULL;
    pthread_mutex_lock(&tables_mutex);
    int rc = open_locked(&used, t, folder, deadline, err);
    pthread_mutex_unlock(&tables_mutex);
    if (used != t)
        free_table(t);
    if (rc == DIBS_OK)
        *out = used;
    return rc;
}

void
dibs__local_close(table *t, int forked)
{
    pthread_mutex_lock(&tables_mutex);
    int last = --t->refs == 0;
    for (table **p = &tables; last && *p; p = &(*p)->next)
        if (*p == t) {
            *p = t->next;
            break;
        }
    pthread_mutex_unlock(&tables_mutex);
    (void)forked; /* the fork handler has closed the descriptors already */
    if (last)
        free_table(t);
}
