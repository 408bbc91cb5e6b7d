/* SPDX-License-Identifier: MIT */
/*
 * Cache: when an entry is missing, one process rebuilds it while the others wait, and
 * those who waited look again before they do anything. Without this, an entry that
 * expires under load sends everybody to the database at once.
 *
 * What is not in the database is remembered too, for a shorter time: else everybody who
 * asks for a key that does not exist gets through to the database every time.
 *
 * Shared memory stands in for your cache server, load() for your database.
 *
 * Read next: stock.c.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <dibs.h>

enum { WORKERS = 8, KEEP_S = 60, KEEP_MISS_S = 5 };

typedef struct entry {
    time_t expires; /* 0: nothing is known of this key */
    int found;      /* 0: a remembered miss */
    char value[32];
    int loads; /* how often the database was asked; what we check in the end */
} entry;

static entry *cache; /* [0]: "user/1", who exists; [1]: "user/404", who does not */

/* load asks the database: slow, and there is no user 404. */
static int
load(int key, char *value, size_t size)
{
    cache[key].loads++;
    usleep(100000);
    snprintf(value, size, "user %d", key + 1);
    return key == 0;
}

/* lookup is called with the lock held, so nobody sees an entry half written. A real cache
 * server has a get of its own, that needs no lock. */
static int
lookup(int key, char *value, size_t size)
{
    if (cache[key].expires <= time(NULL))
        return 0;
    snprintf(value, size, "%s", cache[key].found ? cache[key].value : "(none)");
    return 1;
}

static int
get(dibs *client, int key, char *value, size_t size, dibs_error *err)
{
    char name[32];
    dibs_hold *hold;
    int code;

    /* one lock per key: rebuilding one does not hold up the others. For millions of keys
     * see dibs_stripe() */
    snprintf(name, sizeof name, "examples/cache/%d", key);
    code = dibs_timedlock(&hold, client, name, 5000, err);
    if (code != DIBS_OK)
        return code; /* a busy site would serve the stale value here */

    /* look again: whoever had the lock before us has most likely done the work */
    if (!lookup(key, value, size)) {
        cache[key].found = load(key, cache[key].value, sizeof cache[key].value);
        cache[key].expires = time(NULL) + (cache[key].found ? KEEP_S : KEEP_MISS_S);
        (void)lookup(key, value, size);
    }
    return dibs_unlock(hold, err);
}

static int
work(void)
{
    dibs_error err;
    dibs *client;
    char user[32] = "", nobody[32] = "";

    if (dibs_open(&client, NULL, NULL, &err) != DIBS_OK ||
        get(client, 0, user, sizeof user, &err) != DIBS_OK ||
        get(client, 1, nobody, sizeof nobody, &err) != DIBS_OK) {
        fprintf(stderr, "cache: %s\n", err.text);
        return 1;
    }
    dibs_close(client);
    return strcmp(user, "user 1") != 0 || strcmp(nobody, "(none)") != 0;
}

int
main(void)
{
    int failed = 0;

    cache = mmap(NULL, 2 * sizeof *cache, PROT_READ | PROT_WRITE,
                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cache == MAP_FAILED)
        return 1;
    for (int i = 0; i < WORKERS; i++)
        if (fork() == 0)
            _exit(work());
    for (int status; wait(&status) > 0;)
        failed |= status != 0;
    printf("%d processes asked for 2 keys; the database was asked %d + %d times\n",
           WORKERS, cache[0].loads, cache[1].loads);
    return failed || cache[0].loads != 1 || cache[1].loads != 1;
}
