/* SPDX-License-Identifier: MIT */
/* dibs cell: read or set a small value with a version. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cmd.h"
#include "common.h"

/* setting without --if-version reads and swaps; somebody else may be as eager */
#define SET_TRIES 100

static int
get(const struct options *options, dibs *client, const char *name, dibs_error *err)
{
    dibs_cell cell;
    err->code = dibs_cell_read(&cell, client, name, err);
    if (err->code != DIBS_OK)
        return say_error(options, err);
    if (options->json) {
        struct json json;
        json_begin(&json);
        json_bytes(&json, "name", name, strlen(name));
        json_uint(&json, "version", cell.version);
        json_bytes(&json, "value", cell.value, cell.len);
        (void)json_end(&json, stdout);
        return 0;
    }
    fwrite(cell.value, 1, cell.len, stdout);
    fputc('\n', stdout);
    if (options->verbose)
        say(options, "version %llu", (unsigned long long)cell.version);
    return 0;
}

static int
swap(uint64_t *version, const struct options *options, dibs *client, const char *name,
     const dibs_cell *value, dibs_error *err)
{
    if (options->has_if_version)
        return dibs_cell_swap(version, client, name, options->if_version, value->value,
                              value->len, err);
    int code = DIBS_ECONFLICT;
    for (int i = 0; i < SET_TRIES && code == DIBS_ECONFLICT; i++) {
        dibs_cell now = { 0 };
        code = dibs_cell_read(&now, client, name, err);
        if (code != DIBS_OK && code != DIBS_ENOTFOUND)
            return code;
        code = dibs_cell_swap(version, client, name, now.version, value->value,
                              value->len, err);
    }
    return code;
}

static int
set(const struct options *options, dibs *client, const char *name, const dibs_cell *value,
    dibs_error *err)
{
    uint64_t version = 0;
    err->code = swap(&version, options, client, name, value, err);
    if (err->code != DIBS_OK)
        return say_error(options, err);
    if (options->json) {
        struct json json;
        json_begin(&json);
        json_bytes(&json, "name", name, strlen(name));
        json_uint(&json, "version", version);
        (void)json_end(&json, stdout);
    } else if (!options->quiet) {
        printf("%llu\n", (unsigned long long)version);
    }
    return 0;
}

/* the value as the command line gives it: a word, or "-" for what stdin has */
static int
read_value(const struct options *options, dibs_cell *out, const char *word)
{
    out->len = strlen(word);
    if (strcmp(word, "-") != 0) {
        if (out->len > sizeof out->value)
            return opt_usage_error(options->verb, "a value has at most %d bytes",
                                   DIBS_CELL_MAX);
        memcpy(out->value, word, out->len);
        return -1;
    }
    out->len = fread(out->value, 1, sizeof out->value, stdin);
    if (out->len == sizeof out->value && fgetc(stdin) != EOF)
        return opt_usage_error(options->verb, "a value has at most %d bytes",
                               DIBS_CELL_MAX);
    if (!ferror(stdin))
        return -1;
    say(options, "cannot read the value: %s", strerror(errno));
    return 1;
}

int
cmd_cell(int argc, char **argv)
{
    struct options options;
    dibs_error err = { 0 };
    dibs *client = NULL;
    dibs_cell value;
    char cell_word[] = "cell";
    /* "cell get [OPTION...] NAME": the options come behind the second word */
    bool setting = argc > 1 && strcmp(argv[1], "set") == 0;
    bool known = setting || (argc > 1 && strcmp(argv[1], "get") == 0);
    if (known)
        argc--, argv++, argv[0] = cell_word;
    int first = 0, end = opt_parse(&options, &first, argc, argv);
    if (end >= 0)
        return end;
    if (!known)
        return opt_usage_error(options.verb, "get or set?");
    end = opt_operands(options.verb, argc - first, setting ? 2 : 1, setting ? 2 : 1);
    if (end < 0 && setting)
        end = read_value(&options, &value, argv[first + 1]);
    if (end >= 0)
        return end;
    err.code = client_open(&client, &options, NULL, &err);
    if (err.code != DIBS_OK)
        return say_error(&options, &err);
    end = setting ? set(&options, client, argv[first], &value, &err)
                  : get(&options, client, argv[first], &err);
    dibs_close(client);
    return end;
}
