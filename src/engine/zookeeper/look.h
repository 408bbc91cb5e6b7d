/* SPDX-License-Identifier: MIT */
/* What looking has in common for both layouts; in look.c. */
#ifndef DIBS_ZK_LOOK_H
#define DIBS_ZK_LOOK_H

#include "zk.h"

/* ask_names fetches the names of all nodes that could be locks into ops[1].children, after
 * a sync: what was there when we came is among them. */
int dibs__zk_ask_names(struct zk *zk, struct op ops[2], dibs_time deadline,
                       dibs_error *err);

/* report_party reports what an answered OP_GET says of a holder, or of one who waits. */
int dibs__zk_report_party(dibs_sink *sink, const struct op *node, int waits, int mode,
                          uint32_t permits);

#endif /* DIBS_ZK_LOOK_H */
