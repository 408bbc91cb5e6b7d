/* SPDX-License-Identifier: MIT */
/*
 * Names of nodes: where a lock and its contenders are, and back from a node to the name of
 * its lock. All of it is arithmetic on text; nothing here asks a server.
 *
 * An encoded byte is '%' and two capital hexadecimal digits. What we keep beside the locks
 * is called '%' and small letters, so no name of a lock can be the same.
 */
#include "zk.h"

#include <stdio.h>
#include <string.h>

static const char digits[] = "0123456789ABCDEF";

/* ---- building ---- */

static int
add_text(struct path *path, const char *text)
{
    size_t len = strlen(text);
    if (path->len + len >= sizeof path->text)
        return -1;
    memcpy(path->text + path->len, text, len + 1);
    path->len += len;
    return 0;
}

static int
add_byte(struct path *path, unsigned char byte, int encoded)
{
    char text[4] = { (char)byte };
    if (encoded) {
        text[0] = '%';
        text[1] = digits[byte >> 4];
        text[2] = digits[byte & 15];
    }
    return add_text(path, text);
}

/* ---- names ---- */

/* "." and ".." mean something else to ZooKeeper, anywhere. */
static int
is_dots(const char *name, size_t len)
{
    return (len == 1 || len == 2) && memcmp(name, "..", len) == 0;
}

/* /zookeeper is the servers' own. */
static int
is_reserved(const char *name, size_t len)
{
    static const char reserved[] = "zookeeper";
    return len == sizeof reserved - 1 && memcmp(name, reserved, len) == 0;
}

static int
is_plain(unsigned char byte)
{
    return byte >= 0x20 && byte <= 0x7e && byte != '/' && byte != '%';
}

static int
add_name(struct path *path, const char *name, size_t len, int at_top)
{
    int dots = is_dots(name, len), reserved = at_top && is_reserved(name, len);
    int rc = 0;
    for (size_t i = 0; i < len && !rc; i++) {
        unsigned char byte = (unsigned char)name[i];
        rc = add_byte(path, byte, dots || (reserved && i == 0) || !is_plain(byte));
    }
    return rc;
}

static int
start(struct path *path, const struct zk *zk, const char *folder)
{
    path->len = 0;
    path->text[0] = '\0';
    return add_text(path, zk->root) || add_text(path, folder);
}

int
dibs__zk_lock_path(struct path *out, const struct zk *zk, const char *name,
                   size_t name_len)
{
    int failed = start(out, zk, "/") || add_name(out, name, name_len, !*zk->root);
    return failed ? DIBS_EINVAL : DIBS_OK;
}

int
dibs__zk_cell_path(struct path *out, const struct zk *zk, const dibs_cell_key *key)
{
    const char *folder = key->space == DIBS_SPACE_FENCE ? "/%fences/" : "/%cells/";
    int failed = start(out, zk, folder) || add_name(out, key->name, key->name_len, 0);
    return failed ? DIBS_EINVAL : DIBS_OK;
}

int
dibs__zk_child(struct path *out, const struct path *parent, const char *child)
{
    if (out != parent) {
        out->len = parent->len;
        memcpy(out->text, parent->text, parent->len + 1);
    }
    return add_text(out, "/") || add_text(out, child) ? DIBS_EINVAL : DIBS_OK;
}

/* ---- back to names ---- */

static int
value_of(char digit)
{
    const char *at = digit ? strchr(digits, digit) : NULL;
    return at ? (int)(at - digits) : -1;
}

/* byte_of decodes what stands at `text`: its length is returned, 0 if it is no byte. */
static size_t
byte_of(const char *text, char *byte)
{
    if (*text != '%') {
        *byte = *text;
        return is_plain((unsigned char)*text) ? 1 : 0;
    }
    int high = value_of(text[1]), low = high < 0 ? -1 : value_of(text[2]);
    if (low < 0)
        return 0;
    *byte = (char)(high << 4 | low);
    return 3;
}

/* There is one way to write a name (or two, for what is reserved at the top). */
static int
is_written_so(const char *node, const char *name, size_t len)
{
    struct path path = { 0 };
    if (add_name(&path, name, len, 0) == 0 && strcmp(path.text, node) == 0)
        return 1;
    path.len = 0;
    return is_reserved(name, len) && add_name(&path, name, len, 1) == 0 &&
           strcmp(path.text, node) == 0;
}

int
dibs__zk_name_of(const char *node, char name[DIBS_NAME_MAX], size_t *name_len)
{
    char bytes[DIBS_NAME_MAX];
    size_t len = 0, step;
    for (const char *at = node; *at; at += step) {
        if (len == sizeof bytes)
            return -1;
        step = byte_of(at, &bytes[len++]);
        if (!step)
            return -1;
    }
    if (!len || memchr(bytes, '\0', len) || !is_written_so(node, bytes, len))
        return -1;
    memcpy(name, bytes, len);
    *name_len = len;
    return 0;
}

/* ---- contenders ---- */

/* The serial makes it unique in the client, and the client's id everywhere. */
void
dibs__zk_uuid(const struct zk *zk, const dibs_claim *claim, char out[UUID_LEN + 1])
{
    uint8_t id[16];
    char *at = out;
    memcpy(id, zk->session->id, sizeof id);
    for (int i = 0; i < 8; i++)
        id[15 - i] ^= (uint8_t)(claim->serial >> 8 * i);
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        *at++ = "0123456789abcdef"[id[i] >> 4];
        *at++ = "0123456789abcdef"[id[i] & 15];
    }
    *at = '\0';
}

static const char *
curator_marker(enum contender_kind kind)
{
    switch (kind) {
    case CONTENDER_READ:
        return "__READ__";
    case CONTENDER_WRITE:
        return "__WRIT__";
    case CONTENDER_LATCH:
        return "latch-";
    case CONTENDER_LEASE:
        return "lease-";
    default:
        return "lock-";
    }
}

static const char *
bare_marker(enum contender_kind kind)
{
    switch (kind) {
    case CONTENDER_READ:
        return "read-";
    case CONTENDER_WRITE:
        return "write-";
    default:
        return "lock-";
    }
}

static void
without_dashes(char *text)
{
    char *to = text;
    for (; *text; text++)
        if (*text != '-')
            *to++ = *text;
    *to = '\0';
}

void
dibs__zk_contender_prefix(char out[CONTENDER_MAX], const struct zk *zk,
                          const dibs_claim *claim, enum contender_kind kind)
{
    char uuid[UUID_LEN + 1];
    dibs__zk_uuid(zk, claim, uuid);
    /* semaphores are written in one way only: `limit` says that it is one */
    if (zk->naming == NAMING_CURATOR || claim->limit) {
        snprintf(out, CONTENDER_MAX, "_c_%s-%s", uuid, curator_marker(kind));
    } else if (zk->naming == NAMING_KAZOO) {
        without_dashes(uuid);
        snprintf(out, CONTENDER_MAX, "%s%s", uuid,
                 kind == CONTENDER_READ ? "__rlock__" : "__lock__");
    } else {
        snprintf(out, CONTENDER_MAX, "%s", bare_marker(kind));
    }
}
