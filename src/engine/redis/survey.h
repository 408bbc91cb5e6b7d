/* SPDX-License-Identifier: MIT */
/*
 * Asking around who has what: Sentinels for the master, nodes of a cluster for the slots.
 * One thread does it for all, and not too often. sentinel.c and cluster.c know what to
 * ask; this knows whose turn it is, and whether it is necessary.
 */
#ifndef DIBS_REDIS_SURVEY_H
#define DIBS_REDIS_SURVEY_H

#include "redis.h"

#define SURVEY_TEXT 320

struct survey {
    const dibs_host *host;
    pthread_mutex_t mutex; /* guards the next three */
    pthread_cond_t ended;
    int under_way;
    dibs_time not_before; /* the next one */
    /* What is known is in doubt while these differ. A doubt that comes up during a survey
     * is not settled by it. */
    _Atomic uint64_t doubts, settled;
    _Atomic(resp_server *) suspect; /* whom the last doubt was about; asked last */
    /* What those who were asked said; only the one who asks writes it, the others read it
     * under the mutex. */
    char said[SURVEY_TEXT];
};

void dibs__redis_survey_init(struct survey *survey, const dibs_host *host);
void dibs__redis_survey_done(struct survey *survey, int forked);

void dibs__redis_survey_doubt(struct survey *survey, resp_server *suspect);
static inline int
survey_is_due(struct survey *survey)
{
    return atomic_load(&survey->doubts) != atomic_load(&survey->settled);
}

/* begin says who asks. YOURS: the caller does, and then calls end with *doubts and whether
 * that answered it. OURS: another thread has just done so. TOO_SOON: nobody does; what is
 * known must do. With `wait` it waits until the deadline for a survey that is under way,
 * else that is TOO_SOON as well. */
enum survey_turn { SURVEY_YOURS, SURVEY_OURS, SURVEY_TOO_SOON };
enum survey_turn dibs__redis_survey_begin(struct survey *survey, int wait,
                                          dibs_time deadline, uint64_t *doubts);
void dibs__redis_survey_end(struct survey *survey, uint64_t doubts, int answered);

/* note adds what one of them said; the rest is the server's address and a text. fail
 * reports them all. */
void dibs__redis_survey_note(struct survey *survey, const resp_server *server,
                             const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int dibs__redis_survey_fail(struct survey *survey, const char *what, dibs_error *err);

/* ask sends words (NULL ends them) to one server and returns its answer, within a share of
 * the time that is left for `others` more. NULL: there is none, and that was noted. */
redisReply *dibs__redis_survey_ask(struct survey *survey, resp_server *server,
                                   const char *const *words, size_t others,
                                   dibs_time deadline);

/* ---- what they answer ---- */

/* sentinel_named: the address that a Sentinel tells; 0, or -1: it tells none. cluster_map:
 * who owns which slot by an answer to CLUSTER SLOTS; returns how many ranges it has, -1 if
 * it is no such answer. */
int dibs__redis_sentinel_named(resp_address *out, const redisReply *reply);
int dibs__redis_cluster_map(struct redis *redis, const resp_server *teller,
                            const redisReply *reply, resp_server *owners[SLOTS]);

#endif /* DIBS_REDIS_SURVEY_H */
