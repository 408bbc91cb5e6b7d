/* SPDX-License-Identifier: MIT */
/*
 * The etcd engine: reads the URL, opens, closes; and the tables of its layouts.
 * docs/engines/etcd.md is for its users, etcd.h says what is where.
 */
#include <stdio.h>
#include <string.h>

#include "claim.h"

#define PORT 2379
#define SESSION_MAX_MS (24 * 3600 * 1000)
#define CLOSE_LIMIT (1000 * DIBS_MS)

/* ---- the URL ---- */

/* A path is a folder: "/locks" is the prefix "/locks/". What `prefix=` says is taken as it
 * is. Without either, locks lie where etcd's own clients have theirs. */
static int
read_prefix(struct etcd *etcd, const dibs_url_parts *url, dibs_error *err)
{
    int is_single = strcmp(etcd->session->engine->layout, "single") == 0;
    const char *raw = etcd->host->param(url, "prefix");
    size_t len = strlen(url->path);
    while (len > 0 && url->path[len - 1] == '/')
        len--;
    if (raw && len)
        return etcd->host->fail(err, DIBS_ECONFIG, "a path and prefix= are two prefixes");
    int wrote =
        raw   ? snprintf(etcd->prefix, PREFIX_MAX, "%s", raw)
        : len ? snprintf(etcd->prefix, PREFIX_MAX, "%.*s/", (int)len, url->path)
              : snprintf(etcd->prefix, PREFIX_MAX, "%s", is_single ? "/locks/" : "");
    if (wrote >= PREFIX_MAX)
        return etcd->host->fail(err, DIBS_ECONFIG, "the prefix is too long");
    etcd->prefix_len = (size_t)wrote;
    return DIBS_OK;
}

static int
read_choices(struct etcd *etcd, const dibs_url_parts *url, dibs_error *err)
{
    static const char *const forms[] = { "mutex", "rw", NULL };
    int64_t session_ms = 0;
    int rc = etcd->host->param_choice(&etcd->is_rw, url, "form", forms, err);
    if (!rc)
        rc = etcd->host->param_ms(&session_ms, url, "session", err);
    if (!rc && (session_ms < 0 || session_ms > SESSION_MAX_MS))
        rc = etcd->host->fail(err, DIBS_ECONFIG, "session= can be 24h at most");
    etcd->tenure_ops = dibs__etcd_tenure_ops;
    etcd->tenure_ops.fixed_ms = session_ms;
    return rc;
}

static int
read_credentials(struct etcd *etcd, const dibs_url_parts *url, dibs_error *err)
{
    if (!url->user && !url->password)
        return DIBS_OK;
    if (!url->user || !*url->user || !url->password)
        return etcd->host->fail(err, DIBS_ECONFIG,
                                "credentials are a user and a password");
    etcd->user = url->user;
    etcd->password = url->password;
    return DIBS_OK;
}

/* ---- open and close ---- */

static void
etcd_close(void *state, int forked)
{
    struct etcd *etcd = state;
    dibs_time deadline = etcd->host->now() + CLOSE_LIMIT;
    dibs__kit_tenures_free(etcd->tenures, forked, deadline);
    if (!forked)
        dibs__etcd_end_strays(etcd, deadline);
    dibs__kit_lapses_free(etcd->lapses, forked);
    dibs__kit_places_free(etcd->places, forked);
    dibs__etcd_watches_close(etcd, forked);
    dibs__etcd_access_close(etcd, forked);
    if (etcd->http)
        dibs__http_free(etcd->http, forked);
}

static int
open_parts(struct etcd *etcd, dibs_error *err)
{
    etcd->places = dibs__kit_places_new(etcd->host);
    etcd->lapses = dibs__kit_lapses_new(etcd->host, dibs__etcd_claim_end, etcd);
    if (etcd->lapses)
        etcd->tenures =
            dibs__kit_tenures_new(etcd->session, &etcd->tenure_ops, etcd->lapses, etcd);
    if (!etcd->places || !etcd->tenures)
        return etcd->host->fail(err, DIBS_ENOMEM, "out of memory");
    return dibs__etcd_watches_open(etcd, err);
}

static int
open_http(struct etcd *etcd, const dibs_url_parts *url, dibs_error *err)
{
    http_settings settings = { .host = etcd->host, .hosts = url->hosts, .port = PORT };
    int rc = dibs__http_read_tls(&settings, url, "etcds", err);
    return rc ? rc : dibs__http_new(&etcd->http, &settings, err);
}

