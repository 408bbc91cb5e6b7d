/* SPDX-License-Identifier: MIT */
/*
 * Calls of dibs that go through here: the addresses of functions that libdibs and its modules
 * have been linked to are replaced in the tables that the dynamic linker filled in. So what
 * other libraries call is not touched, and sanitizers see all there is.
 *
 * Parts: which call is it; allocations; descriptors; sending and receiving; waiting; the rest;
 * the tables.
 */
#include "nth.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/futex.h>
#include <netdb.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#define CALLER __builtin_return_address(0)

static nth_plan *plan;

/* ---- which call is it ---- */

static void
note_strike(const char *function, void *caller)
{
    Dl_info info = { 0 };
    (void)dladdr(caller, &info);
    (void)snprintf(plan->function, sizeof plan->function, "%s", function);
    (void)snprintf(plan->where, sizeof plan->where, "%s+0x%lx (%s)",
                   info.dli_fname ? info.dli_fname : "?",
                   (unsigned long)((char *)caller - (char *)info.dli_fbase),
                   info.dli_sname ? info.dli_sname : "?");
    atomic_store(&plan->has_struck, 1);
}

static int
strikes(enum nth_family family, const char *function, void *caller)
{
    if (!plan || plan->family != (int)family ||
        atomic_fetch_add(&plan->count, 1) + 1 != plan->target)
        return 0;
    note_strike(function, caller);
    return 1;
}

/* one of those errors, by the plan */
static int
error_of(const int *errors, size_t count)
{
    return errors[plan->way % count];
}
#define ONE_OF(...)                                                                      \
    error_of((const int[]){ __VA_ARGS__ },                                               \
             sizeof((const int[]){ __VA_ARGS__ }) / sizeof(int))

