/* SPDX-License-Identifier: MIT */
/* The arithmetic of leases; lease.h draws it. */
#include "core/lease.h"

/* a clock that may stand still: more than all of a lease cannot be taken off it */
#define DRIFT_MAX 1000000u
#define GRACE_MIN (10 * DIBS_MS)
#define GRACE_MAX (1000 * DIBS_MS)
#define MARGIN_MIN (10 * DIBS_MS)
#define RETRY_MIN (5 * DIBS_MS)
#define IO_LIMIT_MIN (50 * DIBS_MS)
#define IO_LIMIT_MAX (5000 * DIBS_MS)

static dibs_time
clamp(dibs_time value, dibs_time low, dibs_time high)
{
    return value < low ? low : value > high ? high : value;
}

void
dibs__lease_init(dibs__lease *lease, uint32_t lease_ms, uint32_t grace_ms,
                 uint32_t drift_ppm)
{
    lease->grace_ms = grace_ms;
    lease->drift_ppm = drift_ppm < DRIFT_MAX ? drift_ppm : DRIFT_MAX;
    lease->end_at = DIBS_NEVER;
    lease->renew_at = DIBS_NEVER;
    dibs__lease_set_length(lease, lease_ms);
}

void
dibs__lease_set_length(dibs__lease *lease, uint32_t lease_ms)
{
    lease->length = lease_ms * DIBS_MS;
    lease->grace = lease->grace_ms ? lease->grace_ms * DIBS_MS
                                   : clamp(lease->length / 10, GRACE_MIN, GRACE_MAX);
    /* a grace as long as the lease would leave nothing to use */
    if (lease->length && lease->grace > lease->length / 2)
        lease->grace = lease->length / 2;
}

dibs_time
dibs__lease_until(const dibs__lease *lease, dibs_time sent)
{
    dibs_time until = DIBS_NEVER;
    if (lease->length) {
        dibs_time margin = lease->length / 100;
        margin = clamp(margin < MARGIN_MIN ? MARGIN_MIN : margin, 0, lease->length / 4);
        dibs_time drift = lease->length / 1000000 * lease->drift_ppm;
        until = sent + lease->length - drift - margin - lease->grace;
    }
    return until < lease->end_at ? until : lease->end_at;
}

dibs_time
dibs__lease_renew_at(const dibs__lease *lease, dibs_time sent)
{
    /* early enough for a second try, also where a short lease is mostly margin */
    dibs_time usable = dibs__lease_until(lease, sent) - sent;
    return sent + (usable / 2 < lease->length / 3 ? usable / 2 : lease->length / 3);
}

dibs_time
dibs__lease_retry_at(const dibs__lease *lease, dibs_time now, dibs_time until)
{
    /* closer and closer, so that the last try comes shortly before the end */
    return now + clamp((until - now) / 4, RETRY_MIN, lease->length / 12 + RETRY_MIN);
}

dibs_time
dibs__lease_io_limit(uint32_t lease_ms)
{
    return clamp(lease_ms * DIBS_MS / 6, IO_LIMIT_MIN, IO_LIMIT_MAX);
}
