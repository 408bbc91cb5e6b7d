/* SPDX-License-Identifier: MIT */
/*
 * The engine's table: reading the URL, open and close, and which file a claim goes to.
 *
 *   consul://[:TOKEN@]HOST[:8500][,...][/PREFIX][?...], consuls:// with TLS
 */
#include "claim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT 8500
#define TOKEN_MAX 256
#define DELAY_MAX_MS 60000
#define SESSION_MIN_MS 1000
#define SESSION_MAX_MS (24 * 3600 * 1000)
/* for giving sessions back */
#define CLOSE_LIMIT (1000 * DIBS_MS)

/* ---- keys ---- */

static int
is_printable(const char *text)
{
    while (*text >= ' ' && *text <= '~')
        text++;
    return !*text;
}

/* Keys are parts of paths of requests, which have no empty parts and none of dots. */
static int
is_path(const char *text)
{
    for (;;) {
        size_t len = strcspn(text, "/");
        if ((len == 0 && *text) || (len == 1 && text[0] == '.') ||
            (len == 2 && text[0] == '.' && text[1] == '.'))
            return 0;
        if (!text[len])
            return 1;
        text += len + 1;
    }
}

/* The path is a folder; prefix= is taken as it is. */
static int
read_prefix(struct consul *consul, const dibs_url_parts *url, dibs_error *err)
{
    const char *raw = consul->host->param(url, "prefix");
    const char *path = url->path + (*url->path == '/');
    size_t len = strlen(path);
    if (raw && len)
        return consul->host->fail(err, DIBS_ECONFIG,
                                  "prefix= and a path are two ways to say the same");
    while (len > 0 && path[len - 1] == '/')
        len--;
    int wrote = raw ? snprintf(consul->prefix, PREFIX_MAX, "%s", raw)
                    : snprintf(consul->prefix, PREFIX_MAX, "%.*s%s", (int)len, path,
                               len ? "/" : "");
    if (wrote < 0 || wrote >= PREFIX_MAX)
        return consul->host->fail(err, DIBS_ECONFIG, "the prefix is too long");
    if (!is_printable(consul->prefix) || !is_path(consul->prefix))
        return consul->host->fail(err, DIBS_ECONFIG, "%s cannot begin a key",
                                  raw ? raw : url->path);
    return DIBS_OK;
}

/* ---- the ACL token ---- */

static int
read_token_file(const struct consul *consul, char out[TOKEN_MAX], const char *name,
                dibs_error *err)
{
    FILE *file = fopen(name, "re");
    if (!file)
        return consul->host->fail(err, DIBS_ECONFIG, "token_file=%s cannot be read",
                                  name);
    char *line = fgets(out, TOKEN_MAX, file);
    (void)fclose(file);
    if (!line)
        out[0] = '\0';
    out[strcspn(out, "\r\n")] = '\0';
    return DIBS_OK;
}

static int
find_token(const struct consul *consul, const dibs_url_parts *url, char out[TOKEN_MAX],
           dibs_error *err)
{
    const char *file = consul->host->param(url, "token_file");
    const char *given = url->password;
    if ((url->user && *url->user) || (given && file))
        return consul->host->fail(err, DIBS_ECONFIG,
                                  "the ACL token is the password, without a user, or in "
                                  "token_file=");
    if (file)
        return read_token_file(consul, out, file, err);
    if (!given)
        given = getenv("CONSUL_HTTP_TOKEN");
    if (given && strlen(given) >= TOKEN_MAX)
        return consul->host->fail(err, DIBS_ECONFIG, "the ACL token is too long");
    (void)snprintf(out, TOKEN_MAX, "%s", given ? given : "");
    return DIBS_OK;
}

static int
read_token(struct consul *consul, const dibs_url_parts *url, dibs_error *err)
{
    char token[TOKEN_MAX] = "", line[TOKEN_MAX + 32];
    int rc = find_token(consul, url, token, err);
    if (!rc && !is_printable(token))
        rc = consul->host->fail(err, DIBS_ECONFIG, "the ACL token is no text");
    if (!rc && *token) {
        (void)snprintf(line, sizeof line, "X-Consul-Token: %s", token);
        if (dibs__http_set_header(consul->http, line))
            rc = consul->host->fail(err, DIBS_ENOMEM, "out of memory");
    }
    explicit_bzero(token, sizeof token);
    explicit_bzero(line, sizeof line);
    return rc;
}