/* HOOK declares what a function really is, and begins what stands in its place */
#define HOOK(type, function, ...)                                                        \
    static type (*real_##function)(__VA_ARGS__);                                         \
    static type hook_##function(__VA_ARGS__)

/* FAILS: errno and a value, if this is the one */
#define FAILS(family, function, value, ...)                                              \
    do {                                                                                 \
        if (strikes(family, function, CALLER)) {                                         \
            errno = ONE_OF(__VA_ARGS__);                                                 \
            return value;                                                                \
        }                                                                                \
    } while (0)

/* ---- allocations ---- */

HOOK(void *, malloc, size_t size)
{
    FAILS(NTH_ALLOC, "malloc", NULL, ENOMEM);
    return real_malloc(size);
}

HOOK(void *, calloc, size_t count, size_t size)
{
    FAILS(NTH_ALLOC, "calloc", NULL, ENOMEM);
    return real_calloc(count, size);
}

HOOK(void *, realloc, void *memory, size_t size)
{
    FAILS(NTH_ALLOC, "realloc", NULL, ENOMEM);
    return real_realloc(memory, size);
}

HOOK(char *, strdup, const char *text)
{
    FAILS(NTH_ALLOC, "strdup", NULL, ENOMEM);
    return real_strdup(text);
}

HOOK(char *, strndup, const char *text, size_t len)
{
    FAILS(NTH_ALLOC, "strndup", NULL, ENOMEM);
    return real_strndup(text, len);
}

/* ---- descriptors ---- */

HOOK(int, socket, int domain, int type, int protocol)
{
    FAILS(NTH_CALL, "socket", -1, EMFILE, ENFILE, ENOMEM);
    return real_socket(domain, type, protocol);
}

HOOK(int, socketpair, int domain, int type, int protocol, int fds[2])
{
    FAILS(NTH_CALL, "socketpair", -1, EMFILE, ENOMEM);
    return real_socketpair(domain, type, protocol, fds);
}

HOOK(int, pipe2, int fds[2], int flags)
{
    FAILS(NTH_CALL, "pipe2", -1, EMFILE, ENFILE);
    return real_pipe2(fds, flags);
}

HOOK(int, eventfd, unsigned value, int flags)
{
    FAILS(NTH_CALL, "eventfd", -1, EMFILE, ENOMEM);
    return real_eventfd(value, flags);
}

HOOK(int, timerfd_create, clockid_t clock, int flags)
{
    FAILS(NTH_CALL, "timerfd_create", -1, EMFILE, ENOMEM);
    return real_timerfd_create(clock, flags);
}

HOOK(int, epoll_create1, int flags)
{
    FAILS(NTH_CALL, "epoll_create1", -1, EMFILE, ENOMEM);
    return real_epoll_create1(flags);
}

HOOK(int, epoll_ctl, int epoll, int op, int fd, struct epoll_event *event)
{
    if (op != EPOLL_CTL_DEL)
        FAILS(NTH_CALL, "epoll_ctl", -1, ENOMEM, ENOSPC);
    return real_epoll_ctl(epoll, op, fd, event);
}

HOOK(int, open, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    FAILS(NTH_CALL, "open", -1, EMFILE, ENFILE, EINTR, EACCES);
    return real_open(path, flags, mode);
}

HOOK(int, openat, int folder, const char *path, int flags, ...)
{
    va_list args;
    va_start(args, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0;
    va_end(args);
    FAILS(NTH_CALL, "openat", -1, EMFILE, ENFILE, EINTR, EACCES);
    return real_openat(folder, path, flags, mode);
}

HOOK(FILE *, fopen, const char *path, const char *how)
{
    FAILS(NTH_CALL, "fopen", NULL, EMFILE, ENOMEM);
    return real_fopen(path, how);
}

/* ---- sending and receiving ---- */

HOOK(int, connect, int fd, const struct sockaddr *address, socklen_t len)
{
    FAILS(NTH_CALL, "connect", -1, ECONNREFUSED, ETIMEDOUT, ENETUNREACH, EADDRNOTAVAIL);
    return real_connect(fd, address, len);
}

/* a stream may take, or have, less than was asked for: one byte */
#define SHORT_COUNT 0

HOOK(ssize_t, send, int fd, const void *bytes, size_t len, int flags)
{
    if (strikes(NTH_CALL, "send", CALLER)) {
        errno = ONE_OF(ECONNRESET, EINTR, EAGAIN, EPIPE, SHORT_COUNT);
        return errno ? -1 : real_send(fd, bytes, len > 1 ? 1 : len, flags);
    }
    return real_send(fd, bytes, len, flags);
}

/* an eventfd that does not block takes what it is given */
static int
can_fail(int fd)
{
    struct stat about;
    return fstat(fd, &about) == 0 && (S_ISREG(about.st_mode) || S_ISSOCK(about.st_mode));
}

HOOK(ssize_t, write, int fd, const void *bytes, size_t len)
{
    if (can_fail(fd))
        FAILS(NTH_CALL, "write", -1, EINTR, ENOSPC, EIO);
    return real_write(fd, bytes, len);
}

HOOK(ssize_t, pwrite, int fd, const void *bytes, size_t len, off_t at)
{
    FAILS(NTH_CALL, "pwrite", -1, EINTR, ENOSPC, EIO);
    return real_pwrite(fd, bytes, len, at);
}

HOOK(ssize_t, recv, int fd, void *bytes, size_t len, int flags)
{
    if (strikes(NTH_CALL, "recv", CALLER)) {
        errno = ONE_OF(ECONNRESET, EINTR, EAGAIN, ETIMEDOUT, SHORT_COUNT);
        return errno ? -1 : real_recv(fd, bytes, len > 1 ? 1 : len, flags);
    }
    return real_recv(fd, bytes, len, flags);
}

HOOK(ssize_t, read, int fd, void *bytes, size_t len)
{
    if (can_fail(fd))
        FAILS(NTH_CALL, "read", -1, EINTR, EIO);
    return real_read(fd, bytes, len);
}

HOOK(ssize_t, pread, int fd, void *bytes, size_t len, off_t at)
{
    FAILS(NTH_CALL, "pread", -1, EINTR, EIO);
    return real_pread(fd, bytes, len, at);
}

HOOK(int, setsockopt, int fd, int level, int name, const void *value, socklen_t len)
{
    FAILS(NTH_CALL, "setsockopt", -1, ENOBUFS, ENOPROTOOPT);
    return real_setsockopt(fd, level, name, value, len);
}

/* ---- waiting ---- */

HOOK(int, poll, struct pollfd *fds, nfds_t count, int timeout)
{
    FAILS(NTH_CALL, "poll", -1, EINTR, ENOMEM);
    return real_poll(fds, count, timeout);
}

HOOK(int, ppoll, struct pollfd *fds, nfds_t count, const struct timespec *timeout,
     const sigset_t *mask)
{
    FAILS(NTH_CALL, "ppoll", -1, EINTR, ENOMEM);
    return real_ppoll(fds, count, timeout, mask);
}

HOOK(int, epoll_wait, int epoll, struct epoll_event *events, int most, int timeout)
{
    FAILS(NTH_CALL, "epoll_wait", -1, EINTR);
    return real_epoll_wait(epoll, events, most, timeout);
}

/* who sleeps on a futex may be woken for nothing; waking does not fail */
HOOK(long, syscall, long number, ...)
{
    long values[6];
    va_list args;
    va_start(args, number);
    for (int i = 0; i < 6; i++)
        values[i] = va_arg(args, long);
    va_end(args);
    int is_wake = number == SYS_futex && (values[1] & FUTEX_CMD_MASK) == FUTEX_WAKE;
    if (number == SYS_futex && !is_wake)
        FAILS(NTH_CALL, "futex", -1, EINTR, EAGAIN);
    else if (!is_wake)
        FAILS(NTH_CALL, "syscall", -1, EMFILE, ENOMEM, ENOSYS);
    return real_syscall(number, values[0], values[1], values[2], values[3], values[4],
                        values[5]);
}

/* ---- the rest ---- */

HOOK(void *, mmap, void *at, size_t len, int how, int flags, int fd, off_t offset)
{
    FAILS(NTH_CALL, "mmap", MAP_FAILED, ENOMEM, ENFILE);
    return real_mmap(at, len, how, flags, fd, offset);
}

HOOK(int, ftruncate, int fd, off_t len)
{
    FAILS(NTH_CALL, "ftruncate", -1, ENOSPC, EINTR, EIO);
    return real_ftruncate(fd, len);
}

HOOK(int, posix_fallocate, int fd, off_t at, off_t len)
{
    if (strikes(NTH_CALL, "posix_fallocate", CALLER))
        return ONE_OF(ENOSPC, EINTR, EIO);
    return real_posix_fallocate(fd, at, len);
}

HOOK(int, fstat, int fd, struct stat *out)
{
    FAILS(NTH_CALL, "fstat", -1, EIO, EOVERFLOW);
    return real_fstat(fd, out);
}

HOOK(int, fcntl, int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    void *value = va_arg(args, void *);
    va_end(args);
    FAILS(NTH_CALL, "fcntl", -1, EINTR, ENOLCK, EMFILE);
    return real_fcntl(fd, command, value);
}

HOOK(int, pthread_create, pthread_t *thread, const pthread_attr_t *how,
     void *(*run)(void *), void *arg)
{
    if (strikes(NTH_CALL, "pthread_create", CALLER))
        return ONE_OF(EAGAIN, ENOMEM);
    return real_pthread_create(thread, how, run, arg);
}

HOOK(ssize_t, getrandom, void *out, size_t len, unsigned flags)
{
    if (strikes(NTH_CALL, "getrandom", CALLER)) {
        errno = ONE_OF(EINTR, SHORT_COUNT);
        return errno ? -1 : real_getrandom(out, len > 1 ? 1 : len, flags);
    }
    return real_getrandom(out, len, flags);
}

HOOK(int, getaddrinfo, const char *host, const char *port, const struct addrinfo *hints,
     struct addrinfo **out)
{
    if (strikes(NTH_CALL, "getaddrinfo", CALLER))
        return ONE_OF(EAI_AGAIN, EAI_MEMORY, EAI_FAIL);
    return real_getaddrinfo(host, port, hints, out);
}

/* ---- the tables ---- */

typedef void any_function(void);

static void patch_all(void);

HOOK(void *, dlopen, const char *path, int flags)
{
    void *module = real_dlopen(path, flags);
    patch_all();
    return module;
}

#define ENTRY(function)                                                                  \
    {                                                                                    \
#function, (any_function *)hook_##function, &real_##function,                    \
            sizeof real_##function                                                       \
    }
static const struct {
    const char *name;
    any_function *hook;
    void *real; /* where the function itself is kept */
    size_t size;
} hooks[] = {
    ENTRY(malloc),         ENTRY(calloc),          ENTRY(realloc),       ENTRY(strdup),
    ENTRY(strndup),        ENTRY(socket),          ENTRY(socketpair),    ENTRY(pipe2),
    ENTRY(eventfd),        ENTRY(timerfd_create),  ENTRY(epoll_create1), ENTRY(epoll_ctl),
    ENTRY(open),           ENTRY(openat),          ENTRY(fopen),         ENTRY(connect),
    ENTRY(send),           ENTRY(write),           ENTRY(pwrite),        ENTRY(recv),
    ENTRY(read),           ENTRY(pread),           ENTRY(setsockopt),    ENTRY(poll),
    ENTRY(ppoll),          ENTRY(epoll_wait),      ENTRY(syscall),       ENTRY(mmap),
    ENTRY(ftruncate),      ENTRY(posix_fallocate), ENTRY(fstat),         ENTRY(fcntl),
    ENTRY(pthread_create), ENTRY(getrandom),       ENTRY(getaddrinfo),   ENTRY(dlopen),
};
#define HOOKS (sizeof hooks / sizeof *hooks)

#if defined __x86_64__
#define IS_ADDRESS(type) ((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT)
#elif defined __aarch64__
#define IS_ADDRESS(type) ((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT)
#endif

#ifdef IS_ADDRESS

static void
replace(char *slot, const char *name)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < HOOKS; i++) {
        if (strcmp(hooks[i].name, name) != 0)
            continue;
        char *start = slot - (uintptr_t)slot % page;
        CHECK(mprotect(start, page, PROT_READ | PROT_WRITE) == 0);
        memcpy(slot, &hooks[i].hook, sizeof hooks[i].hook);
    }
}

