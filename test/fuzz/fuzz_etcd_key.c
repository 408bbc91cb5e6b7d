/* SPDX-License-Identifier: MIT */
/* Keys of etcd (engine/etcd/key.c): a name and back; no lock lies in the range of another, nor
 * meets what is kept beside the locks. */
#include <stdlib.h>
#include <string.h>

#include "engine/etcd/etcd.h"
#include "fuzz.h"

static const struct etcd etcd = { .prefix = "dibs/", .prefix_len = 5 };

static int
compare(const struct key *a, const struct key *b)
{
    size_t least = a->len < b->len ? a->len : b->len;
    int order = memcmp(a->text, b->text, least);
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* does a range of all keys that begin with one have the other? */
static int
covers(const struct key *line, const struct key *key)
{
    struct key end;
    dibs__etcd_range_end(&end, line);
    HOLDS(compare(line, &end) < 0);
    return compare(line, key) <= 0 && compare(key, &end) < 0;
}

static void
check_name(const char *name, size_t len)
{
    struct key line, cell;
    char back[DIBS_NAME_MAX];
    size_t back_len, line_len;
    dibs__etcd_line_key(&line, &etcd, name, len);
    HOLDS(line.len <= 3 * len + 6 && line.text[line.len - 1] == '/');
    /* by itself it is nobody's */
    HOLDS(dibs__etcd_name_of(&etcd, line.text, line.len, back, &back_len, &line_len) !=
          0);
    size_t before = line.len;
    dibs__etcd_key_add(&line, "694d81", 6);
    HOLDS(dibs__etcd_name_of(&etcd, line.text, line.len, back, &back_len, &line_len) ==
          0);
    HOLDS(fuzz_same(back, back_len, name, len) && line_len == before);
    line.len = before;
    dibs_cell_key key = { .space = (int)(len % 2), .name = name, .name_len = len };
    dibs__etcd_cell_key(&cell, &etcd, &key);
    HOLDS(!covers(&line, &cell));
    HOLDS(dibs__etcd_name_of(&etcd, cell.text, cell.len, back, &back_len, &line_len) !=
          0);
}

static void
check_pair(const char *a, size_t a_len, const char *b, size_t b_len)
{
    struct key one, other;
    dibs__etcd_line_key(&one, &etcd, a, a_len);
    dibs__etcd_line_key(&other, &etcd, b, b_len);
    HOLDS(covers(&one, &other) == fuzz_same(a, a_len, b, b_len));
    HOLDS(dibs__etcd_key_is(&one, &other) == fuzz_same(a, a_len, b, b_len));
}

static void
check_key(const char *text, size_t len)
{
    struct key line;
    char name[DIBS_NAME_MAX];
    size_t name_len, line_len;
    if (dibs__etcd_name_of(&etcd, text, len, name, &name_len, &line_len) != 0)
        return;
    HOLDS(line_len < len && name_len > 0 && name_len <= sizeof name);
    dibs__etcd_line_key(&line, &etcd, name, name_len);
    HOLDS(fuzz_same(line.text, line.len, text, line_len));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input input = { data, size };
    const char *a, *b;
    size_t a_len, b_len;
    char *key = fuzz_copy(data, size);
    check_key(key, size);
    free(key);
    if (fuzz_name(&input, &a, &a_len))
        return 0;
    check_name(a, a_len);
    if (fuzz_name(&input, &b, &b_len) == 0)
        check_pair(a, a_len, b, b_len);
    return 0;
}
