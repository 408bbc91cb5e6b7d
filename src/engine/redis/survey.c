/* SPDX-License-Identifier: MIT */
/* Asking around: whose turn it is, and what was said. survey.h explains. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "survey.h"
#include "util/wait.h"

/* At most ten surveys a second: enough to follow a failover, too few to hurt a Sentinel
 * that thousands of clients ask. */
#define PAUSE (100 * DIBS_MS)

/* One server that does not answer must not use up the time in which another would. */
#define SHARE_LEAST (500 * DIBS_MS)

void
dibs__redis_survey_init(struct survey *survey, const dibs_host *host)
{
    survey->host = host;
    survey->doubts = 1; /* nothing is known yet */
    pthread_mutex_init(&survey->mutex, NULL);
    cond_init(&survey->ended);
}

void
dibs__redis_survey_done(struct survey *survey, int forked)
{
    if (forked)
        return; /* in a child nobody is left who would leave the condition */
    pthread_cond_destroy(&survey->ended);
    pthread_mutex_destroy(&survey->mutex);
}

void
dibs__redis_survey_doubt(struct survey *survey, resp_server *suspect)
{
    atomic_store(&survey->suspect, suspect);
    atomic_fetch_add(&survey->doubts, 1);
}

/* ---- whose turn ---- */

static enum survey_turn
turn_locked(struct survey *survey, int wait, dibs_time deadline)
{
    while (survey->under_way && wait) {
        if (wait_for(&survey->ended, &survey->mutex, deadline - survey->host->now()) != 0)
            return SURVEY_TOO_SOON;
    }
    if (!survey_is_due(survey))
        return SURVEY_OURS;
    if (survey->under_way || survey->host->now() < survey->not_before)
        return SURVEY_TOO_SOON;
    return SURVEY_YOURS;
}

enum survey_turn
dibs__redis_survey_begin(struct survey *survey, int wait, dibs_time deadline,
                         uint64_t *doubts)
{
    pthread_mutex_lock(&survey->mutex);
    enum survey_turn turn = turn_locked(survey, wait, deadline);
    if (turn == SURVEY_YOURS) {
        survey->under_way = 1;
        survey->said[0] = '\0';
        *doubts = atomic_load(&survey->doubts);
    }
    pthread_mutex_unlock(&survey->mutex);
    return turn;
}

void
dibs__redis_survey_end(struct survey *survey, uint64_t doubts, int answered)
{
    pthread_mutex_lock(&survey->mutex);
    if (answered)
        atomic_store(&survey->settled, doubts);
    survey->under_way = 0;
    survey->not_before = survey->host->now() + PAUSE;
    pthread_cond_broadcast(&survey->ended);
    pthread_mutex_unlock(&survey->mutex);
}

/* ---- what was said ---- */

void
dibs__redis_survey_note(struct survey *survey, const resp_server *server,
                        const char *format, ...)
{
    const resp_address *address = dibs__resp_server_address(server);
    char line[SURVEY_TEXT];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    pthread_mutex_lock(&survey->mutex);
    size_t len = strlen(survey->said);
    (void)snprintf(survey->said + len, sizeof survey->said - len, "%s%s:%u: %s",
                   len ? "; " : "", address->host, (unsigned)address->port, line);
    pthread_mutex_unlock(&survey->mutex);
}

int
dibs__redis_survey_fail(struct survey *survey, const char *what, dibs_error *err)
{
    pthread_mutex_lock(&survey->mutex);
    int rc = survey->host->fail(err, DIBS_EUNAVAIL, "%s (%s)", what,
                                *survey->said ? survey->said : "nobody was asked");
    pthread_mutex_unlock(&survey->mutex);
    return rc;
}

redisReply *
dibs__redis_survey_ask(struct survey *survey, resp_server *server,
                       const char *const *words, size_t others, dibs_time deadline)
{
    dibs_time now = survey->host->now();
    dibs_time share = (deadline - now) / (dibs_time)(others + 1);
    dibs_time until = now + (share > SHARE_LEAST ? share : SHARE_LEAST);
    resp_command command = { 0 };
    resp_request request = { 0 };
    redisReply *reply = NULL;
    dibs_error err = { 0 };
    for (size_t i = 0; words[i]; i++)
        dibs__resp_word(&command, words[i]);
    int rc = dibs__resp_add(&request, &command);
    if (!rc)
        rc = dibs__resp_call(server, 0, &request, until < deadline ? until : deadline,
                             &reply, &err);
    dibs__resp_request_free(&request);
    if (rc) {
        dibs__redis_survey_note(survey, server, "%s", err.text);
        return NULL;
    }
    return reply;
}