/* ---- other parameters ---- */

static int
read_form(struct consul *consul, const dibs_url_parts *url, dibs_error *err)
{
    static const char *const forms[] = { "lock", "key", NULL };
    return consul->host->param_choice(&consul->is_key, url, "form", forms, err);
}

static int
read_times(struct consul *consul, const dibs_url_parts *url, dibs_error *err)
{
    const dibs_host *host = consul->host;
    int64_t session_ms = 0;
    consul->lock_delay_ms = -1;
    int rc = host->param_ms(&session_ms, url, "session", err);
    if (!rc)
        rc = host->param_ms(&consul->lock_delay_ms, url, "lock_delay", err);
    if (!rc && host->param(url, "session") &&
        (session_ms < SESSION_MIN_MS || session_ms > SESSION_MAX_MS))
        rc = host->fail(err, DIBS_ECONFIG, "session= must be from 1s to 24h");
    if (!rc && host->param(url, "lock_delay") &&
        (consul->lock_delay_ms < 0 || consul->lock_delay_ms > DELAY_MAX_MS))
        rc = host->fail(err, DIBS_ECONFIG, "lock_delay= must be from 0s to 60s");
    dibs__consul_session_ops(consul, session_ms);
    return rc;
}

static int
read_dc(struct consul *consul, const dibs_url_parts *url, dibs_error *err)
{
    const char *dc = consul->host->param(url, "dc");
    if (!dc)
        return DIBS_OK;
    if (!*dc || strlen(dc) > DC_MAX)
        return consul->host->fail(err, DIBS_ECONFIG, "dc= is the name of a datacenter");
    dibs__http_escape(consul->dc, dc, strlen(dc));
    return DIBS_OK;
}

static int
make_http(struct consul *consul, const dibs_url_parts *url, dibs_error *err)
{
    http_settings settings = { .host = consul->host, .hosts = url->hosts, .port = PORT };
    int rc = dibs__http_read_tls(&settings, url, "consuls", err);
    return rc ? rc : dibs__http_new(&consul->http, &settings, err);
}

/* ---- open and close ---- */

static void
consul_close(void *state, int forked)
{
    struct consul *consul = state;
    dibs_time deadline = consul->host->now() + CLOSE_LIMIT;
    dibs__kit_tenures_free(consul->tenures, forked, deadline);
    if (!forked)
        dibs__consul_sessions_end(consul, deadline);
    dibs__kit_lapses_free(consul->lapses, forked);
    if (consul->http)
        dibs__http_free(consul->http, forked);
    dibs__consul_watches_close(consul, forked);
    dibs__consul_stakes_close(consul, forked);
    dibs__kit_places_free(consul->places, forked);
}

static int
make_parts(struct consul *consul, dibs_error *err)
{
    consul->lapses = dibs__kit_lapses_new(consul->host, dibs__consul_lapsed, consul);
    consul->places = dibs__kit_places_new(consul->host);
    if (consul->lapses)
        consul->tenures = dibs__kit_tenures_new(consul->session, &consul->session_ops,
                                                consul->lapses, consul);
    if (!consul->places || !consul->tenures || dibs__consul_stakes_open(consul) ||
        dibs__consul_watches_open(consul))
        return consul->host->fail(err, DIBS_ENOMEM, "out of memory");
    return DIBS_OK;
}

static int
read_url(struct consul *consul, const dibs_url_parts *url, dibs_error *err)
{
    int rc = read_prefix(consul, url, err);
    if (!rc)
        rc = read_form(consul, url, err);
    if (!rc)
        rc = read_times(consul, url, err);
    if (!rc)
        rc = read_dc(consul, url, err);
    if (!rc)
        rc = make_http(consul, url, err);
    return rc ? rc : read_token(consul, url, err);
}

