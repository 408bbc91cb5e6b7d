/* SPDX-License-Identifier: MIT */
/* Names of locks as GET_LOCK of MySQL and MariaDB takes them, in the ways of other clients,
 * so that they and dibs mean the same lock. keymap.h is the same for PostgreSQL. */
#ifndef DIBS_SQL_KEYMAP_MYSQL_H
#define DIBS_SQL_KEYMAP_MYSQL_H

#include <stddef.h>

/* MariaDB takes 192 bytes, MySQL 64 characters */
#define LOCKNAME_MAX 192

/* The name, without a NUL, and its length; 0, or -1: it cannot be written in that way.
 * GET_LOCK knows no databases: dibs' own names have the database in them. */
typedef int my_lockname(char out[LOCKNAME_MAX], size_t *out_len, const char *database,
                        const char *name, size_t len);

/* dibs' own: "dibs." and 20 bytes, in hex, of the SHA-512 of DATABASE '/' NAME. In SQL:
 * CONCAT('dibs.', LEFT(SHA2(CONCAT(DATABASE(), '/', 'NAME'), 512), 40)) */
my_lockname dibs__sql_lockname_dibs;
/* .NET's DistributedLock: names of ASCII */
my_lockname dibs__sql_lockname_dotnet;
/* Ruby's with_advisory_lock: $WITH_ADVISORY_LOCK_PREFIX and the name */
my_lockname dibs__sql_lockname_rails;
/* the name as it is: Python's Tooz, and everybody who calls GET_LOCK */
my_lockname dibs__sql_lockname_raw;

#endif /* DIBS_SQL_KEYMAP_MYSQL_H */
