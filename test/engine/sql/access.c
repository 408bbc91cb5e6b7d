/* SPDX-License-Identifier: MIT */
/* Who may use what: users and passwords, servers that take no changes, TLS. See sql.h. */
#include "sql.h"

static void
check_no_password(void)
{
    if (strstr(oops.text, "secret") != NULL || strstr(oops.text, "guess") != NULL) {
        FAIL("'%s' has a password in it", oops.text);
    }
}

/* what is wrong is said, and is not taken for an outage */
static void
test_wrong(void)
{
    char url[256];
    start_one(NULL);
    sql_do(&one, NULL, "%s", database.create_user);
    sql_do(&one, DATABASE, "%s", database.grant_all);
    OK(try_as("app:secret@", ""));
    GIVES(DIBS_EDENIED, try_as("app:guess@", ""));
    check_no_password();
    CHECK_SAYS("app");
    GIVES(DIBS_EDENIED, try_as("nobody:secret@", ""));
    check_no_password();
    (void)snprintf(url, sizeof(url), "%s://%s127.0.0.1:%d/nowhere", engine.scheme,
                   engine.user, one.port);
    GIVES(DIBS_ECONFIG, try_url(url));
    CHECK_SAYS("nowhere");
    (void)snprintf(url, sizeof(url), "%s://%sno-such-host.invalid/" DATABASE,
                   engine.scheme, engine.user);
    GIVES(DIBS_EUNAVAIL, try_url(url));
    CHECK_SAYS("no-such-host.invalid");
    check_nothing_left(&one);
}

/* the password is in a file that the environment names, not in the URL */
static void
test_password_file(void)
{
    char path[96];
    start_one(NULL);
    sql_do(&one, NULL, "%s", database.create_user);
    sql_do(&one, DATABASE, "%s", database.grant_all);
    temp_dir(folder, sizeof(folder), "/tmp");
    (void)snprintf(path, sizeof(path), "%s/password", folder);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fputs("secret\n", file) >= 0 && fclose(file) == 0);
    setenv("DIBS_PASSWORD_FILE", path, 1);
    OK(try_as("app@", ""));
    GIVES(DIBS_EDENIED, try_as("app:guess@", ""));
    check_nothing_left(&one);
}

/* who may not make tables is told what to do; once somebody has made them, it may read and
 * write them, and needs no more for all that there is */
static void
test_rights(void)
{
    start_one(NULL);
    sql_do(&one, NULL, "%s", database.create_user);
    sql_do(&one, NULL, "%s", database.grant_connect);
    GIVES(DIBS_EDENIED, try_as("app:secret@", ""));
    CHECK_SAYS("dibs schema");
    OK(try_as(engine.user, ""));
    sql_do(&one, DATABASE, "%s", database.grant_use);
    OK(try_as("app:secret@", ""));
    check_nothing_left(&one);
}

/* a server that only follows another, or that somebody has made read-only */
static void
test_read_only(void)
{
    start_one(NULL);
    OK(try_as(engine.user, ""));
    dibs *client = open_at(one.port);
    dibs_hold *hold = take(client, NAME, LONG_MS);
    database.make_read_only(&one);
    int code = try_as(engine.user, "");
    printf("%s: %s\n", dibs_errname(code), oops.text);
    CHECK(code == DIBS_EUNSUPPORTED || code == DIBS_EUNAVAIL);
    CHECK(strstr(oops.text, "read-only") != NULL ||
          strstr(oops.text, "read_only") != NULL ||
          strstr(oops.text, "recovery") != NULL);
    /* what cannot be renewed any more ends in time */
    CHECK(is_lost(hold, LONG_MS + slowly(200)));
    GIVES(DIBS_ELOST, dibs_unlock(hold, &oops));
    dibs_close(client);
}

/* ---- TLS ---- */

static int
try_tls(const char *authority)
{
    char parameters[384];
    database.print_tls(parameters, sizeof(parameters), authority);
    return try_as("app:secret@", parameters);
}

static void
start_tls(const char *cert)
{
    static server_options options = { .certs = folder };
    options.cert = cert;
    make_certs();
    start_one(&options);
    sql_do(&one, NULL, "%s", database.create_user);
    sql_do(&one, DATABASE, "%s", database.grant_all);
}

static void
test_tls(void)
{
    start_tls(NULL);
    OK(try_tls("ca"));
    int code = try_tls("other");
    printf("%s: %s\n", dibs_errname(code), oops.text);
    CHECK(code == DIBS_EDENIED || code == DIBS_EUNAVAIL);
    check_no_password();
    check_nothing_left(&one);
}

/* A server that offers no TLS, or somebody in between who says so: who asked for it does not
 * go on without. */
static void
test_tls_stripped(void)
{
    make_certs();
    start_one(NULL);
    sql_do(&one, NULL, "%s", database.create_user);
    sql_do(&one, DATABASE, "%s", database.grant_all);
    OK(try_as("app:secret@", ""));
    int code = try_tls("ca");
    printf("%s: %s\n", dibs_errname(code), oops.text);
    CHECK(code == DIBS_EDENIED || code == DIBS_EUNAVAIL || code == DIBS_ECONFIG);
    check_no_password();
    check_nothing_left(&one);
}

static void
test_tls_wrong_host(void)
{
    start_tls("elsewhere");
    int code = try_tls("ca");
    printf("%s: %s\n", dibs_errname(code), oops.text);
    CHECK(code == DIBS_EDENIED || code == DIBS_EUNAVAIL);
    check_no_password();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "wrong", test_wrong },
        { "password_file", test_password_file },
        { "rights", test_rights },
        { "read_only", test_read_only },
        { "tls", test_tls },
        { "tls_stripped", test_tls_stripped },
        { "tls_wrong_host", test_tls_wrong_host },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
