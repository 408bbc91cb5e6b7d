/* SPDX-License-Identifier: MIT */
/*
 * Waking those who wait. MariaDB cannot tell another client anything, but who waits in
 * GET_LOCK is woken by RELEASE_LOCK at once. So each claim that waits has a bell: a lock of
 * GET_LOCK's that decides nothing, named after the claim, which it has on a wire of its own
 * from then on until it ends. And it waits for the bell of the one before it in line. Who
 * gives its lock back grants it to the next, and then lets its bell go: that wakes just the
 * next, who looks and finds itself granted. It wakes too if the one before it gives up, or
 * its connection ends.
 *
 * Not all have a bell: a lock that was free is taken without one, and one who has just come
 * has none yet. Then the bell is to be had at once; the claim looks, lets it go for the one
 * it belongs to, and if it gets it again just looks now and then. Sharers let their bells go
 * when they are granted, because the one behind them may be as well.
 */
#include "bell.h"

#include <stdio.h>
#include <string.h>

#define BELLS_MOST 32
/* and "SESSION:SERIAL": 59 characters, of which the server takes 64 */
#define BELL "dibs/"
/* GET_LOCK's time limits: whoever has our own bell by mistake lets it go soon */
#define ASK_S 60
#define OWN_S "5"
/* how often a bell that nobody else wants is let go */
#define YIELD_EACH (30 * DIBS_MS)

/* the second statement waits for another bell than the one it has */
#define WIRE_OTHER WIRE_TOKEN
static const char *const texts[] = {
    [WIRE_GET] = "SELECT IF(GET_LOCK(?1, " OWN_S ") = 1, GET_LOCK(?2, ?3), NULL)",
    [WIRE_OTHER] = "SELECT IF(RELEASE_LOCK(?1) = 1, GET_LOCK(?2, ?3), GET_LOCK(?2, ?3))",
    [WIRE_LET] = "DO RELEASE_LOCK(?1), RELEASE_LOCK(?2)",
};

struct my_bells {
    struct my_wires wires;
    struct mysql *mysql;
};

/* ---- asking and letting go ---- */

static void
give_up_locked(struct my_wires *wires, struct my_wire *wire)
{
    wire->link.is_broken = 1;
    dibs__my_wire_put_locked(wires, wire);
}

static void
begin_locked(struct my_wires *wires, struct my_wire *wire, enum my_wire_state state,
             enum my_wire_statement which, const struct sql_value *params, size_t n)
{
    wire->state = state;
    if (dibs__my_wire_begin(wire, which, params, n, NULL) ||
        dibs__my_wires_start_locked(wires) || dibs__my_wire_listen_locked(wires, wire))
        give_up_locked(wires, wire);
}

/* The bell of the claim's own, then that of the one before it. */
static void
ask_locked(struct my_wires *wires, struct my_wire *wire)
{
    const struct sql_value params[] = { sql_text(wire->name, wire->name_len),
                                        sql_text(wire->before, strlen(wire->before)),
                                        sql_number(ASK_S) };
    begin_locked(wires, wire, WIRE_ASKING, WIRE_GET, params, 3);
}

/* Lets go the bell of the one who was before it, and waits for that of who is now. */
static void
ask_other_locked(struct my_wires *wires, struct my_wire *wire, const char *before)
{
    char was[sizeof wire->before];
    memcpy(was, wire->before, sizeof was);
    (void)snprintf(wire->before, sizeof wire->before, BELL "%s", before);
    const struct sql_value params[] = { sql_text(was, strlen(was)),
                                        sql_text(wire->before, strlen(wire->before)),
                                        sql_number(ASK_S) };
    begin_locked(wires, wire, WIRE_ASKING, WIRE_OTHER, params, 3);
}

static void
let_go_locked(struct my_wires *wires, struct my_wire *wire)
{
    const struct sql_value params[] = { sql_text(wire->name, wire->name_len),
                                        sql_text(wire->before, strlen(wire->before)) };
    begin_locked(wires, wire, WIRE_LETTING, WIRE_LET, params, 2);
}

/* ---- hearing ---- */

static void
have_locked(struct my_wires *wires, struct my_wire *wire)
{
    dibs_bell *bell = wire->bell;
    wire->state = WIRE_HELD;
    if (dibs__my_wire_listen_locked(wires, wire))
        give_up_locked(wires, wire);
    if (bell)
        wires->host->ring(bell);
}

/* Of one that was interrupted because its claim has ended, its own bell is left. */
static void
got_answer_locked(struct my_wires *wires, struct my_wire *wire)
{
    int64_t answer = dibs__my_wire_answer(wire, wire->asked);
    if (wire->serial == 0 && !wire->link.is_broken)
        let_go_locked(wires, wire);
    else if (answer < 0)
        give_up_locked(wires, wire);
    else if (answer == 0) /* its time was over */
        ask_other_locked(wires, wire, wire->before + strlen(BELL));
    else
        have_locked(wires, wire);
}

static void
heard(struct my_wires *wires, struct my_wire *wire)
{
    if (wire->was_lost)
        give_up_locked(wires, wire);
    else if (wire->state == WIRE_ASKING)
        got_answer_locked(wires, wire);
    else if (wire->link.said)
        give_up_locked(wires, wire);
    else
        dibs__my_wire_put_locked(wires, wire);
}

/* ---- a claim waits ---- */

static int
prepare(struct my_wires *wires, struct my_wire *wire, dibs_time deadline)
{
    int rc = DIBS_OK;
    for (int which = WIRE_GET; !rc && which <= WIRE_OTHER; which++)
        rc = dibs__my_wire_prepare(wires, wire, (enum my_wire_statement)which, deadline,
                                   NULL);
    return rc;
}

