/* SPDX-License-Identifier: MIT */
/*
 * The layout `get_lock`: locks of GET_LOCK, which others use too. A claim has a session of its
 * own (a wire) and waits inside the server. The server ends a session that says nothing for
 * wait_timeout seconds, and with it the lock: that is the lease, and a ping renews it.
 *
 * The token comes from a sequence, in the statement that takes the lock and after it was
 * taken; or from a row, in a statement of its own (MySQL has no sequences).
 *
 * Parts: names; asking; keeping; giving back; open and close.
 */
#include "get_lock.h"

#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "sql/keymap_mysql.h"

/* one connection each */
#define HOLDS_MOST 10000
/* a year, as with_advisory_lock waits; MariaDB takes no less than 0 for "for ever" */
#define WAIT_S 31536000
#define NAME_MOST_MYSQL 64
#define TOKEN_ROOM 256

enum map { MAP_DIBS, MAP_DOTNET, MAP_RAILS, MAP_TOOZ, MAP_RAW };
enum token { TOKEN_AUTO, TOKEN_SEQUENCE, TOKEN_ROW };

struct my_getter {
    struct my_wires wires;
    struct mysql *mysql;
    int map;   /* enum map */
    int token; /* enum token, not AUTO */
};

static struct my_getter *
getter_of(void *state)
{
    return ((struct mysql *)state)->getter;
}

/* The claim's wire, if it still is. Wires live as long as the client. */
static struct my_wire *
wire_of_locked(const dibs_claim *claim)
{
    struct my_wire *wire = (struct my_wire *)(uintptr_t)claim->priv[0];
    return wire && wire->serial == claim->serial ? wire : NULL;
}

/* ---- names ---- */

static int
map_name(const struct my_getter *getter, struct my_wire *wire, const dibs_claim *claim,
         dibs_error *err)
{
    static my_lockname *const maps[] = { dibs__sql_lockname_dibs,
                                         dibs__sql_lockname_dotnet,
                                         dibs__sql_lockname_rails, dibs__sql_lockname_raw,
                                         dibs__sql_lockname_raw };
    size_t most = getter->mysql->is_mariadb ? LOCKNAME_MAX : NAME_MOST_MYSQL;
    if (maps[getter->map](wire->name, &wire->name_len, wire->link.login->database,
                          claim->name, claim->name_len) == 0 &&
        wire->name_len <= most)
        return DIBS_OK;
    return getter->wires.host->fail(
        err, DIBS_EINVAL,
        "the name cannot be one of GET_LOCK's in that way: it "
        "may have %zu bytes%s",
        most, getter->map == MAP_DOTNET ? ", of ASCII" : "");
}

/* ---- asking ---- */

/* The server ends the session after so much silence. */
static unsigned
lease_of(const dibs_claim *claim)
{
    return (claim->lease_ms + 999) / 1000;
}

static void
print_lease(struct my_wire *wire, const dibs_claim *claim)
{
    (void)snprintf(wire->text, sizeof wire->text, "SET SESSION wait_timeout = %u",
                   lease_of(claim));
}

static int
set_lease(struct my_wire *wire, const dibs_claim *claim, dibs_time deadline,
          dibs_error *err)
{
    if (wire->lease_s == lease_of(claim))
        return DIBS_OK;
    print_lease(wire, claim);
    int rc = dibs__my_link_exec(&wire->link, wire->text, deadline, err);
    if (!rc)
        wire->lease_s = lease_of(claim);
    return rc;
}

static int
run_number(struct my_getter *getter, struct my_wire *wire, enum my_wire_statement which,
           const struct sql_value *params, size_t n, int64_t *out, dibs_time deadline,
           dibs_error *err)
{
    struct sql_result result;
    dibs__sql_result_init(&result, getter->wires.host);
    int rc =
        dibs__my_wire_run(&getter->wires, wire, which, params, n, &result, deadline, err);
    const struct sql_value *value = dibs__sql_at(&result, 0, 0);
    *out = which == WIRE_TOKEN         ? (int64_t)result.last_id
           : value->kind == SQL_NUMBER ? value->number
                                       : -1;
    dibs__sql_result_free(&result);
    return rc;
}

