/* SPDX-License-Identifier: MIT */
/* What the tests of faults of databases share. See sql.h. */
#include "sql.h"

void
sql_start(server *out, const server_options *options)
{
    database.start(out, options);
    sql_do(out, NULL, "CREATE DATABASE " DATABASE);
}

int
sql_is_line(void)
{
    return strcmp(layout, "lease") == 0;
}

/* "KIND SINCE UNTIL ...": a holder that is alone has its UNTIL elsewhere, and 0 here */
static int
lives_on(const char *record, int64_t now_us)
{
    char kind;
    long long since, until_us;
    CHECK(sscanf(record, "%c %lld %lld ", &kind, &since, &until_us) == 3);
    return until_us == 0 || until_us > now_us;
}

/* a row: what the clock says, then the records */
static int
count_in_row(char *row)
{
    char *records = NULL;
    int64_t now_us = strtoll(strtok_r(row, "|", &records), NULL, 10);
    int count = 0;
    for (char *rest = NULL, *record = strtok_r(records, "|", &rest); record != NULL;
         record = strtok_r(NULL, "|", &rest)) {
        count += lives_on(record, now_us);
    }
    return count;
}

/* Those that have expired stay until somebody passes. */
int
sql_count_records(const server *of, const char *prefix)
{
    char *rows = sql_ask(of, DATABASE,
                         "SELECT concat(%s, '|', replace(state, '\n', '|')) FROM "
                         "dibs_locks WHERE %s",
                         database.now, *prefix != '\0' ? database.is_name : "1 = 1");
    int count = 0;
    for (char *rest = NULL, *row = rows != NULL ? strtok_r(rows, "\n", &rest) : NULL;
         row != NULL; row = strtok_r(NULL, "\n", &rest)) {
        count += count_in_row(row);
    }
    free(rows);
    return count;
}

void
sql_show_all(const server *of)
{
    sql_show(of, DATABASE);
}

int
try_url(const char *url)
{
    dibs *client = NULL;
    int code = try_open(&client, url, (uint32_t)slowly(2000));
    if (code == DIBS_OK) {
        code = try_take(client, NAME);
        dibs_close(client);
    }
    return code;
}

void
print_url(char *out, size_t size, const char *user, const char *parameters)
{
    int len = snprintf(out, size, "%s://%s127.0.0.1:%d/" DATABASE "?layout=%s%s",
                       engine.scheme, user, one.port, layout, parameters);
    CHECK((size_t)len < size);
}

int
try_as(const char *user, const char *parameters)
{
    char url[512];
    print_url(url, sizeof(url), user, parameters);
    return try_url(url);
}
