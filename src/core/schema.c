/* SPDX-License-Identifier: MIT */
/* Which tables an engine makes. Only its table is asked; nothing is opened. */
#include "core/core.h"
#include "core/registry.h"

static int
find_schema(const char *const **out, const dibs__url *url, dibs_error *err)
{
    const dibs_engine *engine;
    int rc = dibs__registry_find(&engine, url->parts.scheme,
                                 dibs__url_param(&url->parts, "layout"), err);
    if (!rc)
        rc = dibs__url_check_params(url, engine, err);
    if (rc)
        return rc;
    if (!engine->schema)
        return dibs__fail(err, DIBS_EUNSUPPORTED, "engine %s has no tables",
                          engine->name);
    *out = engine->schema;
    return DIBS_OK;
}

int
dibs_schema(const char *const **out, const char *url, dibs_error *err)
{
    UNCANCELLED;
    dibs__url parsed;
    if (!out)
        return dibs__fail(err, DIBS_EINVAL, "out is NULL");
    int rc = dibs__url_parse(&parsed, dibs__url_or_default(url), err);
    if (!rc)
        rc = find_schema(out, &parsed, err);
    dibs__url_free(&parsed);
    return rc;
}
