/* SPDX-License-Identifier: MIT */
/* What sim_load.c (the processes) and sim_lock.c (what they do with locks) share. */
#ifndef DIBS_SIM_APP_H
#define DIBS_SIM_APP_H

#include "sim.h"

#define THREADS_MAX 4

/* One simulated process. */
struct app {
    int process;
    dibs *client;
    int abandons;
    int closing, closed;
    int threads; /* that still run */
    /* where each is: may the client be closed under it? */
    struct thread {
        struct app *app;
        uint64_t number;
        int acquiring; /* in dibs_acquire; fine once it sleeps */
        int parked;    /* calls nothing until the client is closed */
    } thread[THREADS_MAX];
};

/* The names in use in this run; what each is used for never changes. */
struct sim_names {
    int count;
    int is_semaphore[SIM_NAMES];
};
extern struct sim_names sim_names;

static inline int64_t
some(int64_t low, int64_t high)
{
    return sim_between(STREAM_LOAD, low, high);
}

static inline int
chance(int percent)
{
    return sim_chance(STREAM_LOAD, percent);
}

/* sim_one_round takes and gives back a lock, or several, in one way or another. */
void sim_one_round(struct thread *thread);

#endif /* DIBS_SIM_APP_H */
