/* SPDX-License-Identifier: MIT */
/*
 * Being alive: when a lease is renewed, and from when on it counts as lost. Pure functions
 * of times; the keeper acts on them.
 *
 *      sent          renew_at                                 until      deadline
 *       |---- L/3 -----|------- retries, ever closer ----------|-- grace --|-- margin --| L
 *
 * Everything counts from `sent`, taken before the request left: the server cannot have
 * begun to count earlier, so it cannot free the lock before `deadline`. The hold is lost
 * from `until` on, whatever the network says.
 */
#ifndef DIBS_CORE_LEASE_H
#define DIBS_CORE_LEASE_H

#include <dibs/engine.h>

typedef struct dibs__lease {
    dibs_time length;   /* as asked for; 0: this engine has no leases */
    dibs_time grace;    /* the loss is told this long before the end */
    dibs_time end_at;   /* lost at this time even if renewed (max_hold_ms) */
    dibs_time renew_at; /* DIBS_NEVER: not renewed, or being renewed now */
    uint32_t grace_ms;  /* as asked for; 0: a default */
    uint32_t drift_ppm;
} dibs__lease;

/* dibs__lease_init sets a lease up, before its grant. lease_ms 0: none. */
void dibs__lease_init(dibs__lease *lease, uint32_t lease_ms, uint32_t grace_ms,
                      uint32_t drift_ppm);
void dibs__lease_set_length(dibs__lease *lease, uint32_t lease_ms);

/* dibs__lease_until returns from when on a lease counts as lost, if the request that got
 * or renewed it was sent at `sent`. */
dibs_time dibs__lease_until(const dibs__lease *lease, dibs_time sent);

/* dibs__lease_renew_at says when to renew what was sent at `sent`; dibs__lease_retry_at
 * when to try again after a renewal that failed at `now`. */
dibs_time dibs__lease_renew_at(const dibs__lease *lease, dibs_time sent);
dibs_time dibs__lease_retry_at(const dibs__lease *lease, dibs_time now, dibs_time until);

/* dibs__lease_io_limit returns how long one request about this lease may take. */
dibs_time dibs__lease_io_limit(uint32_t lease_ms);

#endif /* DIBS_CORE_LEASE_H */
