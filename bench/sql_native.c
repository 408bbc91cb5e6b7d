/* SPDX-License-Identifier: MIT */
/* The locks that a server itself has, as a layout: see sql.h. */
#include "sql.h"

void
hand_native_lock(void *hand)
{
    hand_call(hand, HAND_NATIVE_TAKE);
}

void
hand_native_unlock(void *hand)
{
    hand_call(hand, HAND_NATIVE_GIVE);
}

const crowd_lock sql_native_lock = { raw_open, hand_native_lock, hand_native_unlock,
                                     hand_close, NULL };

static const char *native_layout, *native_label;

static void
measure_native(const server *s, int place)
{
    log_title title = logs_title("native", s, place);
    sql_pairs them = { native_layout,
                       native_label,
                       { hand_native_lock, hand_native_unlock, raw_open(s) },
                       { hand_native_lock, hand_native_unlock, its_open(s) },
                       1.05 };

    sql_compare(s, &title, &them);
    hand_close(them.its.state);
    hand_close(them.floor.state);
}

void
sql_native(const char *layout, const char *label)
{
    native_layout = layout;
    native_label = label;
    report_section("the server's own locks",
                   "a pair of the layout for them, over the same by hand");
    for_each_log(measure_native);
}
