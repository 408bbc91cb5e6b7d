/* SPDX-License-Identifier: MIT */
/*
 * The imaginary network between a mock: client and its service, and the URL's options
 * that script its faults. docs/engines/mock.md describes them for users.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mock.h"

const char *const dibs__mock_params[] = { "delay",      "jitter",       "lose_after",
                                          "fail_after", "fail_for",     "drop_reply",
                                          "deny",       "drop_request", "caps",
                                          "seed",       "clock",        NULL };

static const struct {
    const char *name;
    uint32_t bit;
} cap_names[] = {
    { "lease", DIBS_CAP_LEASE },     { "fair", DIBS_CAP_FAIR },
    { "shared", DIBS_CAP_SHARED },   { "permits", DIBS_CAP_PERMITS },
    { "token", DIBS_CAP_TOKEN },     { "previous", DIBS_CAP_PREVIOUS },
    { "cell", DIBS_CAP_CELL },       { "inspect", DIBS_CAP_INSPECT },
    { "break", DIBS_CAP_BREAK },     { "linger", DIBS_CAP_LINGER },
    { "wake", DIBS_CAP_WAKE },       { "detail", DIBS_CAP_DETAIL },
    { "observe", DIBS_CAP_OBSERVE },
};

/* take_caps takes away what a list like "-lease,-fair" names. */
static int
take_caps(struct client *client, const char *list, dibs_error *err)
{
    while (list && *list) {
        size_t len = strcspn(list, ","), i = 0,
               count = sizeof(cap_names) / sizeof(*cap_names);

        while (i < count && (strlen(cap_names[i].name) + 1 != len ||
                             strncmp(list + 1, cap_names[i].name, len - 1) != 0))
            i++;
        if (*list != '-' || i == count)
            return client->host->fail(err, DIBS_ECONFIG,
                                      "caps= takes a list like -lease,-fair, not '%s'",
                                      list);
        client->session->caps &= ~cap_names[i].bit;
        list += len + (list[len] == ',');
    }
    return DIBS_OK;
}

static int
read_duration(dibs_time *out, struct client *client, const dibs_url_parts *url,
              const char *name, dibs_error *err)
{
    int64_t ms = *out / DIBS_MS;
    int rc = client->host->param_ms(&ms, url, name, err);

    if (!rc && client->host->param(url, name))
        *out = ms * DIBS_MS;
    return rc;
}

static int
read_probability(double *out, struct client *client, const dibs_url_parts *url,
                 const char *name, dibs_error *err)
{
    const char *text = client->host->param(url, name);
    char *end;

    if (!text)
        return DIBS_OK;
    *out = strtod(text, &end);
    if (end == text || *end || !(*out >= 0 && *out <= 1))
        return client->host->fail(err, DIBS_ECONFIG, "%s= takes 0 to 1, not '%s'", name,
                                  text);
    return DIBS_OK;
}

static int
read_durations(struct client *client, const dibs_url_parts *url, dibs_error *err)
{
    struct faults *faults = &client->faults;
    dibs_time fail_after = DIBS_NEVER, fail_for = DIBS_NEVER, now;
    int rc = read_duration(&faults->delay, client, url, "delay", err);

    if (!rc)
        rc = read_duration(&faults->jitter, client, url, "jitter", err);
    if (!rc)
        rc = read_duration(&faults->lose_after, client, url, "lose_after", err);
    if (!rc)
        rc = read_duration(&fail_after, client, url, "fail_after", err);
    if (!rc)
        rc = read_duration(&fail_for, client, url, "fail_for", err);
    if (rc)
        return rc;
    /* either alone makes sense: down from then on, or down at first */
    if (fail_after == DIBS_NEVER && fail_for != DIBS_NEVER)
        fail_after = 0;
    now = dibs__mock_now(client->service);
    faults->fail_from = fail_after == DIBS_NEVER ? DIBS_NEVER : now + fail_after;
    faults->fail_end = fail_for == DIBS_NEVER ? DIBS_NEVER : now + fail_after + fail_for;
    return DIBS_OK;
}

static int
read_faults(struct client *client, const dibs_url_parts *url, dibs_error *err)
{
    struct faults *faults = &client->faults;
    const char *seed = client->host->param(url, "seed");
    int rc = read_durations(client, url, err);

    if (!rc)
        rc = read_probability(&faults->drop_request, client, url, "drop_request", err);
    if (!rc)
        rc = read_probability(&faults->drop_reply, client, url, "drop_reply", err);
    if (!rc)
        rc = take_caps(client, client->host->param(url, "caps"), err);
    faults->deny = client->host->param(url, "deny");
    faults->seeded = seed != NULL;
    faults->random = seed ? strtoull(seed, NULL, 0) : 0;
    return rc;
}

int
dibs__mock_link_open(struct client *client, const dibs_url_parts *url, dibs_error *err)
{
    const dibs_host *host = client->host;
    const char *clock = host->param(url, "clock");
    char name[128];
    int rc;

    if (clock && strcmp(clock, "manual") != 0)
        return host->fail(err, DIBS_ECONFIG, "clock= takes manual, not '%s'", clock);
    if ((size_t)snprintf(name, sizeof name, "%s%s", url->hosts, url->path) >= sizeof name)
        return host->fail(err, DIBS_ECONFIG, "the service's name is too long");
    client->service = dibs__mock_service_get(name, clock != NULL, host);
    if (!client->service)
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    rc = read_faults(client, url, err);
    if (rc)
        dibs__mock_service_put(client->service, client);
    return rc;
}

/* fraction returns a number in [0, 1); with a seed from splitmix64. Wants the service
 * locked. */
static double
fraction(struct faults *faults, const dibs_host *host)
{
    uint64_t z;

    if (!faults->seeded)
        return (double)(host->random() >> 11) / (double)(UINT64_C(1) << 53);
    z = faults->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) / (double)(UINT64_C(1) << 53);
}

int
dibs__mock_send(struct client *client, dibs_time deadline, dibs_error *err)
{
    struct faults *faults = &client->faults;
    const dibs_host *host = client->host;
    dibs_time now = host->now(), arrival = now + faults->delay;
    int lost;

    dibs__mock_lock(client->service);
    if (faults->jitter)
        arrival += (dibs_time)((double)faults->jitter * fraction(faults, host));
    lost = faults->drop_request > 0 && fraction(faults, host) < faults->drop_request;
    dibs__mock_unlock(client->service);
    if (arrival > now)
        host->sleep_until(arrival < deadline ? arrival : deadline);
    /* a request that would arrive too late is lost on the way */
    if (lost || (arrival > now && arrival > deadline))
        return host->fail(err, DIBS_EUNKNOWN, "no reply");
    now = host->now();
    if (now >= faults->fail_from && now < faults->fail_end)
        return host->fail(err, DIBS_EUNAVAIL, "unreachable, as the URL says");
    return DIBS_OK;
}

int
dibs__mock_reply(struct client *client, int code, dibs_error *err)
{
    struct faults *faults = &client->faults;

    if (faults->drop_reply > 0 && fraction(faults, client->host) < faults->drop_reply)
        return client->host->fail(err, DIBS_EUNKNOWN, "no reply");
    return code;
}
