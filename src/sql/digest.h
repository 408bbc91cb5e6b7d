/* SPDX-License-Identifier: MIT */
/* What other clients make keys of names with. It protects nothing here. */
#ifndef DIBS_SQL_DIGEST_H
#define DIBS_SQL_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* Return 0, or -1: this machine's OpenSSL does not do that. */
int dibs__sql_md5(uint8_t out[16], const void *data, size_t len);
int dibs__sql_sha1(uint8_t out[20], const void *data, size_t len);
int dibs__sql_sha512(uint8_t out[64], const void *data, size_t len);

#endif /* DIBS_SQL_DIGEST_H */
