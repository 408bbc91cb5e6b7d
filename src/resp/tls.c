/* SPDX-License-Identifier: MIT */
/*
 * TLS, with OpenSSL.
 *
 * OpenSSL works on memory only; we move the bytes. So the reader can wait in recv without
 * holding anything, and the mutex, which an SSL object needs, is held for no longer than
 * it takes to encrypt or decrypt, and to hand bytes to the kernel without waiting: their
 * order on the wire is the order of encryption.
 *
 * Parts: what OpenSSL has to say; settings; moving bytes; shaking hands; afterwards.
 */
#include "resp/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct resp_tls {
    SSL_CTX *settings;
    int insecure;
    char name[256]; /* "": the address that we connect to */
};

struct tls {
    pthread_mutex_t mutex; /* for all of it */
    SSL *ssl;
    BIO *in, *out;        /* owned by ssl */
    char rest[16384];     /* taken from `out`, not sent yet */
    size_t at, end;       /* ... from where to where */
    _Atomic int has_rest; /* also in `out` */
};

/* ---- what OpenSSL has to say ---- */

/* the text of an error that was taken from the queue, which is emptied */
static const char *
ssl_text(unsigned long code, char *text, size_t size)
{
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    if (code != 0 && reason == NULL)
        ERR_error_string_n(code, text, size);
    else
        (void)snprintf(text, size, "%s", reason != NULL ? reason : "no reason given");
    ERR_clear_error();
    return text;
}

/* the first error is the cause */
static const char *
ssl_reason(char *text, size_t size)
{
    return ssl_text(ERR_get_error(), text, size);
}

/* Does the server tell us that it wants another certificate of us, or one at all? */
static int
is_about_our_certificate(unsigned long code)
{
    int alert = ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET;
    return ERR_GET_LIB(code) == ERR_LIB_SSL &&
           ((alert >= SSL_AD_NO_CERTIFICATE && alert <= SSL_AD_CERTIFICATE_UNKNOWN) ||
            alert == SSL_AD_HANDSHAKE_FAILURE || alert == SSL_AD_UNKNOWN_CA ||
            alert == SSL_AD_ACCESS_DENIED || alert == SSL_AD_CERTIFICATE_REQUIRED);
}

/* ---- settings ---- */

static int
fail_settings(const dibs_host *host, const char *what, const char *file, dibs_error *err)
{
    char reason[160];
    return host->fail(err, DIBS_ECONFIG, "%s %s: %s", what, file,
                      ssl_reason(reason, sizeof(reason)));
}

/* OpenSSL reads a certificate's extensions when they are first asked for. Threads will share
 * these certificates: better before that. */
static void
read_authorities(SSL_CTX *settings)
{
    STACK_OF(X509_OBJECT) *all =
        X509_STORE_get0_objects(SSL_CTX_get_cert_store(settings));
    for (int i = 0; i < sk_X509_OBJECT_num(all); i++) {
        X509 *certificate = X509_OBJECT_get0_X509(sk_X509_OBJECT_value(all, i));
        if (certificate != NULL)
            (void)X509_check_purpose(certificate, -1, 0);
    }
    ERR_clear_error();
}

static int
load_trust(SSL_CTX *settings, const resp_tls_files *files, const dibs_host *host,
           dibs_error *err)
{
    if (files->insecure) {
        SSL_CTX_set_verify(settings, SSL_VERIFY_NONE, NULL);
        return DIBS_OK;
    }
    SSL_CTX_set_verify(settings, SSL_VERIFY_PEER, NULL);
    if (files->ca != NULL && SSL_CTX_load_verify_file(settings, files->ca) != 1)
        return fail_settings(host, "cannot use the authorities in", files->ca, err);
    if (files->ca == NULL && SSL_CTX_set_default_verify_paths(settings) != 1)
        return fail_settings(host, "cannot use", "the system's authorities", err);
    read_authorities(settings);
    return DIBS_OK;
}

