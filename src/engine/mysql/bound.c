/* SPDX-License-Identifier: MIT */
/*
 * Layouts whose locks are those of a connection: see bound.h.
 *
 * Parts: asking; keeping; giving back; open and close.
 */
#include "bound.h"

#include <stdio.h>
#include <sys/socket.h>

/* one connection each */
#define HOLDS_MOST 10000

static struct my_bound *
bound_of(void *state)
{
    return ((struct mysql *)state)->bound;
}

/* The claim's wire, if it still is. Wires live as long as the client. */
static struct my_wire *
wire_of_locked(const dibs_claim *claim)
{
    struct my_wire *wire = (struct my_wire *)(uintptr_t)claim->priv[0];
    return wire && wire->serial == claim->serial ? wire : NULL;
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
set_lease(struct my_bound *bound, struct my_wire *wire, const dibs_claim *claim,
          dibs_time deadline, dibs_error *err)
{
    int rc = DIBS_OK;
    if (wire->lease_s == lease_of(claim))
        return DIBS_OK;
    if (!wire->lease_s && bound->form->settings)
        rc = dibs__my_link_exec(&wire->link, bound->form->settings, deadline, err);
    if (rc)
        return rc;
    print_lease(wire, claim);
    rc = dibs__my_link_exec(&wire->link, wire->text, deadline, err);
    if (!rc)
        wire->lease_s = lease_of(claim);
    return rc;
}

int
dibs__my_bound_run(struct my_bound *bound, struct my_wire *wire,
                   enum my_wire_statement which, const struct sql_value *params, size_t n,
                   int64_t *out, dibs_time deadline, dibs_error *err)
{
    struct sql_result result;
    dibs__sql_result_init(&result, bound->wires.host);
    int rc =
        dibs__my_wire_run(&bound->wires, wire, which, params, n, &result, deadline, err);
    const struct sql_value *value = dibs__sql_at(&result, 0, 0);
    *out = which == WIRE_TOKEN                        ? (int64_t)result.last_id
           : result.rows && value->kind == SQL_NUMBER ? value->number
                                                      : -1;
    dibs__sql_result_free(&result);
    return rc;
}

/* takes the lock if it is free: the answer is 0 if it is not */
static int
ask_at_once(struct my_bound *bound, struct my_wire *wire, const dibs_claim *claim,
            dibs_time deadline, dibs_error *err)
{
    int rc = bound->form->name(bound, wire, claim, err);
    if (!rc)
        rc = set_lease(bound, wire, claim, deadline, err);
    if (!rc)
        rc = bound->form->ask(bound, wire, claim, deadline, err);
    if (!rc && wire->answer > 0 && bound->form->token)
        rc = bound->form->token(bound, wire, deadline, err);
    return rc;
}

/* begins to wait in the server; what gives the lock back is prepared before */
static int
ask_and_wait(struct my_bound *bound, struct my_wire *wire, dibs_time deadline,
             dibs_error *err)
{
    struct my_wires *wires = &bound->wires;
    struct sql_value params[2];
    size_t n = bound->form->wait_for(bound, wire, params);
    int rc = dibs__my_wire_prepare(wires, wire, WIRE_GET, deadline, err);
    if (!rc && wires->texts[WIRE_LET])
        rc = dibs__my_wire_prepare(wires, wire, WIRE_LET, deadline, err);
    pthread_mutex_lock(&wires->mutex);
    if (!rc)
        rc = dibs__my_wire_begin(wire, WIRE_GET, params, n, err);
    wire->state = WIRE_ASKING;
    if (!rc && dibs__my_wires_start_locked(wires))
        rc = wires->host->fail(err, DIBS_ENOMEM, "there can be no thread that listens");
    if (!rc && dibs__my_wire_listen_locked(wires, wire))
        rc = wires->host->fail(err, DIBS_EUNAVAIL, "the connection was lost");
    pthread_mutex_unlock(&wires->mutex);
    return rc;
}

static int
granted(struct my_bound *bound, struct my_wire *wire, dibs_claim *claim)
{
    struct my_wires *wires = &bound->wires;
    claim->token = (uint64_t)wire->answer * BOUND_TOKEN_ROOM;
    claim->token_room = BOUND_TOKEN_ROOM - 1;
    claim->previous = DIBS_PREVIOUS_UNKNOWN;
    pthread_mutex_lock(&wires->mutex);
    wire->state = WIRE_HELD;
    wire->bell = NULL;
    /* without a thread, renewing finds out as well */
    if (dibs__my_wires_start_locked(wires) == 0)
        (void)dibs__my_wire_listen_locked(wires, wire);
    pthread_mutex_unlock(&wires->mutex);
    return DIBS_OK;
}

/* It is not ours, and nobody waits: nothing of it may stay with a session that others use,
 * neither a lock that was got all the same nor a transaction. */
static void
put_back(struct my_bound *bound, struct my_wire *wire, int rc, dibs_time deadline)
{
    if (!rc && bound->form->is_xact)
        rc = bound->form->give(bound, wire, deadline, NULL);
    wire->link.is_broken |= rc != DIBS_OK && (rc != DIBS_EINVAL || bound->form->is_xact);
    dibs__my_wire_put(&bound->wires, wire);
}

static int
ask(struct my_bound *bound, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct my_wire *wire = NULL;
    int rc = dibs__my_wire_take(&bound->wires, &wire, claim->serial, deadline, err);
    if (rc)
        return rc == DIBS_ETIMEDOUT ? DIBS_EUNAVAIL : rc;
    rc = ask_at_once(bound, wire, claim, deadline, err);
    claim->priv[0] = (uint64_t)(uintptr_t)wire;
    if (!rc && wire->answer > 0)
        return granted(bound, wire, claim);
    int waits = !rc && !(claim->flags & DIBS_CLAIM_NOQUEUE);
    if (waits)
        rc = ask_and_wait(bound, wire, deadline, err);
    if (rc || !waits)
        put_back(bound, wire, rc, deadline);
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
collect(struct my_bound *bound, struct my_wire *wire, dibs_claim *claim,
        dibs_time deadline, dibs_error *err)
{
    int rc = DIBS_OK;
    if (dibs__my_link_do(&wire->link, step_ping, NULL, deadline))
        rc = dibs__my_too_late(&wire->link, err);
    else if (wire->link.said)
        rc = bound->wires.host->fail(err, DIBS_EUNAVAIL, "%s",
                                     mysql_error(wire->link.mysql));
    else if (bound->form->token)
        rc = bound->form->token(bound, wire, deadline, err);
    if (!rc)
        return granted(bound, wire, claim);
    wire->link.is_broken = 1;
    dibs__my_wire_put(&bound->wires, wire);
    return rc;
}

int
dibs__my_bound_attempt(void *state, dibs_claim *claim, dibs_time deadline,
                       dibs_error *err)
{
    struct my_bound *bound = bound_of(state);
    struct my_wires *wires = &bound->wires;
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
        return collect(bound, wire, claim, deadline, err);
    int rc = ask(bound, claim, deadline, err);
    if (rc == SQL_NO_TABLE) {
        rc = dibs__sql_make(bound->mysql->sql.pool, deadline, err);
        if (!rc)
            rc = ask(bound, claim, deadline, err);
    }
    if (rc < SQL_DUPLICATE)
        return rc;
    if (err) /* what the server rolled back is asked anew */
        err->code = DIBS_EUNAVAIL;
    return DIBS_EUNAVAIL;
}

int
dibs__my_bound_watch(void *state, dibs_claim *claim, dibs_time deadline, dibs_error *err)
{
    struct my_bound *bound = bound_of(state);
    (void)deadline, (void)err;
    pthread_mutex_lock(&bound->wires.mutex);
    struct my_wire *wire = wire_of_locked(claim);
    if (wire && wire->state != WIRE_HELD)
        wire->bell = claim->bell;
    pthread_mutex_unlock(&bound->wires.mutex);
    return DIBS_OK;
}

/* Called with the mutex. A lock that is lost is found by the keeper, or the caller who was
 * just about to get it. */
static void
heard(struct my_wires *wires, struct my_wire *wire)
{
    const struct my_bound *bound = (const struct my_bound *)wires;
    if (wire->state == WIRE_ASKING) {
        wire->answer = dibs__my_wire_answer(wire, WIRE_GET);
        wire->state = WIRE_HELD;
        wire->was_lost = wire->answer <= 0;
        wire->link.is_broken |= wire->was_lost && bound->form->is_xact;
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
dibs__my_bound_renew(void *state, dibs_claim *const *claims, int *results, size_t n,
                     dibs_time deadline, dibs_error *err)
{
    struct my_wires *wires = &bound_of(state)->wires;
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
let_go(struct my_bound *bound, struct my_wire *wire, dibs_time deadline, dibs_error *err)
{
    int rc = bound->form->give(bound, wire, deadline, err);
    wire->link.is_broken |= rc != DIBS_OK;
    dibs__my_wire_put(&bound->wires, wire);
    return rc ? DIBS_EUNKNOWN : DIBS_OK;
}

/* A session that waits for a row does not see that its client is gone: it is ended from
 * another connection. If that is not possible, its waiting is over after a while. */
static void
end_session(struct my_bound *bound, unsigned long id, dibs_time deadline)
{
    sql_pool *pool = bound->mysql->sql.pool;
    struct sql_conn *conn = NULL;
    char text[48];
    if (dibs__sql_borrow(pool, &conn, deadline, NULL))
        return;
    (void)snprintf(text, sizeof text, "KILL CONNECTION %lu", id);
    (void)dibs__sql_exec_on(pool, conn, text, deadline, NULL);
    dibs__sql_giveback(pool, conn);
}

static int
stop_waiting(struct my_bound *bound, struct my_wire *wire, dibs_time deadline)
{
    end_session(bound, wire->link.id, deadline);
    wire->link.is_broken = 1;
    dibs__my_wire_put(&bound->wires, wire);
    return DIBS_ENOTHELD;
}

int
dibs__my_bound_release(void *state, dibs_claim *claim, uint32_t linger_ms,
                       dibs_time deadline, dibs_error *err)
{
    struct my_bound *bound = bound_of(state);
    struct my_wires *wires = &bound->wires;
    (void)linger_ms;
    pthread_mutex_lock(&wires->mutex);
    struct my_wire *wire = wire_of_locked(claim);
    if (wire)
        (void)dibs__my_wire_await_calm_locked(wires, wire, deadline);
    int rc = wire ? DIBS_OK : DIBS_ENOTHELD;
    int is_calm =
        wire && wire->state == WIRE_HELD && !wire->was_lost && !wire->link.waits_for;
    int is_waiting = wire && wire->state == WIRE_ASKING && bound->form->is_xact;
    if (is_calm || is_waiting)
        wire->state = WIRE_BUSY;
    else if (wire)
        rc = hang_up_locked(wires, wire);
    pthread_mutex_unlock(&wires->mutex);
    if (is_waiting)
        return stop_waiting(bound, wire, deadline);
    return is_calm ? let_go(bound, wire, deadline, err) : rc;
}

/* ---- open and close ---- */

int
dibs__my_bound_open(struct mysql *mysql, size_t size, dibs_error *err)
{
    const dibs_host *host = mysql->sql.host;
    struct my_bound *bound = host->alloc(size);
    if (!bound)
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    bound->mysql = mysql;
    bound->wires = (struct my_wires){ .session = mysql->sql.session,
                                      .login = &mysql->login,
                                      .heard = heard,
                                      .most = HOLDS_MOST };
    int rc = dibs__my_wires_open(&bound->wires, err);
    if (rc)
        host->free(bound);
    else
        mysql->bound = bound;
    return rc;
}

void
dibs__my_bound_close(struct my_bound *bound, int forked)
{
    const dibs_host *host = bound->wires.host;
    dibs__my_wires_close(&bound->wires, forked);
    host->free(bound);
}
