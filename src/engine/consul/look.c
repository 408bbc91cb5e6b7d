/* SPDX-License-Identifier: MIT */
/*
 * Looking at locks, and breaking them. The lock's own entry says who has it, or, if several
 * may, which sessions do; each of those has an entry of its own beside it that says more.
 * Who waits for an exclusive lock is written down nowhere.
 *
 * In this order: what is seen, which is some locks as they were at one moment; a party; how
 * a lock is reported; the slots; breaking.
 */
#include <string.h>

#include "consul.h"

#define LOCKS_AT_ONCE 32
#define SESSIONS_ASKED 32
#define OPS_AT_ONCE 60 /* the servers refuse more than 64 in a transaction */
#define BREAK_TRIES 10

/* ---- what is seen ---- */

struct lock {
    char name[DIBS_NAME_MAX];
    size_t name_len;
};

struct seen {
    struct entry entry;
    char id[KIT_ID_MAX]; /* of the claim that wrote it; "": it was not dibs */
};

/* Some locks, and all entries that may be theirs. */
struct sight {
    struct consul *consul;
    dibs_time deadline;
    dibs_error *err;
    int asks_left; /* how many sessions may still be asked for */
    int skips_odd; /* locks that cannot be understood are left out */
    struct lock *locks;
    size_t lock_count;
    struct answer answer;
    struct seen *entries;
    size_t entry_count;
};

static int
sight_begin(struct sight *sight, struct consul *consul, dibs_time deadline,
            dibs_error *err)
{
    *sight = (struct sight){
        .consul = consul, .deadline = deadline, .err = err, .asks_left = SESSIONS_ASKED
    };
    sight->locks = consul->host->alloc(LOCKS_AT_ONCE * sizeof *sight->locks);
    return sight->locks ? DIBS_OK : DIBS_ENOMEM;
}

/* Forgets what was seen; the locks stay. */
static void
sight_clear(struct sight *sight)
{
    sight->consul->host->free(sight->entries);
    dibs__consul_answer_free(&sight->answer);
    sight->entries = NULL;
    sight->entry_count = 0;
}

static void
sight_end(struct sight *sight)
{
    sight_clear(sight);
    sight->consul->host->free(sight->locks);
}

static void
sight_add(struct sight *sight, const char *name, size_t name_len)
{
    struct lock *lock = &sight->locks[sight->lock_count++];
    memcpy(lock->name, name, name_len);
    lock->name_len = name_len;
}

static int
add_tree(struct txn *txn, const struct consul *consul, const struct lock *lock)
{
    struct key all;
    dibs__consul_all_key(&all, consul, lock->name, lock->name_len);
    return dibs__consul_txn_tree(txn, &all);
}

static int
decode_entries(struct sight *sight)
{
    size_t count = dibs__consul_entries(&sight->answer);
    struct kit_note note;
    sight->entries = sight->consul->host->alloc((count + 1) * sizeof *sight->entries);
    if (!sight->entries)
        return DIBS_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        struct seen *to = &sight->entries[sight->entry_count];
        if (dibs__consul_entry(&sight->answer, i, &to->entry) != 0)
            continue;
        dibs__kit_note_parse(&note, to->entry.value, to->entry.value_len);
        memcpy(to->id, note.id, sizeof to->id);
        sight->entry_count++;
    }
    return DIBS_OK;
}

/* Reads all locks that were added. */
static int
sight_read(struct sight *sight)
{
    struct txn *txn = dibs__consul_txn();
    int rc = txn ? DIBS_OK : DIBS_ENOMEM;
    sight_clear(sight);
    for (size_t i = 0; !rc && i < sight->lock_count; i++)
        rc = add_tree(txn, sight->consul, &sight->locks[i]);
    if (rc) {
        dibs__consul_txn_free(txn);
        return rc;
    }
    rc = dibs__consul_txn_run(sight->consul, txn, HTTP_REPEATABLE, &sight->answer,
                              sight->deadline, sight->err);
    return rc ? rc : decode_entries(sight);
}

/* ---- a party ---- */

/* Others than dibs leave nothing of themselves but their session. What cannot be learned of
 * that is left open: it is no reason not to show the rest. */
