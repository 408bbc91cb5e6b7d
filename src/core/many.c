/* SPDX-License-Identifier: MIT */
/*
 * Several locks at once: all or nothing. Everybody takes them in one order (by the clients'
 * URLs, then by name), so no two callers can wait for each other in a circle, also not
 * across engines.
 */
#include "core/core.h"

#include <stdlib.h>
#include <string.h>

#define MANY_MAX 1024
/* how long taking back what was got may hold up a caller whose time is up */
#define UNDO_LIMIT (25 * DIBS_MS)

struct item {
    const dibs_wanted *wanted;
    size_t index;
};

static int
compare_names(const dibs_request *a, const dibs_request *b)
{
    size_t a_len = a->name_len ? a->name_len : strlen(a->name);
    size_t b_len = b->name_len ? b->name_len : strlen(b->name);
    int order = memcmp(a->name, b->name, a_len < b_len ? a_len : b_len);
    return order ? order : (a_len > b_len) - (a_len < b_len);
}

static int
compare_items(const void *left, const void *right)
{
    const struct item *a = left, *b = right;
    int order = strcmp(dibs_url(a->wanted->client), dibs_url(b->wanted->client));
    if (!order)
        order = compare_names(&a->wanted->request, &b->wanted->request);
    /* of one name the exclusive request goes first: sharing inside it is re-entry */
    if (!order)
        order = a->wanted->request.mode - b->wanted->request.mode;
    return order ? order : (a->index > b->index) - (a->index < b->index);
}

static int
check_all(const dibs_wanted *wanted, size_t count, dibs_error *err)
{
    for (size_t i = 0; i < count; i++) {
        size_t len;
        int rc = dibs__client_check(wanted[i].client, err);
        if (!rc)
            rc = dibs__name_check(&len, wanted[i].request.name,
                                  wanted[i].request.name_len, "name", err);
        if (rc)
            return rc;
    }
    return DIBS_OK;
}

/* what is left of the whole time, as a request says it; a millisecond when nothing is, for
 * zero would be "for ever" */
static int64_t
wait_left(int64_t wait_ms, dibs_time deadline)
{
    if (wait_ms == DIBS_WAIT_FOREVER || wait_ms == DIBS_WAIT_NONE)
        return wait_ms;
    dibs_time left = (deadline - dibs__now() + DIBS_MS - 1) / DIBS_MS;
    return left > 0 ? left : 1;
}

static int
take_in_order(dibs_hold **holds, const struct item *items, size_t count, int64_t wait_ms,
              dibs_error *err)
{
    dibs_time deadline = dibs__deadline_of(wait_ms);
    for (size_t i = 0; i < count; i++) {
        dibs_request request = items[i].wanted->request;
        request.wait_ms = wait_left(wait_ms, deadline);
        int rc =
            dibs_acquire(&holds[items[i].index], items[i].wanted->client, &request, err);
        if (!rc)
            continue;
        dibs_time undone_by = dibs__now() + UNDO_LIMIT;
        while (i-- > 0) {
            dibs__hold_undo(holds[items[i].index], undone_by);
            dibs_hold_free(holds[items[i].index]);
        }
        return rc;
    }
    return DIBS_OK;
}

int
dibs_acquire_all(dibs_hold **holds, const dibs_wanted *wanted, size_t count,
                 int64_t wait_ms, dibs_error *err)
{
    UNCANCELLED;
    if (!holds || !wanted || count == 0 || count > MANY_MAX)
        return dibs__fail(err, DIBS_EINVAL, "between 1 and %d locks can be taken at once",
                          MANY_MAX);
    if (wait_ms < DIBS_WAIT_NONE)
        return dibs__fail(err, DIBS_EINVAL, "wait_ms is negative");
    int rc = check_all(wanted, count, err);
    if (rc)
        return rc;
    struct item *items = dibs__alloc(count * sizeof *items);
    dibs_hold **got = dibs__alloc(count * sizeof(dibs_hold *));
    if (!items || !got) {
        rc = dibs__fail_memory(err);
        goto out;
    }
    for (size_t i = 0; i < count; i++)
        items[i] = (struct item){ &wanted[i], i };
    qsort(items, count, sizeof *items, compare_items);
    rc = take_in_order(got, items, count, wait_ms, err);
    if (!rc)
        memcpy(holds, got, count * sizeof(dibs_hold *));
out:
    dibs__free(items);
    dibs__free(got);
    return rc;
}
