/* SPDX-License-Identifier: MIT */
/*
 * The layout `unique`: a lock is a row of the table dibs_unique, whose name is its primary
 * key. Who can insert the row has the lock, and deletes it to give it back. A row that is
 * over is taken by changing it; those that nobody wants are swept.
 *
 * Other programs may do the same, with an owner of their own. `count` is theirs, for owners
 * that take a lock several times; a process of dibs counts by itself, and writes 1.
 */
#include "sql/classic.h"

const struct classic_form dibs__classic_unique = {
    .layout = "unique",
    .key_kind = SQL_BYTES,
    .key = dibs__classic_plain_key,
    .owner = dibs__classic_own_owner,
};
