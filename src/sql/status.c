/* SPDX-License-Identifier: MIT */
/*
 * The layout `status`: a lock is a row of the table dibs_status that is 'free' or 'held', and
 * changes from the one to the other only where it is still as expected: a compare-and-set.
 * Rows stay, and say who had the lock last and with which token.
 */
#include "sql/classic.h"

const struct classic_form dibs__classic_status = {
    .layout = "status",
    .key_kind = SQL_BYTES,
    .key = dibs__classic_plain_key,
    .owner = dibs__classic_own_owner,
};
