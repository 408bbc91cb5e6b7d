/* SPDX-License-Identifier: MIT */
/* Modules that must be refused: without a table, with another abi, with another scheme. */
#include <dibs/engine.h>

#if defined(BAD_redis)

__attribute__((visibility("default"))) int not_an_engine;

#else

static const char *const schemes[] = { "elsewhere", NULL };
static const char *const params[] = { NULL };

static int
refuse_open(void *state, dibs_session *session, const dibs_url_parts *url,
            dibs_time deadline, dibs_error *err)
{
    (void)state, (void)session, (void)url, (void)deadline, (void)err;
    return DIBS_EUNAVAIL;
}

static void
do_close(void *state, int forked)
{
    (void)state, (void)forked;
}

static int
refuse_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    (void)state, (void)claim, (void)deadline, (void)err;
    return DIBS_EUNAVAIL;
}

static void
renew_nothing(void *state, dibs_claim *const *claims, int *results, size_t n,
              dibs_time deadline, dibs_error *err)
{
    (void)state, (void)claims, (void)results, (void)n, (void)deadline, (void)err;
}

static int
refuse_release(void *state, dibs_claim *claim, uint32_t linger_ms, dibs_time deadline,
               dibs_error *err)
{
    (void)state, (void)claim, (void)linger_ms, (void)deadline, (void)err;
    return DIBS_EUNAVAIL;
}

extern const dibs_engine dibs_engine_table;
__attribute__((visibility("default"))) const dibs_engine dibs_engine_table = {
#if defined(BAD_postgres)
    .abi = DIBS_ENGINE_ABI + 1,
#else
    .abi = DIBS_ENGINE_ABI,
#endif
    .name = "elsewhere",
    .schemes = schemes,
    .params = params,
    .open = refuse_open,
    .close = do_close,
    .attempt = refuse_attempt,
    .renew = renew_nothing,
    .release = refuse_release,
};

#endif
