/* SPDX-License-Identifier: MIT */
/* core/registry.c: which engines are taken, and what people are told of the others. */
#include "unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/registry.h"

extern const dibs_engine dibs__engine_local;

static const char *const schemes[] = { "unit", "unit2", NULL };
static dibs_error err;

/* an engine that can be added: local's functions under another scheme */
static dibs_engine
good(void)
{
    dibs_engine engine = dibs__engine_local;
    engine.name = "unit";
    engine.schemes = schemes;
    return engine;
}

static void
is_refused(const dibs_engine *engine, const char *part)
{
    memset(&err, 0, sizeof err);
    if (dibs__registry_add(engine, &err) != DIBS_ECONFIG)
        fail_msg("not refused: %s", part);
    assert_says(&err, DIBS_ECONFIG, part);
    assert_int_equal(dibs__registry_add(engine, NULL), DIBS_ECONFIG);
}

CASE(another_abi)
{
    dibs_engine engine = good();
    engine.abi = DIBS_ENGINE_ABI + 1;
    is_refused(&engine, "the engine speaks abi 4, this library 3");
    engine.abi = 0;
    is_refused(&engine, "abi 0");
}

CASE(missing_slots_by_name)
{
#define LACKS(slot)                                                                      \
    do {                                                                                 \
        dibs_engine engine = good();                                                     \
        engine.slot = NULL;                                                              \
        is_refused(&engine, "lacks '" #slot "'");                                        \
    } while (0)
    LACKS(name);
    LACKS(schemes);
    LACKS(params);
    LACKS(open);
    LACKS(close);
    LACKS(attempt);
    LACKS(renew);
    LACKS(release);
    LACKS(downgrade);
    LACKS(list);
    LACKS(inspect);
    LACKS(evict);
    LACKS(cell_read);
    LACKS(cell_swap);
#undef LACKS
}

CASE(optional_slots_are_filled)
{
    dibs_engine engine = good();
    const dibs_engine *found = NULL;
    engine.caps = DIBS_CAP_TOKEN;
    engine.watch = NULL;
    engine.downgrade = NULL;
    engine.list = NULL;
    engine.inspect = NULL;
    engine.evict = NULL;
    engine.cell_read = NULL;
    engine.cell_swap = NULL;
    assert_int_equal(dibs__registry_add(&engine, &err), DIBS_OK);
    assert_int_equal(dibs__registry_find(&found, "unit2", NULL, &err), DIBS_OK);
    assert_int_equal(found->watch(NULL, NULL, 0, NULL), DIBS_OK);
    assert_int_equal(found->downgrade(NULL, NULL, 0, &err), DIBS_EUNSUPPORTED);
    assert_int_equal(found->list(NULL, NULL, 0, NULL), DIBS_EUNSUPPORTED);
    assert_int_equal(found->inspect(NULL, "", 0, 0, NULL, 0, NULL), DIBS_EUNSUPPORTED);
    assert_int_equal(found->evict(NULL, "", 0, 0, NULL, 0, NULL), DIBS_EUNSUPPORTED);
    assert_int_equal(found->cell_read(NULL, NULL, NULL, 0, NULL), DIBS_EUNSUPPORTED);
    assert_int_equal(found->cell_swap(NULL, NULL, 0, NULL, 0, NULL, 0, NULL),
                     DIBS_EUNSUPPORTED);
}

CASE(scheme_that_is_taken)
{
    dibs_engine engine = good();
    assert_int_equal(dibs__registry_add(&engine, &err), DIBS_OK);
    is_refused(&engine, "scheme 'unit' is served already");
    const char *const second[] = { "fresh", "unit2", NULL };
    engine.schemes = second;
    is_refused(&engine, "scheme 'unit2' is served already");
}

CASE(full_list)
{
    static char names[80][16];
    static const char *lists[80][2];
    dibs_engine engine = good();
    int added = 0, rc = DIBS_OK;
    for (int i = 0; i < 80 && !rc; i++) {
        (void)snprintf(names[i], sizeof names[i], "many%d", i);
        lists[i][0] = names[i];
        engine.schemes = lists[i];
        rc = dibs__registry_add(&engine, &err);
        added += !rc;
    }
    assert_int_equal(rc, DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "more than 64 engines");
    assert_int_equal(added, 64);
}

CASE(layouts)
{
    static const char *const params[] = { "only_second", NULL };
    static dibs_engine first, second;
    static const dibs_engine *const both[] = { &first, &second, NULL };
    const dibs_engine *found = NULL;
    first = second = good();
    first.layout = "one";
    first.layouts = both;
    second.layout = "two";
    second.params = params;
    assert_int_equal(dibs__registry_add(&first, &err), DIBS_OK);
    assert_int_equal(dibs__registry_find(&found, "unit", NULL, &err), DIBS_OK);
    assert_string_equal(found->layout, "one");
    assert_int_equal(dibs__registry_find(&found, "unit2", "two", &err), DIBS_OK);
    assert_string_equal(found->layout, "two");
    assert_ptr_equal(found->layouts, both);
    assert_int_equal(dibs__registry_find(&found, "unit", "three", &err), DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "has one, two");
}

CASE(layout_that_lacks_a_slot)
{
    static dibs_engine first, second;
    static const dibs_engine *const both[] = { &first, &second, NULL };
    first = second = good();
    first.layout = "one";
    first.layouts = both;
    second.release = NULL;
    is_refused(&first, "lacks 'release'");
}

CASE(no_layouts)
{
    dibs_engine engine = good();
    const dibs_engine *found = NULL;
    assert_int_equal(dibs__registry_add(&engine, &err), DIBS_OK);
    assert_int_equal(dibs__registry_find(&found, "unit", "queue", &err), DIBS_ECONFIG);
    assert_says(&err, DIBS_ECONFIG, "no layouts");
}

static void
cannot_open(const char *url, const char *part)
{
    dibs *client = (dibs *)&err;
    memset(&err, 0, sizeof err);
    if (dibs_open(&client, url, NULL, &err) != DIBS_ECONFIG)
        fail_msg("%s is not refused", url);
    assert_says(&err, DIBS_ECONFIG, part);
    assert_ptr_equal(client, &err); /* outputs are untouched on failure */
    assert_int_equal(dibs_open(&client, url, NULL, NULL), DIBS_ECONFIG);
}

CASE(unknown_scheme)
{
    cannot_open("nosuch://h", "no engine serves the scheme 'nosuch:'");
    cannot_open("LOCAL:", "scheme");
}

CASE(module_that_is_not_installed)
{
    assert_int_equal(setenv("DIBS_ENGINE_DIR", "/nonexistent", 1), 0);
    cannot_open("redis://h", "engine redis is not installed: there is no "
                             "/nonexistent/dibs-engine-redis.so");
    cannot_open("rediss://h", "dibs-engine-redis.so");
    cannot_open("zk://h", "dibs-engine-zookeeper.so");
    cannot_open("mariadb://h", "dibs-engine-mysql.so");
    cannot_open("mock:", "engine mock is not installed");
}

/* it is there, so nobody should look for what to install */
CASE(module_that_cannot_be_read)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/dibs-engine-mysql.so", unit_folder());
    assert_int_equal(symlink(path, path), 0);
    assert_int_equal(setenv("DIBS_ENGINE_DIR", unit_folder(), 1), 0);
    cannot_open("mysql://h", "engine mysql cannot be loaded: ");
    assert_non_null(strstr(err.text, strerror(ELOOP)));
}

