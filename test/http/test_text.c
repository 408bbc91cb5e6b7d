/* SPDX-License-Identifier: MIT */
/* What is written and read, without any server: `test_http_text CASE`. */
#include "http_test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/etcd/grpc.h"

static void
clean_up(void)
{
}

/* ---- hosts ---- */

static void
check_first(const char *hosts, const char *want)
{
    char where[300];
    http *client = client_of(hosts);
    dibs__http_server(client, where, sizeof(where));
    if (strcmp(where, want) != 0) {
        FAIL("%s, not %s", where, want);
    }
    dibs__http_free(client, 0);
}

static void
test_hosts(void)
{
    static const char *const wrong[] = { ",",       "a,",     ":1",      "a:",  "a:0",
                                         "a:65536", "a:b",    "a b",     "a/b", "a@b",
                                         "[::1",    "[::1]2", "a:1,b:x", "a?b", "a#b" };
    check_first("", "127.0.0.1:1");
    check_first("a", "a:1");
    check_first("a.b-c_d:65535,e", "a.b-c_d:65535");
    check_first("[::1]", "[::1]:1");
    check_first("[fe80::1%eth0]:2379,b", "[fe80::1%eth0]:2379");
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        http *client = NULL;
        dibs_error err = { 0 };
        const http_settings settings = { .host = &test_host,
                                         .hosts = wrong[i],
                                         .port = 1 };
        if (dibs__http_new(&client, &settings, &err) != DIBS_ECONFIG) {
            FAIL("%s is taken for a host", wrong[i]);
        }
    }
}

static void
test_escape(void)
{
    char bytes[256], out[3 * 256 + 1];
    for (int i = 0; i < 256; i++) {
        bytes[i] = (char)i;
    }
    dibs__http_escape(out, "aZ09-._~", 8);
    CHECK(strcmp(out, "aZ09-._~") == 0);
    dibs__http_escape(out, "/ %\0\xff", 5);
    CHECK(strcmp(out, "%2F%20%25%00%FF") == 0);
    dibs__http_escape(out, bytes, 256);
    CHECK_SAME(strlen(out), 3 * (256 - 66) + 66);
}

/* ---- JSON ---- */

static void
check_json(const char *text, const char *want)
{
    const char *quoted = quotes(text);
    json_t *json = dibs__http_json(quoted, strlen(quoted));
    char *got = json ? json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if ((got == NULL) != (want == NULL) || (got && strcmp(got, quotes(want)) != 0)) {
        FAIL("%s is read as %s", text, got ? got : "nothing");
    }
    free(got);
    json_decref(json);
}

static void
test_json(void)
{
    check_json("{'a':9223372036854775807}", "{'a':9223372036854775807}");
    check_json("{'a':9223372036854775808,'b':1}", "{'a':'9223372036854775808','b':1}");
    check_json("[-9223372036854775808,-9223372036854775809]",
               "[-9223372036854775808,'-9223372036854775809']");
    check_json("18446744073709551615", "'18446744073709551615'");
    check_json("['\\\\',18446744073709551615,'\\'18446744073709551615']",
               "['\\\\','18446744073709551615','\\'18446744073709551615']");
    check_json("['\\\\\\'18446744073709551615',18446744073709551615]",
               "['\\\\\\'18446744073709551615','18446744073709551615']");
    check_json("[18446744073709551615.5]", "[1.8446744073709552e19]");
    check_json("[18446744073709551615", NULL);
    check_json("['18446744073709551615,18446744073709551615", NULL);
    check_json("true", "true");
    check_json("", NULL);
    check_json("rpc error: 18446744073709551615", NULL);
}

/* ---- messages of etcd's watches ---- */

static void
test_requests(void)
{
    static const char create[] = "\0\0\0\0\x15\x0a\x13\x0a\x03key\x12\x03kez\x28\x00"
                                 "\x28\x01\x38\x81\x80\x80\x08";
    char out[64];
    wire_range range = { .key = "key",
                         .key_len = 3,
                         .end = "kez",
                         .end_len = 3,
                         .filters = WIRE_NO_PUT | WIRE_NO_DELETE };
    size_t len = dibs__etcd_grpc_create(NULL, &range, 0x1000001);
    CHECK_SAME(len, sizeof(create) - 1);
    CHECK_SAME(dibs__etcd_grpc_create(out, &range, 0x1000001), len);
    CHECK(memcmp(out, create, len) == 0);
    CHECK_SAME(dibs__etcd_grpc_cancel(out, 300), 10);
    CHECK(memcmp(out, "\0\0\0\0\5\x12\3\x08\xac\x02", 10) == 0);
}

/* an answer with two events, as a server sends it */
static const char answer[] = "\x0a\x07\x08\x01\x10\x02\x18\xac\x02"        /* header */
                             "\x10\x05"                                    /* id 5 */
                             "\x5a\x0a\x12\x08\x0a\x03"                    /* put */
                             "key\x18\xac\x02"                             /* at 300 */
                             "\x5a\x0c\x08\x01\x12\x08\x0a\x03"            /* delete */
                             "kez\x18\xad\x02"                             /* at 301 */
                             "\x99\x06\1\2\3\4\5\6\7\x08\x9d\x06\1\2\3\4"; /* unknown */

