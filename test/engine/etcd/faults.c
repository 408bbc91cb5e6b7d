/* SPDX-License-Identifier: MIT */
/* What the tests of faults know of etcd. See faults.h and members.h. */
#include "faults.h"

static int
is_line(void)
{
    return strcmp(layout, "single") != 0;
}

static void
end_life(const server *of)
{
    char key[256];
    etcd_revoke(of, etcd_find_key(key, sizeof(key), of, ROOT NAME, 0));
}

static void
delete_key(const server *of)
{
    char key[256];
    (void)etcd_find_key(key, sizeof(key), of, ROOT NAME, 0);
    etcd_delete(of, key);
}

const members_engine engine = {
    .scheme = "etcd",
    .has_layouts = 1,
    .start_one = etcd_start,
    .start_three = etcd_start_cluster,
    .leader = etcd_leader,
    .cut_off = etcd_cut_off,
    .count_keys = etcd_count_keys,
    .count_lives = etcd_count_leases,
    .most_lives = 3,
    .show = etcd_show,
    .root = ROOT,
    .is_line = is_line,
    .end_life = end_life,
    .delete_key = delete_key,
};

const fault_stage stage = {
    .title = "etcd",
    .is_present = etcd_present,
    .nowhere = "etcd://127.0.0.1:1",
    .layout = "concurrency",
    .limit_s = 60,
    .clean_up = members_clean_up,
};
