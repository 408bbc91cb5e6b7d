/* SPDX-License-Identifier: MIT */
/*
 * Tickets: how a dibs run inside CMD knows that its lock is held already. DIBS_TICKET has
 * an entry for each hold of each dibs run around it, separated by commas:
 *
 *     HASH-OF-URL '-' MODE '-' TOKEN '-' PREVIOUS '-' NAME-IN-HEX
 *
 * A ticket is a claim, not a proof: it may be old, or inherited by a process that outlived
 * its lock. So the engine is asked whether the name is held under that token right now. It
 * grants nothing by itself: whoever can forge one can also run CMD without any lock.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run.h"

static const char mode_letters[] = { 'x', 's', 'p' };

/* FNV-1a: tickets are compared between processes of one machine, not kept */
static uint64_t
hash_of(const char *text)
{
    uint64_t hash = 0xcbf29ce484222325u;
    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * 0x100000001b3u;
    return hash;
}

static bool
hex_is(const char *hex, size_t len, const char *name)
{
    static const char digits[] = "0123456789abcdef";
    size_t name_len = strlen(name);
    if (len != 2 * name_len)
        return false;
    for (size_t i = 0; i < name_len; i++) {
        unsigned char byte = (unsigned char)name[i];
        if (hex[2 * i] != digits[byte >> 4] || hex[2 * i + 1] != digits[byte & 15])
            return false;
    }
    return true;
}

/* one entry, if it is for this URL and name */
static bool
parse_entry(struct ticket *out, const char *entry, size_t len, uint64_t url_hash,
            const char *name)
{
    uint64_t hash = 0, token = 0;
    char mode = 0;
    int previous = 0, used = 0;
    if (sscanf(entry, "%16" SCNx64 "-%c-%20" SCNu64 "-%1d-%n", &hash, &mode, &token,
               &previous, &used) != 4 ||
        used == 0 || (size_t)used > len || hash != url_hash)
        return false;
    if (!hex_is(entry + used, len - (size_t)used, name))
        return false;
    *out = (struct ticket){ mode, token, previous };
    return true;
}

const char *
ticket_parse(struct ticket *out, const char *text, const char *url, const char *name)
{
    uint64_t url_hash = hash_of(url);
    while (*text) {
        size_t len = strcspn(text, ",");
        bool is_it = parse_entry(out, text, len, url_hash, name);
        text += len + (text[len] == ',');
        if (is_it)
            return text;
    }
    return NULL;
}

static bool
still_held(dibs *client, const char *name, uint64_t token)
{
    dibs_report *report = NULL;
    bool held = false;
    if (dibs_inspect(&report, client, name, NULL) != DIBS_OK)
        return false;
    for (size_t i = 0; i < report->holder_count && !held; i++)
        held = report->holders[i].token == token;
    dibs_report_free(report);
    return held;
}

/* what is held exclusively serves sharers too, but not the other way round */
static int
fits(const struct ticket *ticket, const char *name, int mode, dibs_error *err)
{
    if (ticket->mode == mode_letters[mode] ||
        (ticket->mode == 'x' && mode == DIBS_SHARED))
        return 1;
    if (ticket->mode != 's' || mode != DIBS_EXCLUSIVE)
        return 0;
    err->code = DIBS_EDEADLOCK;
    snprintf(
        err->text, sizeof err->text,
        "cannot lock '%.200s' exclusively: the dibs run around this one shares it, and "
        "would be waited for",
        name);
    return DIBS_EDEADLOCK;
}

int
ticket_find(struct ticket *out, dibs *client, const char *name, int mode, dibs_error *err)
{
    const char *at = getenv("DIBS_TICKET");
    while (at && (at = ticket_parse(out, at, dibs_url(client), name)) != NULL) {
        if (still_held(client, name, out->token))
            return fits(out, name, mode, err);
    }
    return 0;
}

char *
ticket_print(const struct taking *taking)
{
    const char *outer = getenv("DIBS_TICKET");
    uint64_t url_hash = hash_of(dibs_url(taking->client));
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);
    if (!out)
        return NULL;
    /* the innermost first: it is the one most likely asked for */
    for (size_t i = 0; i < taking->count; i++) {
        const dibs_request *request = &taking->wanted[i].request;
        fprintf(out, "%s%016" PRIx64 "-%c-%" PRIu64 "-%d-", i ? "," : "", url_hash,
                mode_letters[request->mode], dibs_token(taking->holds[i]),
                dibs_previous(taking->holds[i]));
        for (const char *byte = request->name; *byte; byte++)
            fprintf(out, "%02x", (unsigned char)*byte);
    }
    if (outer && *outer)
        fprintf(out, ",%s", outer);
    if (fclose(out) == 0)
        return text;
    free(text);
    return NULL;
}