static void
test_events(void)
{
    struct grpc_message message;
    wire_event event;
    CHECK_SAME(dibs__etcd_grpc_parse(&message, answer, sizeof(answer) - 1), 0);
    CHECK_SAME(message.id, 5);
    CHECK_SAME(message.revision, 300);
    CHECK(!message.is_created && !message.is_canceled);
    CHECK_SAME(dibs__etcd_grpc_next(&message, &event), 1);
    CHECK(event.is_put && event.key_len == 3 && memcmp(event.key, "key", 3) == 0);
    CHECK_SAME(event.mod_revision, 300);
    CHECK_SAME(dibs__etcd_grpc_next(&message, &event), 1);
    CHECK(!event.is_put && event.key_len == 3 && memcmp(event.key, "kez", 3) == 0);
    CHECK_SAME(event.mod_revision, 301);
    CHECK_SAME(dibs__etcd_grpc_next(&message, &event), 0);
    static const char refused[] = "\x10\x05\x18\x01\x20\x01\x28\x07\x32\x03why";
    CHECK_SAME(dibs__etcd_grpc_parse(&message, refused, sizeof(refused) - 1), 0);
    CHECK(message.is_created && message.is_canceled && message.compact_revision == 7);
    CHECK(message.reason_len == 3 && memcmp(message.reason, "why", 3) == 0);
    static const char nowhere[] = "\x10\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01\x20\x01";
    CHECK_SAME(dibs__etcd_grpc_parse(&message, nowhere, sizeof(nowhere) - 1), 0);
    CHECK_SAME(message.id, -1);
    CHECK_SAME(dibs__etcd_grpc_frame("\0\0\0\1\2"), 258);
    CHECK_SAME(dibs__etcd_grpc_frame("\1\0\0\1\2"), -1);
    CHECK_SAME(dibs__etcd_grpc_frame("\0\xff\xff\xff\xff"), -1);
}

/* reads all of it, and touches what it was given: nothing may lie outside */
static void
devour(const char *bytes, size_t len)
{
    struct grpc_message message;
    wire_event event;
    volatile unsigned sum = 0;
    char *copy = malloc(len > 0 ? len : 1);
    CHECK(copy != NULL);
    memcpy(copy, bytes, len);
    if (dibs__etcd_grpc_parse(&message, copy, len) == 0) {
        for (size_t i = 0; i < message.reason_len; i++) {
            sum += (unsigned char)message.reason[i];
        }
        while (dibs__etcd_grpc_next(&message, &event) > 0) {
            for (size_t i = 0; i < event.key_len; i++) {
                sum += (unsigned char)event.key[i];
            }
        }
    }
    (void)sum;
    free(copy);
}

/* cut short, and with bytes changed: the sanitizer sees what is read */
static void
test_hostile(void)
{
    char bytes[sizeof(answer)];
    uint64_t state = 1;
    for (size_t len = 0; len < sizeof(answer); len++) {
        devour(answer, len);
    }
    for (int round = 0; round < 200000; round++) {
        memcpy(bytes, answer, sizeof(answer));
        for (int i = 0; i < 1 + round % 4; i++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            bytes[(state >> 33) % (sizeof(answer) - 1)] = (char)(state >> 56);
        }
        devour(bytes, sizeof(answer) - 1);
    }
    static const char deep[] = "\x5a\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01";
    struct grpc_message message;
    CHECK_SAME(dibs__etcd_grpc_parse(&message, deep, sizeof(deep) - 1), -1);
    CHECK_SAME(dibs__etcd_grpc_parse(&message, "\x0b", 1), -1);
    CHECK_SAME(dibs__etcd_grpc_parse(&message, "\x10", 1), -1);
    CHECK_SAME(dibs__etcd_grpc_parse(&message, "\x0a\x02\x18", 3), -1);
}

/* ---- what is sent ---- */

static void
check_text(http_text *text, const char *want)
{
    size_t len = 0;
    const char *got = dibs__http_text_get(text, &len);
    CHECK(got != NULL && len == strlen(want) && memcmp(got, want, len + 1) == 0);
    dibs__http_text_free(text);
}

static void
test_written(void)
{
    char want[20001] = "";
    check_text(dibs__http_text_new(), "");
    http_text *text = dibs__http_text_new(), *more = dibs__http_text_new();
    dibs__http_text_add(text, "[");
    dibs__http_text_base64(text, "ab", 2);
    dibs__http_text_string(text, "\"a\\b\n\xc3\xa4", 7);
    dibs__http_text_base64(text, NULL, 0);
    dibs__http_text_number(more, UINT64_MAX);
    dibs__http_text_bytes(more, ",x", 1);
    dibs__http_text_move(text, more);
    dibs__http_text_move(text, dibs__http_text_new());
    check_text(text,
               "[\"YWI=\"\"\\u0022a\\u005cb\\u000a\xc3\xa4\"\"\"18446744073709551615,");
    text = dibs__http_text_new();
    for (int i = 0; i < 2000; i++) {
        dibs__http_text_add(text, "0123456789");
        memcpy(want + 10 * (size_t)i, "0123456789", 11);
    }
    check_text(text, want);
}

/* a part that could not be made is missed by the whole */
static void
test_lacking(void)
{
    size_t len;
    http_text *text = dibs__http_text_new(), *whole = dibs__http_text_new();
    dibs__http_text_add(text, "a");
    dibs__http_text_move(text, NULL);
    CHECK(dibs__http_text_get(text, &len) == NULL);
    dibs__http_text_add(text, "b");
    dibs__http_text_move(whole, text);
    CHECK(dibs__http_text_get(whole, &len) == NULL);
    dibs__http_text_free(whole);
    dibs__http_text_add(NULL, "c");
    dibs__http_text_move(NULL, dibs__http_text_new());
    dibs__http_text_free(NULL);
    CHECK(dibs__http_text_get(NULL, &len) == NULL);
}

int
main(int argc, char **argv)
{
    static const struct test_case cases[] = {
        CASE(hosts),  CASE(escape),  CASE(json),    CASE(requests),
        CASE(events), CASE(hostile), CASE(written), CASE(lacking),
    };
    return main_of(argc, argv, cases, sizeof(cases) / sizeof(cases[0]), clean_up);
}
