/* SPDX-License-Identifier: MIT */
/* dibs torture: that it runs, says what it found and cleans up; test/torture has the rules. */
#include "cli.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* enough for a few kills; leases have no meaning on local: */
#define SHORT "--time", "2s", "--ttl", "200ms"

CASE(table)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "torture", SHORT, "--seed", "7"), 0);
    CHECK_HAS(run.err, "names begin with dibs-torture/");
    CHECK_HAS(run.out, "engine local: ");
    CHECK_HAS(run.out, " frozen)\n");
    CHECK_HAS(run.out, "RULE");
    CHECK_HAS(run.out, "\nK1 ");
    CHECK_HAS(run.out, "again: dibs torture --seed 7 --time 2s --clients 4 --threads 6 "
                       "--names 9 --ttl 200ms local:");
    CHECK_HAS(run.out, "\nall promises were kept\n");
    CHECK_SAME(DIBS(&run, "ls"), 0);
    CHECK_TEXT(run.out, "");
}

CASE(json)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "torture", SHORT, "--json", "--clients", "3", "--threads", "1",
                    "--names", "2"),
               0);
    check_json(run.out);
    CHECK_TEXT(run.err, "");
    CHECK_HAS(run.out, "\"engine\":\"local\"");
    CHECK_HAS(run.out, "\"clients\":3,\"threads\":1,\"names\":2,\"lease_ms\":200,");
    CHECK_HAS(run.out, "\"clean\":true");
    CHECK(number_after(run.out, "\"acquired\":") > 0);
    CHECK(number_after(run.out, "\"frozen\":") <= number_after(run.out, "\"paused\":"));
    CHECK(number_after(run.out, "\"rule\":\"K1\",\"text\":") == 0);
}

CASE(terminal)
{
    struct proc run;
    const char *const argv[] = { getenv("DIBS"), "torture", SHORT, NULL };
    start_on_terminal(&run, argv);
    await_out(&run, "[##");
    CHECK_SAME(finish(&run), 0);
    CHECK_HAS(run.out, "all promises were kept");
}

CASE(errors)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "torture", "nonesuch:"), 78);
    CHECK_HAS(run.err, "nonesuch");
    CHECK_SAME(DIBS(&run, "torture", "mock:"), 78);
    CHECK_HAS(run.err, "one process");
    CHECK_SAME(DIBS(&run, "torture", "a", "b"), 64);
    CHECK_SAME(DIBS(&run, "torture", "--clients", "0"), 64);
    CHECK_SAME(DIBS(&run, "torture", "--names", "65"), 64);
    CHECK_SAME(DIBS(&run, "torture", "--seed", "x"), 64);
    CHECK_SAME(DIBS(&run, "torture", "--time", "0"), 64);
}

/* a folder that nobody can make: the same as a server that is down */
CASE(unreachable)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "torture", "--json", "local:/proc/nonesuch"), 69);
    check_json(run.err);
    CHECK_HAS(run.err, "\"event\":\"error\"");
    CHECK_TEXT(run.out, "");
}

/* what was done till then is checked, but it is no success */
CASE(interrupted)
{
    struct proc run;
    START(&run, "torture", "--time", "1h", "--ttl", "200ms");
    await_err(&run, "dibs-torture/");
    sleep_ms(slowly(500));
    CHECK_SAME(kill(run.pid, SIGINT), 0);
    CHECK_SAME(finish(&run), 128 + SIGINT);
    CHECK_HAS(run.out, "all promises were kept, until it was ended early");
    CHECK_SAME(DIBS(&run, "ls"), 0);
    CHECK_TEXT(run.out, "");
}

/* nobody of the run survives its end, not even if that was SIGKILL */
CASE(killed)
{
    struct proc run, list;
    START(&run, "torture", "--time", "1h", "--clients", "2");
    await_err(&run, "dibs-torture/");
    do {
        sleep_ms(20);
        CHECK_SAME(DIBS(&list, "ls"), 0);
    } while (!strstr(list.out, "dibs-torture/"));
    CHECK_SAME(kill(run.pid, SIGKILL), 0);
    CHECK_SAME(finish(&run), 128 + SIGKILL);
    for (int64_t until = now_ms() + slowly(5000); list.out[0] != '\0';) {
        if (now_ms() > until)
            FAIL("somebody is left: %s", list.out);
        sleep_ms(20);
        CHECK_SAME(DIBS(&list, "ls"), 0);
    }
}

MAIN(ENTRY(table), ENTRY(json), ENTRY(terminal), ENTRY(errors), ENTRY(unreachable),
     ENTRY(interrupted), ENTRY(killed))