/* The token in a row, once the lock is ours: the table may have to be made, and others who
 * draw one at the same time, under other names, may be in the way. */
static int
draw_token(struct my_getter *getter, struct my_wire *wire, dibs_time deadline,
           dibs_error *err)
{
    const dibs_host *host = getter->wires.host;
    int rc, makes = 1;
    do {
        rc = run_number(getter, wire, WIRE_TOKEN, NULL, 0, &wire->answer, deadline, err);
        if (rc == SQL_NO_TABLE && makes) {
            rc = dibs__sql_make(getter->mysql->sql.pool, deadline, err);
            rc = rc ? rc : SQL_AGAIN;
            makes = 0;
        }
    } while ((rc == SQL_AGAIN || rc == SQL_BUSY) && host->now() < deadline);
    return rc >= SQL_DUPLICATE ? DIBS_EUNAVAIL : rc;
}

/* takes the lock if it is free: *answer is 0 if it is not, and -1 if the server says NULL */
static int
ask_at_once(struct my_getter *getter, struct my_wire *wire, dibs_claim *claim,
            dibs_time deadline, dibs_error *err)
{
    const struct sql_value params[] = { sql_bytes(wire->name, wire->name_len),
                                        sql_number(0) };
    int rc = set_lease(wire, claim, deadline, err);
    if (!rc)
        rc = run_number(getter, wire, WIRE_GET, params, 2, &wire->answer, deadline, err);
    if (!rc && wire->answer < 0)
        rc = getter->wires.host->fail(err, DIBS_EUNAVAIL, "GET_LOCK was interrupted");
    if (!rc && wire->answer > 0 && getter->token == TOKEN_ROW)
        rc = draw_token(getter, wire, deadline, err);
    return rc;
}

/* begins to wait in the server */
static int
ask_and_wait(struct my_getter *getter, struct my_wire *wire, dibs_time deadline,
             dibs_error *err)
{
    struct my_wires *wires = &getter->wires;
    const struct sql_value params[] = { sql_bytes(wire->name, wire->name_len),
                                        sql_number(WAIT_S) };
    int rc = dibs__my_wire_prepare(wires, wire, WIRE_LET, deadline, err);
    pthread_mutex_lock(&wires->mutex);
    if (!rc)
        rc = dibs__my_wire_begin(wire, WIRE_GET, params, 2, err);
    wire->state = WIRE_ASKING;
    if (!rc &&
        (dibs__my_wires_start_locked(wires) || dibs__my_wire_listen_locked(wires, wire)))
        rc = wires->host->fail(err, DIBS_ENOMEM, "there can be no thread that listens");
    pthread_mutex_unlock(&wires->mutex);
    return rc;
}

static int
granted(struct my_getter *getter, struct my_wire *wire, dibs_claim *claim)
{
    struct my_wires *wires = &getter->wires;
    claim->token = (uint64_t)wire->answer * TOKEN_ROOM;
    claim->token_room = TOKEN_ROOM - 1;
    claim->previous = 0;
    pthread_mutex_lock(&wires->mutex);
    wire->state = WIRE_HELD;
    wire->bell = NULL;
    /* without a thread, renewing finds out as well */
    if (dibs__my_wires_start_locked(wires) == 0)
        dibs__my_wire_listen_soon_locked(wires, wire);
    pthread_mutex_unlock(&wires->mutex);
    return DIBS_OK;
}