static void
name_bells(struct my_wire *wire, const dibs_session *session, const dibs_claim *claim)
{
    wire->name_len = (size_t)snprintf(wire->name, sizeof wire->name, BELL "%s:%llu",
                                      session->id_hex, (unsigned long long)claim->serial);
    (void)snprintf(wire->before, sizeof wire->before, BELL "%s", dibs__sql_before(claim));
}

static int
has_wire(struct my_wires *wires, const dibs_claim *claim)
{
    pthread_mutex_lock(&wires->mutex);
    struct my_wire *wire = dibs__my_wire_find_locked(wires, claim->serial);
    pthread_mutex_unlock(&wires->mutex);
    return wire != NULL;
}

/* With trouble there is no bell, and the claim looks now and then. */
void
dibs__my_bell_watch(struct my_bells *bells, const dibs_claim *claim, dibs_time deadline)
{
    struct my_wires *wires = &bells->wires;
    struct my_wire *wire = NULL;
    if (claim->mode == DIBS_OBSERVE || !*dibs__sql_before(claim) ||
        has_wire(wires, claim) ||
        dibs__my_wire_take(wires, &wire, claim->serial, deadline, NULL))
        return;
    name_bells(wire, wires->session, claim);
    int rc = prepare(wires, wire, deadline);
    pthread_mutex_lock(&wires->mutex);
    wire->bell = claim->bell;
    if (rc)
        give_up_locked(wires, wire);
    else
        ask_locked(wires, wire);
    pthread_mutex_unlock(&wires->mutex);
}

/* ---- what comes of it ---- */

/* It was woken, or looked by itself, and has to wait on. */
static void
wait_on_locked(struct my_wires *wires, struct my_wire *wire, const dibs_claim *claim)
{
    const char *before = dibs__sql_before(claim);
    dibs_time now = wires->host->now();
    int is_other = strcmp(before, wire->before + strlen(BELL)) != 0;
    if (wire->state != WIRE_HELD || !*before || (!is_other && now < wire->keeps_until))
        return;
    wire->keeps_until = now + YIELD_EACH;
    ask_other_locked(wires, wire, before);
}

/* Interrupts what a wire waits for: what it has is then let go. */
static void
interrupt(struct my_bells *bells, unsigned long id, dibs_time deadline)
{
    sql_pool *pool = bells->mysql->sql.pool;
    struct sql_conn *conn = NULL;
    char text[48];
    (void)snprintf(text, sizeof text, "KILL QUERY %lu", id);
    if (dibs__sql_borrow(pool, &conn, deadline, NULL))
        return;
    (void)dibs__sql_exec_on(pool, conn, text, deadline, NULL);
    dibs__sql_giveback(pool, conn);
}

void
dibs__my_bell_ended(struct my_bells *bells, const dibs_claim *claim, dibs_time deadline)
{
    struct my_wires *wires = &bells->wires;
    unsigned long waiting = 0;
    pthread_mutex_lock(&wires->mutex);
    struct my_wire *wire = dibs__my_wire_find_locked(wires, claim->serial);
    if (wire) {
        wire->serial = 0;
        wire->bell = NULL;
        if (wire->state == WIRE_HELD)
            let_go_locked(wires, wire);
        else if (wire->state == WIRE_ASKING)
            waiting = wire->link.id;
    }
    pthread_mutex_unlock(&wires->mutex);
    if (waiting)
        interrupt(bells, waiting, deadline);
}

void
dibs__my_bell_attempted(struct my_bells *bells, const dibs_claim *claim, int rc,
                        dibs_time deadline)
{
    struct my_wires *wires = &bells->wires;
    /* who shares what it has must not keep the one behind it asleep */
    if (rc == DIBS_OK && claim->mode != DIBS_EXCLUSIVE) {
        dibs__my_bell_ended(bells, claim, deadline);
        return;
    }
    pthread_mutex_lock(&wires->mutex);
    struct my_wire *wire = dibs__my_wire_find_locked(wires, claim->serial);
    if (wire && rc == DIBS_OK)
        wire->bell = NULL;
    else if (wire && rc == DIBS_EBUSY)
        wait_on_locked(wires, wire, claim);
    pthread_mutex_unlock(&wires->mutex);
}

int
dibs__my_bell_rings(struct my_bells *bells, const dibs_claim *claim)
{
    struct my_wires *wires = &bells->wires;
    pthread_mutex_lock(&wires->mutex);
    const struct my_wire *wire = dibs__my_wire_find_locked(wires, claim->serial);
    int rings = wire && wire->state == WIRE_ASKING;
    pthread_mutex_unlock(&wires->mutex);
    return rings;
}

/* ---- open and close ---- */

int
dibs__my_bells_open(struct mysql *mysql, dibs_error *err)
{
    const dibs_host *host = mysql->sql.host;
    struct my_bells *bells = host->alloc(sizeof *bells);
    if (!bells)
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    bells->mysql = mysql;
    bells->wires = (struct my_wires){ .session = mysql->sql.session,
                                      .login = &mysql->login,
                                      .heard = heard,
                                      .most = BELLS_MOST };
    memcpy(bells->wires.texts, texts, sizeof texts);
    int rc = dibs__my_wires_open(&bells->wires, err);
    if (rc)
        host->free(bells);
    else
        mysql->bells = bells;
    return rc;
}

void
dibs__my_bells_close(struct my_bells *bells, int forked)
{
    const dibs_host *host = bells->wires.host;
    dibs__my_wires_close(&bells->wires, forked);
    host->free(bells);
}
