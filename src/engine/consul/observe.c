/* SPDX-License-Identifier: MIT */
/* Observing: who holds a lock now, and waiting until that is somebody else. */
#include "claim.h"

int
dibs__consul_observe_round(struct turn *turn)
{
    struct view view;
    struct answer answer;
    dibs_claim *claim = turn->claim;
    int rc = dibs__consul_view_get(&view, turn->consul, &answer, claim->name,
                                   claim->name_len, turn->deadline, turn->err);
    if (rc)
        return rc;
    uint64_t token = dibs__consul_view_token(&view);
    if (token == claim->token)
        rc = dibs__consul_busy(turn, answer.index);
    claim->token = token;
    dibs__consul_view_free(&view);
    dibs__consul_answer_free(&answer);
    return rc;
}
