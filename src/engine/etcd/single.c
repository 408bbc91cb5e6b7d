/* SPDX-License-Identifier: MIT */
/*
 * The layout single: one key per lock, as python-etcd3 and others do it. Who makes the key
 * holds; all others wait until it is deleted, and then race for it.
 */
#include "claim.h"

#include <string.h>

static http_text *
look(const struct turn *turn, http_text *list)
{
    (void)turn;
    return list;
}

static int
judge(struct turn *turn, struct answer *answer, int op)
{
    (void)answer;
    (void)op;
    return dibs__etcd_granted(turn);
}

static int
refuse(struct turn *turn, struct answer *answer, int op)
{
    (void)answer;
    (void)op;
    return dibs__etcd_busy(turn, &(struct spot){ .key = &turn->own }, NULL);
}

static const struct way single = {
    .kind = KIND_SINGLE, .look = look, .judge = judge, .refuse = refuse
};

/* What we keep beside the locks lies under the same prefix. */
static int
is_taken(const dibs_claim *claim)
{
    static const char *const folders[] = { "%cells/", "%fences/", "%epoch/" };
    for (int i = 0; i < 3; i++) {
        size_t len = strlen(folders[i]);
        if (claim->name_len >= len && memcmp(claim->name, folders[i], len) == 0)
            return 1;
    }
    return 0;
}

int
dibs__etcd_single_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                          dibs_error *err)
{
    struct etcd *etcd = state;
    if (is_taken(claim))
        return etcd->host->fail(err, DIBS_EINVAL,
                                "in the layout single such names are the engine's own");
    if (dibs__etcd_still_waits(etcd, claim))
        return DIBS_EBUSY;
    return dibs__etcd_claim_attempt(etcd, claim, &single, deadline, err);
}
