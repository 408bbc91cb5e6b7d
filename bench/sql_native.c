/* SPDX-License-Identifier: MIT */
/* The locks that a server itself has, as a layout: see sql.h. */
#include "sql.h"

static const char *native_layout, *native_label;

static void
measure_native(const server *s, int place)
{
    log_title title = logs_title("native", s, place);
    sql_pairs them = { native_layout,
                       native_label,
                       { raw_native_lock, raw_native_unlock, raw_open(s) },
                       { its_native_lock, its_native_unlock, its_open(s) },
                       1.05 };

    sql_compare(s, &title, &them);
    its_close(them.its.state);
    raw_close(them.floor.state);
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
