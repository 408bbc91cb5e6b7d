/* SPDX-License-Identifier: MIT */
/*
 * The client, and its transfers that nobody uses now: each has a connection, which is the
 * better the less time has passed since. So the last one that was given back is taken
 * first, and no more are kept than usually work at the same time.
 */
#include "http/parts.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define IDLE_MAX 64

/* ---- the pool ---- */

static struct transfer *
transfer_for_calls(http *client)
{
    struct transfer *transfer = dibs__http_transfer_new(client);
    if (!transfer)
        return NULL;
    transfer->multi = curl_multi_init();
    if (!transfer->multi) {
        dibs__http_transfer_free(transfer);
        return NULL;
    }
    (void)curl_multi_setopt(transfer->multi, CURLMOPT_MAXCONNECTS, (long)client->count);
    return transfer;
}

struct transfer *
dibs__http_take(http *client)
{
    pthread_mutex_lock(&client->mutex);
    struct transfer *transfer = client->idle;
    if (transfer) {
        client->idle = transfer->next;
        client->idle_count--;
    }
    pthread_mutex_unlock(&client->mutex);
    return transfer ? transfer : transfer_for_calls(client);
}

void
dibs__http_give_back(struct transfer *transfer)
{
    http *client = transfer->http;
    pthread_mutex_lock(&client->mutex);
    int is_kept = client->idle_count < IDLE_MAX;
    if (is_kept) {
        transfer->next = client->idle;
        client->idle = transfer;
        client->idle_count++;
    }
    pthread_mutex_unlock(&client->mutex);
    if (!is_kept)
        dibs__http_transfer_free(transfer);
}

/* ---- the client ---- */

static void
init_libcurl(void)
{
    (void)curl_global_init(CURL_GLOBAL_DEFAULT);
}

/* libcurl reads the files with each connection: what is wrong with them shows too late. */
static int
check_file(const http_settings *settings, const char *what, const char *path,
           const char *mark, dibs_error *err)
{
    char line[512];
    int is_there = 0;
    if (!path)
        return DIBS_OK;
    FILE *file = fopen(path, "re");
    if (!file)
        return settings->host->fail(err, DIBS_ECONFIG, "cannot read the %s in %s: %s",
                                    what, path, strerror(errno));
    while (!is_there && fgets(line, sizeof line, file))
        is_there = strncmp(line, "-----BEGIN ", 11) == 0 && strstr(line, mark);
    (void)fclose(file);
    if (is_there)
        return DIBS_OK;
    return settings->host->fail(err, DIBS_ECONFIG, "there is no %s in %s", what, path);
}

static int
check_files(const http_settings *settings, dibs_error *err)
{
    const char *key = settings->key ? settings->key : settings->cert;
    if (!settings->tls)
        return DIBS_OK;
    if (settings->key && !settings->cert)
        return settings->host->fail(err, DIBS_ECONFIG, "a key without a certificate");
    int rc = check_file(settings, "authority", settings->ca, "CERTIFICATE-----", err);
    if (!rc)
        rc = check_file(settings, "certificate", settings->cert, "CERTIFICATE-----", err);
    if (!rc)
        rc = check_file(settings, "key", key, "PRIVATE KEY-----", err);
    return rc;
}

int
dibs__http_new(http **out, const http_settings *settings, dibs_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, init_libcurl);
    int rc = check_files(settings, err);
    if (rc)
        return rc;
    http *client = settings->host->alloc(sizeof *client);
    if (!client)
        return settings->host->fail(err, DIBS_ENOMEM, "out of memory");
    client->host = settings->host;
    client->settings = *settings;
    atomic_store(&client->edition, 1);
    pthread_mutex_init(&client->mutex, NULL);
    rc = dibs__http_servers_parse(client, settings->hosts, err);
    if (rc)
        dibs__http_free(client, 0);
    else
        *out = client;
    return rc;
}

static void
free_idle(http *client)
{
    while (client->idle) {
        struct transfer *transfer = client->idle;
        client->idle = transfer->next;
        dibs__http_transfer_free(transfer);
    }
}

/* What a thread of the parent was busy with when it forked cannot be taken apart here. */
void
dibs__http_free(http *client, int forked)
{
    const dibs_host *host = client->host;
    if (forked)
        dibs__http_fds_deaden(client);
    dibs__http_streams_free(client, forked);
    if (!forked || pthread_mutex_trylock(&client->mutex) == 0)
        free_idle(client);
    if (!forked)
        pthread_mutex_destroy(&client->mutex);
    if (client->header)
        explicit_bzero(client->header, strlen(client->header));
    host->free(client->header);
    host->free(client->servers);
    dibs__http_fds_free(client);
    host->free(client);
}

int
dibs__http_set_header(http *client, const char *line)
{
    size_t size = line ? strlen(line) + 1 : 0;
    char *copy = line ? client->host->alloc(size) : NULL;
    if (line && !copy)
        return DIBS_ENOMEM;
    if (line)
        memcpy(copy, line, size);
    pthread_mutex_lock(&client->mutex);
    char *old = client->header;
    client->header = copy;
    atomic_fetch_add(&client->edition, 1);
    pthread_mutex_unlock(&client->mutex);
    if (old)
        explicit_bzero(old, strlen(old));
    client->host->free(old);
    return DIBS_OK;
}
