/* SPDX-License-Identifier: MIT */
/*
 * What Redisson calls things. The lock's hash has the name as it is. Other keys and the
 * channels wrap it in braces, so that a cluster keeps them together; a name that has a
 * brace already is left alone. So "a" and "{a}" are two locks that share a channel, a fair
 * queue and a counter: that is Redisson's rule, and extra messages do no harm.
 */
#include "redisson.h"

#include <stdio.h>
#include <string.h>

static int
is_braced(const struct naming *naming)
{
    return memchr(naming->lock.text, '{', naming->lock.len) != NULL;
}

/* ---- building ---- */

static void
add(struct naming *naming, const char *text, size_t len)
{
    /* the names of one call fit: DIBS_NAME_MAX and OWNER_MAX see to it */
    if (len > sizeof naming->room - naming->used)
        len = sizeof naming->room - naming->used;
    memcpy(naming->room + naming->used, text, len);
    naming->used += len;
}

static void
add_word(struct naming *naming, const char *text)
{
    add(naming, text, strlen(text));
}

static void
add_name(struct naming *naming)
{
    int braced = is_braced(naming);
    add(naming, "{", !braced);
    add(naming, naming->lock.text, naming->lock.len);
    add(naming, "}", !braced);
}

/* "prefix:{name}" */
static void
add_with_prefix(struct naming *naming, const char *prefix)
{
    add_word(naming, prefix);
    add(naming, ":", 1);
    add_name(naming);
}

/* "{name}:owner:rwlock_timeout:1", the lease of an owner's first read */
static void
add_read(struct naming *naming, const char *owner, size_t len)
{
    add_name(naming);
    add(naming, ":", 1);
    add(naming, owner, len);
    add_word(naming, ":rwlock_timeout:1");
}

const char *
dibs__redisson_thing(struct naming *naming, enum thing thing, size_t *len)
{
    size_t from = naming->used;
    switch (thing) {
    case THE_QUEUE:
        add_with_prefix(naming, "redisson_lock_queue");
        break;
    case THE_TIMEOUTS:
        add_with_prefix(naming, "redisson_lock_timeout");
        break;
    case THE_TOKEN:
        add_with_prefix(naming, "redisson_lock_token");
        break;
    case THE_CHANNEL:
        add_with_prefix(naming, "redisson_lock__channel");
        break;
    case THE_RW_CHANNEL:
        add_with_prefix(naming, "redisson_rwlock");
        break;
    case THE_TURN:
        /* two words, so that readers of "a" do not stand back for a writer of "{a}" */
        add_with_prefix(naming, is_braced(naming) ? "dibs:turns" : "dibs:turn");
        break;
    case THE_READ:
        add_read(naming, naming->me, naming->me_len);
        break;
    case THE_AFTERGLOW:
        add_read(naming, naming->afterglow, naming->afterglow_len);
        break;
    case THE_PREFIX:
        add_name(naming);
        add(naming, ":", 1);
        break;
    }
    *len = naming->used - from;
    return naming->room + from;
}

void
dibs__redisson_put(struct call *call, struct naming *naming, enum thing thing)
{
    size_t len;
    const char *text = dibs__redisson_thing(naming, thing, &len);
    dibs__resp_bytes(&call->command, text, len);
}

const char *
dibs__redisson_channel(struct naming *naming, enum form form, size_t *len)
{
    if (form == FORM_RW)
        return dibs__redisson_thing(naming, THE_RW_CHANNEL, len);
    const char *channel = dibs__redisson_thing(naming, THE_CHANNEL, len);
    if (form == FORM_FAIR) {
        /* each who waits for a fair lock has a channel of its own */
        add(naming, ":", 1);
        add(naming, naming->me, naming->me_len);
        *len += 1 + naming->me_len;
    }
    return channel;
}

/* ---- setting up ---- */

/* are the lock and what belongs to it in one slot? not with "a}b", "{}a" or "{a" */
static int
is_together(struct naming *naming)
{
    size_t len;
    const char *other = dibs__redisson_thing(naming, THE_QUEUE, &len);
    return dibs__redis_slot(other, len) ==
           dibs__redis_slot(naming->lock.text, naming->lock.len);
}

int
dibs__redisson_name(struct naming *naming, const struct redis *redis, const char *name,
                    size_t len, dibs_error *err)
{
    naming->lock.len = len;
    memcpy(naming->lock.text, name, len);
    naming->me_len = naming->afterglow_len = naming->used = 0;
    if (redis->is_cluster && !is_together(naming))
        return redis->host->fail(err, DIBS_EINVAL,
                                 "Redisson's keys of a name with braces like this would "
                                 "not be on one server of a cluster");
    naming->used = 0;
    return DIBS_OK;
}

/* the session's id in the form that Redisson's have: 8-4-4-4-12 hex digits */
static void
print_uuid(char out[37], const char *hex)
{
    (void)snprintf(out, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16,
                   hex + 20);
}

int
dibs__redisson_claim_name(struct naming *naming, const struct redis *redis,
                          const dibs_claim *claim, dibs_error *err)
{
    char uuid[37];
    unsigned long long serial = claim->serial;
    int rc = dibs__redisson_name(naming, redis, claim->name, claim->name_len, err);
    if (rc)
        return rc;
    print_uuid(uuid, redis->session->id_hex);
    naming->me_len =
        (size_t)snprintf(naming->me, sizeof naming->me, "%s:%llu", uuid, serial);
    /* still a number, but the serial of no claim */
    naming->afterglow_len = (size_t)snprintf(naming->afterglow, sizeof naming->afterglow,
                                             "%s:0%llu", uuid, serial);
    return DIBS_OK;
}

/* ---- recognising ---- */

static int
is_uuid(const char *text)
{
    for (size_t i = 0; i < 36; i++) {
        int dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? text[i] != '-' : !memchr("0123456789abcdef", text[i], 16))
            return 0;
    }
    return 1;
}

int
dibs__redisson_is_owner(const char *field, size_t len)
{
    static const char write[] = ":write";
    size_t tail = sizeof write - 1;
    if (len > tail && memcmp(field + len - tail, write, tail) == 0)
        len -= tail;
    if (len < 38 || !is_uuid(field) || field[36] != ':')
        return 0;
    for (size_t i = 37; i < len; i++) {
        if (field[i] < '0' || field[i] > '9')
            return 0;
    }
    return 1;
}