/* what an object says of its tables */
struct tables {
    const ElfW(Sym) * symbols;
    const char *names;
    const ElfW(Rela) * lists[2];
    size_t sizes[2];
};

static void
read_tables(struct tables *out, const ElfW(Dyn) * at)
{
    for (; at->d_tag != DT_NULL; at++) {
        if (at->d_tag == DT_SYMTAB)
            out->symbols = (const ElfW(Sym) *)at->d_un.d_ptr;
        else if (at->d_tag == DT_STRTAB)
            out->names = (const char *)at->d_un.d_ptr;
        else if (at->d_tag == DT_JMPREL)
            out->lists[0] = (const ElfW(Rela) *)at->d_un.d_ptr;
        else if (at->d_tag == DT_PLTRELSZ)
            out->sizes[0] = at->d_un.d_val;
        else if (at->d_tag == DT_RELA)
            out->lists[1] = (const ElfW(Rela) *)at->d_un.d_ptr;
        else if (at->d_tag == DT_RELASZ)
            out->sizes[1] = at->d_un.d_val;
    }
}

static void
patch_object(const struct dl_phdr_info *object, const ElfW(Dyn) * dynamic)
{
    struct tables tables = { 0 };
    read_tables(&tables, dynamic);
    for (int list = 0; list < 2; list++) {
        const ElfW(Rela) *at = tables.lists[list];
        for (size_t i = 0; at && i < tables.sizes[list] / sizeof *at; i++) {
            const ElfW(Sym) *symbol = &tables.symbols[ELF64_R_SYM(at[i].r_info)];
            if (IS_ADDRESS(ELF64_R_TYPE(at[i].r_info)))
                replace((char *)(object->dlpi_addr + at[i].r_offset),
                        tables.names + symbol->st_name);
        }
    }
}

static int
patch_if_ours(struct dl_phdr_info *object, size_t size, void *context)
{
    (void)size, (void)context;
    if (!strstr(object->dlpi_name, "/libdibs.so") &&
        !strstr(object->dlpi_name, "/dibs-engine-"))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &object->dlpi_phdr[i];
        if (part->p_type == PT_DYNAMIC)
            patch_object(object, (const ElfW(Dyn) *)(object->dlpi_addr + part->p_vaddr));
    }
    return 0;
}

static void
patch_all(void)
{
    (void)dl_iterate_phdr(patch_if_ours, NULL);
}

int
nth_arm(nth_plan *armed)
{
    for (size_t i = 0; i < HOOKS; i++) {
        void *real = dlsym(RTLD_DEFAULT, hooks[i].name);
        CHECK(real != NULL && hooks[i].size == sizeof real);
        memcpy(hooks[i].real, &real, sizeof real);
    }
    plan = armed;
    patch_all();
    return 0;
}

#else

static void
patch_all(void)
{
}

int
nth_arm(nth_plan *armed)
{
    (void)armed, (void)hooks;
    return -1;
}

#endif

void
nth_disarm(void)
{
    plan = NULL;
}
