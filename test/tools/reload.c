/* SPDX-License-Identifier: MIT */
/*
 * reload LIBRARY URL...: libdibs as part of a plugin. It is loaded, used (a lock, a wait in
 * the background, a loss that is told) and closed, again and again; afterwards the process
 * forks, and threads that used it end. It is linked so that dlclose leaves it where it is:
 * its threads, what it has told the system to call at a fork, and engines need it there.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dibs.h>

#define ROUNDS 20

/* what a plugin would have linked */
struct library {
    void *handle;
    __typeof__(&dibs_open) open;
    __typeof__(&dibs_close) close;
    __typeof__(&dibs_acquire) acquire;
    __typeof__(&dibs_acquire_async) acquire_async;
    __typeof__(&dibs_op_finish) op_finish;
    __typeof__(&dibs_unlock) unlock;
    __typeof__(&dibs_hold_free) hold_free;
};

static struct library lib;
static const char *const *urls;
static pthread_barrier_t worked, closed;
static _Atomic int losses;

static void
require(int is_so, const char *what)
{
    if (!is_so) {
        fprintf(stderr, "failed: %s\n", what);
        _exit(1);
    }
}

/* ISO C knows no way from an object's pointer to a function's but this one */
static void
find(void *function, const char *name)
{
    void *found = dlsym(lib.handle, name);
    require(found != NULL, name);
    memcpy(function, &found, sizeof(found));
}

static void
load(const char *path)
{
    lib.handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (lib.handle == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        _exit(1);
    }
    find(&lib.open, "dibs_open");
    find(&lib.close, "dibs_close");
    find(&lib.acquire, "dibs_acquire");
    find(&lib.acquire_async, "dibs_acquire_async");
    find(&lib.op_finish, "dibs_op_finish");
    find(&lib.unlock, "dibs_unlock");
    find(&lib.hold_free, "dibs_hold_free");
}

static void
count_loss(dibs_hold *hold, void *arg)
{
    (void)hold, (void)arg;
    atomic_fetch_add(&losses, 1);
}

/* a hold that ends by itself, and is told of by a thread of the library */
static void
lose_one(dibs *client)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold;
    int before = atomic_load(&losses);
    request.name = "lost";
    request.max_hold_ms = 20;
    request.on_lost = count_loss;
    require(lib.acquire(&hold, client, &request, NULL) == DIBS_OK, "dibs_acquire");
    for (int i = 0; i < 10000 && atomic_load(&losses) == before; i++) {
        usleep(1000);
    }
    require(atomic_load(&losses) == before + 1, "the loss is told");
    lib.hold_free(hold);
}

/* one waits in the background while another has the lock */
static void
wait_for_one(dibs *client)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold, *next;
    dibs_op *op;
    request.name = "shared";
    request.wait_ms = 20000;
    require(lib.acquire(&hold, client, &request, NULL) == DIBS_OK, "dibs_acquire");
    require(lib.acquire_async(&op, client, &request, NULL, NULL, NULL) == DIBS_OK,
            "dibs_acquire_async");
    require(lib.unlock(hold, NULL) == DIBS_OK, "dibs_unlock");
    require(lib.op_finish(&next, op, NULL) == DIBS_OK, "dibs_op_finish");
    require(lib.unlock(next, NULL) == DIBS_OK, "dibs_unlock");
}

static void
use(const char *url)
{
    dibs *client;
    dibs_error err;
    if (lib.open(&client, url, NULL, &err) != DIBS_OK) {
        fprintf(stderr, "%s\n", err.text);
        _exit(1);
    }
    wait_for_one(client);
    lose_one(client);
    lib.close(client);
}

/* a thread of the program that outlives the use of the library */
static void *
use_all(void *arg)
{
    (void)arg;
    for (const char *const *url = urls; *url != NULL; url++) {
        use(*url);
    }
    pthread_barrier_wait(&worked);
    pthread_barrier_wait(&closed);
    return NULL;
}

static void
stays_loaded(const char *path)
{
    void *again = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
    require(again != NULL, "the library stays");
    require(dlclose(again) == 0, "dlclose");
}

static void
fork_once(void)
{
    int status = -1;
    pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    require(child > 0 && waitpid(child, &status, 0) == child && status == 0, "fork");
}

int
main(int argc, char **argv)
{
    require(argc > 2, "usage: reload LIBRARY URL...");
    urls = (const char *const *)argv + 2;
    alarm(240);
    pthread_barrier_init(&worked, NULL, 2);
    pthread_barrier_init(&closed, NULL, 2);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_t user;
        load(argv[1]);
        require(pthread_create(&user, NULL, use_all, NULL) == 0, "pthread_create");
        pthread_barrier_wait(&worked);
        require(dlclose(lib.handle) == 0, "dlclose");
        stays_loaded(argv[1]);
        fork_once();
        pthread_barrier_wait(&closed);
        pthread_join(user, NULL);
    }
    printf("%d rounds, %d losses told\n", ROUNDS, atomic_load(&losses));
    return 0;
}
