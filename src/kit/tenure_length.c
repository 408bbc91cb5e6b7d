/* SPDX-License-Identifier: MIT */
/* How long tenures are: few lengths, so that many claims share one, and none much longer
 * than its leases need, so that a crash costs the others about a lease. */
#include "tenure.h"

static int64_t
need_ms(const kit_tenures *tenures, int64_t lease_ms)
{
    return lease_ms + lease_ms / 3 + tenures->ops->extra_ms;
}

/* 1, 1.5, 2, 3, 4, 6, 8, 12, ... s */
static int64_t
round_up(int64_t ms)
{
    int64_t length = 1000;
    while (length + length / 2 < ms)
        length *= 2;
    return length < ms ? length + length / 2 : length;
}

int64_t
dibs__kit_wanted_ms(const kit_tenures *tenures, int64_t lease_ms)
{
    const kit_tenure_ops *ops = tenures->ops;
    if (ops->fixed_ms)
        return ops->fixed_ms;
    int64_t wanted = round_up(need_ms(tenures, lease_ms));
    if (wanted < ops->least_ms)
        wanted = ops->least_ms;
    return wanted > ops->most_ms ? ops->most_ms : wanted;
}

int
dibs__kit_check_length(const kit_tenures *tenures, int64_t lease_ms, int64_t ttl_ms,
                       dibs_error *err)
{
    int64_t need = need_ms(tenures, lease_ms);
    if (ttl_ms >= need)
        return DIBS_OK;
    return tenures->host->fail(
        err, DIBS_EINVAL,
        "a lease of %lld ms needs %lld ms at the store, which gives %lld: use a shorter "
        "lease%s",
        (long long)lease_ms, (long long)need, (long long)ttl_ms,
        tenures->ops->fixed_ms ? ", or a longer session=" : "");
}

dibs_time
dibs__kit_lease_of(const kit_tenures *tenures, int64_t ttl_ms)
{
    return later(0, (ttl_ms - tenures->ops->extra_ms) * 3 / 4 * DIBS_MS);
}
