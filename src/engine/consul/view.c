/* SPDX-License-Identifier: MIT */
/*
 * Views: what the entries below a name say about who has it.
 *
 * The entry of the lock decides. An exclusive holder has locked it with its session. Holders
 * of permits are listed in its value, and each has an entry of its own that is locked by its
 * session, and goes with it: whoever is listed without having one is dead. Sharers are not
 * listed, but have such entries as well, with their mark.
 */
#include "consul.h"

#include <string.h>

static int
is_below(const char *key, const struct key *folder)
{
    return strncmp(key, folder->text, folder->len) == 0 && key[folder->len] == '/';
}

/* Others give their entries any names below the folder: it is the session that counts. An
 * answer to a transaction that wrote has some keys twice, and then the last one counts. */
static int
add_session(struct view *view, const json_t *kv, size_t index, const struct key *folder)
{
    const char *key = json_string_value(json_object_get(kv, "Key"));
    const char *session = json_string_value(json_object_get(kv, "Session"));
    if (!key || !session || !is_below(key, folder))
        return 0;
    return json_object_set_new(view->sessions, session, json_integer((json_int_t)index));
}

static int
index_sessions(struct view *view, const struct key *folder)
{
    size_t count = dibs__consul_entries(view->answer);
    view->sessions = json_object();
    int bad = !view->sessions;
    for (size_t i = 0; i < count && !bad; i++)
        bad = add_session(view, dibs__consul_kv(view->answer, i), i, folder);
    return bad ? DIBS_ENOMEM : DIBS_OK;
}

int
dibs__consul_holder(struct view *view, const char *session, struct entry *out)
{
    const json_t *at = json_object_get(view->sessions, session);
    if (!at || !json_object_get(view->holders, session))
        return -1;
    return dibs__consul_entry(view->answer, (size_t)json_integer_value(at), out);
}

static int
read_holders(struct view *view)
{
    json_t *state = json_loadb(view->lock.value, view->lock.value_len, 0, NULL);
    json_t *holders = json_object_get(state, "Holders");
    json_int_t limit = json_integer_value(json_object_get(state, "Limit"));
    if (json_is_object(holders) && limit >= 0 && limit <= UINT32_MAX) {
        view->limit = (uint32_t)limit;
        view->holders = json_incref(holders);
    }
    json_decref(state);
    return view->holders ? DIBS_OK : DIBS_ECORRUPT;
}

static int
drop_dead(struct view *view)
{
    json_t *alive = json_object(), *value;
    const char *session;
    int bad = !alive;
    json_object_foreach(view->holders, session, value)
    {
        if (!bad && json_object_get(view->sessions, session))
            bad = json_object_set(alive, session, value);
    }
    json_decref(view->holders);
    view->holders = alive;
    return bad ? DIBS_ENOMEM : DIBS_OK;
}

static int
read_list(struct view *view)
{
    int rc = read_holders(view);
    return rc ? rc : drop_dead(view);
}

static uint64_t
flags_of(const struct view *view, const json_t *at)
{
    struct entry entry;
    size_t index = (size_t)json_integer_value(at);
    return dibs__consul_entry(view->answer, index, &entry) == 0 ? entry.flags : 0;
}

static int
read_sharers(struct view *view)
{
    const char *session;
    json_t *at;
    int bad = !(view->holders = json_object());
    json_object_foreach(view->sessions, session, at)
    {
        uint64_t flags = flags_of(view, at);
        if (!bad && flags == FLAGS_SHARED)
            bad = json_object_set_new(view->holders, session, json_true());
        view->writers += flags == FLAGS_WRITER;
    }
    return bad ? DIBS_ENOMEM : DIBS_OK;
}

static int
read_lock(struct view *view)
{
    const struct entry *lock = &view->lock;
    int is_held = *lock->session != '\0';
    view->index = lock->modify_index;
    if (lock->flags == FLAGS_LOCK)
        view->kind = is_held ? VIEW_HELD : VIEW_FREE;
    else if (lock->flags == FLAGS_SHARED && !is_held)
        view->kind = VIEW_SHARERS;
    else if (lock->flags == FLAGS_SEMAPHORE && !is_held)
        view->kind = VIEW_PERMITS;
    else
        view->kind = VIEW_OTHER;
    if (view->kind == VIEW_SHARERS)
        return read_sharers(view);
    return view->kind == VIEW_PERMITS ? read_list(view) : DIBS_OK;
}

int
dibs__consul_view(struct view *out, const struct consul *consul, struct answer *answer,
                  const char *name, size_t name_len, dibs_error *err)
{
    struct key folder, lock, gate;
    struct entry entry;
    dibs__consul_folder_key(&folder, consul, name, name_len);
    dibs__consul_lock_key(&lock, consul, name, name_len);
    dibs__consul_gate_key(&gate, consul, name, name_len);
    *out = (struct view){ .answer = answer, .kind = VIEW_FREE };
    int rc = index_sessions(out, &folder);
    if (!rc && dibs__consul_entry_of(answer, &gate, &entry) == 0)
        out->gate = entry.modify_index;
    if (!rc && dibs__consul_entry_of(answer, &lock, &out->lock) == 0)
        rc = read_lock(out);
    if (!rc)
        return DIBS_OK;
    dibs__consul_view_free(out);
    return consul->host->fail(
        err, rc, "%s",
        rc == DIBS_ENOMEM ? "out of memory" : "its entry is not what it is marked as");
}

int
dibs__consul_view_get(struct view *out, struct consul *consul, struct answer *answer,
                      const char *name, size_t name_len, dibs_time deadline,
                      dibs_error *err)
{
    struct key all;
    dibs__consul_all_key(&all, consul, name, name_len);
    int rc = dibs__consul_get(consul, &all, 1, answer, deadline, err);
    if (rc)
        return rc;
    rc = dibs__consul_view(out, consul, answer, name, name_len, err);
    if (rc)
        dibs__consul_answer_free(answer);
    return rc;
}

void
dibs__consul_view_free(struct view *view)
{
    json_decref(view->sessions);
    json_decref(view->holders);
    view->sessions = view->holders = NULL;
}

size_t
dibs__consul_view_count(const struct view *view)
{
    return view->kind == VIEW_HELD ? 1 : json_object_size(view->holders);
}

/* The note says it where the entry was written again since the grant. */
uint64_t
dibs__consul_entry_token(const struct entry *entry)
{
    struct kit_note note;
    dibs__kit_note_parse(&note, entry->value, entry->value_len);
    return note.party.token ? note.party.token : token_of(entry->modify_index);
}

uint64_t
dibs__consul_view_token(struct view *view)
{
    const char *session;
    json_t *value;
    struct entry entry;
    uint64_t newest = 0;
    if (view->kind == VIEW_HELD)
        return dibs__consul_entry_token(&view->lock);
    json_object_foreach(view->holders, session, value)
    {
        if (dibs__consul_holder(view, session, &entry))
            continue;
        uint64_t token = dibs__consul_entry_token(&entry);
        newest = token > newest ? token : newest;
    }
    return newest;
}
