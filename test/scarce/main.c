/* SPDX-License-Identifier: MIT */
/* The program. See scarce.h. */
#include "scarce.h"

const store *at;
char **extra;

void
print_url(char *out, size_t size, const int *ports)
{
    char hosts[256] = "";
    int len = 0;
    for (int i = 0; i < at->servers; i++) {
        len += snprintf(hosts + len, sizeof(hosts) - (size_t)len, "%s127.0.0.1:%d",
                        i > 0 ? "," : "", ports[i]);
    }
    at->print_url(out, size, hosts);
}

int
is_bound(void)
{
    return strcmp(layout, "advisory") == 0 || strcmp(layout, "get_lock") == 0;
}

dibs_request
one_try(const char *name)
{
    dibs_request request = try_for(name);
    request.lease_ms = SHORT_MS;
    request.flags = DIBS_NO_REENTRY;
    return request;
}

int
try_once(dibs *client, const char *name)
{
    dibs_hold *hold = NULL;
    dibs_request request = one_try(name);
    int code = dibs_acquire(&hold, client, &request, &oops);
    if (code == DIBS_OK) {
        give(hold);
    }
    return code;
}

timed
begin_timed(const char *what, int64_t limit_ms)
{
    oops = (dibs_error){ 0 };
    return (timed){ what, now_ms(), limit_ms };
}

/* a text that only says what the code means */
static int
says_nothing(int code)
{
    const char *meaning = dibs_strerror(code);
    const char *found = strstr(oops.text, meaning);
    return oops.text[0] == '\0' || (found != NULL && strcmp(found, meaning) == 0);
}

int
end_timed(const timed *call, int code)
{
    int64_t took = now_ms() - call->began;
    printf("%s: %lld ms, %s%s%s\n", call->what, (long long)took, dibs_errname(code),
           code != DIBS_OK ? ": " : "", code != DIBS_OK ? oops.text : "");
    if (took > call->limit_ms + slowly(500)) {
        FAIL("%s took %lld ms, not %lld", call->what, (long long)took,
             (long long)call->limit_ms);
    }
    CHECK(code == DIBS_OK || (dibs_retryable(code) && oops.code == code));
    CHECK(code == DIBS_OK || code == DIBS_EBUSY || !says_nothing(code));
    return code;
}

/* A case; `prepare` may be NULL and is called before there are threads: 0, or -1 and it has
 * said why that cannot be done here. */
static const struct scarcity {
    fault_case one;
    int (*prepare)(void);
    void (*clean_up)(void);
} all[] = {
    { { "descriptors", run_descriptors }, NULL, descriptors_clean_up },
    { { "starved", run_starved }, NULL, starved_clean_up },
    { { "full", run_full }, full_prepare, full_clean_up },
    { { "names", run_names }, names_prepare, one_clean_up },
    { { "six", run_six }, six_prepare, one_clean_up },
    { { "ports", run_ports }, names_prepare, one_clean_up },
};

static int
run(const struct scarcity *chosen, char **argv)
{
    const fault_case cases[] = { chosen->one, { NULL, NULL } };
    fault_stage stage = at->stage;
    stage.clean_up = chosen->clean_up;
    if (stage.is_present() && chosen->prepare != NULL && chosen->prepare() != 0) {
        return EXIT_SKIPPED;
    }
    return fault_run(3, argv + 1, &stage, cases);
}

int
main(int argc, char **argv)
{
    at = argc >= 4 ? files_find(argv[1]) : NULL;
    at = argc >= 4 && at == NULL ? store_find(argv[1], argv[3]) : at;
    setlinebuf(stdout);
    extra = argv + 4;
    for (size_t i = 0; at != NULL && i < sizeof(all) / sizeof(all[0]); i++) {
        if (strcmp(all[i].one.name, argv[2]) == 0) {
            return run(&all[i], argv);
        }
    }
    fprintf(stderr, "usage: scarce ENGINE CASE LAYOUT\n");
    return 2;
}
