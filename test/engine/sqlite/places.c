/* SPDX-License-Identifier: MIT */
/* Where a file may be, and what may be in it. */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "faults.h"

#define NOBODY 65534

static const char *
url_of(const char *format, const char *word)
{
    static char url[256];
    (void)snprintf(url, sizeof url, format, word);
    return url;
}

static void
refuses(const char *url, int code, const char *part)
{
    dibs *client = NULL;
    GIVES(code, try_open(&client, url, 1000));
    CHECK_SAYS(part);
}

static void
write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    CHECK(file != NULL && fputs(text, file) >= 0 && fclose(file) == 0);
}

/* works from the folder in which the program is, and stays with the file if that changes */
static void
relative(void)
{
    CHECK_SAME(chdir(folder()), 0);
    dibs *client = open_url("sqlite:locks");
    CHECK_SAME(chdir("/"), 0);
    dibs *other = open_url("%s", file_url());
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    GIVES(DIBS_EBUSY, try_take(other, NAME));
    give(hold);
    dibs_close(other);
    dibs_close(client);
    check_whole();
}

static void
no_folder(void)
{
    refuses(url_of("sqlite:%s/nonesuch/locks", folder()), DIBS_EUNAVAIL, "folder");
}

static void
no_name(void)
{
    refuses("sqlite:", DIBS_ECONFIG, "names no file");
    refuses(url_of("sqlite:%s/", folder()), DIBS_ECONFIG, "names no file");
}

static void
no_host(void)
{
    refuses("sqlite://host/locks", DIBS_ECONFIG, "has no host");
    dibs_close(open_url("sqlite://%s", file_path())); /* an empty one is fine */
}

/* runs as somebody else, to whom the folder does not belong */
static void
as_nobody(void (*run)(void))
{
    int status;
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        if (setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
            _exit(2);
        run();
        _exit(0);
    }
    CHECK_SAME(waitpid(pid, &status, 0), pid);
    CHECK_SAME(status, 0);
}

static void
need_root(void)
{
    if (geteuid() == 0)
        return;
    puts("only root can become somebody else");
    exit(EXIT_SKIPPED);
}

static void
cannot_write(void)
{
    refuses(file_url(), DIBS_EDENIED, "Permission denied");
}

static void
denied(void)
{
    need_root();
    (void)folder();
    CHECK_SAME(chmod(folder(), 0755), 0);
    as_nobody(cannot_write);
}

static void
read_only(void)
{
    need_root();
    dibs_close(open_url("%s", file_url()));
    CHECK_SAME(chmod(folder(), 0777), 0);
    as_nobody(cannot_write);
}

static void
folder_as_file(void)
{
    refuses(url_of("sqlite:%s", folder()), DIBS_ECONFIG, "is not a file");
}

static void
no_database(void)
{
    write_file(file_path(), "this is a text, and surely no database; it must be long "
                            "enough to have a header, which has a hundred bytes.......");
    refuses(file_url(), DIBS_ECORRUPT, "not a database");
}

/* somebody's own database, in the old mode: its tables are left alone */
static void
foreign(void)
{
    (void)sql(file_path(), "CREATE TABLE mine AS SELECT 42 AS answer");
    dibs *client = open_url("%s", file_url());
    give(take(client, NAME, LEASE_MS));
    CHECK_SAME(sql(file_path(), "SELECT answer FROM mine"), 42);
    dibs_close(client);
    CHECK_SAME(
        sql(file_path(), "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"), 4);
    check_whole();
}

static void
other_tables(void)
{
    (void)sql(file_path(), "CREATE TABLE dibs_clock (mine)");
    refuses(file_url(), DIBS_ECORRUPT, "not those of dibs");
    (void)sql(file_path(), "DROP TABLE dibs_clock");
    (void)sql(file_path(), "DROP TABLE dibs_locks");
    (void)sql(file_path(), "CREATE TABLE dibs_locks (name, version, token)");
    dibs *client = open_url("%s?synchronous=normal", file_url());
    GIVES(DIBS_ECORRUPT, try_take(client, NAME));
    dibs_close(client);
}

static void
words(void)
{
    static const char *const good[] = { "off", "normal", "full" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        dibs *client = open_url("%s?synchronous=%s&poll=1s&waiter=5s&connections=2",
                                file_url(), good[i]);
        give(take(client, NAME, LEASE_MS));
        dibs_close(client);
    }
    refuses(url_of("%s?synchronous=maybe", file_url()), DIBS_ECONFIG, "synchronous");
    refuses(url_of("%s?colour=red", file_url()), DIBS_ECONFIG, "unknown parameter");
    check_whole();
}

/* two names of one file are one file */
static void
link_to_it(void)
{
    char second[128];
    dibs *client = open_url("%s", file_url());
    (void)snprintf(second, sizeof second, "%s/second", folder());
    CHECK_SAME(symlink(file_path(), second), 0);
    dibs *other = open_url("sqlite:%s", second);
    dibs_hold *hold = take(client, NAME, LEASE_MS);
    GIVES(DIBS_EBUSY, try_take(other, NAME));
    give(hold);
    dibs_close(other);
    dibs_close(client);
    check_whole();
}

int
main(int argc, char **argv)
{
    static const fault_case cases[] = {
        { "relative", relative },
        { "no_folder", no_folder },
        { "no_name", no_name },
        { "no_host", no_host },
        { "denied", denied },
        { "read_only", read_only },
        { "folder", folder_as_file },
        { "no_database", no_database },
        { "foreign", foreign },
        { "other_tables", other_tables },
        { "words", words },
        { "link", link_to_it },
        { NULL, NULL },
    };
    return fault_run(argc, argv, &sqlite_stage, cases);
}
