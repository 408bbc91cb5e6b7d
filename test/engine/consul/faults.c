/* SPDX-License-Identifier: MIT */
/* What the tests of faults know of Consul. See faults.h and members.h. */
#include "faults.h"

/* who waits leaves no trace */
static int
is_line(void)
{
    return 0;
}

void
end_session(const server *of)
{
    char session[64];
    consul_session_of(session, sizeof(session), of, KEY);
    CHECK(session[0] != '\0');
    consul_end_session(of, session);
}

static void
delete_key(const server *of)
{
    consul_delete(of, KEY);
}

const members_engine engine = {
    .scheme = "consul",
    .patient = "autopilot { cleanup_dead_servers = false }",
    .start_one = consul_start,
    .start_three = consul_start_cluster,
    .leader = consul_leader,
    .cut_off = consul_cut_off,
    .count_keys = consul_count_keys,
    .count_lives = consul_count_sessions,
    .most_lives = 3,
    .show = consul_show,
    .root = ROOT,
    .is_line = is_line,
    .end_life = end_session,
    .delete_key = delete_key,
};

const fault_stage stage = {
    .title = "consul",
    .is_present = consul_present,
    .nowhere = "consul://127.0.0.1:1",
    .layout = "lock",
    .limit_s = 60,
    .clean_up = members_clean_up,
};