/* One question that every claim would ask as well, so that a wrong URL and a token that is
 * refused are told at once. */
static int
say_hello(struct consul *consul, dibs_time deadline, dibs_error *err)
{
    struct answer answer;
    struct key key;
    dibs__consul_epoch_key(&key, consul, "0");
    int rc = dibs__consul_get(consul, &key, 0, &answer, deadline, err);
    if (!rc)
        dibs__consul_answer_free(&answer);
    return rc;
}

static int
consul_open(void *state, dibs_session *session, const dibs_url_parts *url,
            dibs_time deadline, dibs_error *err)
{
    struct consul *consul = state;
    int64_t limit_ms = 0;
    consul->session = session;
    consul->host = session->host;
    (void)snprintf(session->endpoint, sizeof session->endpoint, "%s://%s", url->scheme,
                   *url->hosts ? url->hosts : "127.0.0.1");
    int rc = read_url(consul, url, err);
    if (!rc)
        rc = consul->host->param_ms(&limit_ms, url, "connect_timeout", err);
    if (limit_ms > 0 && consul->host->now() + limit_ms * DIBS_MS < deadline)
        deadline = consul->host->now() + limit_ms * DIBS_MS;
    if (!rc)
        rc = make_parts(consul, err);
    if (!rc)
        rc = say_hello(consul, deadline, err);
    if (rc)
        consul_close(consul, 0);
    else if (consul->is_key) /* nobody else's semaphores have their list there */
        session->caps &= ~(uint32_t)DIBS_CAP_PERMITS;
    return rc;
}

/* ---- the slots ---- */

static int
consul_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct consul *consul = state;
    round_fn *round = dibs__consul_permits_round;
    if (claim->permits > PERMITS_MOST)
        return consul->host->fail(err, DIBS_EUNSUPPORTED,
                                  "Consul can give %d permits at once at most",
                                  PERMITS_MOST);
    if (claim->mode == DIBS_EXCLUSIVE)
        round = dibs__consul_lock_round;
    if (claim->mode == DIBS_SHARED)
        round = dibs__consul_share_round;
    if (claim->mode == DIBS_OBSERVE)
        round = dibs__consul_observe_round;
    return dibs__consul_attempt(consul, claim, round, deadline, err);
}

static int
consul_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct consul *consul = state;
    (void)deadline,
        (void)err; /* it does not wait, and what it cannot do does not matter */
    struct stake *stake = dibs__consul_stake_find(consul, claim);
    if (!stake)
        return DIBS_OK;
    dibs__consul_watch(consul, claim, stake);
    dibs__consul_stake_put(consul, stake);
    return DIBS_OK;
}

static const char *const schemes[] = { "consul", "consuls", NULL };

static const char *const params[] = { "prefix", "form",       "session",
                                      "dc",     "lock_delay", "connect_timeout",
                                      "ca",     "cert",       "key",
                                      "name",   "insecure",   "token_file",
                                      NULL };

__attribute__((visibility("default"))) extern const dibs_engine dibs_engine_table;

const dibs_engine dibs_engine_table = {
    .abi = DIBS_ENGINE_ABI,
    .name = "consul",
    .schemes = schemes,
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_SHARED | DIBS_CAP_PERMITS | DIBS_CAP_TOKEN |
            DIBS_CAP_CELL | DIBS_CAP_INSPECT | DIBS_CAP_BREAK | DIBS_CAP_WAKE |
            DIBS_CAP_OBSERVE,
    .state_size = sizeof(struct consul),
    .open = consul_open,
    .close = consul_close,
    .attempt = consul_attempt,
    .watch = consul_watch,
    .renew = dibs__consul_renew,
    .release = dibs__consul_release,
    .downgrade = dibs__consul_downgrade,
    .list = dibs__consul_list,
    .inspect = dibs__consul_inspect,
    .evict = dibs__consul_evict,
    .cell_read = dibs__consul_cell_read,
    .cell_swap = dibs__consul_cell_swap,
};
