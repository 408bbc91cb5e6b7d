/* SPDX-License-Identifier: MIT */
/* The layout `get_lock`: see get_lock.c. */
#ifndef DIBS_MY_GET_LOCK_H
#define DIBS_MY_GET_LOCK_H

#include "wire.h"

struct my_getter;

int dibs__my_getter_open(struct mysql *mysql, const dibs_url_parts *url, dibs_error *err);
void dibs__my_getter_close(struct my_getter *getter, int forked);

int dibs__my_get_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                         dibs_error *err);
int dibs__my_get_watch(void *state, dibs_claim *claim, dibs_time deadline,
                       dibs_error *err);
void dibs__my_get_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                        dibs_time deadline, dibs_error *err);
int dibs__my_get_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                         dibs_time deadline, dibs_error *err);

#endif /* DIBS_MY_GET_LOCK_H */
