/* SPDX-License-Identifier: MIT */
/* dibs as a peer. An actor is a thread, and the owner of its holds. See interop.h. */
#include "interop.h"

#include <dibs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HOLDS 8
#define COUNT_LEASE_MS 5000
#define COUNT_WAIT_MS 60000
#define OBSERVE_MS 10000
#define NAME_SIZE 128

/* A kind, how its URL goes on, and what is asked for. */
struct kind {
    const char *name, *query;
    int mode;
    uint32_t limit, flags;
};

#define KINDS_MAX 7

static const struct kind redis_kinds[KINDS_MAX] = {
    { "plain", "?layout=plain", DIBS_EXCLUSIVE, 0, 0 },
    { "getset", "?layout=getset&unit=s", DIBS_EXCLUSIVE, 0, 0 },
    { "lock", "?layout=redisson&form=lock", DIBS_EXCLUSIVE, 0, 0 },
    { "fair", "?layout=redisson&form=fair", DIBS_EXCLUSIVE, 0, 0 },
    { "fenced", "?layout=redisson&form=fenced", DIBS_EXCLUSIVE, 0, 0 },
    { "read", "?layout=redisson&form=rw", DIBS_SHARED, 0, 0 },
    { "write", "?layout=redisson&form=rw", DIBS_EXCLUSIVE, 0, 0 },
};

/* the URL has parameters already */
static const struct kind zookeeper_kinds[KINDS_MAX] = {
    { "mutex", "", DIBS_EXCLUSIVE, 0, 0 },
    { "read", "&form=rw", DIBS_SHARED, 0, 0 },
    { "write", "&form=rw", DIBS_EXCLUSIVE, 0, 0 },
    { "latch", "", DIBS_EXCLUSIVE, 0, DIBS_ELECTION },
    { "sem1", "", DIBS_PERMITS, 1, 0 },
    { "sem2", "", DIBS_PERMITS, 2, 0 },
};

static const struct kind etcd_kinds[KINDS_MAX] = {
    { "mutex", "", DIBS_EXCLUSIVE, 0, 0 },
    { "latch", "", DIBS_EXCLUSIVE, 0, DIBS_ELECTION },
    { "read", "?form=rw", DIBS_SHARED, 0, 0 },
    { "write", "?form=rw", DIBS_EXCLUSIVE, 0, 0 },
    { "single", "?layout=single", DIBS_EXCLUSIVE, 0, 0 },
};

static const struct kind consul_kinds[KINDS_MAX] = {
    { "mutex", "", DIBS_EXCLUSIVE, 0, 0 },
    { "latch", "", DIBS_EXCLUSIVE, 0, DIBS_ELECTION },
    { "sem1", "", DIBS_PERMITS, 1, 0 },
    { "sem2", "", DIBS_PERMITS, 2, 0 },
    { "share", "", DIBS_SHARED, 0, 0 },
    { "key", "?form=key", DIBS_EXCLUSIVE, 0, 0 },
};

static const struct kind sql_kinds[KINDS_MAX] = {
    { "shedlock", "?layout=shedlock", DIBS_EXCLUSIVE, 0, 0 },
    { "spring", "?layout=spring", DIBS_EXCLUSIVE, 0, 0 },
    { "oldspring", "?layout=spring&ttl=3s", DIBS_EXCLUSIVE, 0, 0 },
    { "rails", "?layout=advisory&map=rails", DIBS_EXCLUSIVE, 0, 0 },
    { "dotnet", "?layout=advisory&map=dotnet", DIBS_EXCLUSIVE, 0, 0 },
    { "get_lock", "?layout=get_lock&map=raw", DIBS_EXCLUSIVE, 0, 0 },
    { "row", "?layout=row", DIBS_EXCLUSIVE, 0, 0 },
};

struct held_name {
    char name[NAME_SIZE];
    dibs_hold *hold; /* NULL: a free place */
};