static void
ask_session(struct sight *sight, const char *session, struct answer *answer,
            dibs_party *party)
{
    char path[300] = "/v1/session/info/";
    size_t len = strlen(session), used = strlen(path);
    if (!sight->asks_left || 3 * len >= sizeof path - used)
        return;
    sight->asks_left--;
    dibs__http_escape(path + used, session, len);
    if (dibs__consul_ask(sight->consul, "GET", path, NULL, HTTP_REPEATABLE, answer,
                         sight->deadline, NULL) != DIBS_OK)
        return;
    const json_t *info = json_array_get(answer->json, 0);
    const char *node = json_string_value(json_object_get(info, "Node"));
    const char *name = json_string_value(json_object_get(info, "Name"));
    party->host = node ? node : "";
    party->app = name ? name : "";
}

static int
report_party(struct sight *sight, dibs_sink *sink, const struct entry *entry, int waits,
             int mode, uint32_t permits)
{
    struct kit_note note;
    struct answer session = { 0 };
    dibs__kit_note_parse(&note, entry->value, entry->value_len);
    dibs_party party = note.party;
    party.mode = mode;
    party.permits = permits;
    party.token = waits ? 0 : dibs__consul_entry_token(entry);
    if (!note.id[0])
        ask_session(sight, entry->session, &session, &party);
    int rc = sink->party(sink, waits, &party);
    dibs__consul_answer_free(&session);
    return rc;
}

/* ---- several at a time ---- */

/* A lock that several may have, and the entries of theirs beside its own. */
struct crowd {
    const struct sight *sight;
    const struct view *view;
    struct key folder;
    int mode;
};

static void
crowd_begin(struct crowd *out, const struct sight *sight, const struct lock *lock,
            const struct view *view)
{
    out->sight = sight;
    out->view = view;
    dibs__consul_folder_key(&out->folder, sight->consul, lock->name, lock->name_len);
    out->mode = view->kind == VIEW_SHARERS ? DIBS_SHARED : DIBS_PERMITS;
}

/* What is beside it has the name of its session, and is locked by that. */
static int
is_beside(const struct crowd *crowd, const struct entry *entry)
{
    const struct key *folder = &crowd->folder;
    return entry->session[0] && strncmp(entry->key, folder->text, folder->len) == 0 &&
           entry->key[folder->len] == '/' &&
           strcmp(entry->key + folder->len + 1, entry->session) == 0;
}

static int
holds(const struct crowd *crowd, const struct entry *entry)
{
    return json_object_get(crowd->view->holders, entry->session) != NULL;
}

/* A claim for several permits has several sessions, and its parts are shown as one: how many
 * they are; 0, if one of them came before. */
static uint32_t
permits_of(const struct crowd *crowd, const struct seen *seen)
{
    uint32_t count = 0;
    const struct sight *sight = crowd->sight;
    if (!seen->id[0] || crowd->mode == DIBS_SHARED)
        return 1;
    for (size_t i = 0; i < sight->entry_count; i++) {
        const struct seen *at = &sight->entries[i];
        if (strcmp(at->id, seen->id) != 0 || !is_beside(crowd, &at->entry) ||
            holds(crowd, &at->entry) != holds(crowd, &seen->entry))
            continue;
        if (at < seen)
            return 0;
        count++;
    }
    return count;
}

static int
report_crowd(struct sight *sight, const struct lock *lock, const struct view *view,
             dibs_sink *sink)
{
    struct crowd crowd;
    int rc = DIBS_OK, is_named = 0;
    crowd_begin(&crowd, sight, lock, view);
    for (size_t i = 0; !rc && i < sight->entry_count; i++) {
        const struct seen *seen = &sight->entries[i];
        uint32_t permits = is_beside(&crowd, &seen->entry) ? permits_of(&crowd, seen) : 0;
        if (!permits)
            continue;
        if (!is_named++)
            rc = sink->lock(sink, lock->name, lock->name_len, crowd.mode, view->limit);
        if (!rc)
            rc = report_party(sight, sink, &seen->entry, !holds(&crowd, &seen->entry),
                              crowd.mode, permits);
    }
    return rc;
}

/* ---- the slots ---- */