static int
load_identity(SSL_CTX *settings, const resp_tls_files *files, const dibs_host *host,
              dibs_error *err)
{
    const char *key = files->key != NULL ? files->key : files->cert;
    if (files->cert == NULL && files->key != NULL)
        return host->fail(err, DIBS_ECONFIG,
                          "a key without a certificate: give cert=FILE");
    if (files->cert == NULL)
        return DIBS_OK;
    if (SSL_CTX_use_certificate_chain_file(settings, files->cert) != 1)
        return fail_settings(host, "cannot use the certificate in", files->cert, err);
    if (SSL_CTX_use_PrivateKey_file(settings, key, SSL_FILETYPE_PEM) != 1)
        return fail_settings(host, "cannot use the key in", key, err);
    return DIBS_OK;
}

/* OpenSSL would ask at the terminal for the password of a key */
static int
no_password(char *buffer, int size, int for_writing, void *context)
{
    (void)buffer;
    (void)size;
    (void)for_writing;
    (void)context;
    return -1;
}

int
dibs__resp_tls_new(resp_tls **out, const resp_tls_files *files, const dibs_host *host,
                   dibs_error *err)
{
    resp_tls *tls = host->alloc(sizeof(*tls));
    if (tls == NULL)
        return host->fail(err, DIBS_ENOMEM, "out of memory");
    /* at exit our threads may still be at work: OpenSSL is not to tidy up before them */
    (void)OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, NULL);
    ERR_clear_error();
    tls->insecure = files->insecure;
    tls->settings = SSL_CTX_new(TLS_client_method());
    int code = DIBS_ENOMEM;
    if (tls->settings == NULL)
        (void)host->fail(err, code, "out of memory");
    else if (files->name != NULL && strlen(files->name) >= sizeof(tls->name))
        code = host->fail(err, DIBS_ECONFIG, "a name of more than 255 bytes to verify");
    else {
        if (files->name != NULL)
            memcpy(tls->name, files->name, strlen(files->name) + 1);
        SSL_CTX_set_min_proto_version(tls->settings, TLS1_2_VERSION);
        SSL_CTX_set_options(tls->settings, SSL_OP_NO_RENEGOTIATION);
        SSL_CTX_set_default_passwd_cb(tls->settings, no_password);
        code = load_trust(tls->settings, files, host, err);
        if (code == DIBS_OK)
            code = load_identity(tls->settings, files, host, err);
    }
    if (code != DIBS_OK)
        dibs__resp_tls_free(tls, host);
    else
        *out = tls;
    return code;
}

void
dibs__resp_tls_free(resp_tls *tls, const dibs_host *host)
{
    if (tls == NULL)
        return;
    SSL_CTX_free(tls->settings);
    host->free(tls);
}

/* ---- moving bytes; the mutex is held, or nobody else knows the wire yet ---- */

/* hands to the kernel what is encrypted, as far as it goes: 0, or -1 (errno) */
static int
push(struct wire *wire)
{
    struct tls *tls = wire->tls;
    for (;;) {
        if (tls->at == tls->end) {
            int n = BIO_read(tls->out, tls->rest, (int)sizeof(tls->rest));
            if (n <= 0)
                break;
            tls->at = 0;
            tls->end = (size_t)n;
        }
        ssize_t n = send(wire->fd, tls->rest + tls->at, tls->end - tls->at,
                         MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0)
            tls->at += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            break;
        else if (errno != EINTR)
            return -1;
    }
    atomic_store(&tls->has_rest, tls->at != tls->end || BIO_ctrl_pending(tls->out) > 0);
    return 0;
}

/* ---- shaking hands ---- */

/* what to do about it, if we know */
static const char *
advice(const struct wire *wire, long verdict)
{
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH ||
        verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        return " (what it is for can be given: sni=NAME)";
    if (verdict == X509_V_ERR_CERT_HAS_EXPIRED ||
        verdict == X509_V_ERR_CERT_NOT_YET_VALID)
        return "";
    return wire->access->tls->insecure
               ? ""
               : " (give the authority that signed it: ca=FILE, or do not verify: "
                 "insecure=yes)";
}

