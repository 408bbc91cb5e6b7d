/* SPDX-License-Identifier: MIT */
/* dibs cell and fence. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

CASE(set_and_get)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "cell", "get", "c"), 66);
    CHECK_TEXT(run.out, "");
    CHECK_SAME(DIBS(&run, "cell", "set", "c", "17"), 0);
    long version = number_after(run.out, "");
    CHECK(version > 0);
    CHECK_SAME(DIBS(&run, "cell", "get", "-v", "c"), 0);
    CHECK_TEXT(run.out, "17\n");
    CHECK_SAME(number_after(run.err, "version "), version);
    CHECK_SAME(DIBS(&run, "cell", "set", "-q", "c", ""), 0);
    CHECK_TEXT(run.out, "");
    CHECK_SAME(DIBS(&run, "cell", "get", "c"), 0);
    CHECK_TEXT(run.out, "\n");
}

CASE(json)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "cell", "set", "--json", "c", "a \"b\""), 0);
    check_json(run.out);
    CHECK_SAME(DIBS(&run, "cell", "get", "--json", "c"), 0);
    check_json(run.out);
    CHECK_HAS(run.out, "\"value\":\"a \\\"b\\\"\"}");
    CHECK_SAME(DIBS(&run, "cell", "set", "c", "\xfe"), 0);
    CHECK_SAME(DIBS(&run, "cell", "get", "--json", "c"), 0);
    check_json(run.out);
    CHECK_HAS(run.out, "\"value_hex\":\"fe\"");
}

CASE(if_version)
{
    struct proc run;
    char version[32];
    CHECK_SAME(DIBS(&run, "cell", "set", "--if-version", "0", "c", "a"), 0);
    snprintf(version, sizeof version, "%ld", number_after(run.out, ""));
    CHECK_SAME(DIBS(&run, "cell", "set", "--if-version", "0", "c", "b"), 75);
    CHECK_SAME(DIBS(&run, "cell", "set", "--if-version", version, "c", "b"), 0);
    CHECK_SAME(DIBS(&run, "cell", "set", "--if-version", version, "c", "d"), 75);
    CHECK_HAS(run.err, "dibs: ");
    CHECK_SAME(DIBS(&run, "cell", "get", "c"), 0);
    CHECK_TEXT(run.out, "b\n");
}

CASE(value_from_stdin)
{
    struct proc run;
    START(&run, "cell", "set", "c", "-");
    put(&run, "two\nlines");
    CHECK_SAME(finish(&run), 0);
    CHECK_SAME(DIBS(&run, "cell", "get", "c"), 0);
    CHECK_TEXT(run.out, "two\nlines\n");
}

CASE(value_too_long)
{
    static char value[4098];
    struct proc run;
    memset(value, 'v', sizeof value - 1);
    CHECK_SAME(DIBS(&run, "cell", "set", "c", value), 64);
    START(&run, "cell", "set", "c", "-");
    put(&run, value);
    CHECK_SAME(finish(&run), 64);
    value[4096] = 0;
    CHECK_SAME(DIBS(&run, "cell", "set", "c", value), 0);
    START(&run, "cell", "set", "c", "-");
    put(&run, value);
    CHECK_SAME(finish(&run), 0);
}

CASE(usage_errors)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "cell"), 64);
    CHECK_SAME(DIBS(&run, "cell", "take", "c"), 64);
    CHECK_SAME(DIBS(&run, "cell", "get"), 64);
    CHECK_SAME(DIBS(&run, "cell", "set", "c"), 64);
    CHECK_SAME(DIBS(&run, "cell", "set", "--if-version", "x", "c", "v"), 64);
    CHECK_SAME(DIBS(&run, "cell", "get", "--url", "mock:?caps=-cell", "c"), 78);
}

CASE(fence_refuses_older_tokens)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "fence", "ledger", "7"), 0);
    CHECK_TEXT(run.out, "");
    CHECK_SAME(DIBS(&run, "fence", "ledger", "7"), 0);
    CHECK_SAME(DIBS(&run, "fence", "ledger", "6"), 79);
    CHECK_HAS(run.err, "dibs: ");
    CHECK_SAME(DIBS(&run, "fence", "other", "6"), 0);
    CHECK_SAME(DIBS(&run, "fence", "--json", "ledger", "6"), 79);
    check_json(run.out);
    CHECK_HAS(run.out, "{\"admitted\":false,\"token\":6}");
    CHECK_SAME(DIBS(&run, "fence", "--json", "ledger", "18446744073709551615"), 0);
    check_json(run.out);
    CHECK_SAME(DIBS(&run, "fence", "ledger", "8"), 79);
    CHECK_SAME(DIBS(&run, "fence", "ledger", "x"), 64);
    CHECK_SAME(DIBS(&run, "fence", "ledger", "0"), 64);
    CHECK_SAME(DIBS(&run, "fence", "ledger"), 64);
}

CASE(fence_with_tokens_of_run)
{
    struct proc run;
    CHECK_SAME(DIBS(&run, "run", "x", "sh", "-c",
                    "\"$DIBS\" fence ledger $DIBS_TOKEN && echo $DIBS_TOKEN"),
               0);
    char old[64];
    snprintf(old, sizeof old, "%ld", number_after(run.out, ""));
    CHECK_SAME(DIBS(&run, "run", "x", "sh", "-c", "\"$DIBS\" fence ledger $DIBS_TOKEN"),
               0);
    CHECK_SAME(DIBS(&run, "fence", "ledger", old), 79);
}

MAIN(ENTRY(set_and_get), ENTRY(json), ENTRY(if_version), ENTRY(value_from_stdin),
     ENTRY(value_too_long), ENTRY(usage_errors), ENTRY(fence_refuses_older_tokens),
     ENTRY(fence_with_tokens_of_run))
