/* SPDX-License-Identifier: MIT */
/* Names of keys. See etcd.h. */
#include "etcd.h"

#include <string.h>

#include "util/escape.h"

static int
is_slash(unsigned char byte)
{
    return byte == '/';
}

void
dibs__etcd_key_add(struct key *key, const void *bytes, size_t len)
{
    size_t room = sizeof key->text - key->len;
    /* lengths of names and prefixes are limited, so all of ours have room */
    if (len > room)
        len = room;
    memcpy(key->text + key->len, bytes, len);
    key->len += len;
}

static void
begin(struct key *out, const struct etcd *etcd, const char *folder)
{
    out->len = 0;
    dibs__etcd_key_add(out, etcd->prefix, etcd->prefix_len);
    dibs__etcd_key_add(out, folder, strlen(folder));
}

void
dibs__etcd_line_key(struct key *out, const struct etcd *etcd, const char *name,
                    size_t name_len)
{
    size_t len = 0;
    begin(out, etcd, "");
    (void)escape(out->text + out->len, sizeof out->text - out->len, &len, name, name_len,
                 is_slash);
    out->len += len;
    dibs__etcd_key_add(out, "/", 1);
}

void
dibs__etcd_single_key(struct key *out, const struct etcd *etcd, const char *name,
                      size_t name_len)
{
    begin(out, etcd, "");
    dibs__etcd_key_add(out, name, name_len);
}

void
dibs__etcd_cell_key(struct key *out, const struct etcd *etcd, const dibs_cell_key *cell)
{
    begin(out, etcd, cell->space == DIBS_SPACE_FENCE ? "%fences/" : "%cells/");
    dibs__etcd_key_add(out, cell->name, cell->name_len);
}

void
dibs__etcd_epoch_key(struct key *out, const struct etcd *etcd, const char *lease_id)
{
    begin(out, etcd, "%epoch/");
    dibs__etcd_key_add(out, lease_id, strlen(lease_id));
}

void
dibs__etcd_marker_key(struct key *out, const struct etcd *etcd, const struct key *key)
{
    begin(out, etcd, "%shared/");
    dibs__etcd_key_add(out, key->text + etcd->prefix_len, key->len - etcd->prefix_len);
}

void
dibs__etcd_range_end(struct key *out, const struct key *prefix)
{
    out->len = prefix->len;
    memcpy(out->text, prefix->text, prefix->len);
    while (out->len > 0 && (unsigned char)out->text[out->len - 1] == 0xff)
        out->len--;
    if (out->len > 0)
        out->text[out->len - 1]++;
    else
        out->text[out->len++] = '\0'; /* all keys there are */
}

int
dibs__etcd_key_is(const struct key *a, const struct key *b)
{
    return a->len == b->len && memcmp(a->text, b->text, a->len) == 0;
}

/* ---- back to names ---- */

int
dibs__etcd_name_of(const struct etcd *etcd, const char *key, size_t len,
                   char name[DIBS_NAME_MAX], size_t *name_len, size_t *line_len)
{
    size_t begin_len = etcd->prefix_len;
    if (len <= begin_len || memcmp(key, etcd->prefix, begin_len) != 0)
        return -1;
    const char *text = key + begin_len;
    const char *slash = memchr(text, '/', len - begin_len);
    /* a lock has a name, and a contender something behind the slash */
    if (!slash || slash == text || slash + 1 == key + len)
        return -1;
    if (unescape(name, DIBS_NAME_MAX, name_len, text, (size_t)(slash - text), is_slash))
        return -1;
    *line_len = (size_t)(slash + 1 - key);
    return 0;
}
