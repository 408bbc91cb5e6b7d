/* SPDX-License-Identifier: MIT */
/* What libpq is told by files, as psql is: the service file and the password file; and what
 * it does about TLS if nobody says. See sql.h. */
#include "sql.h"

#include <sys/stat.h>

#define SERVICE "dibs-test"

static void
make_user(void)
{
    sql_do(&one, NULL, "%s", database.create_user);
    sql_do(&one, DATABASE, "%s", database.grant_all);
}

/* a file of `folder`, which only we can read */
static void
write_file(char *path, size_t size, const char *name, const char *text)
{
    (void)snprintf(path, size, "%s/%s", folder, name);
    FILE *file = fopen(path, "we");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
    CHECK(chmod(path, 0600) == 0);
}

static void
write_passfile(char *path, size_t size, const char *password)
{
    char text[128];
    (void)snprintf(text, sizeof(text), "127.0.0.1:%d:" DATABASE ":app:%s\n", one.port,
                   password);
    write_file(path, size, "passwords", text);
}

/* the URL names a service, and that says all the rest, and where the passwords are */
static void
test_service(void)
{
    char path[96], passwords[96], text[512];
    start_one(NULL);
    make_user();
    temp_dir(folder, sizeof(folder), "/tmp");
    write_passfile(passwords, sizeof(passwords), "secret");
    (void)snprintf(text, sizeof(text),
                   "[" SERVICE "]\nhost=127.0.0.1\nport=%d\ndbname=" DATABASE
                   "\nuser=app\npassfile=%s\n",
                   one.port, passwords);
    write_file(path, sizeof(path), "services", text);
    setenv("PGSERVICEFILE", path, 1);
    OK(try_url("postgres:///?service=" SERVICE));
    CHECK_SAME(sql_number(&one, DATABASE,
                          "SELECT count(*) FROM pg_tables WHERE tablename = 'dibs_locks' "
                          "AND tableowner = 'app'"),
               1);
    int code = try_url("postgres:///?service=no-such-service");
    printf("%s: %s\n", dibs_errname(code), oops.text);
    CHECK(code == DIBS_ECONFIG || code == DIBS_EUNAVAIL);
    CHECK_SAYS("no-such-service");
    check_nothing_left(&one);
}

/* the password is where psql would look for it, or in a file that the URL names */
static void
test_passfile(void)
{
    char path[96], parameters[128];
    start_one(NULL);
    make_user();
    temp_dir(folder, sizeof(folder), "/tmp");
    write_passfile(path, sizeof(path), "secret");
    setenv("PGPASSFILE", "/nowhere", 1);
    GIVES(DIBS_EDENIED, try_as("app@", ""));
    (void)snprintf(parameters, sizeof(parameters), "&passfile=%s", path);
    OK(try_as("app@", parameters));
    setenv("PGPASSFILE", path, 1);
    OK(try_as("app@", ""));
    /* what the URL says counts more */
    GIVES(DIBS_EDENIED, try_as("app:guess@", ""));
    write_passfile(path, sizeof(path), "guess");
    GIVES(DIBS_EDENIED, try_as("app@", ""));
    CHECK(strstr(oops.text, "guess") == NULL);
    check_nothing_left(&one);
}

static int
count_ciphered(void)
{
    return (int)sql_number(&one, NULL,
                           "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a "
                           "USING (pid) WHERE s.ssl AND a.datname = '" DATABASE "'");
}

static void
check_prefer(const char *parameters, int is_ciphered)
{
    char url[256];
    print_url(url, sizeof(url), "app:secret@", parameters);
    dibs *client = open_url("%s", url);
    dibs_hold *hold = take(client, NAME, LONG_MS);
    CHECK_SAME(count_ciphered() > 0, is_ciphered);
    give(hold);
    dibs_close(client);
    EVENTUALLY(slowly(5000), sql_count_clients(&one) == 0);
}

/* without a word, and with sslmode=prefer, TLS is used where there is one */
static void
test_prefer(void)
{
    static server_options options = { .certs = folder };
    char parameters[256];
    make_certs();
    start_one(&options);
    make_user();
    for (int i = 0; i < 2; i++) {
        (void)snprintf(parameters, sizeof(parameters),
                       "%s&sslcert=%s/client.crt&sslkey=%s/client.key",
                       i == 0 ? "" : "&sslmode=prefer", folder, folder);
        check_prefer(parameters, 1);
    }
}

/* ... and is not insisted on where there is none */
static void
test_prefer_plain(void)
{
    start_one(NULL);
    make_user();
    check_prefer("", 0);
    check_prefer("&sslmode=prefer", 0);
    CHECK(try_as("app:secret@", "&sslmode=require") != DIBS_OK);
    CHECK_SAYS("SSL");
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "service", test_service },
        { "passfile", test_passfile },
        { "prefer", test_prefer },
        { "prefer_plain", test_prefer_plain },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &stage, cases);
}
