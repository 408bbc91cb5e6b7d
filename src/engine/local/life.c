/* SPDX-License-Identifier: MIT */
/*
 * Who is alive, and what becomes of the claims of the dead.
 *
 * Every open client has a member record, and its process keeps a byte of the file locked
 * that belongs to this record alone. The kernel drops such a lock when the process ends or
 * executes another program, so a byte that is not locked means dead, whatever became of
 * the pid. A locked byte could have been inherited by a child that was not made by fork(3),
 * so the pid and the start time of the process must fit, too.
 *
 * A claim names its member by index and word: once a member record has been freed, all
 * claims that are left of it are dead, with no need to ask the system.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/local/local.h"
#include "util/uncancelled.h"

enum { BURY_AT_ONCE = 16 };

/* ---------------------------------------------------------------- processes ---- */

/* process_stat reads state, start time and number of threads from /proc; or -1 (errno). A
 * shard may be locked. */
static int
process_stat(int32_t pid, char *state, uint64_t *start, long *threads)
{
    UNCANCELLED;
    char path[32], line[1024];
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, line, sizeof(line) - 1);
    int error = n == 0 ? ESRCH : errno;
    close(fd);
    errno = n > 0 ? EINVAL : error;
    if (n <= 0)
        return -1;
    line[n] = '\0';
    const char *rest = strrchr(line, ')'); /* the name before may contain anything */
    unsigned long long ticks;
    if (!rest || sscanf(rest + 1,
                        " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d "
                        "%*d %*d %ld %*d %llu",
                        state, threads, &ticks) != 3)
        return -1;
    *start = ticks;
    return 0;
}

int
dibs__local_self(int32_t *pid, uint64_t *start)
{
    char state;
    long threads;
    *pid = (int32_t)getpid();
    return process_stat(*pid, &state, start, &threads);
}

/* A zombie is dead, unless only its first thread has ended. One that cannot be looked at,
 * because no descriptor is free, is not known to be dead. */
int
dibs__local_process_lives(int32_t pid, uint64_t start)
{
    char state;
    long threads;
    uint64_t found;
    if (process_stat(pid, &state, &found, &threads) != 0)
        return errno != ENOENT && errno != ESRCH;
    return found == start && state != 'X' && (state != 'Z' || threads > 1);
}

/* ------------------------------------------------------------------ members ---- */

static int
life_lock(const table *t, uint32_t member, short type)
{
    struct flock lock = { .l_type = type, .l_start = LIFE_OFFSET + member, .l_len = 1 };
    return fcntl(t->fd, F_OFD_SETLK, &lock);
}

