/* SPDX-License-Identifier: MIT */
/* Keys of Consul (engine/consul/key.c): printable; a name and back; no lock lies inside
 * another, nor meets what is kept beside the locks. */
#include <stdlib.h>
#include <string.h>

#include "engine/consul/consul.h"
#include "fuzz.h"

static const struct consul forms[] = { { .prefix = "dibs/" },
                                       { .prefix = "dibs/", .is_key = 1 } };

static void
check_name(const struct consul *consul, const char *name, size_t len)
{
    struct key lock, all, cell;
    char back[DIBS_NAME_MAX];
    size_t back_len;
    dibs__consul_lock_key(&lock, consul, name, len);
    dibs__consul_all_key(&all, consul, name, len);
    HOLDS(strlen(lock.text) == lock.len && lock.len <= 3 * len + 11);
    for (size_t i = 0; i < lock.len; i++)
        HOLDS(lock.text[i] > ' ' - 1 && lock.text[i] < 0x7f);
    HOLDS(strncmp(lock.text, all.text, all.len) == 0);
    HOLDS(dibs__consul_name_of(consul, lock.text, back, &back_len) == 0);
    HOLDS(fuzz_same(back, back_len, name, len));
    dibs_cell_key key = { .space = (int)(len % 2), .name = name, .name_len = len };
    dibs__consul_cell_key(&cell, consul, &key);
    HOLDS(strncmp(cell.text, all.text, all.len) != 0 || consul->is_key);
    HOLDS(strcmp(cell.text, lock.text) != 0);
    HOLDS(!strstr(lock.text, "/../") && !strstr(lock.text, "/./"));
}

static void
check_pair(const struct consul *consul, const char *a, size_t a_len, const char *b,
           size_t b_len)
{
    struct key one, other, all;
    int is_same = fuzz_same(a, a_len, b, b_len);
    dibs__consul_lock_key(&one, consul, a, a_len);
    dibs__consul_lock_key(&other, consul, b, b_len);
    dibs__consul_all_key(&all, consul, a, a_len);
    HOLDS((strcmp(one.text, other.text) == 0) == is_same);
    if (!consul->is_key)
        HOLDS((strncmp(other.text, all.text, all.len) == 0) == is_same);
}

static void
check_key(const struct consul *consul, const char *text)
{
    struct key key;
    char name[DIBS_NAME_MAX];
    size_t name_len;
    if (dibs__consul_name_of(consul, text, name, &name_len) != 0)
        return;
    HOLDS(name_len > 0 && name_len <= sizeof name);
    dibs__consul_lock_key(&key, consul, name, name_len);
    HOLDS(strcmp(key.text, text) == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        struct input input = { data, size };
        const char *a, *b;
        size_t a_len, b_len;
        char *key = fuzz_text(data, size);
        check_key(&forms[i], key);
        free(key);
        if (fuzz_name(&input, &a, &a_len))
            return 0;
        check_name(&forms[i], a, a_len);
        if (fuzz_name(&input, &b, &b_len) == 0)
            check_pair(&forms[i], a, a_len, b, b_len);
    }
    return 0;
}
