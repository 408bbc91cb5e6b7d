/* SPDX-License-Identifier: MIT */
/*
 * Layouts whose locks are those of a connection: `get_lock` and `row`. A claim has a session of
 * its own (a wire) and waits inside the server. The server ends a session that says nothing
 * for wait_timeout seconds, and with it the lock: that is the lease, and a ping renews it.
 *
 * bound.c is the slots; get_lock.c and row.c are the layouts, as forms of it.
 */
#ifndef DIBS_MY_BOUND_H
#define DIBS_MY_BOUND_H

#include "wire.h"

#define BOUND_TOKEN_ROOM 256

struct my_bound;

/* What a layout says on a wire. */
struct my_bound_form {
    /* The lock is a transaction's. Then the server does not see that one who waits is gone:
     * it has to be told. */
    int is_xact;
    const char *settings; /* what a new session is told; NULL: nothing */
    /* name writes down in the wire what the lock is: DIBS_OK, EINVAL */
    int (*name)(const struct my_bound *bound, struct my_wire *wire,
                const dibs_claim *claim, dibs_error *err);
    /* ask takes the lock if it is free: DIBS_OK, and the answer is 0 if it is not */
    int (*ask)(struct my_bound *bound, struct my_wire *wire, const dibs_claim *claim,
               dibs_time deadline, dibs_error *err);
    /* the parameters of WIRE_GET, which waits; returns how many */
    size_t (*wait_for)(const struct my_bound *bound, const struct my_wire *wire,
                       struct sql_value out[2]);
    /* token makes the answer the token, once the lock is ours; NULL: it is already */
    int (*token)(struct my_bound *bound, struct my_wire *wire, dibs_time deadline,
                 dibs_error *err);
    int (*give)(struct my_bound *bound, struct my_wire *wire, dibs_time deadline,
                dibs_error *err);
};

/* The state of such a layout begins with this. */
struct my_bound {
    struct my_wires wires;
    struct mysql *mysql;
    const struct my_bound_form *form;
};

/* open makes the layout's state of `size` bytes, which is mysql->bound then, for
 * dibs__mysql_close to close; the layout sets the form, and texts of wires. run runs a
 * statement on a wire and tells the number that it gave, -1: none, or NULL. */
int dibs__my_bound_open(struct mysql *mysql, size_t size, dibs_error *err);
void dibs__my_bound_close(struct my_bound *bound, int forked);
int dibs__my_bound_run(struct my_bound *bound, struct my_wire *wire,
                       enum my_wire_statement which, const struct sql_value *params,
                       size_t n, int64_t *out, dibs_time deadline, dibs_error *err);

int dibs__my_bound_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                           dibs_error *err);
int dibs__my_bound_watch(void *state, dibs_claim *claim, dibs_time deadline,
                         dibs_error *err);
void dibs__my_bound_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                          dibs_time deadline, dibs_error *err);
int dibs__my_bound_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                           dibs_time deadline, dibs_error *err);

/* what the tables of such layouts have in common */
#define MY_BOUND                                                                         \
    .abi = DIBS_ENGINE_ABI, .name = "mysql", .schemes = dibs__mysql_schemes,             \
    .layouts = dibs__mysql_layouts, .min_lease_ms = 1000,                                \
    .state_size = sizeof(struct mysql), .close = dibs__mysql_close,                      \
    .attempt = dibs__my_bound_attempt, .watch = dibs__my_bound_watch,                    \
    .renew = dibs__my_bound_renew, .release = dibs__my_bound_release,                    \
    .cell_read = dibs__sql_cell_read, .cell_swap = dibs__sql_cell_swap

extern const dibs_engine dibs__mysql_get_lock, dibs__mysql_row;

#endif /* DIBS_MY_BOUND_H */
