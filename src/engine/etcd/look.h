/* SPDX-License-Identifier: MIT */
/* What looking has in common for both layouts; in look.c. */
#ifndef DIBS_ETCD_LOOK_H
#define DIBS_ETCD_LOOK_H

#include "etcd.h"

/* One look at the store. */
struct look {
    struct etcd *etcd;
    dibs_sink *sink;
    dibs_time deadline;
    dibs_error *err;
    int asks_left; /* how many leases may still be asked for their time */
    struct {
        int64_t lease, left_ms;
    } asked; /* the last of them */
};

/* each calls `seen` for all keys that begin with `prefix`, in the order of the keys and as
 * they were at one moment, until it returns a code. Keys that are longer than any of ours are
 * left out. */
int dibs__etcd_each(const struct look *look, const struct key *prefix,
                    int (*seen)(void *context, struct kv *kv), void *context);

/* How long the store keeps a lease that nobody keeps alive; -1: unknown. */
int64_t dibs__etcd_lease_left(struct look *look, int64_t lease);

/* A transaction that deletes a key if it was created then; not another one of that name. */
http_text *dibs__etcd_delete_made(const struct key *key, int64_t create);

#endif /* DIBS_ETCD_LOOK_H */
