/* SPDX-License-Identifier: MIT */
/* Keys of Redis (engine/redis/key.c, redisson_name.c): a name and back; no two names have one
 * key; what belongs together is in one slot. */
#include <stdlib.h>
#include <string.h>

#include "engine/redis/redisson.h"
#include "fuzz.h"

#define PREFIX "dibs:q:"
#define SUFFIX ":line"

static void
check_name(const char *name, size_t len)
{
    struct key key, other;
    char back[DIBS_NAME_MAX];
    size_t back_len = 0;
    dibs__redis_key_set(&key, PREFIX, name, len, SUFFIX);
    HOLDS(key.len <= 3 * len + sizeof PREFIX + sizeof SUFFIX);
    HOLDS(dibs__redis_key_name(key.text, key.len, PREFIX, SUFFIX, back, &back_len) == 0);
    HOLDS(fuzz_same(back, back_len, name, len));
    dibs__redis_key_set(&other, PREFIX, name, len, "");
    HOLDS(dibs__redis_slot(key.text, key.len) == dibs__redis_slot(other.text, other.len));
}

static void
check_companion(const char *name, size_t len)
{
    struct redis redis = { .is_cluster = 1 };
    struct key lock, clock, born;
    dibs__redis_key_set(&lock, PREFIX, name, len, "");
    dibs__redis_clock_key(&redis, &lock, &clock);
    dibs__redis_born_key(&redis, &lock, &born);
    uint16_t slot = dibs__redis_slot(lock.text, lock.len);
    HOLDS(dibs__redis_slot(clock.text, clock.len) == slot);
    HOLDS(dibs__redis_slot(born.text, born.len) == slot);
}

static void
check_pair(const char *a, size_t a_len, const char *b, size_t b_len)
{
    struct key one, other;
    dibs__redis_key_set(&one, PREFIX, a, a_len, "");
    dibs__redis_key_set(&other, PREFIX, b, b_len, "");
    HOLDS(fuzz_same(one.text, one.len, other.text, other.len) ==
          fuzz_same(a, a_len, b, b_len));
}

/* any bytes as a key: if it has a name, that name has this key */
static void
check_key(const char *text, size_t len)
{
    struct key key;
    char name[DIBS_NAME_MAX];
    size_t name_len;
    HOLDS(dibs__redis_slot(text, len) < SLOTS);
    if (dibs__redis_key_name(text, len, PREFIX, SUFFIX, name, &name_len) != 0)
        return;
    HOLDS(name_len > 0 && name_len <= sizeof name);
    dibs__redis_key_set(&key, PREFIX, name, name_len, SUFFIX);
    HOLDS(fuzz_same(key.text, key.len, text, len));
}

/* all things of one lock, in one call of them, have room */
static void
check_redisson(const char *name, size_t len)
{
    struct redis redis = { .is_cluster = 0 };
    struct naming naming;
    HOLDS(dibs__redisson_name(&naming, &redis, name, len, NULL) == DIBS_OK);
    naming.me_len = naming.afterglow_len = OWNER_MAX;
    memset(naming.me, 'm', OWNER_MAX);
    memset(naming.afterglow, 'a', OWNER_MAX);
    for (int thing = THE_QUEUE; thing <= THE_TURN; thing++) {
        size_t got;
        const char *text = dibs__redisson_thing(&naming, (enum thing)thing, &got);
        HOLDS(got > len && memmem(text, got, name, len));
    }
    HOLDS(naming.used < sizeof naming.room);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int has_learned;
    struct input input = { data, size };
    const char *a, *b;
    size_t a_len, b_len;
    if (!has_learned++)
        dibs__redis_learn_slots(); /* one by one they take longer */
    char *key = fuzz_copy(data, size);
    check_key(key, size);
    free(key);
    if (fuzz_name(&input, &a, &a_len))
        return 0;
    check_name(a, a_len);
    check_companion(a, a_len);
    check_redisson(a, a_len);
    if (fuzz_name(&input, &b, &b_len) == 0)
        check_pair(a, a_len, b, b_len);
    return 0;
}
