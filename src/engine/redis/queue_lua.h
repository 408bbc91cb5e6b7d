/* SPDX-License-Identifier: MIT */
/* The scripts of the queue layout, as parts for dibs__redis_script_new; queue_lua.c. */
#ifndef DIBS_REDIS_QUEUE_LUA_H
#define DIBS_REDIS_QUEUE_LUA_H

/* The keys of a lock, in the order of KEYS; the clock and the gate's come behind. */
#define QUEUE_PREFIX "dibs:"
#define QUEUE_LINE ":q"
#define QUEUE_ENDS ":e"
#define QUEUE_INFOS ":i"

/* What a party says of itself; Lua reads the numbers, people the rest:
 * mode permits limit lease wait pid host_len app_len <host><app><note> */
#define QUEUE_INFO_SELF "%lld %zu %zu %.64s%.128s"
#define QUEUE_SELF_MAX 256

/* Channels: this and the 32 hex digits of a client's session. */
#define QUEUE_CHANNEL "dibs:c:"

/* queue.c says what is put together how. */
extern const char dibs__queue_lua_take_free[], dibs__queue_lua_give_lone[];
extern const char dibs__queue_lua_begin[], dibs__queue_lua_clock[];
extern const char dibs__queue_lua_join[], dibs__queue_lua_pass[];
extern const char dibs__queue_lua_state[], dibs__queue_lua_turns[];
extern const char dibs__queue_lua_take[], dibs__queue_lua_give[];
extern const char dibs__queue_lua_observe[], dibs__queue_lua_renew[];
extern const char dibs__queue_lua_share[], dibs__queue_lua_evict[];
extern const char dibs__queue_lua_look[];
/* one of these stands behind `begin` */
extern const char dibs__queue_lua_together[], dibs__queue_lua_apart[];

#endif /* DIBS_REDIS_QUEUE_LUA_H */