/* One read that a quorum stands behind: a URL or a password that is wrong is told here. */
static int
greet(struct etcd *etcd, dibs_time deadline, dibs_error *err)
{
    struct key key;
    struct answer answer;
    dibs__etcd_epoch_key(&key, etcd, "");
    http_text *body =
        dibs__etcd_range_alone(&(struct range){ .key = &key, .flags = RANGE_COUNT_ONLY });
    int rc = dibs__etcd_access_open(etcd, deadline, err);
    if (rc)
        dibs__http_text_free(body);
    else
        rc = dibs__etcd_ask(etcd, "/kv/range", body, HTTP_REPEATABLE, &answer, deadline,
                            err);
    if (!rc)
        dibs__etcd_answer_free(&answer);
    return rc;
}

static void
set_endpoint(struct etcd *etcd, const dibs_url_parts *url)
{
    char server[100] = "";
    if (etcd->http)
        dibs__http_server(etcd->http, server, sizeof server);
    (void)snprintf(etcd->session->endpoint, sizeof etcd->session->endpoint, "%s://%s",
                   url->scheme, *server ? server : url->hosts);
}

static int
etcd_open(void *state, dibs_session *session, const dibs_url_parts *url,
          dibs_time deadline, dibs_error *err)
{
    struct etcd *etcd = state;
    int64_t limit_ms = 0;
    etcd->session = session;
    etcd->host = session->host;
    int rc = read_prefix(etcd, url, err);
    if (!rc)
        rc = read_choices(etcd, url, err);
    if (!rc)
        rc = read_credentials(etcd, url, err);
    if (!rc)
        rc = etcd->host->param_ms(&limit_ms, url, "connect_timeout", err);
    if (limit_ms > 0 && etcd->host->now() + limit_ms * DIBS_MS < deadline)
        deadline = etcd->host->now() + limit_ms * DIBS_MS;
    if (!rc)
        rc = open_http(etcd, url, err);
    if (!rc)
        rc = open_parts(etcd, err);
    if (!rc)
        rc = greet(etcd, deadline, err);
    if (!rc)
        dibs__etcd_note_version(etcd, deadline);
    set_endpoint(etcd, url);
    if (rc)
        etcd_close(etcd, 0);
    return rc;
}

/* ---- the tables ---- */

static const char *const schemes[] = { "etcd", "etcds", NULL };

#define COMMON_PARAMS                                                                    \
    "prefix", "session", "connect_timeout", "ca", "cert", "key", "name", "insecure", NULL
static const char *const params[] = { "form", COMMON_PARAMS };
static const char *const single_params[] = { COMMON_PARAMS };

#define COMMON                                                                           \
    .abi = DIBS_ENGINE_ABI, .name = "etcd", .schemes = schemes,                          \
    .state_size = sizeof(struct etcd), .open = etcd_open, .close = etcd_close,           \
    .renew = dibs__etcd_renew, .release = dibs__etcd_claim_release,                      \
    .cell_read = dibs__etcd_cell_read, .cell_swap = dibs__etcd_cell_swap

const dibs_engine dibs__etcd_single = {
    COMMON,
    .layout = "single",
    .params = single_params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_TOKEN | DIBS_CAP_CELL | DIBS_CAP_INSPECT |
            DIBS_CAP_BREAK | DIBS_CAP_WAKE,
    .attempt = dibs__etcd_single_attempt,
    .list = dibs__etcd_single_list,
    .inspect = dibs__etcd_single_inspect,
    .evict = dibs__etcd_single_evict,
};

__attribute__((visibility("default"))) extern const dibs_engine dibs_engine_table;

static const dibs_engine *const layouts[] = { &dibs_engine_table, &dibs__etcd_single,
                                              NULL };

const dibs_engine dibs_engine_table = {
    COMMON,
    .layout = "concurrency",
    .layouts = layouts,
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_FAIR | DIBS_CAP_SHARED | DIBS_CAP_PERMITS |
            DIBS_CAP_TOKEN | DIBS_CAP_CELL | DIBS_CAP_INSPECT | DIBS_CAP_BREAK |
            DIBS_CAP_WAKE | DIBS_CAP_DETAIL | DIBS_CAP_OBSERVE,
    .attempt = dibs__etcd_attempt,
    .downgrade = dibs__etcd_downgrade,
    .list = dibs__etcd_list_locks,
    .inspect = dibs__etcd_inspect,
    .evict = dibs__etcd_evict,
};
