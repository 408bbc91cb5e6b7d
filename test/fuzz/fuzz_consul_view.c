/* SPDX-License-Identifier: MIT */
/* Answers of Consul (engine/consul/entry.c, view.c, txn.c): who has a lock, by any JSON. */
#include <stdlib.h>
#include <string.h>

#include "core/session.h"
#include "engine/consul/consul.h"
#include "fuzz.h"

static const struct consul consul = { .host = &dibs__host, .prefix = "dibs/" };

static void
check_entries(struct answer *answer)
{
    struct entry entry;
    size_t count = dibs__consul_entries(answer);
    char name[DIBS_NAME_MAX];
    size_t name_len;
    for (size_t i = 0; i < count; i++) {
        if (dibs__consul_entry(answer, i, &entry) != 0)
            continue;
        HOLDS(entry.key && entry.session && entry.value);
        HOLDS(entry.value[entry.value_len] == '\0');
        (void)dibs__consul_entry_token(&entry);
        (void)dibs__consul_name_of(&consul, entry.key, name, &name_len);
    }
    HOLDS(dibs__consul_entry(answer, count, &entry) != 0);
}

/* only who is alive counts, and each of them has an entry */
static void
check_view(struct answer *answer)
{
    struct view view;
    dibs_error err = { 0 };
    int rc = dibs__consul_view(&view, &consul, answer, "n", 1, &err);
    HOLDS(rc == DIBS_OK || rc == DIBS_ECORRUPT);
    if (rc)
        return;
    HOLDS(view.kind >= VIEW_FREE && view.kind <= VIEW_OTHER);
    HOLDS((view.kind == VIEW_SHARERS || view.kind == VIEW_PERMITS) ==
          (view.holders != NULL));
    size_t count = dibs__consul_view_count(&view);
    HOLDS(count <= dibs__consul_entries(answer));
    HOLDS(view.kind != VIEW_HELD || *view.lock.session);
    (void)dibs__consul_view_token(&view);
    dibs__consul_view_free(&view);
}

static void
check_refusal(const struct answer *answer)
{
    const char *said = NULL;
    int op = dibs__consul_txn_refused(answer, &said);
    if (said)
        HOLDS(dibs__consul_txn_said(answer, op) == said);
    HOLDS(dibs__consul_txn_lacks(answer, "") >= dibs__consul_txn_lacks(answer, "abc"));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size);
    struct answer answer = { .json = dibs__http_json(text, size), .host = &dibs__host };
    check_entries(&answer);
    check_view(&answer);
    check_refusal(&answer);
    dibs__consul_answer_free(&answer);
    free(text);
    return 0;
}
