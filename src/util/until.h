/* SPDX-License-Identifier: MIT */
/* Waiting for a condition variable until a deadline. */
#ifndef DIBS_UTIL_UNTIL_H
#define DIBS_UTIL_UNTIL_H

#include <pthread.h>
#include <time.h>

#include <dibs/engine.h>

/* Condition variables do not know boot time; they are made to go by this clock. */
static inline void
cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attributes);
    pthread_condattr_destroy(&attributes);
}

/* wait_until returns 0 when it is worth another look, or -1: the deadline has passed. That
 * clock stands still while the machine is suspended, and boot time does not: so there is a
 * look after a second at the latest. */
static inline int
wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, dibs_time deadline,
           const dibs_host *host)
{
    const dibs_time second = 1000 * DIBS_MS;
    struct timespec when;
    dibs_time left = deadline - host->now();
    if (left <= 0)
        return -1;
    clock_gettime(CLOCK_MONOTONIC, &when);
    left = (left < second ? left : second) + when.tv_nsec;
    when.tv_sec += (time_t)(left / second);
    when.tv_nsec = (long)(left % second);
    (void)pthread_cond_timedwait(cond, mutex, &when);
    return 0;
}

#endif /* DIBS_UTIL_UNTIL_H */