static int
life_is_locked(const table *t, uint32_t member)
{
    struct flock lock = { .l_type = F_WRLCK,
                          .l_start = LIFE_OFFSET + member,
                          .l_len = 1 };
    return fcntl(t->fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

static int
is_current(table *t, uint32_t member, uint32_t word)
{
    return member && word_of(at(t, member)) == word && (word & KIND_MASK) == KIND_MEMBER;
}

int
dibs__local_alive(table *t, uint32_t member, uint32_t word)
{
    if (!is_current(t, member, word))
        return 0;
    record *m = at(t, member);
    int32_t pid = atomic_load(&m->member.pid);
    uint64_t start = atomic_load(&m->member.start);
    if (pid == t->pid && start == t->start)
        return 1;
    return life_is_locked(t, member) && dibs__local_process_lives(pid, start);
}

static uint64_t
pid_namespace(void)
{
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? (uint64_t)st.st_ino : 0;
}

/* All pids in the table must mean the same. MEMBER_SHARD is locked. */
static int
check_namespace(table *t, dibs_error *err)
{
    uint64_t own = pid_namespace(), found = atomic_load(&t->head->pid_namespace);
    uint32_t left = atomic_load(&t->known);
    if (found == own)
        return DIBS_OK;
    for (uint32_t i = t->shards[MEMBER_SHARD].members; i && left--; i = at(t, i)->next)
        if (life_is_locked(t, i))
            return t->host->fail(
                err, DIBS_EUNSUPPORTED,
                "%s/table is in use by processes of another pid namespace "
                "(a container?): use a folder of your own, or share the "
                "pid namespace",
                t->path);
    atomic_store(&t->head->pid_namespace, own);
    return DIBS_OK;
}

static void
unlink_member(table *t, uint32_t index)
{
    local_shard *sh = &t->shards[MEMBER_SHARD];
    const record *m = at(t, index);
    if (m->prev)
        get(t, m->prev, KIND_MEMBER)->next = m->next;
    else
        sh->members = m->next;
    if (m->next)
        get(t, m->next, KIND_MEMBER)->prev = m->prev;
    give(t, index);
}

/* take_byte returns a record whose life byte could be locked; it may be a child of a dead
 * member that still has one locked. */
static uint32_t
take_byte(table *t, dibs_error *err)
{
    uint32_t refused[CHUNK], n = 0, index;
    while ((index = take(t, MEMBER_SHARD, err)) != 0 && n < CHUNK &&
           life_lock(t, index, F_WRLCK) != 0)
        refused[n++] = index;
    while (n > 0)
        give(t, refused[--n]);
    return index;
}

static int
new_member(local_state *s, const char *app, dibs_error *err)
{
    table *t = s->table;
    local_shard *sh = &t->shards[MEMBER_SHARD];
    uint32_t index = take_byte(t, err);
    if (!index)
        return DIBS_ENOMEM;
    record *m = at(t, index);
    atomic_store(&m->member.pid, t->pid);
    atomic_store(&m->member.start, t->start);
    atomic_store(&m->member.touched, 0);
    snprintf(m->member.app, sizeof(m->member.app), "%s", app);
    set_word(m, KIND_MEMBER);
    m->prev = 0;
    m->next = sh->members;
    if (sh->members)
        get(t, sh->members, KIND_MEMBER)->prev = index;
    sh->members = index;
    s->member = index;
    s->member_word = word_of(m);
    return DIBS_OK;
}

/* join makes the client a member, and buries some of the dead that nobody has noticed. */
int
dibs__local_join(local_state *s, const char *app, dibs_error *err)
{
    table *t = s->table;
    uint32_t dead[BURY_AT_ONCE], words[BURY_AT_ONCE], n = 0;
    int rc = dibs__local_lock(t, MEMBER_SHARD, err);
    if (rc != DIBS_OK)
        return rc;
    rc = check_namespace(t, err);
    uint32_t left = atomic_load(&t->known);
    for (uint32_t i = t->shards[MEMBER_SHARD].members; i && n < BURY_AT_ONCE && left--;
         i = at(t, i)->next)
        if (kill(atomic_load(&at(t, i)->member.pid), 0) != 0 && errno == ESRCH) {
            dead[n] = i;
            words[n++] = word_of(at(t, i));
        }
    if (rc == DIBS_OK)
        rc = new_member(s, app, err);
    dibs__local_unlock(t, MEMBER_SHARD);
    while (rc == DIBS_OK && n-- > 0)
        dibs__local_bury(t, dead[n], words[n]);
    if (atomic_load(&t->damaged))
        rc = dibs__local_damage(t, err);
    return rc;
}

/* ---------------------------------------------------- the claims of a member ---- */

typedef int claim_visitor(table *t, uint32_t claim, uint32_t member, uint32_t word,
                          local_wake *wake);

/* each_claim calls `visit` for all claims in the shards that a member has touched, with
 * the shard locked; returns the sum of what it says, or -1 if a shard was out of reach. */
static int
each_claim(table *t, uint32_t member, uint32_t word, uint64_t touched,
           claim_visitor *visit)
{
    int sum = 0, failed = 0;
    uint32_t end = atomic_load(&t->head->cursor);
    for (uint32_t first = CHUNK; first < end; first += CHUNK) {
        uint32_t n = at(t, first)->shard;
        local_wake wake = { NULL };
        if (n >= SHARDS || !(touched >> n & 1))
            continue;
        if (dibs__local_lock(t, n, NULL) != DIBS_OK) {
            failed = 1;
            continue;
        }
        for (uint32_t i = first; i < first + CHUNK; i++)
            if ((word_of(at(t, i)) & KIND_MASK) == KIND_CLAIM)
                sum += visit(t, i, member, word, &wake);
        dibs__local_unlock(t, n);
        dibs__local_wake_done(t, &wake);
    }
    return failed ? -1 : sum;
}

static int
is_of(const record *claim, uint32_t member, uint32_t word)
{
    return claim->claim.member == member && claim->claim.member_word == word &&
           (word_of(claim) & PHASE_MASK) != PHASE_LINGERING;
}

static int
visit_count(table *t, uint32_t claim, uint32_t member, uint32_t word, local_wake *wake)
{
    (void)wake;
    return is_of(at(t, claim), member, word);
}

static int
visit_bury(table *t, uint32_t claim, uint32_t member, uint32_t word, local_wake *wake)
{
    record *r = at(t, claim);
    if (is_of(r, member, word)) {
        uint32_t lock = r->claim.lock;
        if (get(t, lock, KIND_LOCK)->shard != r->shard)
            return 0;
        dibs__local_end(t, lock, claim, DIBS_PREVIOUS_EXPIRED, wake);
        dibs__local_drop_idle(t, lock);
    } else if (atomic_load(&at(t, r->claim.member)->member.pid) == t->pid) {
        /* the dead one may have granted it to us without living to tell */
        dibs__local_alarm(t, &r->claim.bell);
    }
    return 0;
}

void
dibs__local_bury(table *t, uint32_t member, uint32_t word)
{
    record *m = at(t, member);
    uint64_t touched = atomic_load(&m->member.touched);
    if (!is_current(t, member, word))
        touched = ~UINT64_C(0); /* somebody was faster; ours are to be woken still */
    if (each_claim(t, member, word, touched, visit_bury) != 0 ||
        dibs__local_lock(t, MEMBER_SHARD, NULL) != DIBS_OK)
        return;
    if (is_current(t, member, word))
        unlink_member(t, member);
    dibs__local_unlock(t, MEMBER_SHARD);
}

/* leave ends the membership; a client with holds that were abandoned stays a member, and
 * its table open, until the process ends. */
void
dibs__local_leave(local_state *s)
{
    table *t = s->table;
    uint64_t touched = atomic_load(&at(t, s->member)->member.touched);
    if (each_claim(t, s->member, s->member_word, touched, visit_count) != 0 ||
        dibs__local_lock(t, MEMBER_SHARD, NULL) != DIBS_OK)
        return;
    if (is_current(t, s->member, s->member_word))
        unlink_member(t, s->member);
    (void)life_lock(t, s->member, F_UNLCK);
    dibs__local_unlock(t, MEMBER_SHARD);
    dibs__local_close(t, 0);
}

/* ------------------------------------------------------------------ reaping ---- */

static int
is_over(table *t, const record *r, int thoroughly, dibs_time now)
{
    if ((word_of(r) & PHASE_MASK) == PHASE_LINGERING)
        return now >= r->claim.expiry;
    if (thoroughly)
        return !dibs__local_alive(t, r->claim.member, r->claim.member_word);
    return !is_current(t, r->claim.member, r->claim.member_word);
}

static void
reap_one(table *t, uint32_t lock, uint32_t claim, local_wake *wake)
{
    int lingering = (word_of(at(t, claim)) & PHASE_MASK) == PHASE_LINGERING;
    dibs__local_end(t, lock, claim,
                    lingering ? DIBS_PREVIOUS_CLEAN : DIBS_PREVIOUS_EXPIRED, wake);
}

void
dibs__local_reap(table *t, uint32_t lock, int thoroughly, local_wake *wake)
{
    record *l = at(t, lock);
    dibs_time now = l->lock.linger_count ? t->host->now() : 0;
    uint32_t left = l->lock.holder_count, next;
    for (uint32_t i = l->lock.holders; i && left; i = next, left--) {
        const record *r = get(t, i, KIND_CLAIM);
        next = r->next;
        if (is_over(t, r, thoroughly, now))
            reap_one(t, lock, i, wake);
    }
    /* of those who wait, only dead ones in front are in the way */
    left = l->lock.waiter_count;
    while (l->lock.head && left-- &&
           is_over(t, get(t, l->lock.head, KIND_CLAIM), thoroughly, now))
        reap_one(t, lock, l->lock.head, wake);
}
