/* SPDX-License-Identifier: MIT */
/* Deadlines, for condition variables. */
#ifndef DIBS_RESP_UNTIL_H
#define DIBS_RESP_UNTIL_H

#include <time.h>

#include <dibs/engine.h>

/* until turns a deadline into CLOCK_MONOTONIC, at most an hour ahead: 0, or -1 if it has
 * passed. Condition variables do not know boot time. */
static inline int
until(struct timespec *out, dibs_time deadline, const dibs_host *host)
{
    const dibs_time second = 1000 * DIBS_MS, most = 3600 * second;
    dibs_time left = deadline - host->now();
    if (left <= 0)
        return -1;
    clock_gettime(CLOCK_MONOTONIC, out);
    left = (left < most ? left : most) + out->tv_nsec;
    out->tv_sec += (time_t)(left / second);
    out->tv_nsec = (long)(left % second);
    return 0;
}

#endif /* DIBS_RESP_UNTIL_H */
