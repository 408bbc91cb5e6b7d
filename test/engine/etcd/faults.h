/* SPDX-License-Identifier: MIT */
/*
 * What can be done to an etcd, and what a user of dibs sees of it, besides what is true of
 * Consul too: that is in members.h.
 *
 * watching.c: watches, compaction, places in the line. lingering.c: watches that stay for a
 * moment. access.c: users, tokens, TLS. looking.c: list, inspect and break among what is not
 * ours. room.c: a quota of space that is used up.
 */
#ifndef TEST_ETCD_FAULTS_H
#define TEST_ETCD_FAULTS_H

#include "members.h"

/* what the keys of locks begin with */
#define ROOT "/locks/"

#endif /* TEST_ETCD_FAULTS_H */