/* What has a session is held by it, whatever else it is marked as. */
static int
report_lock(struct sight *sight, const struct lock *lock, dibs_sink *sink)
{
    struct view view;
    int rc = dibs__consul_view(&view, sight->consul, &sight->answer, lock->name,
                               lock->name_len, sight->err);
    if (rc)
        return rc == DIBS_ECORRUPT && sight->skips_odd ? DIBS_OK : rc;
    if (view.kind == VIEW_SHARERS || view.kind == VIEW_PERMITS)
        rc = report_crowd(sight, lock, &view, sink);
    else if (view.index && view.lock.session[0]) {
        rc = sink->lock(sink, lock->name, lock->name_len, DIBS_EXCLUSIVE, 0);
        if (!rc)
            rc = report_party(sight, sink, &view.lock, 0, DIBS_EXCLUSIVE, 1);
    }
    dibs__consul_view_free(&view);
    return rc;
}

static int
read_and_report(struct sight *sight, dibs_sink *sink)
{
    int rc = sight->lock_count ? sight_read(sight) : DIBS_OK;
    for (size_t i = 0; !rc && i < sight->lock_count; i++)
        rc = report_lock(sight, &sight->locks[i], sink);
    return rc;
}

int
dibs__consul_inspect(void *state, const char *name, size_t name_len, uint64_t name_hash,
                     dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct sight sight;
    (void)name_hash;
    int rc = sight_begin(&sight, state, deadline, err);
    if (!rc) {
        sight_add(&sight, name, name_len);
        rc = read_and_report(&sight, sink);
    }
    sight_end(&sight);
    return rc;
}

/* There may be other things under our prefix: what has no name like a lock's is left out
 * here, and what has none of its marks when it is reported. */
static int
list_keys(struct sight *sight, const json_t *keys, dibs_sink *sink)
{
    size_t count = json_array_size(keys);
    int rc = DIBS_OK;
    for (size_t i = 0; !rc && i < count; i++) {
        const char *key = json_string_value(json_array_get(keys, i));
        char name[DIBS_NAME_MAX];
        size_t len;
        if (key && dibs__consul_name_of(sight->consul, key, name, &len) == 0)
            sight_add(sight, name, len);
        if (sight->lock_count == LOCKS_AT_ONCE || i + 1 == count) {
            rc = read_and_report(sight, sink);
            sight->lock_count = 0;
        }
    }
    return rc;
}

int
dibs__consul_list(void *state, dibs_sink *sink, dibs_time deadline, dibs_error *err)
{
    struct consul *consul = state;
    struct answer keys = { 0 };
    struct sight sight;
    struct key prefix = { 0 };
    char path[PATH_ROOM];
    dibs__consul_key_add(&prefix, consul->prefix);
    dibs__consul_kv_path(path, &prefix, "keys&consistent");
    int rc = sight_begin(&sight, consul, deadline, err);
    sight.skips_odd = 1;
    if (!rc)
        rc = dibs__consul_ask(consul, "GET", path, NULL, HTTP_REPEATABLE, &keys, deadline,
                              err);
    if (!rc)
        rc = list_keys(&sight, keys.json, sink);
    dibs__consul_answer_free(&keys);
    sight_end(&sight);
    return rc;
}

/* ---- breaking ---- */

/* Entries are deleted, each only if it is still as it was seen: a session may have other
 * locks, and is left alone. Whoever held by such an entry finds it gone, `consul lock` at
 * once; whoever waits for it is woken. */
struct breaking {
    struct txn *must; /* ops that end holds */
    struct txn *may;  /* what nobody needs after that, unless somebody does again */
    size_t holds;
};

static int
delete_entry(struct txn *txn, const struct entry *entry)
{
    struct key key = { 0 };
    dibs__consul_key_add(&key, entry->key);
    return dibs__consul_txn_delete_cas(txn, &key, entry->modify_index);
}

/* An entry that is not there any more would count as deleted, so it is checked as well. */
static int
delete_lock(struct txn *txn, const struct entry *entry)
{
    struct key key = { 0 };
    dibs__consul_key_add(&key, entry->key);
    int rc = dibs__consul_txn_check_index(txn, &key, entry->modify_index);
    return rc ? rc : delete_entry(txn, entry);
}

static int
delete_holders(struct breaking *breaking, const struct crowd *crowd)
{
    const struct sight *sight = crowd->sight;
    int rc = DIBS_OK;
    for (size_t i = 0; !rc && i < sight->entry_count; i++) {
        const struct seen *seen = &sight->entries[i];
        if (!is_beside(crowd, &seen->entry) || !holds(crowd, &seen->entry))
            continue;
        breaking->holds += permits_of(crowd, seen) > 0;
        rc = delete_entry(breaking->must, &seen->entry);
    }
    return rc;
}

