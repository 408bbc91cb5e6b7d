/* SPDX-License-Identifier: MIT */
/* dibs ls, show and engines. */
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

CASE(ls)
{
    struct proc a, b, list;
    CHECK_SAME(DIBS(&list, "ls"), 0);
    CHECK_TEXT(list.out, "");
    hold(&b, "deploy/b");
    hold(&a, "deploy/a");
    CHECK_SAME(DIBS(&list, "ls"), 0);
    CHECK_HAS(list.out, "NAME");
    const char *first = strstr(list.out, "deploy/a"),
               *second = strstr(list.out, "deploy/b");
    CHECK(first && second && first < second);
    CHECK_SAME(DIBS(&list, "ls", "*/a"), 0);
    CHECK_HAS(list.out, "deploy/a");
    CHECK(strstr(list.out, "deploy/b") == NULL);
    CHECK_SAME(DIBS(&list, "ls", "--json"), 0);
    check_json(list.out);
    CHECK_HAS(list.out, "\"name\":\"deploy/a\"");
    CHECK_HAS(list.out, "\"name\":\"deploy/b\"");
    CHECK_SAME(DIBS(&list, "ls", "nonesuch*"), 0);
    CHECK_TEXT(list.out, "");
    CHECK_SAME(DIBS(&list, "ls", "a", "b"), 64);
    let_go(&a);
    let_go(&b);
}

CASE(ls_of_every_mode)
{
    struct proc one, two, three, list;
    START(&one, "hold", "-s", "r");
    await_out(&one, "\n");
    START(&two, "hold", "-s", "r");
    await_out(&two, "\n");
    START(&three, "hold", "-j", "5", "p");
    await_out(&three, "\n");
    CHECK_SAME(DIBS(&list, "ls"), 0);
    CHECK_HAS(list.out, "shared");
    CHECK_HAS(list.out, "5 slots");
    CHECK_SAME(DIBS(&list, "ls", "--json", "p"), 0);
    CHECK_HAS(list.out, "\"mode\":\"permits\",\"limit\":5,");
    CHECK_SAME(finish(&one), 0);
    CHECK_SAME(finish(&two), 0);
    CHECK_SAME(finish(&three), 0);
}

/* the queue is shown in the order in which it was joined */
CASE(show_queue)
{
    struct proc holder, waiters[3], show;
    char pids[3][32];
    hold(&holder, "x");
    for (int i = 0; i < 3; i++) {
        char note[16];
        snprintf(note, sizeof note, "waiter-%d", i);
        START(&waiters[i], "run", i == 1 ? "-s" : "-x", "--note", note, "x", "true");
        await_waiters("x", i + 1);
        snprintf(pids[i], sizeof pids[i], "\"pid\":%d,", (int)waiters[i].pid);
    }
    CHECK_SAME(DIBS(&show, "show", "x"), 0);
    CHECK_HAS(show.out, "'x': 1 holding, 3 waiting\n");
    CHECK_HAS(show.out, "PLACE");
    const char *at = strstr(show.out, "\nholds ");
    CHECK(at != NULL);
    for (int i = 0; i < 3; i++) {
        char place[16], note[16];
        snprintf(place, sizeof place, "\n%d ", i + 1);
        snprintf(note, sizeof note, "waiter-%d\n", i);
        at = strstr(at, place);
        CHECK(at != NULL && (at = strstr(at, note)) != NULL);
        at--;
        at += strlen(note);
    }
    CHECK_SAME(DIBS(&show, "show", "--json", "x"), 0);
    check_json(show.out);
    at = strstr(show.out, "\"waiters\":[");
    for (int i = 0; i < 3; i++) {
        CHECK(at != NULL);
        at = strstr(at, pids[i]);
    }
    CHECK(at != NULL);
    let_go(&holder);
    for (int i = 0; i < 3; i++)
        CHECK_SAME(finish(&waiters[i]), 0);
}

CASE(show_free)
{
    struct proc show;
    CHECK_SAME(DIBS(&show, "show", "x"), 0);
    CHECK_TEXT(show.out, "'x' is free: nobody holds it, nobody waits\n");
    CHECK_SAME(DIBS(&show, "show", "--json", "x"), 0);
    check_json(show.out);
    CHECK_HAS(show.out, "\"holders\":[],\"waiters\":[]}");
    CHECK_SAME(DIBS(&show, "show"), 64);
}

CASE(show_escapes)
{
    struct proc holder, show;
    hold(&holder, "a\x1b[2Jb");
    CHECK_SAME(DIBS(&show, "show", "a\x1b[2Jb"), 0);
    CHECK(strchr(show.out, 0x1b) == NULL);
    CHECK_SAME(DIBS(&show, "ls"), 0);
    CHECK(strchr(show.out, 0x1b) == NULL);
    let_go(&holder);
    hold(&holder, "\xff");
    CHECK_SAME(DIBS(&show, "show", "--json", "\xff"), 0);
    check_json(show.out);
    CHECK_HAS(show.out, "\"name\":\"\\ufffd\",\"name_hex\":\"ff\"");
    let_go(&holder);
}

CASE(engines)
{
    struct proc list;
    CHECK_SAME(DIBS(&list, "engines"), 0);
    CHECK_HAS(list.out, "\nlocal      built in ");
    CHECK_HAS(list.out, "\nmock       installed ");
    CHECK_HAS(list.out, getenv("DIBS_ENGINE_DIR"));
    CHECK_SAME(DIBS(&list, "engines", "--json"), 0);
    check_json(list.out);
    CHECK_HAS(list.out, "{\"engine\":\"mock\",\"status\":\"installed\"");
    CHECK_SAME(DIBS(&list, "engines", "x"), 64);
    CHECK(setenv("DIBS_ENGINE_DIR", "/nonexistent", 1) == 0);
    CHECK_SAME(DIBS(&list, "engines"), 0);
    CHECK_HAS(list.out, "\nmysql      not installed ");
}

CASE(engine_that_cannot_look)
{
    struct proc list;
    CHECK_SAME(DIBS(&list, "ls", "--url", "mock:?caps=-inspect"), 78);
    CHECK_SAME(DIBS(&list, "show", "--url", "mock:?caps=-inspect", "x"), 78);
    CHECK_SAME(DIBS(&list, "try", "--url", "mock:?caps=-inspect", "x"), 78);
    CHECK_HAS(list.err, "dibs: ");
}

MAIN(ENTRY(ls), ENTRY(ls_of_every_mode), ENTRY(show_queue), ENTRY(show_free),
     ENTRY(show_escapes), ENTRY(engines), ENTRY(engine_that_cannot_look))
