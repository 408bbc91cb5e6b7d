/* SPDX-License-Identifier: MIT */
/*
 * URLs: SCHEME:[//[USER[:PASSWORD]@]HOSTS][PATH][?NAME=VALUE[&NAME=VALUE]...]
 */
#ifndef DIBS_CORE_URL_H
#define DIBS_CORE_URL_H

#include <dibs/engine.h>

#define DIBS__URL_PARAMS_MAX 32
#define DIBS__URL_MAX 4096

typedef struct dibs__url {
    dibs_url_parts parts;
    char *shown;  /* the URL for people: without its password */
    char *memory; /* what parts points into */
    size_t memory_len;
    char *password_file; /* content of $DIBS_PASSWORD_FILE, if that was used */
    const char *names[DIBS__URL_PARAMS_MAX];
    const char *values[DIBS__URL_PARAMS_MAX];
} dibs__url;

/* dibs__url_or_default returns the URL to use if `url` is what the caller gave: $DIBS_URL,
 * and "local:", stand in for NULL. */
const char *dibs__url_or_default(const char *url);

/* dibs__url_parse splits and decodes. *url may be freed whatever it returns: DIBS_OK,
 * DIBS_ECONFIG, DIBS_ENOMEM. */
int dibs__url_parse(dibs__url *url, const char *text, dibs_error *err);
void dibs__url_free(dibs__url *url);

/* dibs__url_password_from_file fills in a missing password from $DIBS_PASSWORD_FILE. */
int dibs__url_password_from_file(dibs__url *url, dibs_error *err);

/* dibs__url_check_params refuses parameters that an engine does not have, or only with
 * another layout. */
int dibs__url_check_params(const dibs__url *url, const dibs_engine *engine,
                           dibs_error *err);

/* What engines are lent: see dibs_host. */
const char *dibs__url_param(const dibs_url_parts *url, const char *name);
int dibs__url_param_ms(int64_t *ms, const dibs_url_parts *url, const char *name,
                       dibs_error *err);
int dibs__url_param_number(unsigned *out, const dibs_url_parts *url, const char *name,
                           unsigned least, unsigned most, dibs_error *err);
int dibs__url_param_choice(int *out, const dibs_url_parts *url, const char *name,
                           const char *const *choices, dibs_error *err);
int dibs__url_param_yes(int *out, const dibs_url_parts *url, const char *name,
                        dibs_error *err);

#endif /* DIBS_CORE_URL_H */
