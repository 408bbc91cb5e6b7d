/* SPDX-License-Identifier: MIT */
/* An engine without the library: see below.h. */
#include <stdlib.h>
#include <string.h>

#include "below.h"
#include "bench.h"

#include "core/error.h"
#include "core/mem.h"
#include "core/name.h"
#include "core/registry.h"
#include "core/session.h"
#include "core/sys.h"

#define CALL_LIMIT (5000 * DIBS_MS)

void
below_open(below *b, const char *url, const char *name)
{
    dibs_error err;

    memset(b, 0, sizeof *b);
    bench_check(dibs__url_parse(&b->url, url, &err), &err);
    b->name = name;
    bench_check(dibs__registry_find(&b->engine, b->url.parts.scheme,
                                    dibs__url_param(&b->url.parts, "layout"), &err),
                &err);
    dibs__session_init(&b->session, b->engine, "bench");
    b->state = calloc(1, b->engine->state_size);
    if (b->state == NULL)
        bench_die("out of memory");
    bench_check(b->engine->open(b->state, &b->session, &b->url.parts,
                                dibs__now() + CALL_LIMIT, &err),
                &err);
}

void
below_close(below *b)
{
    b->engine->close(b->state, 0);
    free(b->state);
    dibs__url_free(&b->url);
}

void
below_claim(below *b, dibs_claim *claim)
{
    memset(claim, 0, sizeof *claim);
    claim->name = b->name;
    claim->name_len = (uint16_t)strlen(b->name);
    claim->name_hash = dibs__hash(b->name, claim->name_len);
    claim->mode = DIBS_EXCLUSIVE;
    claim->permits = 1;
    claim->lease_ms = 60000;
    claim->serial = ++b->last_serial;
    claim->note = "";
    claim->bell = &claim->own_bell;
}

int
below_attempt(below *b, dibs_claim *claim)
{
    dibs_error err;
    int code;

    claim->sent = dibs__now();
    claim->seen = dibs_bell_seen(claim->bell);
    code = b->engine->attempt(b->state, claim, dibs__now() + CALL_LIMIT, &err);
    if (code != DIBS_OK && code != DIBS_EBUSY)
        bench_check(code, &err);
    return code;
}

void
below_watch(below *b, dibs_claim *claim)
{
    dibs_error err;

    bench_check(b->engine->watch(b->state, claim, dibs__now() + CALL_LIMIT, &err), &err);
}

void
below_release(below *b, dibs_claim *claim)
{
    dibs_error err;
    int code = b->engine->release(b->state, claim, 0, dibs__now() + CALL_LIMIT, &err);

    if (code != DIBS_ENOTHELD)
        bench_check(code, &err);
}
