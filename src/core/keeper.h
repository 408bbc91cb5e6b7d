/* SPDX-License-Identifier: MIT */
/* What the keeper and the alarm share. `_locked`: the keeper's mutex is held. */
#ifndef DIBS_CORE_KEEPER_H
#define DIBS_CORE_KEEPER_H

#include "core/core.h"

/* dibs__keeper_lose_locked ends a kept grant and tells its holds. The mutex is dropped
 * meanwhile, and so is the heap's use of the grant. */
void dibs__keeper_lose_locked(dibs *client, dibs__grant *grant);

int dibs__alarm_start_locked(dibs *client, dibs_error *err);
/* dibs__alarm_poke_locked sees to it that the alarm looks at `when`, or before. */
void dibs__alarm_poke_locked(dibs *client, dibs_time when);
void dibs__alarm_stop(dibs *client);

#endif /* DIBS_CORE_KEEPER_H */
