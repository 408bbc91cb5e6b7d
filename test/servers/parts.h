/* SPDX-License-Identifier: MIT */
/* What the files of this folder share and tests need not know. */
#ifndef TEST_SERVERS_PARTS_H
#define TEST_SERVERS_PARTS_H

#include <stdio.h>

#include "servers.h"

/* who we are where there is an ACL file */
#define TESTS_USER "tests"
#define TESTS_PASSWORD "tests"

/* server.kind */
enum {
    KIND_ALONE,
    KIND_SENTINEL,
    KIND_CLUSTER,
    KIND_ZOOKEEPER,
    KIND_ETCD,
    KIND_CONSUL,
    KIND_POSTGRES,
    KIND_PGBOUNCER,
    KIND_MARIADB
};

/* server_prepare gives a server its ports and folder; it is not started yet, so that
 * files can be written there. server_run starts one that is prepared and waits until it
 * answers; server_await only waits. */
void server_prepare(server *out, int kind, const server_options *options);
void server_run(server *server);
void server_await(const server *server);

/* The words of a command, NULL at the end, and memory for those that are made. */
#define WORDS_MAX 64
#define WORDS_MADE_MAX 24
struct words {
    const char *list[WORDS_MAX + 1];
    char made[WORDS_MADE_MAX][256];
    int count, made_count;
};

/* word_add adds one; word_pair an option and its value; word_list all of a list that ends
 * with NULL, or is NULL. word_make prints one, which lives as long as the words do. */
void word_add(struct words *to, const char *word);
void word_pair(struct words *to, const char *option, const char *value);
void word_list(struct words *to, const char *const *list);
const char *word_make(struct words *in, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* word_daemon finds a program that is not for all, also if it is not on the path. */
const char *word_daemon(struct words *in, const char *name);

/* X_words adds what starts one after the program, and X_is_ready says whether it serves. */
void zookeeper_words(struct words *to, const server *server);
int zookeeper_is_ready(const server *server);
void etcd_words(struct words *to, const server *server);
int etcd_is_ready(const server *server);
void consul_words(struct words *to, const server *server);
int consul_is_ready(const server *server);
void postgres_words(struct words *to, const server *server);
void pgbouncer_words(struct words *to, const server *server);
void mariadb_words(struct words *to, const server *server);
int sql_is_ready(const server *server);

/* What is done to the first process of a server is done to those that it has started too:
 * family_pause returns when all stand still, family_kill when all are gone. */
void family_pause(pid_t pid);
void family_resume(pid_t pid);
void family_kill(pid_t pid);

/* set_run starts all servers of a set that is prepared. set_leader waits until one says of
 * itself that it leads, and returns its index. */
void set_run(server_set *set);
int set_leader(const server_set *set, int (*leads)(const server *));

/* http_ask asks a server over a connection of its own. `header` is a line that is added,
 * or NULL, and `body` may be NULL. The answer's body is for free(); NULL if none comes in
 * time. *status, if not NULL, gets the status. */
struct http_request {
    const char *method, *path, *header, *body;
    int64_t limit_ms;
};
char *http_ask(const server *server, const struct http_request *request, int *status);

/* http_insist is http_ask that asks again, for as long as that, while the server says that
 * it cannot: as a member does that has lost its leader, until it knows the next one. */
char *http_insist(const server *server, const struct http_request *request, int *status);

/* http_says says whether the answer comes soon, is fine and has a part in it. */
int http_says(const server *server, const char *path, const char *part);

/* json_text finds the next member with that name whose value is a text, at or behind a
 * place in an answer; returns where the text begins, and its length, or NULL. */
const char *json_text(const char *from, const char *name, size_t *len);
int64_t json_number(const char *from, const char *name); /* in a text or not; 0: none */

/* wires_start_patient is wires_start for those who take a connection that is ended at once
 * for worse than one that is refused: it waits that long for somebody to listen. */
void wires_start_patient(wires *out, const int *targets, int count, int64_t patience_ms);

/* wires_start_beside is the same, but a wire has the port of its target, at the address
 * BESIDE. */
#define BESIDE "127.0.1.1"
void wires_start_beside(wires *out, const int *targets, int count, int64_t patience_ms);

/* wires_start_sparing is wires_start, but of what comes from the address SPARED nothing is
 * cut, held up or muted. */
#define SPARED "127.0.0.2"
void wires_start_sparing(wires *out, const int *targets, int count);

/* server_file opens a file in the server's folder for writing; server_copy copies a file or
 * a folder there. */
FILE *server_file(const server *server, const char *name);
void server_copy(const char *from, const server *to, const char *as);

/* preload_begin makes what a server needs that is to have a clock of its own or to lose
 * power; preload_words adds what makes the program that follows use it. */
void preload_begin(const server *of);
void preload_words(struct words *to, const server *of);

/* run_words runs a command to its end; returns what it printed, for free(), and its status.
 * run_surely fails unless the status is 0. */
char *run_words(const struct words *words, int *status);
void run_surely(const struct words *words);

/* ---- databases ---- */

/* postgres_program finds one of the programs that are not on the path; as_postgres adds the
 * words with which a program runs as the user who may run it, and ends with us by a signal
 * ("QUIT"). own_folder gives that user all of a server's folder. */
const char *postgres_program(struct words *in, const char *name);
void as_postgres(struct words *to, const char *signal);
void own_folder(const server *of);

/* data_prepare is server_prepare for them. data_begin fills the folder "data" of a new server; data_add_certs copies the certificates
 * there, where it may read them. postgres_make_data and mariadb_make_data make the files, in
 * "data" of a folder of the server's own. */
void data_prepare(server *out, int kind, const server_options *options);
void data_begin(const server *of, const char *kind);
void data_add_certs(const server *of);
void postgres_make_data(const server *of);
void mariadb_make_data(const server *of);

/* postgres_configure writes the files with the settings of a server that has its data. A
 * standby is the one that its primary knows by this name. */
#define POSTGRES_STANDBY "standby"
void postgres_configure(const server *of);

/* sql_words, by means of one of the others, adds what runs statements in a database. */
void sql_words(struct words *to, const server *of, const char *database,
               const char *text);
void postgres_ask_words(struct words *to, const server *of, const char *database,
                        const char *text);
void mariadb_ask_words(struct words *to, const server *of, const char *database,
                       const char *text);

/* postgres_segment is the number of the memory by which a PostgreSQL knows whether another
 * runs in its folder, or -1; one that is killed leaves it in the system, until
 * postgres_forget. Both are safe in a signal handler. */
int postgres_segment(const server *of);
void postgres_forget(const server *of);

/* keep writes a set down in a file for set_attach, until this process ends. kept_by says
 * which process did, or 0. */
void keep(const server_set *set, const char *path);
pid_t kept_by(const char *path);

#endif /* TEST_SERVERS_PARTS_H */
