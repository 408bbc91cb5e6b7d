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

#include "util/escape.h"

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
add_escaped(struct path *path, const char *text, size_t len, escape_needs *needs)
{
    size_t added;
    if (escape(path->text + path->len, sizeof path->text - path->len - 1, &added, text,
               len, needs))
        return -1;
    path->len += added;
    path->text[path->len] = '\0';
    return 0;
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
is_not_plain(unsigned char byte)
{
    return byte < 0x20 || byte > 0x7e || byte == '/';
}

static int
is_any(unsigned char byte)
{
    (void)byte;
    return 1;
}

static int
add_name(struct path *path, const char *name, size_t len, int at_top)
{
    if (is_dots(name, len))
        return add_escaped(path, name, len, is_any);
    size_t first = at_top && is_reserved(name, len) ? 1 : 0;
    return add_escaped(path, name, first, is_any) ||
           add_escaped(path, name + first, len - first, is_not_plain);
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

/* what is written in a way of its own */
static const char *
special_name(const char *node)
{
    static const char *const pairs[][2] = { { "%2E", "." },
                                            { "%2E%2E", ".." },
                                            { "%7Aookeeper", "zookeeper" } };
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        if (strcmp(node, pairs[i][0]) == 0)
            return pairs[i][1];
    return NULL;
}

int
dibs__zk_name_of(const char *node, char name[DIBS_NAME_MAX], size_t *name_len)
{
    char bytes[DIBS_NAME_MAX];
    const char *special = special_name(node), *from = special ? special : bytes;
    size_t len = special ? strlen(special) : 0;
    if (!special &&
        (unescape(bytes, sizeof bytes, &len, node, strlen(node), is_not_plain) ||
         is_dots(bytes, len)))
        return -1;
    if (!len || memchr(from, '\0', len))
        return -1;
    memcpy(name, from, len);
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
