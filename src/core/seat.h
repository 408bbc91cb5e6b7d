/* SPDX-License-Identifier: MIT */
/* What the arbiter calls of the seats' tables. `_locked`: the shard's mutex is held. */
#ifndef DIBS_CORE_SEAT_H
#define DIBS_CORE_SEAT_H

#include "core/core.h"

/* dibs__seat_take finds the seat of a name, or makes it in `grant`; counts one use of it,
 * points the grant at it, and returns with its shard's mutex locked; NULL (and nothing
 * locked) when out of memory. */
dibs__seat *dibs__seat_take(dibs *client, dibs__shard **shard, const char *name,
                            size_t len, dibs__grant *grant);
/* dibs__seat_put_locked gives up one use. The memory stays as long as its home does. */
void dibs__seat_put_locked(dibs__shard *shard, dibs__seat *seat);

#endif /* DIBS_CORE_SEAT_H */