/* The list goes first: all holds are over with it. */
static int
break_permits(struct breaking *breaking, const struct crowd *crowd)
{
    int rc = delete_lock(breaking->must, &crowd->view->lock);
    return rc ? rc : delete_holders(breaking, crowd);
}

/* Each sharer holds by its own entry. If another one comes meanwhile, it needs the rest. */
static int
break_sharers(struct breaking *breaking, const struct crowd *crowd)
{
    const struct sight *sight = crowd->sight;
    const struct lock *lock = &sight->locks[0];
    struct key gate;
    dibs__consul_gate_key(&gate, sight->consul, lock->name, lock->name_len);
    int rc = delete_holders(breaking, crowd);
    if (!rc)
        rc = delete_lock(breaking->may, &crowd->view->lock);
    if (!rc && crowd->view->gate)
        rc = dibs__consul_txn_delete_cas(breaking->may, &gate, crowd->view->gate);
    return rc;
}

static int
break_view(struct breaking *breaking, const struct sight *sight, const struct view *view)
{
    struct crowd crowd;
    crowd_begin(&crowd, sight, &sight->locks[0], view);
    switch (view->kind) {
    case VIEW_HELD:
        breaking->holds = 1;
        return delete_lock(breaking->must, &view->lock);
    case VIEW_PERMITS:
        return break_permits(breaking, &crowd);
    case VIEW_SHARERS:
        return break_sharers(breaking, &crowd);
    default:
        return DIBS_OK;
    }
}

/* Some ops, from *at on. DIBS_EBUSY: something has changed meanwhile. */
static int
run_some(const struct sight *sight, struct txn *ops, size_t *at)
{
    struct answer answer = { 0 };
    struct txn *some = dibs__consul_txn_part(ops, at, OPS_AT_ONCE);
    if (!some)
        return DIBS_ENOMEM;
    int rc = dibs__consul_txn_run(sight->consul, some, 0, &answer, sight->deadline,
                                  sight->err);
    if (!rc && answer.status != 200)
        rc = DIBS_EBUSY;
    dibs__consul_answer_free(&answer);
    return rc;
}

static int
run_all(const struct sight *sight, struct txn *ops)
{
    int rc = DIBS_OK;
    for (size_t at = 0; !rc && at < dibs__consul_txn_count(ops);)
        rc = run_some(sight, ops, &at);
    return rc;
}

/* Looks, and breaks what it sees. DIBS_EBUSY: look again. */
static int
try_break(struct sight *sight, size_t *broken)
{
    const struct lock *lock = &sight->locks[0];
    struct breaking breaking = { .must = dibs__consul_txn(), .may = dibs__consul_txn() };
    struct view view = { 0 };
    int rc = breaking.must && breaking.may ? sight_read(sight) : DIBS_ENOMEM;
    if (!rc)
        rc = dibs__consul_view(&view, sight->consul, &sight->answer, lock->name,
                               lock->name_len, sight->err);
    if (!rc)
        rc = break_view(&breaking, sight, &view);
    /* those that were ended before this look are counted already */
    if (!rc && breaking.holds > *broken)
        *broken = breaking.holds;
    if (!rc && breaking.holds)
        rc = run_all(sight, breaking.must);
    if (!rc && breaking.holds)
        (void)run_all(sight, breaking.may);
    dibs__consul_view_free(&view);
    dibs__consul_txn_free(breaking.must);
    dibs__consul_txn_free(breaking.may);
    return rc;
}

/* If the answer is lost it is not repeated: somebody else may hold by now. */
int
dibs__consul_evict(void *state, const char *name, size_t name_len, uint64_t name_hash,
                   size_t *broken, dibs_time deadline, dibs_error *err)
{
    struct consul *consul = state;
    struct sight sight;
    size_t count = 0;
    (void)name_hash;
    int rc = sight_begin(&sight, consul, deadline, err);
    if (!rc)
        sight_add(&sight, name, name_len);
    int is_busy = !rc;
    for (int i = 0; is_busy && i < BREAK_TRIES; i++) {
        rc = try_break(&sight, &count);
        is_busy = rc == DIBS_EBUSY;
    }
    sight_end(&sight);
    if (!rc)
        *broken = count;
    if (is_busy)
        return consul->host->fail(err, DIBS_EUNAVAIL, "it changed %d times meanwhile",
                                  BREAK_TRIES);
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}
