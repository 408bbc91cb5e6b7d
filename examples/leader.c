/* SPDX-License-Identifier: MIT */
/*
 * Leader: of three processes one leads, and the others stand by. The first leader
 * resigns, the second is killed; each time the next in line takes over and is told how
 * the one before it ended. A fourth process observes who leads.
 *
 * A leader is a holder: it can be lost (see dibs_held and dibs_lost_fd), and its token is
 * larger than that of every leader before it, so that work of an old one can be refused.
 *
 * Read next: eventloop.c.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <dibs.h>

enum { CANDIDATES = 3, TERM_MS = 300 };

static const char NAME[] = "examples/leader";

/* candidate waits for its turn and leads for a while: the second one does not survive it.
 */
static int
candidate(int number)
{
    dibs_error err;
    dibs *client;
    dibs_hold *leadership;
    char value[32];

    snprintf(value, sizeof value, "node-%d", number);
    if (dibs_open(&client, NULL, NULL, &err) != DIBS_OK ||
        dibs_campaign(&leadership, client, NAME, value, DIBS_WAIT_FOREVER, &err) != 0) {
        fprintf(stderr, "leader: %s\n", err.text);
        return 1;
    }
    printf("%s leads; the one before: %s\n", value,
           dibs_previous_name(dibs_previous(leadership)));
    fflush(stdout);
    /* a real leader works here, as long as dibs_held(leadership) */
    usleep(TERM_MS * 1000);
    if (number == 2)
        raise(SIGKILL);
    dibs_unlock(leadership, NULL); /* resign */
    dibs_close(client);
    return 0;
}

/* What the observer has seen so far. */
typedef struct seen {
    int leaders;
    uint64_t token;
    int rising;
} seen;

/* changed is called with the present state, and again after each change. */
static int
changed(const dibs_party *leader, void *arg)
{
    seen *so_far = arg;

    if (leader == NULL) {
        printf("  observer: nobody leads\n");
    } else if (leader->token != so_far->token) {
        printf("  observer: %s leads\n", leader->note);
        so_far->rising &= leader->token > so_far->token;
        so_far->token = leader->token;
        so_far->leaders++;
    }
    fflush(stdout);
    return so_far->leaders == CANDIDATES; /* non-zero ends dibs_observe */
}

static int
observer(void)
{
    dibs_error err;
    dibs *client;
    seen so_far = { 0, 0, 1 };
    int code = dibs_open(&client, NULL, NULL, &err);

    if (code == DIBS_OK) {
        code = dibs_observe(client, NAME, changed, &so_far, 30000, NULL, &err);
        dibs_close(client);
    }
    if (code < 0)
        fprintf(stderr, "leader: %s\n", err.text);
    return code < 0 || !so_far.rising;
}

int
main(void)
{
    int failed = 0;
    int killed = 0;

    if (fork() == 0)
        _exit(observer());
    for (int i = 1; i <= CANDIDATES; i++) {
        if (fork() == 0)
            _exit(candidate(i));
        usleep(50000); /* so that they queue in this order */
    }
    for (int status; wait(&status) > 0;) {
        killed += WIFSIGNALED(status);
        failed |= WIFEXITED(status) && WEXITSTATUS(status) != 0;
    }
    printf("all led in turn, %d was killed\n", killed);
    return failed || killed != 1;
}