static int
ask(struct my_getter *getter, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct my_wires *wires = &getter->wires;
    struct my_wire *wire = NULL;
    int rc = dibs__my_wire_take(wires, &wire, claim->serial, deadline, err);
    if (rc)
        return rc == DIBS_ETIMEDOUT ? DIBS_EUNAVAIL : rc;
    rc = map_name(getter, wire, claim, err);
    if (!rc)
        rc = ask_at_once(getter, wire, claim, deadline, err);
    claim->priv[0] = (uint64_t)(uintptr_t)wire;
    if (!rc && wire->answer > 0)
        return granted(getter, wire, claim);
    int waits = !rc && !(claim->flags & DIBS_CLAIM_NOQUEUE);
    if (waits)
        rc = ask_and_wait(getter, wire, deadline, err);
    /* a lock that was got all the same must not stay with a session that others use */
    wire->link.is_broken |= rc != DIBS_OK && rc != DIBS_EINVAL;
    if (rc || !waits)
        dibs__my_wire_put(wires, wire);
    return rc ? rc : DIBS_EBUSY;
}

static int
step_ping(struct my_link *link, void *of, int ready)
{
    (void)of;
    return ready < 0 ? mysql_ping_start(&link->said, link->mysql)
                     : mysql_ping_cont(&link->said, link->mysql, ready);
}

/* The server has granted it while nobody asked: the lease begins with what is said now. */
static int
collect(struct my_getter *getter, struct my_wire *wire, dibs_claim *claim,
        dibs_time deadline, dibs_error *err)
{
    int rc = DIBS_OK;
    if (getter->token == TOKEN_ROW)
        rc = draw_token(getter, wire, deadline, err);
    else if (dibs__my_link_do(&wire->link, step_ping, NULL, deadline))
        rc = dibs__my_too_late(&wire->link, err);
    else if (wire->link.said)
        rc = getter->wires.host->fail(err, DIBS_EUNAVAIL, "%s",
                                      mysql_error(wire->link.mysql));
    if (!rc)
        return granted(getter, wire, claim);
    wire->link.is_broken = 1;
    dibs__my_wire_put(&getter->wires, wire);
    return rc;
}

int
dibs__my_get_attempt(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct my_getter *getter = getter_of(state);
    struct my_wires *wires = &getter->wires;
    claim->hint_ms = 0;
    claim->position = 0;
    pthread_mutex_lock(&wires->mutex);
    struct my_wire *wire = wire_of_locked(claim);
    int waits = wire && wire->state == WIRE_ASKING;
    int is_held = wire && wire->state == WIRE_HELD && !wire->was_lost;
    if (is_held)
        wire->state = WIRE_BUSY;
    else if (wire && !waits)
        dibs__my_wire_put_locked(wires, wire);
    pthread_mutex_unlock(&wires->mutex);
    if (waits)
        return DIBS_EBUSY;
    if (is_held)
        return collect(getter, wire, claim, deadline, err);
    int rc = ask(getter, claim, deadline, err);
    if (rc != SQL_NO_TABLE)
        return rc;
    rc = dibs__sql_make(getter->mysql->sql.pool, deadline, err);
    return rc ? rc : ask(getter, claim, deadline, err);
}

int
dibs__my_get_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct my_getter *getter = getter_of(state);
    (void)deadline, (void)err;
    pthread_mutex_lock(&getter->wires.mutex);
    struct my_wire *wire = wire_of_locked(claim);
    if (wire && wire->state != WIRE_HELD)
        wire->bell = claim->bell;
    pthread_mutex_unlock(&getter->wires.mutex);
    return DIBS_OK;
}

/* Called with the mutex. A lock that is lost is found by the keeper, or the caller who was
 * just about to get it. */
static void
heard(struct my_wires *wires, struct my_wire *wire)
{
    if (wire->state == WIRE_ASKING) {
        wire->answer = dibs__my_wire_answer(wire, WIRE_GET);
        wire->state = WIRE_HELD;
        wire->was_lost = wire->answer <= 0;
        if (!wire->was_lost)
            (void)dibs__my_wire_listen_locked(wires, wire);
    }
    if (wire->bell)
        wires->host->ring(wire->bell);
    else if (wire->was_lost)
        wires->host->ring(wires->session->keeper_bell);
}

