/* SPDX-License-Identifier: MIT */
/*
 * What an error means: whether the statement was surely not done, and who has to do
 * something about it. An ERROR is rolled back by the server. A session that is ended in good
 * order, by an administrator or a timeout, rolls back what was under way too: of what it has
 * committed, it tells before it looks whether it is to end. After any other FATAL error
 * nobody knows.
 */
#include "postgres.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* The first that is a prefix of the SQLSTATE counts. */
static const struct {
    const char *state;
    int code;
    enum {
        STAYS, /* the connection is as good as before */
        POOR,  /* another connection may do better */
        ENDS   /* the session ended in good order, and rolled back what it had begun */
    } session;
} meanings[] = {
    { "40001", SQL_AGAIN, STAYS },     { "40P01", SQL_AGAIN, STAYS },
    { "23505", SQL_DUPLICATE, STAYS }, { "42P07", SQL_DUPLICATE, STAYS },
    { "42710", SQL_DUPLICATE, STAYS }, { "42P01", SQL_NO_TABLE, STAYS },
    { "42704", SQL_NO_TABLE, STAYS },  { "42703", SQL_NO_TABLE, STAYS },
    { "55P03", SQL_BUSY, STAYS },      { "28", DIBS_EDENIED, STAYS },
    { "42501", DIBS_EDENIED, STAYS },  { "3F000", DIBS_EDENIED, STAYS },
    { "3D000", DIBS_ECONFIG, STAYS },  { "25006", DIBS_EUNAVAIL, POOR },
    { "25P03", DIBS_EUNAVAIL, ENDS },  { "57P01", DIBS_EUNAVAIL, ENDS },
    { "57P03", DIBS_EUNAVAIL, ENDS },  { "57P04", DIBS_EUNAVAIL, ENDS },
    { "57P05", DIBS_EUNAVAIL, ENDS },  { "0A000", DIBS_EUNAVAIL, POOR },
    { "26000", DIBS_EUNAVAIL, POOR },  { "08", DIBS_EUNKNOWN, POOR },
    { "22", DIBS_EINVAL, STAYS },      { "42", DIBS_ECORRUPT, STAYS },
    { "XX001", DIBS_ECORRUPT, STAYS }, { "XX002", DIBS_ECORRUPT, STAYS },
    { "", DIBS_EUNAVAIL, STAYS },
};

static size_t
find_meaning(const char *state)
{
    size_t i = 0;
    while (strncmp(meanings[i].state, state, strlen(meanings[i].state)) != 0)
        i++;
    return i;
}

void
dibs__pg_line(char out[LINE_MAX_LEN], const char *message)
{
    while (isspace((unsigned char)*message))
        message++;
    (void)snprintf(out, LINE_MAX_LEN, "%.*s", (int)strcspn(message, "\n"), message);
}

/* the connection broke, or libpq could not understand what came */
static int
lost(const dibs_host *host, struct conn *conn, dibs_error *err)
{
    char line[LINE_MAX_LEN];
    conn->dead = 1;
    dibs__pg_line(line, PQerrorMessage(conn->pg));
    return host->fail(err, DIBS_EUNKNOWN, "%s", *line ? line : "the connection was lost");
}

int
dibs__pg_verdict(const dibs_host *host, struct conn *conn, const PGresult *result,
                 dibs_error *err)
{
    const char *state = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;
    const char *text =
        result ? PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY) : NULL;
    const char *severity =
        result ? PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED) : NULL;
    if (!state || !text)
        return lost(host, conn, err);
    size_t i = find_meaning(state);
    int code = meanings[i].code, is_fatal = severity && strcmp(severity, "ERROR") != 0;
    if (is_fatal && meanings[i].session != ENDS)
        code = DIBS_EUNKNOWN;
    if (is_fatal || meanings[i].session != STAYS)
        conn->dead = 1;
    return host->fail(err, code, "%s (SQLSTATE %s)", text, state);
}

/* ---- connecting ---- */

#define TOO_MANY "53300"

/* libpq tells the SQLSTATE of a refusal in its verbose texts only: "FATAL:  28P01: ..." */
static int
read_state(char out[6], const char *message)
{
    for (const char *at = message; (at = strstr(at, ":  ")) != NULL; at++) {
        size_t len = strspn(at + 3, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
        if (len == 5 && at[8] == ':') {
            (void)snprintf(out, 6, "%.5s", at + 3);
            return 1;
        }
    }
    return 0;
}

int
dibs__pg_refusal(const dibs_host *host, PGconn *pg, dibs_error *err)
{
    char line[LINE_MAX_LEN], state[6] = "";
    int code = DIBS_EUNAVAIL;
    const char *message = PQerrorMessage(pg);
    if (read_state(state, message))
        code = meanings[find_meaning(state)].code;
    else if (PQconnectionNeedsPassword(pg))
        code = DIBS_EDENIED;
    if (code != DIBS_EDENIED && code != DIBS_ECONFIG)
        code = DIBS_EUNAVAIL;
    dibs__pg_line(line, message);
    return host->fail(err, code, "%s%s", *line ? line : "cannot connect",
                      strcmp(state, TOO_MANY) == 0 ? " (max_connections)" : "");
}
