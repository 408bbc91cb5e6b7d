/* SPDX-License-Identifier: MIT */
/*
 * What can be done to a Consul, and what a user of dibs sees of it, besides what is true of
 * etcd too: that is in members.h.
 *
 * sessions.c: sessions, the delay after one has ended, permits. access.c: tokens and TLS.
 * looking.c: list, inspect and break among what is not ours.
 */
#ifndef TEST_CONSUL_FAULTS_H
#define TEST_CONSUL_FAULTS_H

#include "members.h"

/* what the keys of locks begin with, and the one of NAME */
#define ROOT "locks/"
#define KEY ROOT NAME "/.lock"

/* end_session ends the session that has NAME. */
void end_session(const server *of);

#endif /* TEST_CONSUL_FAULTS_H */
