/* SPDX-License-Identifier: MIT */
/* Paths of ZooKeeper (engine/zookeeper/path.c): what the servers accept; a name and back; no
 * two names have one node. */
#include <stdlib.h>
#include <string.h>

#include "engine/zookeeper/zk.h"
#include "fuzz.h"

static const struct zk roots[] = { { .root = "/dibs" }, { .root = "" } };

/* as ZooKeeper checks them: printable, no empty part, none that is "." or ".." */
static void
check_path(const struct path *path)
{
    HOLDS(strlen(path->text) == path->len && path->text[0] == '/');
    HOLDS(path->text[path->len - 1] != '/');
    for (size_t i = 0; i < path->len; i++) {
        const char *at = path->text + i;
        HOLDS(*at >= ' ' && *at <= '~');
        HOLDS(*at != '/' ||
              (at[1] != '/' && strcmp(at, "/.") != 0 && strcmp(at, "/..") != 0));
    }
}

static void
check_name(const struct zk *zk, const char *name, size_t len)
{
    struct path lock, cell;
    char back[DIBS_NAME_MAX];
    size_t back_len;
    if (dibs__zk_lock_path(&lock, zk, name, len) != DIBS_OK)
        return;
    check_path(&lock);
    HOLDS(strcmp(lock.text, "/zookeeper") != 0);
    const char *node = lock.text + strlen(zk->root) + 1;
    HOLDS(!strchr(node, '/'));
    HOLDS(dibs__zk_name_of(node, back, &back_len) == 0);
    HOLDS(fuzz_same(back, back_len, name, len));
    dibs_cell_key key = { .space = (int)(len % 2), .name = name, .name_len = len };
    HOLDS(dibs__zk_cell_path(&cell, zk, &key) == DIBS_OK);
    check_path(&cell);
    HOLDS(strncmp(cell.text, lock.text, lock.len) != 0 || cell.text[lock.len] != '/');
}

static void
check_pair(const struct zk *zk, const char *a, size_t a_len, const char *b, size_t b_len)
{
    struct path one, other;
    if (dibs__zk_lock_path(&one, zk, a, a_len) ||
        dibs__zk_lock_path(&other, zk, b, b_len))
        return;
    HOLDS((strcmp(one.text, other.text) == 0) == fuzz_same(a, a_len, b, b_len));
}

static void
check_node(const char *node)
{
    char name[DIBS_NAME_MAX];
    size_t len;
    if (dibs__zk_name_of(node, name, &len) == 0)
        HOLDS(len > 0 && len <= sizeof name && !memchr(name, '\0', len));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *node = fuzz_text(data, size);
    check_node(node);
    free(node);
    for (size_t i = 0; i < sizeof roots / sizeof *roots; i++) {
        struct input input = { data, size };
        const char *a, *b;
        size_t a_len, b_len;
        if (fuzz_name(&input, &a, &a_len))
            return 0;
        check_name(&roots[i], a, a_len);
        if (fuzz_name(&input, &b, &b_len) == 0)
            check_pair(&roots[i], a, a_len, b, b_len);
    }
    return 0;
}
