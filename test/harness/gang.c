/* SPDX-License-Identifier: MIT */
/* Threads that start together, so that they really contend. See harness.h. */
#include "harness.h"

#include <stdlib.h>

struct member {
    gang *gang;
    pthread_t thread;
    int index;
};

struct gang {
    gang_work *work;
    void *arg;
    int count;
    pthread_barrier_t start;
    struct member members[];
};

static void *
run_member(void *arg)
{
    struct member *member = arg;
    pthread_barrier_wait(&member->gang->start);
    member->gang->work(member->gang->arg, member->index);
    return NULL;
}

gang *
gang_start(int count, gang_work *work, void *arg)
{
    gang *new = calloc(1, sizeof(*new) + (size_t)count * sizeof(new->members[0]));
    CHECK(new != NULL);
    new->work = work;
    new->arg = arg;
    new->count = count;
    CHECK(pthread_barrier_init(&new->start, NULL, (unsigned)count) == 0);
    for (int i = 0; i < count; i++) {
        struct member *member = &new->members[i];
        member->gang = new;
        member->index = i;
        CHECK(pthread_create(&member->thread, NULL, run_member, member) == 0);
    }
    return new;
}

void
gang_join(gang *all)
{
    for (int i = 0; i < all->count; i++) {
        pthread_join(all->members[i].thread, NULL);
    }
    pthread_barrier_destroy(&all->start);
    free(all);
}
