/* SPDX-License-Identifier: MIT */
/* See digest.h. To look an algorithm up takes OpenSSL longer than to run it on a name, so each
 * is looked up once. */
#include "sql/digest.h"

#include <pthread.h>

#include <openssl/evp.h>

enum kind { MD5, SHA1, SHA512, KINDS };

static EVP_MD *kinds[KINDS]; /* NULL: this OpenSSL has it not */

static void
look_up(void)
{
    static const char *const names[KINDS] = { "MD5", "SHA1", "SHA512" };
    for (int i = 0; i < KINDS; i++)
        kinds[i] = EVP_MD_fetch(NULL, names[i], NULL);
}

static int
digest(uint8_t *out, const void *data, size_t len, enum kind kind)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, look_up);
    if (!kinds[kind])
        return -1;
    return EVP_Digest(data, len, out, NULL, kinds[kind], NULL) == 1 ? 0 : -1;
}

int
dibs__sql_md5(uint8_t out[16], const void *data, size_t len)
{
    return digest(out, data, len, MD5);
}

int
dibs__sql_sha1(uint8_t out[20], const void *data, size_t len)
{
    return digest(out, data, len, SHA1);
}

int
dibs__sql_sha512(uint8_t out[64], const void *data, size_t len)
{
    return digest(out, data, len, SHA512);
}
