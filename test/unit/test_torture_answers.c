/* SPDX-License-Identifier: MIT */
/*
 * torture/check*.c on histories made by hand: K7 to K13, on what is answered and when. As
 * test_torture_check.c, which has the rules before them.
 */
#include "torture_hand.h"

#include <stdio.h>

/* ---- K7: first come, first served ---- */

CASE(k7_in_order)
{
    begin();
    had(0, 0, 1, 500, 1);
    had(1, 10, 501.5, 600, 2);
    had(2, 200, 601.5, 700, 3);
    is_clean(7);
    /* too close to tell */
    had(0, 0, 1, 500, 1);
    had(1, 10, 601.5, 700, 3);
    had(2, 100, 501.5, 600, 2);
    is_excused(7);
    /* woken in another order than served */
    had(0, 0, 1, 500, 1);
    shared(had(1, 10, 502, 600, 2));
    shared(had(2, 200, 501.5, 610, 3));
    is_excused(7);
}

CASE(k7_passed)
{
    begin();
    had(0, 0, 1, 500, 1);
    had(1, 10, 601.5, 700, 3);
    had(2, 200, 501.5, 600, 2);
    breaks(7);
    had(0, 0, 1, 500, 1);
    shared(had(1, 10, 601.5, 700, 3));
    had(2, 200, 501.5, 600, 2);
    breaks(7);
    /* who gave up was passed too */
    had(0, 0, 1, 500, 1);
    refused(1, 10, 810, DIBS_ETIMEDOUT);
    had(2, 200, 501.5, 900, 2);
    breaks(7);
}

CASE(k7_excuses)
{
    begin();
    caps &= ~(uint32_t)DIBS_CAP_FAIR;
    had(0, 0, 1, 500, 1);
    had(1, 10, 601.5, 700, 3);
    had(2, 200, 501.5, 600, 2);
    is_excused(7);
    happened(INCIDENT_PAUSE, 1, 100, 200);
    had(0, 0, 1, 500, 1);
    had(1, 10, 601.5, 700, 3);
    had(2, 200, 501.5, 600, 2);
    is_excused(7);
    happened(INCIDENT_SERVER, 0, 100, 101);
    had(0, 0, 1, 500, 1);
    had(1, 10, 601.5, 700, 3);
    had(2, 200, 501.5, 600, 2);
    is_excused(7);
    /* the store was slow: it may have come to it later */
    had(0, 0, 1, 500, 1);
    had(1, 10, 601.5, 700, 3);
    had(2, 200, 501.5, 600, 2);
    refused(3, 20, 120, DIBS_EBUSY);
    is_excused(7);
    /* handed on inside a process */
    had(0, 0, 1, 500, 1);
    had(1, 10, 601.5, 700, 3);
    had(0, 200, 501.5, 600, 2)->thread = 1;
    is_excused(7);
    /* behind a thread of its own process */
    had(1, 5, 201, 500, 2)->thread = 1;
    had(0, 0, 1, 200, 1);
    had(1, 10, 601.5, 700, 4);
    had(2, 200, 501.5, 600, 3);
    is_excused(7);
    /* who does not wait is not in line */
    had(0, 0, 1, 500, 1);
    refused(1, 10, 11, DIBS_EBUSY);
    had(2, 200, 501.5, 600, 2);
    is_excused(7);
}

CASE(k7_threads_at_an_engine_like_memory)
{
    begin();
    caps |= DIBS_CAP_DIRECT;
    had(0, 0, 1, 500, 1);
    had(1, 10, 601.5, 700, 3);
    had(0, 200, 501.5, 600, 2)->thread = 1;
    breaks(7);
}

/* ---- K8: in time ---- */

CASE(k8_served)
{
    begin();
    had(0, 0, 1, 50, 1);
    had(1, 10, 60, 90, 2);
    had(0, 20, 91.5, 95, 3);
    judge();
    assert_int_equal(verdict.handover_p50_ns, 10000000);
    assert_int_equal(verdict.handover_max_ns, 10000000);
    is_clean(8);
}

CASE(k8_kept_waiting)
{
    begin();
    had(0, 0, 1, 50, 1);
    had(1, 10, 400, 490, 2);
    breaks(8);
    /* and in the end not served at all */
    had(0, 0, 1, 50, 1);
    refused(1, 10, 610, DIBS_ETIMEDOUT);
    judge();
    assert_true(verdict.violated[8] > 0);
    end();
    /* longer than it takes to run out */
    granted(0, 0, 1, 50, 1);
    happened(INCIDENT_KILL, 0, 51, 52);
    had(1, 10, 1400, 1490, 2);
    breaks(8);
    /* no lease */
    caps &= ~(uint32_t)DIBS_CAP_LEASE;
    granted(0, 0, 1, 50, 1);
    happened(INCIDENT_KILL, 0, 51, 52);
    had(1, 10, 400, 490, 2);
    breaks(8);
}

