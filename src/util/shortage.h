/* SPDX-License-Identifier: MIT */
/* Whether the system lacks something that others may give back: then the same call may work
 * later, and that it failed says nothing of what it was for. */
#ifndef DIBS_UTIL_SHORTAGE_H
#define DIBS_UTIL_SHORTAGE_H

#include <errno.h>

static inline int
is_shortage(int error)
{
    return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOSPC ||
           error == EDQUOT;
}

#endif /* DIBS_UTIL_SHORTAGE_H */
