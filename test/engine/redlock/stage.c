/* SPDX-License-Identifier: MIT */
/* What the tests of the redlock engine share. */
#include "stage.h"

server_set set;
dibs_error oops;

static void
stop(void)
{
    set_stop(&set);
}

int
run_case(int argc, char **argv, const test_case *cases)
{
    if (!server_present("redis-server")) {
        printf("skipped: there is no redis-server\n");
        return EXIT_SKIPPED;
    }
    on_failure(stop);
    limit_time(140);
    for (; argc > 1 && cases->name != NULL; cases++) {
        if (strcmp(cases->name, argv[1]) == 0) {
            cases->run();
            stop();
            return 0;
        }
    }
    fprintf(stderr, "usage: %s CASE\n", argv[0]);
    return 2;
}

void
start(int count, const server_options *each)
{
    set_start_apart(&set, count, each);
}

void
url_of(char *out, size_t size, const char *more)
{
    char hosts[256];
    set_hosts(hosts, sizeof(hosts), &set);
    (void)snprintf(out, size, "redlock://%s%s", hosts, more);
}

dibs *
open_with(const char *more)
{
    char url[512];
    dibs *client = NULL;
    url_of(url, sizeof(url), more);
    OK(dibs_open(&client, url, NULL, &oops));
    return client;
}

void
expect(const char *file, int line, const char *call, int got, int want)
{
    if (got != want) {
        fail_at(file, line, "%s gives %s, not %s: %s", call, dibs_errname(got),
                dibs_errname(want), got != DIBS_OK ? oops.text : "");
    }
}

dibs_hold *
take(dibs *client, uint32_t lease_ms)
{
    dibs_request request = DIBS_REQUEST_INIT;
    dibs_hold *hold = NULL;
    request.name = NAME;
    request.lease_ms = lease_ms;
    request.wait_ms = slowly(20000);
    OK(dibs_acquire(&hold, client, &request, &oops));
    return hold;
}

void
give(dibs_hold *hold)
{
    OK(dibs_unlock(hold, &oops));
}

int
try_for(dibs *client)
{
    dibs_hold *hold = NULL;
    int code = dibs_trylock(&hold, client, NAME, &oops);
    if (code == DIBS_OK) {
        give(hold);
    }
    return code;
}

int
copies(void)
{
    int count = 0;
    for (int i = 0; i < set.count; i++) {
        count += set.servers[i].pid != 0 &&
                 server_answers(&set.servers[i], "1", "EXISTS", NAME);
    }
    return count;
}

int
has_value(const server *at, const char *value)
{
    char *text = server_ask(at, "GET", NAME);
    int same = text != NULL && strcmp(text, value) == 0;
    free(text);
    return same;
}

void
comes_to(int count, int64_t limit_ms)
{
    int64_t until = now_ms() + limit_ms;
    while (copies() != count && now_ms() < until) {
        sleep_ms(5);
    }
    CHECK_SAME(copies(), count);
}

int64_t
calls(const server *at)
{
    char *text = server_ask(at, "INFO", "commandstats");
    static const char *const commands[] = { "cmdstat_eval:calls=",
                                            "cmdstat_evalsha:calls=" };
    int64_t count = 0;
    for (int i = 0; i < 2 && text != NULL; i++) {
        const char *found = strstr(text, commands[i]);
        count += found != NULL ? strtoll(found + strlen(commands[i]), NULL, 10) : 0;
    }
    free(text);
    return count;
}
