/* SPDX-License-Identifier: MIT */
/* What an error number of the server, or of libmariadb, means for a statement. */
#include "my.h"

#include <errmsg.h>

/* A number that is not here is an error of the server, which did nothing then. */
static const struct {
    unsigned number;
    int code;
} meanings[] = {
    { 1213, SQL_AGAIN },     /* deadlock */
    { 1020, SQL_AGAIN },     /* the record has changed since it was read */
    { 1615, SQL_AGAIN },     /* the statement has to be prepared again */
    { 1205, SQL_BUSY },      /* a lock wait time-out */
    { 1062, SQL_DUPLICATE }, /* a key was there */
    { 1146, SQL_NO_TABLE },  /* no such table */
    { 1054, SQL_NO_TABLE },  /* no such column */
    { 4091, SQL_NO_TABLE },  /* no such sequence */
    { 1044, DIBS_EDENIED },  /* the user may not use the database */
    { 1045, DIBS_EDENIED },  /* wrong password */
    { 1698, DIBS_EDENIED },  /* no password helps */
    { 1130, DIBS_EDENIED },  /* not from this host */
    { 1142, DIBS_EDENIED },  /* a right is missing: table, column, SUPER, routine */
    { 1143, DIBS_EDENIED },  /* column */
    { 1227, DIBS_EDENIED },  /* SUPER and the like */
    { 1820, DIBS_EDENIED },  /* the password has expired */
    { 1862, DIBS_EDENIED },  /* the same, at log-in */
    { 4151, DIBS_EDENIED },  /* the account is locked */
    { 3118, DIBS_EDENIED },  /* the same, on MySQL */
    { 1049, DIBS_ECONFIG },  /* no such database */
    { 1034, DIBS_ECORRUPT }, /* the table is damaged */
    { 1366, DIBS_ECORRUPT }, /* what is stored there is of another kind */
    { 1265, DIBS_ECORRUPT }, /* the same */
    { 1406, DIBS_ECORRUPT }, /* it does not fit: the table is not ours */
    { 1927, DIBS_EUNKNOWN }, /* the connection was killed, in the middle of it */
    { CR_SERVER_LOST, DIBS_EUNKNOWN },
    { CR_MALFORMED_PACKET, DIBS_EUNKNOWN },
    { CR_SERVER_LOST_EXTENDED, DIBS_EUNKNOWN },
    { CR_COMMANDS_OUT_OF_SYNC, DIBS_EUNKNOWN },
    { CR_OUT_OF_MEMORY, DIBS_ENOMEM },
    { CR_SSL_CONNECTION_ERROR, DIBS_EDENIED }, /* not trusted, or there is no TLS */
};

static int
meaning_of(unsigned number)
{
    for (size_t i = 0; i < sizeof meanings / sizeof meanings[0]; i++) {
        if (meanings[i].number == number)
            return meanings[i].code;
    }
    return DIBS_EUNAVAIL;
}

int
dibs__my_trouble(const struct my_link *link, unsigned number, const char *text, int sent,
                 dibs_error *err)
{
    int code = meaning_of(number);
    if (code == DIBS_EUNKNOWN && !sent)
        code = DIBS_EUNAVAIL;
    return link->login->host->fail(err, code, "%s (%u)", text, number);
}

/* The library's own errors; and the server's when it ends the connection or the log-in is
 * to be done elsewhere: shutting down, killed, too idle, read-only from now on, a statement
 * that it does not know any more. */
int
dibs__my_is_fatal(unsigned number)
{
    return (number >= CR_MIN_ERROR && number <= CR_MAX_ERROR) || number == 1053 ||
           number == 1927 || number == 4031 || number == 1290 || number == 1836 ||
           number == 1243;
}

int
dibs__my_too_late(struct my_link *link, dibs_error *err)
{
    link->is_broken = 1;
    return link->login->host->fail(err, DIBS_EUNKNOWN,
                                   "the server did not answer in time");
}