/* ---- keeping ---- */

/* A ping; or, if the hold is to last longer or shorter than before, what says so. */
static void
begin_proof(struct my_wire *wire, const dibs_claim *claim)
{
    if (wire->lease_s == lease_of(claim)) {
        dibs__my_link_begin(&wire->link, step_ping, NULL);
        return;
    }
    print_lease(wire, claim);
    wire->lease_s = lease_of(claim);
    dibs__my_link_begin(&wire->link, dibs__my_step_query, wire->text);
}

static int
begin_ping(struct my_wires *wires, const dibs_claim *claim, dibs_time deadline)
{
    int rc = DIBS_OK;
    pthread_mutex_lock(&wires->mutex);
    struct my_wire *wire = wire_of_locked(claim);
    if (!wire || wire->was_lost)
        rc = DIBS_ELOST;
    else if (wire->state != WIRE_HELD)
        rc = DIBS_EUNKNOWN;
    else
        wire->state = WIRE_BUSY;
    pthread_mutex_unlock(&wires->mutex);
    if (rc)
        return rc;
    /* one that was not answered in time proves nothing of now */
    if (dibs__my_link_finish(&wire->link, deadline) == 0)
        begin_proof(wire, claim);
    return DIBS_OK;
}

/* A session that does not answer may come back; one that ended does not. */
static int
end_ping(struct my_wires *wires, const dibs_claim *claim, dibs_time deadline)
{
    struct my_wire *wire = (struct my_wire *)(uintptr_t)claim->priv[0];
    int is_late = dibs__my_link_finish(&wire->link, deadline) != 0;
    int rc = is_late ? DIBS_EUNKNOWN : wire->link.said ? DIBS_ELOST : DIBS_OK;
    pthread_mutex_lock(&wires->mutex);
    wire->state = WIRE_HELD;
    wire->was_lost = rc == DIBS_ELOST;
    wire->link.is_broken = rc == DIBS_ELOST;
    if (!wire->was_lost)
        (void)dibs__my_wire_listen_locked(wires, wire);
    if (wire->is_unwanted)
        dibs__my_wire_put_locked(wires, wire);
    pthread_cond_broadcast(&wires->calm);
    pthread_mutex_unlock(&wires->mutex);
    return rc;
}

void
dibs__my_get_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                   dibs_time deadline, dibs_error *err)
{
    struct my_wires *wires = &getter_of(state)->wires;
    for (size_t i = 0; i < n; i++)
        results[i] = begin_ping(wires, claims[i], deadline);
    for (size_t i = 0; i < n; i++) {
        if (results[i] == DIBS_OK)
            results[i] = end_ping(wires, claims[i], deadline);
        if (results[i])
            (void)wires->host->fail(err, results[i],
                                    results[i] == DIBS_ELOST
                                        ? "the session of the lock has ended"
                                        : "the server did not answer in time");
    }
}

/* ---- giving back ---- */

/* What is under way on it is given up by closing: the server then ends the session. */
static int
hang_up_locked(struct my_wires *wires, struct my_wire *wire)
{
    int rc = wire->state == WIRE_ASKING || wire->was_lost ? DIBS_ENOTHELD : DIBS_OK;
    if (wire->state == WIRE_BUSY) { /* it is still being renewed, by another thread */
        wire->is_unwanted = 1;
        (void)shutdown(mysql_get_socket(wire->link.mysql), SHUT_RDWR);
        return rc;
    }
    wire->link.is_broken = 1;
    dibs__my_wire_put_locked(wires, wire);
    return rc;
}