CASE(k8_permits)
{
    begin();
    /* one of three is out, and nobody wants more than two */
    permits(had(0, 0, 1, 900, 1), 1, 3);
    permits(had(1, 5, 6, 50, 2), 2, 3);
    permits(had(2, 10, 400, 490, 3), 2, 3);
    breaks(8);
    permits(had(0, 0, 1, 900, 1), 1, 3);
    permits(had(1, 5, 6, 50, 2), 2, 3);
    permits(had(2, 10, 60, 490, 3), 2, 3);
    is_clean(8);
    /* two of three are out */
    permits(had(0, 0, 1, 900, 1), 2, 3);
    permits(had(1, 5, 6, 50, 2), 1, 3);
    permits(had(2, 10, 902, 990, 3), 2, 3);
    is_clean(8);
}

CASE(k8_excuses)
{
    begin();
    /* killed, let go, unknown: it runs out */
    granted(0, 0, 1, 50, 1);
    happened(INCIDENT_KILL, 0, 51, 52);
    had(1, 10, 1100, 1490, 2);
    is_clean(8);
    let_go(granted(0, 0, 1, 49, 1), 50, DIBS_OK)->abandoned = 1;
    had(1, 10, 1100, 1490, 2);
    is_clean(8);
    let_go(granted(0, 0, 1, 49, 1), 50, DIBS_EUNKNOWN);
    had(1, 10, 1100, 1490, 2);
    is_clean(8);
    /* the next in line was killed; or paused, or the machine was, or servers */
    had(0, 0, 1, 50, 1);
    asked(2, 5);
    happened(INCIDENT_KILL, 2, 40, 41);
    had(1, 10, 1900, 1990, 2);
    is_excused(8);
    had(0, 0, 1, 50, 1);
    had(2, 5, 1305, 1310, 2);
    happened(INCIDENT_PAUSE, 2, 40, 1300);
    had(1, 10, 1311.5, 1320, 3);
    is_excused(8);
    had(0, 0, 1, 50, 1);
    happened(INCIDENT_LATE, 0, 55, 600);
    had(1, 10, 700, 790, 2);
    is_clean(8);
    had(0, 0, 1, 50, 1);
    fault.heal_ms = 500;
    happened(INCIDENT_SERVER, 0, 55, 300);
    had(1, 10, 900, 990, 2);
    is_clean(8);
    /* a session that outlives the lease */
    granted(0, 0, 1, 50, 1);
    fault.heal_ms = 5000;
    happened(INCIDENT_KILL, 0, 51, 52);
    had(1, 10, 5900, 5990, 2);
    is_excused(8);
    /* nobody waits */
    had(0, 0, 1, 50, 1);
    had(1, 5000, 5001, 5100, 2);
    is_clean(8);
}

CASE(k8_paused_inside_of_the_file)
{
    begin();
    plan.url = "sqlite:/nowhere";
    had(0, 0, 1, 50, 1);
    had(1, 10, 700, 790, 2);
    happened(INCIDENT_PAUSE, 3, 45, 690);
    is_excused(8);
    /* not so if others get on meanwhile */
    had(0, 0, 1, 50, 1);
    had(1, 10, 700, 790, 2);
    happened(INCIDENT_PAUSE, 3, 20, 690);
    breaks(8);
}

/* ---- K10: every call comes back ---- */

CASE(k10_in_time)
{
    begin();
    had(0, 0, 1, 500, 1);
    refused(1, 10, 210, DIBS_ETIMEDOUT);
    refused(2, 10, 12, DIBS_EBUSY);
    is_clean(10);
}

CASE(k10_too_late)
{
    begin();
    had(0, 0, 1, 500, 1);
    refused(1, 10, 210, DIBS_ETIMEDOUT)->wait_ms = 140;
    breaks(10);
    had(0, 0, 1, 500, 1);
    refused(1, 10, 310, DIBS_EBUSY);
    breaks(10);
    had(0, 0, 1, 500, 1)->released = AT(1600);
    breaks(10);
    had(0, 0, 1, 500, 1);
    asked(1, 10);
    judge();
    assert_true(verdict.violated[10] > 0);
    end();
    granted(0, 0, 1, 500, 1)->releasing = AT(501);
    breaks(10);
}

static void
starved(uint32_t client, double from, double until)
{
    happened(INCIDENT_PAUSE, client, from, until);
    struct incident *incident = &history->incidents[history->incident_count - 1];
    (void)snprintf(incident->what, sizeof incident->what, "starved");
}