static void *
open_and_be_cancelled(void *arg)
{
    dibs *client = NULL;
    (void)pthread_cancel(pthread_self());
    *(int *)arg = dibs_open(&client, "mock:", NULL, NULL);
    dibs_close(client);
    pthread_testcancel();
    return NULL;
}

/* the registry is not left locked */
CASE(cancelled_while_it_loads)
{
    pthread_t thread;
    dibs *client = NULL;
    int rc = 1;
    void *result = NULL;
    assert_int_equal(pthread_create(&thread, NULL, open_and_be_cancelled, &rc), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(rc, DIBS_OK);
    assert_int_equal(dibs_open(&client, "mock:", NULL, NULL), DIBS_OK);
    dibs_close(client);
}

CASE(module_that_is_no_engine)
{
    assert_int_equal(setenv("DIBS_ENGINE_DIR", BAD_ENGINES, 1), 0);
    cannot_open("redis://h", "engine redis cannot be loaded");
    assert_non_null(strstr(err.text, DIBS_ENGINE_SYMBOL));
}

CASE(module_of_another_abi)
{
    assert_int_equal(setenv("DIBS_ENGINE_DIR", BAD_ENGINES, 1), 0);
    cannot_open("postgres://h", "abi 4");
}

CASE(module_of_another_scheme)
{
    assert_int_equal(setenv("DIBS_ENGINE_DIR", BAD_ENGINES, 1), 0);
    cannot_open("sqlite:/h", "does not serve 'sqlite:'");
    cannot_open("sqlite:/h", "sqlite"); /* the second time as well */
}

CASE(file_that_is_no_module)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%s/dibs-engine-mysql.so", unit_folder());
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs("not a module\n", file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(setenv("DIBS_ENGINE_DIR", unit_folder(), 1), 0);
    cannot_open("mysql://h", "engine mysql cannot be loaded");
}

static void
find_both(void *arg, int index)
{
    const dibs_engine *found = NULL;
    (void)arg;
    CHECK_SAME(dibs__registry_find(&found, index % 2 ? "mock" : "local", NULL, NULL),
               DIBS_OK);
    CHECK(found && strcmp(found->name, index % 2 ? "mock" : "local") == 0);
}
CASE(found_by_many_threads)
{
    gang_join(gang_start(16, find_both, NULL));
}
