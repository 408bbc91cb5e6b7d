/* SPDX-License-Identifier: MIT */
/*
 * What the tests of the layout redisson share. Redisson itself is played by single commands
 * here; test/interop has the real one. redisson.c: the form lock, and what all forms have
 * in common. redisson_forms.c: fair, fenced, rw.
 */
#ifndef TEST_REDIS_REDISSON_PLAY_H
#define TEST_REDIS_REDISSON_PLAY_H

#include <hiredis/hiredis.h>

#include "faults.h"

#define NAME "job 7"
#define QUEUE "redisson_lock_queue:{job 7}"
#define TIMEOUTS "redisson_lock_timeout:{job 7}"
#define TOKEN "redisson_lock_token:{job 7}"
#define CHANNEL "redisson_lock__channel:{job 7}"
#define RW_CHANNEL "redisson_rwlock:{job 7}"
/* owners of the other side */
#define THEM "6b0f4bc4-9e5b-4f0c-8d2a-0d6d3a2f1c11:51"
#define THEM_TOO "6b0f4bc4-9e5b-4f0c-8d2a-0d6d3a2f1c11:52"
/* a message wakes within this; nobody who only looks now and then is as fast */
#define AT_ONCE slowly(120)

dibs *open_form(const char *form);

/* expect_answer compares what server_ask said, and frees it. */
void expect_answer(const char *want_text, char *answer);

/* read_owner reads the owner in the one field of the lock that is no mode, without
 * ":write", and checks that it looks like Redisson's. */
void read_owner(char *out, size_t size);

/* key_count counts keys, but for the clock of tokens, which there is once. */
int64_t key_count(void);
int64_t ttl_of(const char *key);

/* they_take makes the other side hold the lock. */
void they_take(void);

/* subscribe listens to a channel; redisFree ends it. */
redisContext *subscribe(const char *channel);
void expect_message(redisContext *context, const char *text);

/* lose_replies lets several attempts arrive whose answers come too late: that counts as
 * one. */
void lose_replies(dibs *client);

#endif /* TEST_REDIS_REDISSON_PLAY_H */
