/* SPDX-License-Identifier: MIT */
/* Names of keys. See consul.h. */
#include "consul.h"

#include <string.h>

#include "util/escape.h"

#define LOCK_END "/.lock"

static void
add(struct key *key, const char *text, size_t len)
{
    size_t room = sizeof key->text - 1 - key->len;
    /* lengths of names and prefixes are limited, so all of ours have room */
    if (len > room)
        len = room;
    memcpy(key->text + key->len, text, len);
    key->len += len;
    key->text[key->len] = '\0';
}

void
dibs__consul_key_add(struct key *key, const char *text)
{
    add(key, text, strlen(text));
}

static void
begin(struct key *out, const struct consul *consul, const char *folder)
{
    out->len = 0;
    dibs__consul_key_add(out, consul->prefix);
    dibs__consul_key_add(out, folder);
}

static int
is_special(unsigned char byte)
{
    return byte < ' ' || byte > '~' || byte == '/';
}

static int
is_special_or_dot(unsigned char byte)
{
    return byte == '.' || is_special(byte);
}

/* "." and ".." mean something in the path of a request. */
static escape_needs *
needs_of(const char *name, size_t len)
{
    return len <= 2 && name[0] == '.' && name[len - 1] == '.' ? is_special_or_dot
                                                              : is_special;
}

static void
add_name(struct key *out, const char *name, size_t len)
{
    size_t added = 0;
    (void)escape(out->text + out->len, sizeof out->text - 1 - out->len, &added, name, len,
                 needs_of(name, len));
    out->len += added;
    out->text[out->len] = '\0';
}

void
dibs__consul_folder_key(struct key *out, const struct consul *consul, const char *name,
                        size_t name_len)
{
    begin(out, consul, "");
    add_name(out, name, name_len);
}

void
dibs__consul_lock_key(struct key *out, const struct consul *consul, const char *name,
                      size_t name_len)
{
    dibs__consul_folder_key(out, consul, name, name_len);
    if (!consul->is_key)
        dibs__consul_key_add(out, LOCK_END);
}

void
dibs__consul_all_key(struct key *out, const struct consul *consul, const char *name,
                     size_t name_len)
{
    dibs__consul_folder_key(out, consul, name, name_len);
    if (!consul->is_key)
        dibs__consul_key_add(out, "/");
}

void
dibs__consul_gate_key(struct key *out, const struct consul *consul, const char *name,
                      size_t name_len)
{
    dibs__consul_folder_key(out, consul, name, name_len);
    dibs__consul_key_add(out, "/.sharers");
}

void
dibs__consul_cell_key(struct key *out, const struct consul *consul,
                      const dibs_cell_key *cell)
{
    begin(out, consul, cell->space == DIBS_SPACE_FENCE ? "%fences/" : "%cells/");
    add_name(out, cell->name, cell->name_len);
}

void
dibs__consul_epoch_key(struct key *out, const struct consul *consul,
                       const char *session_id)
{
    begin(out, consul, "%epoch/");
    dibs__consul_key_add(out, session_id);
}

/* ---- back to names ---- */

int
dibs__consul_name_of(const struct consul *consul, const char *key,
                     char name[DIBS_NAME_MAX], size_t *name_len)
{
    size_t at = strlen(consul->prefix), len = strlen(key);
    size_t end = consul->is_key ? 0 : sizeof LOCK_END - 1;
    if (len <= at + end || strncmp(key, consul->prefix, at) != 0 ||
        strcmp(key + len - end, consul->is_key ? "" : LOCK_END) != 0)
        return -1;
    const char *text = key + at;
    len -= at + end;
    int is_dots = (len == 3 || len == 6) && strncmp(text, "%2E%2E", len) == 0;
    escape_needs *needs = is_dots ? is_special_or_dot : is_special;
    if (unescape(name, DIBS_NAME_MAX, &len, text, len, needs) ||
        needs_of(name, len) != needs)
        return -1;
    *name_len = len;
    return 0;
}
