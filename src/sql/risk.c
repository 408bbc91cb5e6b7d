/* SPDX-License-Identifier: MIT */
/*
 * What the settings of a server mean for locks, for dibs_notice. A layout whose locks end with
 * connections loses them in a restart anyway, and says so in its documentation: what its
 * tables have is tokens and cells.
 */
#include "sql/sql.h"

#include <stdio.h>
#include <string.h>

void
dibs__sql_warn(dibs_session *session, const struct sql_risk *risk, int is_bound)
{
    if (risk)
        (void)snprintf(session->notice, sizeof session->notice,
                       "the server may forget %s when %s, and then %s: %s",
                       is_bound ? "tokens and cells" : "locks", risk->when,
                       is_bound ? "give a token twice" : "two may have one", risk->why);
    else
        session->notice[0] = '\0';
}

void
dibs__sql_note(dibs_session *session, const char *text)
{
    size_t len = strlen(session->notice);
    (void)snprintf(session->notice + len, sizeof session->notice - len, "%s%s",
                   len ? "; " : "", text);
}
