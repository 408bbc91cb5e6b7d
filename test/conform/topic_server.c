/* SPDX-License-Identifier: MIT */
/* What happens to the engine's server happens to every hold: it may be slow, or the
 * session with it may be cut. Where there is no server, nothing happens, and nothing
 * may. */
#include "conform.h"

#define NAME "server"

CASE(server, paused_briefly)
{
    dibs_request request = brief_lease(NAME);
    peer *holder = peer_new();
    OK(peer_acquire(holder, 0, &request).code);
    if (stage.fixture->pause != NULL) {
        stage.fixture->pause();
    }
    sleep_ms(stage.lease_ms / 3);
    if (stage.fixture->resume != NULL) {
        stage.fixture->resume();
    }
    sleep_ms(2 * stage.lease_ms);
    answer state = peer_state(holder, 0);
    CHECK(state.held == 1 && state.told == 0);
    OK(peer_release(holder, 0));
    peer_quit(holder);
}

CASE(server, session_cut)
{
    dibs_request request = brief_lease(NAME);
    peer *holder = peer_new();
    OK(peer_acquire(holder, 0, &request).code);
    if (stage.fixture->cut != NULL) {
        stage.fixture->cut();
    }
    sleep_ms(2 * stage.lease_ms);
    /* either it is still held, for everybody, or the holder knows that it is not */
    answer state = peer_state(holder, 0);
    CHECK_SAME(state.told, !state.held);
    CHECK(state.held == 1 || stage.fixture->cut != NULL);
    CHECK(!state.held || !is_free(stage.client, NAME));
    GIVES(state.held ? DIBS_OK : DIBS_ELOST, peer_release(holder, 0));
    peer_quit(holder);
}
