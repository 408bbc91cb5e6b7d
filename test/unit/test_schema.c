/* SPDX-License-Identifier: MIT */
/* core/schema.c: the tables of an engine, by its URL. */
#include "unit.h"

#include <stdlib.h>

#include "core/registry.h"

extern const dibs_engine dibs__engine_local;

static const char *const schemes[] = { "unit", NULL };
static const char *const params[] = { "size", NULL };
static const char *const tables_one[] = { "CREATE TABLE one", "CREATE TABLE two", NULL };
static const char *const tables_two[] = { "CREATE TABLE three", NULL };
static dibs_error err;

/* an engine of two layouts, each with its tables, that must not be opened */
static int
refuse_open(void *state, dibs_session *session, const dibs_url_parts *url,
            dibs_time deadline, dibs_error *error)
{
    (void)state, (void)session, (void)url, (void)deadline, (void)error;
    fail_msg("it was opened");
    return DIBS_EUNAVAIL;
}

static void
add_engine(void)
{
    static dibs_engine first, second;
    static const dibs_engine *const both[] = { &first, &second, NULL };
    first = dibs__engine_local;
    first.name = "unit";
    first.schemes = schemes;
    first.params = params;
    first.open = refuse_open;
    first.layouts = both;
    second = first;
    first.layout = "one";
    second.layout = "two";
    first.schema = tables_one;
    second.schema = tables_two;
    assert_int_equal(dibs__registry_add(&first, &err), DIBS_OK);
}

CASE(of_a_layout)
{
    const char *const *got = NULL;
    add_engine();
    assert_int_equal(dibs_schema(&got, "unit://host/base?size=3", &err), DIBS_OK);
    assert_ptr_equal(got, tables_one);
    assert_int_equal(dibs_schema(&got, "unit:?layout=two", &err), DIBS_OK);
    assert_ptr_equal(got, tables_two);
}

CASE(of_the_environment)
{
    const char *const *got = NULL;
    add_engine();
    assert_int_equal(setenv("DIBS_URL", "unit:?layout=two", 1), 0);
    assert_int_equal(dibs_schema(&got, NULL, &err), DIBS_OK);
    assert_ptr_equal(got, tables_two);
}

static void
refuses(const char *url, int code, const char *part)
{
    const char *const *got = tables_one;
    memset(&err, 0, sizeof err);
    assert_int_equal(dibs_schema(&got, url, &err), code);
    assert_says(&err, code, part);
    assert_ptr_equal(got, tables_one);
    assert_int_equal(dibs_schema(&got, url, NULL), code);
}

CASE(refusals)
{
    add_engine();
    refuses("local:", DIBS_EUNSUPPORTED, "engine local has no tables");
    refuses("mock:", DIBS_EUNSUPPORTED, "engine mock has no tables");
    refuses("unit:?layout=three", DIBS_ECONFIG, "layout=three");
    refuses("unit:?colour=red", DIBS_ECONFIG, "unknown parameter 'colour'");
    refuses("nonesuch:", DIBS_ECONFIG, "nonesuch");
    refuses("no url", DIBS_ECONFIG, "scheme");
    assert_int_equal(dibs_schema(NULL, "unit:", &err), DIBS_EINVAL);
}
