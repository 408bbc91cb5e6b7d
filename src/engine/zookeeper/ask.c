/* SPDX-License-Identifier: MIT */
/* Questions that belong to no lease, and may be asked again if the answer was lost. */
#include "zk.h"

/* each of them costs a lost connection */
#define TRIES 10

int
dibs__zk_ask(struct zk *zk, struct op *ops, int count, dibs_time deadline,
             dibs_error *err)
{
    struct session *home;
    int rc = DIBS_EUNKNOWN;
    for (int i = 0; i < TRIES && (!i || zk->host->now() < deadline); i++) {
        dibs__zk_ops_free(ops, count);
        rc = dibs__zk_home(zk, deadline, &home, err);
        if (!rc)
            rc = dibs__zk_run(home, ops, count, deadline, err);
        if (rc != DIBS_EUNKNOWN && rc != DIBS_ELOST)
            return rc;
    }
    return DIBS_EUNAVAIL;
}
