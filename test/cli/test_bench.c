/* SPDX-License-Identifier: MIT */
/* dibs bench: that it measures and leaves nothing behind; bench/ has the bars. */
#include "cli.h"

#include <string.h>

CASE(json)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "bench", "--json"), 0);
    check_json(run.out);
    CHECK_HAS(run.out, "\"engine\":\"local\"");
    CHECK(number_after(run.out, "\"pair\":{\"ns\":") > 0);
    CHECK_SAME(DIBS(&run, "ls"), 0);
    CHECK_TEXT(run.out, "");
}

CASE(table)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "bench", "mock:"), 0);
    CHECK_HAS(run.out, "engine mock");
    CHECK_HAS(run.out, "ROUND TRIPS");
}

CASE(errors)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "bench", "nonesuch:"), 78);
    CHECK_SAME(DIBS(&run, "bench", "a", "b"), 64);
}

MAIN(ENTRY(json), ENTRY(table), ENTRY(errors))