/* what comes after the limit may take twice as long where no processor is free, not more */
CASE(k10_busy)
{
    begin();
    had(0, 0, 1, 500, 1);
    refused(1, 10, 245, DIBS_ETIMEDOUT)->wait_ms = 140;
    history->busy = 100;
    is_clean(10);
    had(0, 0, 1, 500, 1);
    refused(1, 10, 245, DIBS_ETIMEDOUT)->wait_ms = 140;
    history->busy = 50;
    breaks(10);
    had(0, 0, 1, 500, 1);
    refused(1, 10, 260, DIBS_ETIMEDOUT)->wait_ms = 140;
    history->busy = 100;
    breaks(10);
}

CASE(k10_excuses)
{
    begin();
    had(0, 0, 1, 500, 1);
    refused(1, 10, 410, DIBS_ETIMEDOUT)->wait_ms = 140;
    happened(INCIDENT_PAUSE, 1, 100, 350);
    is_clean(10);
    had(0, 0, 1, 500, 1);
    refused(1, 10, 410, DIBS_ETIMEDOUT)->wait_ms = 140;
    happened(INCIDENT_LATE, 0, 100, 350);
    is_clean(10);
    had(0, 0, 1, 500, 1);
    refused(1, 10, 310, DIBS_ETIMEDOUT)->wait_ms = 140;
    happened(INCIDENT_SERVER, 0, 100, 350);
    is_clean(10);
    had(0, 0, 1, 500, 1);
    refused(1, 10, 310, DIBS_ETIMEDOUT)->wait_ms = 140;
    plan.slow = 4;
    is_clean(10);
    plan.slow = 1;
    /* another process starved: the machine was busy; but not if that one was paused */
    had(0, 0, 1, 500, 1);
    refused(1, 10, 410, DIBS_ETIMEDOUT)->wait_ms = 140;
    starved(2, 100, 200);
    is_clean(10);
    had(0, 0, 1, 500, 1);
    refused(1, 10, 410, DIBS_ETIMEDOUT)->wait_ms = 140;
    starved(2, 100, 200);
    happened(INCIDENT_PAUSE, 2, 99, 201);
    breaks(10);
    struct turn *turn = had(0, 0, 1, 500, 1);
    turn->release_code = DIBS_EUNKNOWN;
    turn->released = AT(1505);
    is_clean(10);
    had(0, 0, 1, 500, 1);
    asked(1, 10);
    happened(INCIDENT_KILL, 1, 100, 101);
    is_clean(10);
}

/* ---- K11: what was refused is not held ---- */

CASE(k11_free_again)
{
    begin();
    had(0, 0, 1, 50, 1);
    refused(1, 10, 60, DIBS_ETIMEDOUT);
    had(2, 2000, 2001, 2010, 2);
    is_clean(11);
}

CASE(k11_held_in_secret)
{
    begin();
    had(0, 0, 1, 50, 1);
    refused(1, 10, 60, DIBS_ETIMEDOUT);
    refused(2, 200, 260, DIBS_ETIMEDOUT);
    breaks(11);
}

CASE(k11_excuses)
{
    begin();
    /* too soon to tell; or one that was killed may have it; or is not known to have it */
    had(0, 0, 1, 50, 1);
    refused(1, 10, 60, DIBS_ETIMEDOUT);
    refused(2, 100, 160, DIBS_ETIMEDOUT);
    is_excused(11);
    had(0, 0, 1, 50, 1);
    refused(1, 10, 60, DIBS_ETIMEDOUT);
    happened(INCIDENT_PAUSE, 1, 61, 300);
    refused(2, 1200, 1260, DIBS_ETIMEDOUT);
    is_excused(11);
    had(0, 0, 1, 50, 1);
    refused(1, 10, 60, DIBS_ETIMEDOUT);
    asked(3, 1450);
    happened(INCIDENT_KILL, 3, 1500, 1501);
    refused(2, 2000, 2060, DIBS_ETIMEDOUT);
    is_excused(11);
    had(0, 0, 1, 50, 1);
    refused(1, 10, 60, DIBS_ETIMEDOUT);
    refused(3, 1500, 1600, DIBS_EUNKNOWN);
    refused(2, 2000, 2060, DIBS_ETIMEDOUT);
    is_excused(11);
    /* it did not wait for the answer */
    had(0, 0, 1, 50, 1);
    refused(1, 10, 60, DIBS_ETIMEDOUT);
    refused(2, 2000, 2001, DIBS_ETIMEDOUT);
    is_excused(11);
    /* one that is being granted */
    had(0, 0, 1, 50, 1);
    refused(1, 10, 60, DIBS_ETIMEDOUT);
    had(3, 1999, 2065, 2070, 2);
    refused(2, 2000, 2060, DIBS_ETIMEDOUT);
    is_excused(11);
}

