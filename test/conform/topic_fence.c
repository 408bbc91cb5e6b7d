/* SPDX-License-Identifier: MIT */
/* The fencing check: a resource admits no token older than one it has seen. */
#include "conform.h"

#define NAME "fence"

static int
fence_refused(void)
{
    if (has(DIBS_CAP_CELL)) {
        return 0;
    }
    GIVES(DIBS_EUNSUPPORTED, dibs_fence(stage.client, NAME, 1, &oops));
    return 1;
}

CASE(fence, order)
{
    if (fence_refused()) {
        return;
    }
    OK(dibs_fence(stage.client, NAME, 5, &oops));
    OK(dibs_fence(stage.client, NAME, 5, &oops));
    OK(dibs_fence(stage.client, NAME, 7, &oops));
    GIVES(DIBS_ESTALE, dibs_fence(stage.client, NAME, 6, &oops));
    CHECK(strstr(oops.text, NAME) != NULL);
    OK(dibs_fence(stage.client, NAME, 7, &oops));
    OK(dibs_fence(stage.client, NAME, UINT64_MAX, &oops));
    GIVES(DIBS_ESTALE, dibs_fence(stage.client, NAME, UINT64_MAX - 1, &oops));
    /* another resource has seen nothing of this */
    OK(dibs_fence(stage.client, NAME " 2", 1, &oops));
}

CASE(fence, bad_resource)
{
    static char longer[DIBS_NAME_MAX + 2];
    if (fence_refused()) {
        return;
    }
    memset(longer, 'x', DIBS_NAME_MAX + 1);
    GIVES(DIBS_EINVAL, dibs_fence(stage.client, "", 1, &oops));
    GIVES(DIBS_EINVAL, dibs_fence(stage.client, longer, 1, &oops));
}

JOB(fence)
{
    return dibs_fence(client, NAME, (uint64_t)args[0], &oops);
}

/* the story the check is for: an old holder wakes up and goes on writing */
CASE(fence, late_writer)
{
    dibs_request request = brief_lease(NAME);
    if (fence_refused()) {
        return;
    }
    peer *old = peer_new();
    int64_t token = (int64_t)peer_acquire(old, 0, &request).token;
    OK((int)peer_job(old, "fence", &token, 1));
    OK(peer_release(old, 0));
    dibs_hold *hold = take_name(stage.client, NAME);
    OK(dibs_fence(stage.client, NAME, dibs_token(hold), &oops));
    GIVES(DIBS_ESTALE, (int)peer_job(old, "fence", &token, 1));
    OK(dibs_fence(stage.client, NAME, dibs_token(hold), &oops));
    give(hold);
    peer_quit(old);
}

static void
fence_upwards(void *client, int index)
{
    for (uint64_t i = 1; i <= 100; i++) {
        uint64_t token = i * 8 + (uint64_t)index;
        int code = dibs_fence(client, NAME, token, &oops);
        if (code == DIBS_OK) {
            /* word 0: the largest that was surely admitted */
            int64_t seen = atomic_load(&stage.shared->words[0]);
            while (seen < (int64_t)token &&
                   !atomic_compare_exchange_weak(&stage.shared->words[0], &seen,
                                                 (int64_t)token)) {
            }
        } else {
            GIVES(DIBS_ESTALE, code);
        }
    }
}

CASE(fence, crowd)
{
    if (fence_refused()) {
        return;
    }
    gang_join(gang_start(8, fence_upwards, stage.client));
    uint64_t largest = (uint64_t)atomic_load(&stage.shared->words[0]);
    CHECK_SAME(largest, 100 * 8 + 7);
    OK(dibs_fence(stage.client, NAME, largest, &oops));
    GIVES(DIBS_ESTALE, dibs_fence(stage.client, NAME, largest - 1, &oops));
}
