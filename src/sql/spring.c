/* SPDX-License-Identifier: MIT */
/*
 * The layout `spring`: the table INT_LOCK of Spring Integration's JdbcLockRegistry. The key
 * is a UUID: the name if it is one, else made from the MD5 of the name. So is the client,
 * which is different for every hold of ours. A row is deleted to give the lock back.
 *
 * Tables of newer versions say in EXPIRED_AFTER when a lock is over. In older ones that is
 * CREATED_DATE and the time-to-live of whoever looks (?ttl=, the same in a whole fleet): there
 * we write the date at which a lock of that length would have to be made to end with ours.
 */
#include "sql/classic.h"

#include <ctype.h>
#include <stdio.h>

#include "sql/digest.h"
#include "sql/lease.h"

#define UUID_LEN 36

/* Java writes a UUID in small letters. 0, or -1: it is none. */
static int
copy_uuid(struct classic_text *out, const char *text, size_t len)
{
    static const char shape[] = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";
    if (len != UUID_LEN)
        return -1;
    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (shape[i] == '-' ? c != '-' : !isxdigit((unsigned char)c))
            return -1;
        out->text[i] = (char)tolower((unsigned char)c);
    }
    out->len = len;
    return 0;
}

/* version 3: what Java's UUID.nameUUIDFromBytes makes */
static void
put_uuid(struct classic_text *out, const void *data, size_t len)
{
    uint8_t d[16];
    dibs__sql_md5(d, data, len);
    d[6] = (uint8_t)((d[6] & 0x0F) | 0x30);
    d[8] = (uint8_t)((d[8] & 0x3F) | 0x80);
    out->len = (size_t)snprintf(
        out->text, sizeof out->text,
        "%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", d[0],
        d[1], d[2], d[3], d[4], d[5], d[6], d[7], d[8], d[9], d[10], d[11], d[12], d[13],
        d[14], d[15]);
}

static int
spring_key(const struct classic *classic, struct classic_text *out, const char *name,
           size_t len, dibs_error *err)
{
    (void)classic;
    (void)err;
    if (copy_uuid(out, name, len))
        put_uuid(out, name, len);
    return DIBS_OK;
}

static void
spring_owner(const struct classic *classic, struct classic_text *out,
             const dibs_claim *claim)
{
    char id[LINE_ID_MAX];
    put_uuid(out, id, dibs__lease_id(classic->sql, claim, id));
}

const struct classic_form dibs__classic_spring = {
    .layout = "spring",
    .table = "INT_LOCK",
    .key_kind = SQL_TEXT,
    .key = spring_key,
    .owner = spring_owner,
};
