/* SPDX-License-Identifier: MIT */
/*
 * Names of keys: how a lock's name becomes one, which slot of a cluster it is in, and the
 * keys that are one per server, or in a cluster one per slot.
 */
#include <stdio.h>
#include <string.h>

#include "redis.h"
#include "util/digits.h"
#include "util/escape.h"

static void
append(struct key *key, const void *bytes, size_t len)
{
    if (len > sizeof key->text - key->len)
        len = sizeof key->text - key->len;
    memcpy(key->text + key->len, bytes, len);
    key->len += len;
}

/* what would end the name, or begin another */
static int
is_brace(unsigned char byte)
{
    return byte == '{' || byte == '}';
}

static void
append_escaped(struct key *key, const char *name, size_t len)
{
    size_t added;
    if (escape(key->text + key->len, sizeof key->text - key->len, &added, name, len,
               is_brace) == 0)
        key->len += added;
}

void
dibs__redis_key_set(struct key *key, const char *prefix, const char *name, size_t len,
                    const char *suffix)
{
    key->len = 0;
    append(key, prefix, strlen(prefix));
    append(key, "{", 1);
    append_escaped(key, name, len);
    append(key, "}", 1);
    append(key, suffix, strlen(suffix));
}

int
dibs__redis_key_name(const char *text, size_t len, const char *prefix, const char *suffix,
                     char name[DIBS_NAME_MAX], size_t *name_len)
{
    size_t before = strlen(prefix), behind = strlen(suffix);
    if (len < before + behind + 3 || memcmp(text, prefix, before) != 0 ||
        text[before] != '{' || text[len - behind - 1] != '}' ||
        memcmp(text + len - behind, suffix, behind) != 0)
        return -1;
    return unescape(name, DIBS_NAME_MAX, name_len, text + before + 1,
                    len - before - behind - 2, is_brace);
}

/* ---- slots ---- */

/* CRC-16/XMODEM, as Redis Cluster wants it */
static uint16_t
crc16(const char *bytes, size_t len)
{
    uint16_t crc = 0;
    for (size_t i = 0; i < len; i++) {
        crc ^= (uint16_t)((unsigned char)bytes[i] << 8);
        for (int bit = 0; bit < 8; bit++)
            crc = (uint16_t)(crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1);
    }
    return crc;
}

uint16_t
dibs__redis_slot(const char *text, size_t len)
{
    const char *open = memchr(text, '{', len);
    if (open) {
        const char *tag = open + 1;
        const char *close = memchr(tag, '}', len - (size_t)(tag - text));
        if (close && close > tag)
            return crc16(tag, (size_t)(close - tag)) % SLOTS;
    }
    return crc16(text, len) % SLOTS;
}

/* The least number whose slot is this one, plus one; 0: not known yet. */
static _Atomic uint32_t known[SLOTS];

static uint16_t
slot_of_number(unsigned number)
{
    char digits[12];
    int len = snprintf(digits, sizeof digits, "%u", number);
    return crc16(digits, (size_t)len) % SLOTS;
}

/* Found by trying, and remembered. */
static unsigned
number_of_slot(uint16_t slot)
{
    uint32_t found = atomic_load_explicit(&known[slot], memory_order_relaxed);
    for (unsigned n = 0; !found; n++) {
        if (slot_of_number(n) == slot)
            found = n + 1;
    }
    atomic_store_explicit(&known[slot], found, memory_order_relaxed);
    return found - 1;
}

void
dibs__redis_learn_slots(void)
{
    char seen[SLOTS] = { 0 };
    unsigned left = SLOTS;
    for (unsigned n = 0; left; n++) {
        uint16_t slot = slot_of_number(n);
        if (seen[slot])
            continue;
        seen[slot] = 1;
        left--;
        atomic_store_explicit(&known[slot], n + 1, memory_order_relaxed);
    }
}

void
dibs__redis_slot_key(struct key *out, const char *base, uint16_t slot)
{
    char tag[16];
    (void)snprintf(tag, sizeof tag, ":{%u}", number_of_slot(slot));
    out->len = 0;
    append(out, base, strlen(base));
    append(out, tag, strlen(tag));
}

/* `base`, or in a cluster the key of that family that lives in the lock's slot */
static void
companion_key(const struct redis *redis, const struct key *lock, const char *base,
              struct key *out)
{
    if (redis->is_cluster) {
        dibs__redis_slot_key(out, base, dibs__redis_slot(lock->text, lock->len));
        return;
    }
    out->len = 0;
    append(out, base, strlen(base));
}

void
dibs__redis_clock_key(struct redis *redis, const struct key *lock, struct key *out)
{
    companion_key(redis, lock, "dibs:clock", out);
}

void
dibs__redis_born_key(struct redis *redis, const struct key *lock, struct key *out)
{
    companion_key(redis, lock, BORN_KEY, out);
}

size_t
dibs__redis_id(const struct redis *redis, const dibs_claim *claim, char out[ID_MAX])
{
    memcpy(out, redis->session->id_hex, 32);
    out[32] = ':';
    return 33 + put_digits(out + 33, claim->serial);
}