/* ---- K12: no secrets ---- */

static void
says(const char *text)
{
    plan.secret = "s3cret/pass word";
    history_say(history, 3, text);
}

CASE(k12_texts)
{
    begin();
    says("cannot reach redis://user:***@host: connection refused");
    is_clean(12);
    says("cannot reach redis://user:s3cret/pass word@host");
    breaks(12);
    says("redis://user:s3cret%2Fpass%20word@host");
    breaks(12);
    says("redis://user:%733cret%2fpass%20word@host");
    breaks(12);
    /* base64 of x:, xy: and xyz: and the secret */
    says("Basic eDpzM2NyZXQvcGFzcyB3b3Jk");
    breaks(12);
    says("Basic eHk6czNjcmV0L3Bhc3Mgd29yZA==");
    breaks(12);
    says("Basic eHl6OnMzY3JldC9wYXNzIHdvcmQ=");
    breaks(12);
    says("two\nlines");
    breaks(12);
    says("\033[31mred");
    breaks(12);
    plan.secret = NULL;
    history_say(history, 3, "s3cret/pass word, \303\244 100%");
    is_clean(12);
}

/* ---- K13: some order makes sense ---- */

CASE(k13_makes_sense)
{
    begin();
    had(0, 0, 1, 50, 1);
    refused(2, 20, 22, DIBS_EBUSY);
    had(1, 10, 52, 90, 2);
    is_clean(13);
    /* answered while one gives back and the next is served */
    had(0, 0, 1, 50, 1);
    refused(2, 50.5, 51.8, DIBS_EBUSY);
    had(1, 51.5, 52, 90, 2);
    is_clean(13);
    /* who was killed may have it for a lease */
    granted(0, 0, 1, 50, 1);
    happened(INCIDENT_KILL, 0, 51, 52);
    refused(2, 1000, 1001, DIBS_EBUSY);
    had(1, 1060, 1061, 1090, 2);
    is_clean(13);
    /* and so may who was killed before it was answered */
    had(0, 0, 1, 50, 1);
    asked(3, 51);
    happened(INCIDENT_KILL, 3, 60, 61);
    refused(2, 1000, 1001, DIBS_EBUSY);
    is_excused(13);
}

CASE(k13_makes_no_sense)
{
    begin();
    /* busy, though nobody has it */
    had(0, 0, 1, 50, 1);
    refused(2, 70, 72, DIBS_EBUSY);
    had(1, 80, 81, 90, 2);
    breaks(13);
    /* granted before the one before it gave back, though nobody was seen to believe it */
    struct turn *turn = had(0, 0, 1, 50, 1);
    had(1, 10, 40, 48, 2)->first_held = 0;
    turn->last_held = AT(30);
    breaks(13);
    /* after whoever was killed has lost it */
    granted(0, 0, 1, 50, 1);
    happened(INCIDENT_KILL, 0, 51, 52);
    refused(2, 1060, 1061, DIBS_EBUSY);
    had(1, 1070, 1071, 1090, 2);
    breaks(13);
}

CASE(k13_excuses)
{
    begin();
    /* another who is refused had it for a moment */
    had(0, 0, 1, 50, 1);
    refused(2, 70, 72, DIBS_EBUSY);
    refused(3, 60, 71, DIBS_ETIMEDOUT);
    had(1, 80, 81, 90, 2);
    is_excused(13);
    /* a thread of the same process asks */
    had(0, 0, 1, 50, 1);
    refused(2, 70, 72, DIBS_EBUSY);
    had(2, 71, 100, 110, 3)->thread = 1;
    had(1, 75, 76, 90, 2);
    is_excused(13);
    happened(INCIDENT_SERVER, 0, 60, 71);
    had(0, 0, 1, 50, 1);
    refused(2, 70, 72, DIBS_EBUSY);
    is_excused(13);
}

/* many windows, and in the last one a lie */
CASE(k13_many_windows)
{
    begin();
    for (int lie = 0; lie < 2; lie++) {
        double at = 0;
        for (uint64_t i = 1; i <= 2000; i++, at += 10) {
            had((uint32_t)(i % 5), at - 30, at + 1, at + 9, i);
            refused(7, at + 3, at + 4, DIBS_EBUSY);
        }
        if (lie)
            refused(7, at + 60, at + 61, DIBS_EBUSY);
        had(1, at + 100, at + 101, at + 110, 2001);
        if (lie)
            breaks(13);
        else
            is_clean(13);
    }
}