/* It is given back, or the session ends, and the lock with it. */
static int
let_go(struct my_wires *wires, struct my_wire *wire, dibs_time deadline, dibs_error *err)
{
    const struct sql_value params[] = { sql_bytes(wire->name, wire->name_len) };
    struct sql_result result;
    dibs__sql_result_init(&result, wires->host);
    int rc = dibs__my_wire_run(wires, wire, WIRE_LET, params, 1, &result, deadline, err);
    dibs__sql_result_free(&result);
    wire->link.is_broken |= rc != DIBS_OK;
    dibs__my_wire_put(wires, wire);
    return rc ? DIBS_EUNKNOWN : DIBS_OK;
}

int
dibs__my_get_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                     dibs_time deadline, dibs_error *err)
{
    struct my_wires *wires = &getter_of(state)->wires;
    (void)linger_ms;
    pthread_mutex_lock(&wires->mutex);
    struct my_wire *wire = wire_of_locked(claim);
    if (wire)
        (void)dibs__my_wire_await_calm_locked(wires, wire, deadline);
    int rc = wire ? DIBS_OK : DIBS_ENOTHELD;
    int is_calm =
        wire && wire->state == WIRE_HELD && !wire->was_lost && !wire->link.waits_for;
    if (is_calm)
        wire->state = WIRE_BUSY;
    else if (wire)
        rc = hang_up_locked(wires, wire);
    pthread_mutex_unlock(&wires->mutex);
    return is_calm ? let_go(wires, wire, deadline, err) : rc;
}

/* ---- open and close ---- */

static int
read_params(struct my_getter *getter, const dibs_url_parts *url, dibs_error *err)
{
    static const char *const maps[] = { "dibs", "dotnet", "rails", "tooz", "raw", NULL };
    static const char *const tokens[] = { "auto", "sequence", "row", NULL };
    const dibs_host *host = getter->mysql->sql.host;
    int rc = host->param_choice(&getter->map, url, "map", maps, err);
    if (!rc)
        rc = host->param_choice(&getter->token, url, "token", tokens, err);
    if (!rc && getter->token == TOKEN_AUTO)
        getter->token = getter->mysql->is_mariadb ? TOKEN_SEQUENCE : TOKEN_ROW;
    return rc;
}

static void
set_texts(struct my_getter *getter)
{
    const char **texts = getter->wires.texts;
    texts[WIRE_GET] = getter->token == TOKEN_ROW
                          ? "SELECT GET_LOCK(?1, ?2)"
                          : "SELECT CASE GET_LOCK(?1, ?2)"
                            " WHEN 1 THEN NEXTVAL(dibs_tokens) WHEN 0 THEN 0 END";
    texts[WIRE_LET] = "DO RELEASE_LOCK(?1)";
    texts[WIRE_TOKEN] =
        "INSERT INTO dibs_token (id, token) VALUES (1, LAST_INSERT_ID(1)) "
        "ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(token + 1)";
    getter->mysql->drive.makes =
        getter->token == TOKEN_ROW ? dibs__my_row_makes : dibs__my_sequence_makes;
}

int
dibs__my_getter_open(struct mysql *mysql, const dibs_url_parts *url, dibs_error *err)
{
    const dibs_host *host = mysql->sql.host;
    struct my_getter *getter = host->alloc(sizeof *getter);
    if (!getter)
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    getter->mysql = mysql;
    getter->wires = (struct my_wires){ .session = mysql->sql.session,
                                       .login = &mysql->login,
                                       .heard = heard,
                                       .most = HOLDS_MOST };
    int rc = read_params(getter, url, err);
    if (!rc)
        rc = dibs__my_wires_open(&getter->wires, err);
    if (rc) {
        host->free(getter);
        return rc;
    }
    set_texts(getter);
    mysql->getter = getter;
    return DIBS_OK;
}

void
dibs__my_getter_close(struct my_getter *getter, int forked)
{
    const dibs_host *host = getter->wires.host;
    dibs__my_wires_close(&getter->wires, forked);
    host->free(getter);
}
