/* SPDX-License-Identifier: MIT */
/* An engine without the library: see below.h. */
#include <stdlib.h>
#include <string.h>

#include "below.h"
#include "bench.h"

#include "core/error.h"
#include "core/mem.h"
#include "core/name.h"
#include "core/sys.h"

#define CALL_LIMIT (5000 * DIBS_MS)

extern const dibs_engine dibs_engine_table;

static const dibs_host host = {
    .now = dibs__now,
    .ring = dibs__bell_ring,
    .sleep_until = dibs__sleep_until,
    .fail = dibs__fail,
    .alloc = dibs__alloc,
    .free = dibs__free,
    .random = dibs__random,
    .param = dibs__url_param,
    .param_ms = dibs__url_param_ms,
};

void
below_open(below *b, const char *url, const char *name)
{
    uint64_t id[2] = { dibs__random(), dibs__random() };
    dibs_error err;

    memset(b, 0, sizeof *b);
    bench_check(dibs__url_parse(&b->url, url, &err), &err);
    b->name = name;
    b->session.host = &host;
    memcpy(b->session.id, id, sizeof id);
    b->session.app = "bench";
    b->session.keeper_bell = &b->session.own_keeper_bell;
    b->session.caps = dibs_engine_table.caps;
    b->state = calloc(1, dibs_engine_table.state_size);
    if (b->state == NULL)
        bench_die("out of memory");
    bench_check(dibs_engine_table.open(b->state, &b->session, &b->url.parts,
                                       dibs__now() + CALL_LIMIT, &err),
                &err);
}

void
below_close(below *b)
{
    dibs_engine_table.close(b->state, 0);
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
    code = dibs_engine_table.attempt(b->state, claim, dibs__now() + CALL_LIMIT, &err);
    if (code != DIBS_OK && code != DIBS_EBUSY)
        bench_check(code, &err);
    return code;
}

void
below_watch(below *b, dibs_claim *claim)
{
    dibs_error err;

    bench_check(dibs_engine_table.watch(b->state, claim, dibs__now() + CALL_LIMIT, &err),
                &err);
}

void
below_release(below *b, dibs_claim *claim)
{
    dibs_error err;
    int code =
        dibs_engine_table.release(b->state, claim, 0, dibs__now() + CALL_LIMIT, &err);

    if (code != DIBS_ENOTHELD)
        bench_check(code, &err);
}
