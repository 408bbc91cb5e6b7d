/* SPDX-License-Identifier: MIT */
/* Names of locks as the numbers that PostgreSQL's advisory locks have, in the ways of other
 * clients, so that they and dibs mean the same lock. */
#ifndef DIBS_SQL_KEYMAP_H
#define DIBS_SQL_KEYMAP_H

#include <stddef.h>
#include <stdint.h>

/* One number of 64 bits, or two of 32: for PostgreSQL these are different locks. */
struct pg_key {
    int is_pair;
    int64_t big;
    int32_t first, second;
};

/* Returns 0, or -1: the name cannot be written in that way. */
typedef int pg_keymap(struct pg_key *out, const char *name, size_t len);

/* dibs' own: the first 8 bytes of the MD5 of the name. In SQL:
 * ('x' || left(md5('NAME'), 16))::bit(64)::bigint */
pg_keymap dibs__sql_key_dibs;
/* .NET's DistributedLock, PostgresAdvisoryLockKey with allowHashing */
pg_keymap dibs__sql_key_dotnet;
/* Ruby's with_advisory_lock; and the lock of Rails' migrations, of a database's name */
pg_keymap dibs__sql_key_rails;
pg_keymap dibs__sql_key_rails_migration;
/* Python's Tooz */
pg_keymap dibs__sql_key_tooz;
/* the name is the number, "42", or both of them, "1,2" */
pg_keymap dibs__sql_key_raw;

#endif /* DIBS_SQL_KEYMAP_H */
