/* SPDX-License-Identifier: MIT */
/*
 * The layout `get_lock`: locks of GET_LOCK, which others use too. See bound.h.
 *
 * The token comes from a sequence, in the statement that takes the lock and after it was
 * taken; or from a row, in a statement of its own (MySQL has no sequences).
 */
#include "bound.h"

#include "sql/keymap_mysql.h"

/* a year, as with_advisory_lock waits; MariaDB takes no less than 0 for "for ever" */
#define WAIT_S 31536000
#define NAME_MOST_MYSQL 64

enum map { MAP_DIBS, MAP_DOTNET, MAP_RAILS, MAP_TOOZ, MAP_RAW };
enum token { TOKEN_AUTO, TOKEN_SEQUENCE, TOKEN_ROW };

struct getter {
    struct my_bound bound;
    int map;   /* enum map */
    int token; /* enum token, not AUTO */
};

/* ---- names ---- */

static int
map_name(const struct my_bound *bound, struct my_wire *wire, const dibs_claim *claim,
         dibs_error *err)
{
    static my_lockname *const maps[] = { dibs__sql_lockname_dibs,
                                         dibs__sql_lockname_dotnet,
                                         dibs__sql_lockname_rails, dibs__sql_lockname_raw,
                                         dibs__sql_lockname_raw };
    int map = ((const struct getter *)bound)->map;
    size_t most = bound->mysql->is_mariadb ? LOCKNAME_MAX : NAME_MOST_MYSQL;
    if (maps[map](wire->name, &wire->name_len, wire->link.login->database, claim->name,
                  claim->name_len) == 0 &&
        wire->name_len <= most)
        return DIBS_OK;
    return bound->wires.host->fail(err, DIBS_EINVAL,
                                   "the name cannot be one of GET_LOCK's in that way: it "
                                   "may have %zu bytes%s",
                                   most, map == MAP_DOTNET ? ", of ASCII" : "");
}

/* ---- what is said ---- */

static int
ask(struct my_bound *bound, struct my_wire *wire, const dibs_claim *claim,
    dibs_time deadline, dibs_error *err)
{
    const struct sql_value params[] = { sql_bytes(wire->name, wire->name_len),
                                        sql_number(0) };
    (void)claim;
    int rc = dibs__my_bound_run(bound, wire, WIRE_GET, params, 2, &wire->answer, deadline,
                                err);
    if (!rc && wire->answer < 0)
        rc = bound->wires.host->fail(err, DIBS_EUNAVAIL, "GET_LOCK was interrupted");
    return rc;
}

static size_t
wait_for(const struct my_bound *bound, const struct my_wire *wire,
         struct sql_value out[2])
{
    (void)bound;
    out[0] = sql_bytes(wire->name, wire->name_len);
    out[1] = sql_number(WAIT_S);
    return 2;
}

/* The token in a row, once the lock is ours: the table may have to be made, and others who
 * draw one at the same time, under other names, may be in the way. */
static int
draw_token(struct my_bound *bound, struct my_wire *wire, dibs_time deadline,
           dibs_error *err)
{
    const dibs_host *host = bound->wires.host;
    int rc, makes = 1;
    do {
        rc = dibs__my_bound_run(bound, wire, WIRE_TOKEN, NULL, 0, &wire->answer, deadline,
                                err);
        if (rc == SQL_NO_TABLE && makes) {
            rc = dibs__sql_make(bound->mysql->sql.pool, deadline, err);
            rc = rc ? rc : SQL_AGAIN;
            makes = 0;
        }
    } while ((rc == SQL_AGAIN || rc == SQL_BUSY) && host->now() < deadline);
    return rc >= SQL_DUPLICATE ? DIBS_EUNAVAIL : rc;
}

static int
give(struct my_bound *bound, struct my_wire *wire, dibs_time deadline, dibs_error *err)
{
    const struct sql_value params[] = { sql_bytes(wire->name, wire->name_len) };
    int64_t ignored;
    return dibs__my_bound_run(bound, wire, WIRE_LET, params, 1, &ignored, deadline, err);
}

static const struct my_bound_form by_sequence = {
    .name = map_name, .ask = ask, .wait_for = wait_for, .give = give
};
static const struct my_bound_form by_row = {
    .name = map_name, .ask = ask, .wait_for = wait_for, .token = draw_token, .give = give
};

/* ---- opening ---- */

static int
read_params(struct getter *getter, const dibs_url_parts *url, dibs_error *err)
{
    static const char *const maps[] = { "dibs", "dotnet", "rails", "tooz", "raw", NULL };
    static const char *const tokens[] = { "auto", "sequence", "row", NULL };
    struct mysql *mysql = getter->bound.mysql;
    const dibs_host *host = mysql->sql.host;
    int rc = host->param_choice(&getter->map, url, "map", maps, err);
    if (!rc)
        rc = host->param_choice(&getter->token, url, "token", tokens, err);
    if (!rc && getter->token == TOKEN_AUTO)
        getter->token = mysql->is_mariadb ? TOKEN_SEQUENCE : TOKEN_ROW;
    return rc;
}

static void
set_texts(struct getter *getter)
{
    int is_row = getter->token == TOKEN_ROW;
    const char **texts = getter->bound.wires.texts;
    getter->bound.form = is_row ? &by_row : &by_sequence;
    texts[WIRE_GET] = is_row ? "SELECT GET_LOCK(?1, ?2)"
                             : "SELECT CASE GET_LOCK(?1, ?2)"
                               " WHEN 1 THEN NEXTVAL(dibs_tokens) WHEN 0 THEN 0 END";
    texts[WIRE_LET] = "DO RELEASE_LOCK(?1)";
    texts[WIRE_TOKEN] =
        "INSERT INTO dibs_token (id, token) VALUES (1, LAST_INSERT_ID(1)) "
        "ON DUPLICATE KEY UPDATE token = LAST_INSERT_ID(token + 1)";
    getter->bound.mysql->drive.makes =
        is_row ? dibs__my_row_makes : dibs__my_sequence_makes;
}

static int
get_lock_open(void *state, dibs_session *session, const dibs_url_parts *url,
              dibs_time deadline, dibs_error *err)
{
    struct mysql *mysql = state;
    int rc = dibs__mysql_open(mysql, session, url, deadline, err);
    if (rc)
        return rc;
    rc = dibs__my_bound_open(mysql, sizeof(struct getter), err);
    if (!rc)
        rc = read_params((struct getter *)mysql->bound, url, err);
    if (rc)
        dibs__mysql_close(mysql, 0);
    else
        set_texts((struct getter *)mysql->bound);
    return rc;
}

static const char *const params[] = { MYSQL_PARAMS, "map", "token", NULL };

const dibs_engine dibs__mysql_get_lock = {
    MY_BOUND,
    .layout = "get_lock",
    .params = params,
    .caps = DIBS_CAP_LEASE | DIBS_CAP_TOKEN | DIBS_CAP_WAKE | DIBS_CAP_CELL,
    .open = get_lock_open,
    .schema = dibs__my_sequence_makes,
};
