/* SPDX-License-Identifier: MIT */
/* A server whose quota of space is used up: it says so by an alarm, and takes nothing new until
 * somebody has made room and ends that. See faults.h. */
#include "faults.h"

static void
set_alarm(const char *action)
{
    free(etcd_do(&one, "/v3/maintenance/alarm",
                 "{\"action\":\"%s\",\"memberID\":\"0\",\"alarm\":\"NOSPACE\"}", action));
}

/* what is held is kept and can be given back; nothing is granted, and who waits gets it in the
 * end */
static void
test_no_space(void)
{
    start_one(NULL);
    dibs *client = open_at(one.port), *other = open_at(one.port);
    dibs_hold *hold = take(client, NAME, LONG_MS), *none = NULL;
    give(take(other, "another", LONG_MS)); /* so that it has all else that it needs */
    set_alarm("ACTIVATE");
    GIVES(DIBS_EUNAVAIL, try_take(other, "another"));
    CHECK_SAYS("space");
    GIVES(DIBS_EUNAVAIL, dibs_timedlock(&none, other, "another", slowly(300), &oops));
    sleep_ms(2 * (int64_t)LONG_MS);
    CHECK(dibs_held(hold));
    dibs_op *wait = begin_wait(other, "another", LONG_MS);
    sleep_ms(slowly(100));
    set_alarm("DEACTIVATE");
    give(end_wait(wait, slowly(5000)));
    set_alarm("ACTIVATE");
    give(hold);
    set_alarm("DEACTIVATE");
    OK(try_take(other, NAME));
    dibs_close(client);
    dibs_close(other);
    check_nothing_left(&one);
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "no_space", test_no_space },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