struct actor {
    int number;
    FILE *orders;  /* the actor's end of a pipe */
    int orders_in; /* the other end */
    pthread_t thread;
    struct held_name holds[HOLDS];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char base_url[256];
static const struct kind *kinds = redis_kinds;
static dibs *clients[KINDS_MAX]; /* opened when first needed, under the mutex */

static void
say(const struct actor *actor, const char *text)
{
    char line[ANSWER_MAX];
    int len =
        snprintf(line, sizeof(line), "%d %.*s\n", actor->number, ANSWER_MAX - 16, text);
    if (write(STDOUT_FILENO, line, (size_t)len) != len) {
        _exit(1);
    }
}

static const struct kind *
kind_of(const char *name)
{
    for (size_t i = 0; i < KINDS_MAX && kinds[i].name != NULL; i++) {
        if (strcmp(kinds[i].name, name) == 0) {
            return &kinds[i];
        }
    }
    FAIL("there is no kind '%s'", name);
}

/* the client of a kind; kinds with the same URL share one */
static dibs *
client_of(const struct kind *kind, dibs_error *err)
{
    size_t index = 0;
    while (strcmp(kinds[index].query, kind->query) != 0) {
        index++;
    }
    int is_redlock = strncmp(base_url, "redlock:", 8) == 0;
    char url[512];
    snprintf(url, sizeof(url), "%s%s", base_url, is_redlock ? "" : kind->query);
    pthread_mutex_lock(&mutex);
    if (clients[index] == NULL && dibs_open(&clients[index], url, NULL, err) != DIBS_OK) {
        clients[index] = NULL;
    }
    dibs *client = clients[index];
    pthread_mutex_unlock(&mutex);
    return client;
}

static int
take(dibs_hold **out, const struct actor *actor, const struct kind *kind,
     const char *name, int64_t lease_ms, int64_t wait_ms, dibs_error *err)
{
    char owner[16];
    snprintf(owner, sizeof(owner), "actor%d", actor->number);
    dibs_request request = DIBS_REQUEST_INIT;
    request.name = name;
    request.owner = owner;
    request.note = owner;
    request.mode = kind->mode;
    request.limit = kind->limit;
    request.lease_ms = (uint32_t)(lease_ms == 0 ? KEPT_MS : lease_ms);
    request.flags = kind->flags | (lease_ms == 0 ? 0 : DIBS_NO_RENEW);
    request.wait_ms = wait_ms == 0              ? DIBS_WAIT_NONE
                      : wait_ms == WAIT_FOREVER ? DIBS_WAIT_FOREVER
                                                : wait_ms;
    dibs *client = client_of(kind, err);
    return client == NULL ? err->code : dibs_acquire(out, client, &request, err);
}

static struct held_name *
find(struct actor *actor, const char *name)
{
    for (int i = 0; i < HOLDS; i++) {
        if (actor->holds[i].hold != NULL && strcmp(actor->holds[i].name, name) == 0) {
            return &actor->holds[i];
        }
    }
    FAIL("actor %d does not hold '%s'", actor->number, name);
}

static void
keep(struct actor *actor, const char *name, dibs_hold *hold)
{
    for (int i = 0; i < HOLDS; i++) {
        if (actor->holds[i].hold == NULL) {
            snprintf(actor->holds[i].name, NAME_SIZE, "%s", name);
            actor->holds[i].hold = hold;
            return;
        }
    }
    FAIL("actor %d holds too much", actor->number);
}

static void
say_error(const struct actor *actor, const dibs_error *err)
{
    char text[ANSWER_MAX];
    snprintf(text, sizeof(text), "error %s %.200s", dibs_errname(err->code), err->text);
    say(actor, text);
}

static void
obey_lock(struct actor *actor, const struct kind *kind, const char *name,
          const char *lease, const char *wait)
{
    dibs_error err = { 0 };
    dibs_hold *hold;
    int code = take(&hold, actor, kind, name, atoi(lease), atoi(wait), &err);
    if (code == DIBS_OK) {
        char text[64];
        keep(actor, name, hold);
        snprintf(text, sizeof(text), "ok %llu", (unsigned long long)dibs_token(hold));
        say(actor, text);
    } else if (code == DIBS_EBUSY || code == DIBS_ETIMEDOUT) {
        say(actor, "busy");
    } else {
        say_error(actor, &err);
    }
}

static void
obey_unlock(struct actor *actor, const char *name)
{
    dibs_error err = { 0 };
    struct held_name *held = find(actor, name);
    int code = dibs_unlock(held->hold, &err);
    held->hold = NULL;
    if (code == DIBS_OK) {
        say(actor, "ok");
    } else if (code == DIBS_ELOST) {
        say(actor, "lost");
    } else {
        say_error(actor, &err);
    }
}

static void
obey_downgrade(struct actor *actor, const char *name)
{
    dibs_error err = { 0 };
    if (dibs_downgrade(find(actor, name)->hold, &err) == DIBS_OK) {
        say(actor, "ok");
    } else {
        say_error(actor, &err);
    }
}

/* Who has led, in words, until one did ("": any). */
struct seen {
    const char *last;
    char words[ANSWER_MAX];
};

static int
see(const dibs_party *leader, void *arg)
{
    struct seen *seen = arg;
    size_t len = strlen(seen->words);
    if (leader == NULL) {
        return 0;
    }
    snprintf(seen->words + len, ANSWER_MAX - len, " %.64s", leader->note);
    return seen->last[0] == '\0' || strcmp(leader->note, seen->last) == 0;
}

static void
obey_observe(struct actor *actor, const char *answer, const char *name, const char *last)
{
    dibs_error err = { 0 };
    struct seen seen = { last, "" };
    dibs *client = client_of(kind_of("latch"), &err);
    snprintf(seen.words, ANSWER_MAX, "%s", answer);
    if (client == NULL ||
        dibs_observe(client, name, see, &seen, OBSERVE_MS, NULL, &err) != 1) {
        say_error(actor, &err);
    } else {
        say(actor, seen.words);
    }
}

static const struct kind *
kinds_of(const char *url)
{
    if (strncmp(url, "zk:", 3) == 0) {
        return zookeeper_kinds;
    } else if (strncmp(url, "etcd:", 5) == 0) {
        return etcd_kinds;
    } else if (strncmp(url, "postgres:", 9) == 0 || strncmp(url, "mysql:", 6) == 0) {
        return sql_kinds;
    }
    return strncmp(url, "consul:", 7) == 0 ? consul_kinds : redis_kinds;
}

static void
obey_open(struct actor *actor, const char *url)
{
    snprintf(base_url, sizeof(base_url), "%s", url);
    kinds = kinds_of(url);
    say(actor, "ok");
}

static int
add_one(const char *path)
{
    long number;
    FILE *file = fopen(path, "r");
    if (file == NULL || fscanf(file, "%ld", &number) != 1 || fclose(file) != 0) {
        return -1;
    }
    sleep_ms(1);
    file = fopen(path, "w");
    return file != NULL && fprintf(file, "%ld\n", number + 1) > 0 ? fclose(file) : -1;
}

static void
obey_count(struct actor *actor, const struct kind *kind, const char *name,
           const char *rounds, const char *path)
{
    dibs_error err = { 0 };
    for (int i = 0; i < atoi(rounds); i++) {
        dibs_hold *hold;
        if (take(&hold, actor, kind, name, COUNT_LEASE_MS, COUNT_WAIT_MS, &err) != 0) {
            say_error(actor, &err);
            return;
        }
        int counted = add_one(path);
        if (dibs_unlock(hold, &err) != DIBS_OK || counted != 0) {
            say_error(actor, &err);
            return;
        }
    }
    char text[64];
    snprintf(text, sizeof(text), "done %s", rounds);
    say(actor, text);
}

static void
obey(struct actor *actor, const char *verb, char **args)
{
    if (strcmp(verb, "open") == 0) {
        obey_open(actor, args[0]);
    } else if (strcmp(verb, "lock") == 0) {
        obey_lock(actor, kind_of(args[0]), args[1], args[2], args[3]);
    } else if (strcmp(verb, "unlock") == 0) {
        obey_unlock(actor, args[1]);
    } else if (strcmp(verb, "held") == 0) {
        say(actor, dibs_held(find(actor, args[1])->hold) ? "yes" : "no");
    } else if (strcmp(verb, "downgrade") == 0) {
        obey_downgrade(actor, args[0]);
    } else if (strcmp(verb, "leader") == 0) {
        obey_observe(actor, "leader", args[0], "");
    } else if (strcmp(verb, "observe") == 0) {
        obey_observe(actor, "saw", args[0], args[1]);
    } else if (strcmp(verb, "count") == 0) {
        obey_count(actor, kind_of(args[0]), args[1], args[2], args[3]);
    } else {
        say(actor, "error unknown verb");
    }
}

static void *
act(void *arg)
{
    struct actor *actor = arg;
    char line[1024];
    while (fgets(line, sizeof(line), actor->orders) != NULL) {
        char *rest = NULL, *words[6] = { NULL };
        char *word = strtok_r(line, " \n", &rest);
        for (int i = 0; i < 6 && word != NULL; i++) {
            words[i] = word;
            word = strtok_r(NULL, " \n", &rest);
        }
        obey(actor, words[0], words + 1);
    }
    return NULL;
}

static void
start(struct actor *actor, int number)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    actor->number = number;
    actor->orders = fdopen(ends[0], "r");
    actor->orders_in = ends[1];
    CHECK(actor->orders != NULL);
    CHECK(pthread_create(&actor->thread, NULL, act, actor) == 0);
}

int
ours_main(void)
{
    static struct actor actors[ACTORS];
    char line[1024];
    while (fgets(line, sizeof(line), stdin) != NULL) {
        int number = line[0] - '0';
        CHECK(number >= 0 && number < ACTORS && line[1] == ' ');
        if (strcmp(line + 2, "quit\n") == 0) {
            break;
        }
        struct actor *actor = &actors[number];
        if (actor->orders == NULL) {
            start(actor, number);
        }
        size_t len = strlen(line + 2);
        CHECK(write(actor->orders_in, line + 2, len) == (ssize_t)len);
    }
    /* what is still held shall look as if the process had died */
    _exit(0);
}
