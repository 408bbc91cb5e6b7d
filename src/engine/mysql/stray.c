/* SPDX-License-Identifier: MIT */
/*
 * Connections that were given up in the middle of a statement. It may still be on its way, and
 * be done when its claim is long gone. So they are ended at the server before this client
 * asks anything else.
 */
#include "my.h"

#include <stdio.h>
#include <string.h>

/* What the server calls the link: without it, it cannot be ended later. */
int
dibs__my_stray_prepare(struct my_link *link, dibs_time deadline, dibs_error *err)
{
    MYSQL_RES *found = NULL;
    int rc = dibs__my_link_ask(link,
                               "SELECT HOST FROM information_schema.PROCESSLIST"
                               " WHERE ID = CONNECTION_ID()",
                               &found, deadline, err);
    if (rc)
        return rc;
    MYSQL_ROW row = mysql_fetch_row(found);
    (void)snprintf(link->seen_as, sizeof link->seen_as, "%s",
                   row && row[0] ? row[0] : "");
    mysql_free_result(found);
    return DIBS_OK;
}

void
dibs__my_stray_add(struct mysql *mysql, const struct my_link *link)
{
    struct my_strays *strays = &mysql->strays;
    pthread_mutex_lock(&strays->mutex);
    unsigned count = atomic_load(&strays->count);
    if (count == STRAYS_MOST) /* the oldest has had its time */
        memmove(strays->list, strays->list + 1, sizeof *strays->list * --count);
    strays->list[count].id = link->id;
    memcpy(strays->list[count].seen_as, link->seen_as, sizeof link->seen_as);
    atomic_store(&strays->count, count + 1);
    pthread_mutex_unlock(&strays->mutex);
}

/* Numbers come again when a server was started anew, or on another one; but not together
 * with the address. */
static int
is_there(struct my_link *link, const struct my_stray *stray, int *found,
         dibs_time deadline, dibs_error *err)
{
    char text[160];
    MYSQL_RES *rows = NULL;
    (void)snprintf(text, sizeof text,
                   "SELECT HOST FROM information_schema.PROCESSLIST WHERE ID = %lu",
                   stray->id);
    int rc = dibs__my_link_ask(link, text, &rows, deadline, err);
    if (rc)
        return rc;
    MYSQL_ROW row = mysql_fetch_row(rows);
    *found = row && row[0] && strcmp(row[0], stray->seen_as) == 0;
    mysql_free_result(rows);
    return DIBS_OK;
}

static int
end_stray(struct my_link *link, const struct my_stray *stray, dibs_time deadline,
          dibs_error *err)
{
    char text[48];
    int found = 0;
    int rc = is_there(link, stray, &found, deadline, err);
    if (rc || !found)
        return rc;
    (void)snprintf(text, sizeof text, "KILL CONNECTION %lu", stray->id);
    rc = dibs__my_link_exec(link, text, deadline, err);
    /* it has ended by itself, or there is nothing to be done about it */
    return link->is_broken ? rc : DIBS_OK;
}

/* The mutex is not held while the server is asked: whoever has less time would wait for it
 * beyond that. Several may end the same one. */
static unsigned
copy_all(struct my_strays *strays, struct my_stray out[STRAYS_MOST])
{
    pthread_mutex_lock(&strays->mutex);
    unsigned count = atomic_load(&strays->count);
    memcpy(out, strays->list, sizeof strays->list);
    pthread_mutex_unlock(&strays->mutex);
    return count;
}

static void
forget(struct my_strays *strays, const struct my_stray *stray)
{
    pthread_mutex_lock(&strays->mutex);
    unsigned count = atomic_load(&strays->count), at = 0;
    while (at < count && (strays->list[at].id != stray->id ||
                          strcmp(strays->list[at].seen_as, stray->seen_as) != 0))
        at++;
    if (at < count) {
        memmove(&strays->list[at], &strays->list[at + 1],
                sizeof *strays->list * (count - at - 1));
        atomic_store(&strays->count, count - 1);
    }
    pthread_mutex_unlock(&strays->mutex);
}

int
dibs__my_strays_end(struct mysql *mysql, struct my_link *link, dibs_time deadline,
                    dibs_error *err)
{
    struct my_stray list[STRAYS_MOST];
    unsigned count = copy_all(&mysql->strays, list);
    int rc = DIBS_OK;
    while (!rc && count-- > 0) {
        rc = end_stray(link, &list[count], deadline, err);
        if (!rc)
            forget(&mysql->strays, &list[count]);
    }
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}