static int
fail_handshake(const struct wire *wire, dibs_error *err)
{
    char reason[160];
    long verdict = SSL_get_verify_result(wire->tls->ssl);
    const dibs_host *host = wire->access->host;
    if (verdict != X509_V_OK && !wire->access->tls->insecure) {
        ERR_clear_error();
        return host->fail(err, DIBS_EDENIED,
                          "%s has a certificate that we do not trust: %s%s", wire->where,
                          X509_verify_cert_error_string(verdict), advice(wire, verdict));
    }
    unsigned long cause = ERR_get_error();
    return host->fail(err, is_about_our_certificate(cause) ? DIBS_EDENIED : DIBS_EUNAVAIL,
                      "TLS with %s: %s", wire->where,
                      ssl_text(cause, reason, sizeof(reason)));
}

/* more of the server's part of the handshake: DIBS_OK or why not */
static int
pull(struct wire *wire, dibs_time deadline, dibs_error *err)
{
    char bytes[4096];
    if (dibs__wire_wait(wire, POLLIN, deadline) == 0)
        return dibs__wire_fail_connect(wire, "no answer in time (does it speak TLS?)",
                                       err);
    ssize_t n = recv(wire->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
    if (n > 0)
        return BIO_write(wire->tls->in, bytes, (int)n) == n
                   ? DIBS_OK
                   : wire->access->host->fail(err, DIBS_ENOMEM, "out of memory");
    if (n == 0)
        return dibs__wire_fail_connect(
            wire, "the server ended the TLS handshake (does it speak TLS?)", err);
    if (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)
        return DIBS_OK;
    return dibs__wire_fail_connect(wire, strerror(errno), err);
}

static int
shake_hands(struct wire *wire, dibs_time deadline, dibs_error *err)
{
    struct tls *tls = wire->tls;
    for (;;) {
        ERR_clear_error();
        int n = SSL_do_handshake(tls->ssl);
        int what = n == 1 ? SSL_ERROR_NONE : SSL_get_error(tls->ssl, n);
        /* an alert tells the server why, if it can be sent at once */
        if (push(wire) != 0)
            return dibs__wire_fail_connect(wire, strerror(errno), err);
        if (what != SSL_ERROR_NONE && what != SSL_ERROR_WANT_READ)
            return fail_handshake(wire, err);
        if (atomic_load(&tls->has_rest)) {
            if (dibs__wire_wait(wire, POLLOUT, deadline) == 0)
                return dibs__wire_fail_connect(wire, "no answer in time", err);
        } else if (what == SSL_ERROR_NONE) {
            return DIBS_OK;
        } else {
            int code = pull(wire, deadline, err);
            if (code != DIBS_OK)
                return code;
        }
    }
}

static int
is_number(const char *host)
{
    struct in6_addr address;
    return inet_pton(AF_INET, host, &address) == 1 ||
           inet_pton(AF_INET6, host, &address) == 1;
}

/* whose certificate we want to see */
static int
expect(const resp_tls *settings, SSL *ssl, const char *host)
{
    const char *name = settings->name[0] != '\0' ? settings->name : host;
    if (is_number(name))
        return settings->insecure ||
               X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
    return SSL_set_tlsext_host_name(ssl, name) == 1 &&
           (settings->insecure || SSL_set1_host(ssl, name) == 1);
}

static struct tls *
tls_new(const struct wire *wire)
{
    struct tls *tls = wire->access->host->alloc(sizeof(*tls));
    if (tls == NULL)
        return NULL;
    tls->ssl = SSL_new(wire->access->tls->settings);
    tls->in = BIO_new(BIO_s_mem());
    tls->out = BIO_new(BIO_s_mem());
    if (tls->ssl == NULL || tls->in == NULL || tls->out == NULL) {
        SSL_free(tls->ssl);
        BIO_free(tls->in);
        BIO_free(tls->out);
        wire->access->host->free(tls);
        return NULL;
    }
    SSL_set_bio(tls->ssl, tls->in, tls->out);
    SSL_set_connect_state(tls->ssl);
    pthread_mutex_init(&tls->mutex, NULL);
    return tls;
}

int
dibs__tls_start(struct wire *wire, const char *host, dibs_time deadline, dibs_error *err)
{
    struct tls *tls = tls_new(wire);
    wire->tls = tls;
    if (tls == NULL || !expect(wire->access->tls, tls->ssl, host)) {
        ERR_clear_error();
        return wire->access->host->fail(err, DIBS_ENOMEM, "out of memory");
    }
    return shake_hands(wire, deadline, err);
}

void
dibs__tls_end(struct wire *wire)
{
    struct tls *tls = wire->tls;
    /* say goodbye, if that goes without waiting and the handshake is over */
    if (SSL_is_init_finished(tls->ssl)) {
        (void)SSL_shutdown(tls->ssl);
        (void)push(wire);
    }
    ERR_clear_error();
    SSL_free(tls->ssl);
    pthread_mutex_destroy(&tls->mutex);
    wire->access->host->free(tls);
    wire->tls = NULL;
}

/* ---- afterwards ---- */

int
dibs__tls_has_rest(const struct tls *tls)
{
    return atomic_load(&tls->has_rest);
}

ssize_t
dibs__tls_send(struct wire *wire, const char *bytes, size_t len)
{
    struct tls *tls = wire->tls;
    size_t done = 0;
    pthread_mutex_lock(&tls->mutex);
    int is_fine = push(wire) == 0;
    if (is_fine && len > 0 && !atomic_load(&tls->has_rest)) {
        ERR_clear_error();
        if (SSL_write_ex(tls->ssl, bytes, len, &done) != 1) {
            ERR_clear_error();
            errno = EPROTO;
            is_fine = 0;
        } else {
            is_fine = push(wire) == 0;
        }
    }
    pthread_mutex_unlock(&tls->mutex);
    return is_fine ? (ssize_t)done : -1;
}

/* A server that wants a certificate of us says so only after the handshake. */
static int
fail_take(struct wire *wire, int what, dibs_error *err)
{
    char reason[160], text[240];
    if (what == SSL_ERROR_ZERO_RETURN)
        return dibs__wire_fail(wire, "the server closed the connection", err);
    unsigned long cause = ERR_get_error();
    wire->is_refused = is_about_our_certificate(cause);
    (void)snprintf(
        text, sizeof(text), "%s%s", ssl_text(cause, reason, sizeof(reason)),
        wire->is_refused ? " (the server wants to know us: cert=FILE, key=FILE)" : "");
    return dibs__wire_fail(wire, text, err);
}

static int
take_locked(struct wire *wire, const char *bytes, size_t len, dibs_error *err)
{
    struct tls *tls = wire->tls;
    char plain[16384];
    size_t n;
    int got = 0;
    ERR_clear_error();
    if (BIO_write(tls->in, bytes, (int)len) != (int)len)
        return dibs__wire_fail(wire, "out of memory", err);
    while (SSL_read_ex(tls->ssl, plain, sizeof(plain), &n) == 1) {
        if (dibs__wire_feed(wire, plain, n, err) != 0)
            return -1;
        got = 1;
    }
    int what = SSL_get_error(tls->ssl, 0);
    /* replies that came before the end are good */
    if (what != SSL_ERROR_WANT_READ && !got)
        return fail_take(wire, what, err);
    /* it may have had to answer, to a change of keys for example */
    if (push(wire) != 0 && !got)
        return dibs__wire_fail(wire, strerror(errno), err);
    return got;
}

int
dibs__tls_take(struct wire *wire, const char *bytes, size_t len, dibs_error *err)
{
    pthread_mutex_lock(&wire->tls->mutex);
    int result = take_locked(wire, bytes, len, err);
    pthread_mutex_unlock(&wire->tls->mutex);
    return result;
}
