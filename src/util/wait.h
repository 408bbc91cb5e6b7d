/* SPDX-License-Identifier: MIT */
/* Waiting for a condition variable, for some time. */
#ifndef DIBS_UTIL_WAIT_H
#define DIBS_UTIL_WAIT_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

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

/* wait_for waits for so many nanoseconds. It returns 0 when it is worth another look, or -1:
 * there is no time left. That clock stands still while the machine is suspended, and
 * deadlines do not: so there is a look after a second at the latest. */
static inline int
wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t left)
{
    const int64_t second = 1000000000;
    struct timespec when;
    if (left <= 0)
        return -1;
    clock_gettime(CLOCK_MONOTONIC, &when);
    left = (left < second ? left : second) + when.tv_nsec;
    when.tv_sec += (time_t)(left / second);
    when.tv_nsec = (long)(left % second);
    (void)pthread_cond_timedwait(cond, mutex, &when);
    return 0;
}

#endif /* DIBS_UTIL_WAIT_H */
