/* SPDX-License-Identifier: MIT */
/*
 * A correct lock, and what may be done wrong in it; see torture_world.h.
 *
 * In this order: numbers and time, the store, what is sent to it, a thread's turns, processes,
 * a run.
 */
#include "torture_world.h"

/* times are in ticks of half a millisecond */
#define TICK_NS INT64_C(500000)
#define BEGIN (INT64_C(1000000) * 1000 * 1000)
#define RUN 12000
#define LEASE 800
#define GRACE 80
#define ANSWER (LEASE / 6)
#define NEVER INT64_MAX

#define CLIENTS 4
#define THREADS 2
#define NAMES 3
#define LIMIT 3
#define LINE_MOST 128
#define MESSAGES_MOST 512

enum state { RESTS, ASKS, HOLDS, GIVES, STUCK };

struct thread {
    enum state state;
    struct turn *turn;
    int64_t due;   /* RESTS, HOLDS: until when; ASKS, GIVES: how long it waits */
    int64_t until; /* it is held */
    int64_t renew_at, write_at;
    int reply;
    int64_t reply_at; /* 0: there is none */
    int64_t reply_sent;
    uint64_t reply_token;
};

struct process {
    uint32_t life;
    int64_t paused_until, next_pause, next_kill;
    struct incident *pause;
    uint64_t tokens; /* of its own, where that is the mistake */
    struct thread threads[THREADS];
};

struct claim {
    struct turn *turn;
    struct thread *thread;
    int is_granted;
    int64_t ends, sent;
    uint64_t token;
};

struct line {
    struct claim claims[LINE_MOST];
    size_t count;
    uint64_t tokens, fence;
    int64_t freed;
};

enum kind { ASK, RENEW, END };

struct message {
    enum kind kind;
    int64_t sent, arrives;
    struct turn *turn;
    struct thread *thread;
};

static struct {
    uint64_t random;
    int64_t now;
    int stamps;
    enum mistake mistake;
    int has_leases;
    int64_t down_until;
    struct process processes[CLIENTS];
    struct line lines[NAMES];
    struct message messages[MESSAGES_MOST];
    size_t message_count;
} world;

static struct history *history;

/* ---- numbers and time ---- */

static int
does(enum mistake mistake)
{
    return world.mistake == mistake;
}

static uint64_t
below(uint64_t limit)
{
    world.random ^= world.random << 13;
    world.random ^= world.random >> 7;
    world.random ^= world.random << 17;
    return world.random % limit;
}

static int
one_in(uint64_t n)
{
    return below(n) == 0;
}

/* no two things happen at the same time */
static int64_t
stamp(void)
{
    return BEGIN + world.now * TICK_NS + ++world.stamps * 1000;
}

static struct process *
process_of(const struct thread *thread)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        struct process *process = &world.processes[i];
        if (thread >= process->threads && thread < process->threads + THREADS)
            return process;
    }
    return NULL;
}

/* ---- the store ---- */

static void
reply_to(const struct claim *claim, int code)
{
    struct thread *thread = claim->thread;
    if (thread->turn != claim->turn)
        return; /* it was killed, or has gone on */
    thread->reply = code;
    thread->reply_at = world.now + 1 + (int64_t)below(3);
    thread->reply_sent = claim->sent;
    thread->reply_token = claim->token;
}

static void
line_remove(struct line *line, size_t at)
{
    if (line->claims[at].is_granted)
        line->freed = world.now;
    memmove(&line->claims[at], &line->claims[at + 1],
            (line->count - at - 1) * sizeof *line->claims);
    line->count--;
}

static struct claim *
line_find(struct line *line, const struct turn *turn)
{
    for (size_t i = 0; i < line->count; i++) {
        if (line->claims[i].turn == turn)
            return &line->claims[i];
    }
    return NULL;
}

static int
fits(const struct line *line, const struct turn *turn)
{
    uint32_t out = 0;
    for (size_t i = 0; i < line->count; i++) {
        const struct turn *other = line->claims[i].turn;
        if (!line->claims[i].is_granted)
            continue;
        if (turn->mode == DIBS_EXCLUSIVE || other->mode == DIBS_EXCLUSIVE)
            return 0;
        out += other->permits;
    }
    return turn->mode != DIBS_PERMITS || out + turn->permits <= turn->limit;
}

/* how long the store keeps it without a word */
static void
extend(struct claim *claim)
{
    int64_t ends = world.now + (does(EXPIRES_EARLY) ? LEASE / 2 : LEASE);
    if (claim->ends < ends)
        claim->ends = ends;
}

static void
grant(struct line *line, struct claim *claim)
{
    claim->is_granted = 1;
    extend(claim);
    claim->token = ++line->tokens;
    if (does(OWN_TOKENS))
        claim->token = ++process_of(claim->thread)->tokens;
    reply_to(claim, DIBS_OK);
}

static struct claim *
first_waiting(struct line *line)
{
    struct claim *found = NULL;
    for (size_t i = 0; i < line->count; i++) {
        if (!line->claims[i].is_granted && (!found || does(LAST_FIRST)))
            found = &line->claims[i];
    }
    return found;
}

static void
serve(struct line *line)
{
    if (does(SERVES_LATE) && world.now < line->freed + 1200)
        return;
    for (;;) {
        struct claim *claim = first_waiting(line);
        if (!claim || !fits(line, claim->turn))
            return;
        grant(line, claim);
    }
}

static void
line_step(struct line *line)
{
    for (size_t i = line->count; i-- > 0;) {
        if (line->claims[i].ends <= world.now && world.has_leases)
            line_remove(line, i);
    }
    serve(line);
}

/* ---- what is sent to it ---- */

static void
send_message(enum kind kind, struct thread *thread)
{
    assert_true(world.message_count < MESSAGES_MOST);
    world.messages[world.message_count++] =
        (struct message){ kind, world.now, world.now + 1 + (int64_t)below(3),
                          thread->turn, thread };
}

static void
answer_ask(struct line *line, const struct message *message)
{
    struct claim new = { message->turn, message->thread, 0, 0, message->sent, 0 };
    int is_busy = line->count > 0 && (first_waiting(line) || !fits(line, new.turn));
    if (does(GUESSES) && one_in(4))
        is_busy = 1;
    if (is_busy && new.turn->wait_ms == DIBS_WAIT_NONE) {
        reply_to(&new, DIBS_EBUSY);
        return;
    }
    if (line_find(line, new.turn))
        return; /* it is there already */
    assert_true(line->count < LINE_MOST);
    extend(&new);
    line->claims[line->count++] = new;
    serve(line);
}

/* the store has forgotten it: a hold is lost, and one who waits comes last */
static void
answer_stranger(struct line *line, const struct message *message)
{
    struct claim gone = { message->turn, message->thread, 0, 0, 0, 0 };
    if (message->thread->turn != message->turn)
        return;
    if (message->thread->state == HOLDS)
        reply_to(&gone, DIBS_ELOST);
    if (message->thread->state == ASKS)
        answer_ask(line, message);
}

static void
answer_renew(struct line *line, const struct message *message)
{
    struct claim *claim = line_find(line, message->turn);
    if (!claim) {
        answer_stranger(line, message);
        return;
    }
    claim->sent = message->sent;
    extend(claim);
    if (claim->is_granted)
        reply_to(claim, DIBS_OK);
}

static void
answer_end(struct line *line, const struct message *message)
{
    struct claim *claim = line_find(line, message->turn);
    struct claim gone = { message->turn, message->thread, 0, 0, 0, 0 };
    if (does(ENDS_BY_NAME) && line->count && one_in(8))
        claim = &line->claims[0];
    if (message->thread->state == GIVES)
        reply_to(&gone, claim ? DIBS_OK : DIBS_ELOST);
    if (claim)
        line_remove(line, (size_t)(claim - line->claims));
    serve(line);
}

/* without leases, what is of a process ends with it */
static void
store_bury(struct process *process)
{
    size_t kept = 0;
    for (size_t i = 0; i < NAMES; i++) {
        struct line *line = &world.lines[i];
        for (size_t j = line->count; j-- > 0;) {
            if (process_of(line->claims[j].thread) == process)
                line_remove(line, j);
        }
    }
    for (size_t i = 0; i < world.message_count; i++) {
        if (process_of(world.messages[i].thread) != process)
            world.messages[kept++] = world.messages[i];
    }
    world.message_count = kept;
}

static void
store_embalm(const struct process *process)
{
    for (size_t i = 0; i < NAMES; i++) {
        struct line *line = &world.lines[i];
        for (size_t j = 0; j < line->count; j++) {
            if (process_of(line->claims[j].thread) == process)
                line->claims[j].ends = world.now + 6 * LEASE;
        }
    }
}

static void
store_step(void)
{
    static void (*const answers[])(
        struct line *, const struct message *) = { answer_ask, answer_renew, answer_end };
    size_t kept = 0;
    if (world.now < world.down_until)
        return;
    for (size_t i = 0; i < NAMES; i++) {
        struct line *line = &world.lines[i];
        if (does(FORGETS) && line->count && one_in(2000))
            line_remove(line, 0);
        line_step(line);
    }
    for (size_t i = 0; i < world.message_count; i++) {
        struct message message = world.messages[i];
        if (message.arrives > world.now)
            world.messages[kept++] = message;
        else
            answers[message.kind](&world.lines[message.turn->name], &message);
    }
    world.message_count = kept;
}

/* ---- a thread's turns ---- */

static void
draw_request(struct turn *turn)
{
    turn->name = (uint32_t)below(NAMES);
    if (turn->name == 1 && one_in(2))
        turn->mode = DIBS_SHARED;
    if (turn->name == 2) {
        turn->mode = DIBS_PERMITS;
        turn->permits = 1 + (uint32_t)below(2);
        turn->limit = LIMIT;
    }
    turn->lease_ms = LEASE / 2;
    turn->wait_ms = one_in(4)   ? DIBS_WAIT_NONE
                    : one_in(4) ? DIBS_WAIT_FOREVER
                                : (int64_t)below(600) + 1;
}

static int64_t
deadline_of(const struct turn *turn)
{
    if (turn->wait_ms == DIBS_WAIT_NONE)
        return world.now + ANSWER;
    return turn->wait_ms == DIBS_WAIT_FOREVER ? NEVER : world.now + 2 * turn->wait_ms;
}

static void
ask(struct thread *thread)
{
    struct process *process = process_of(thread);
    struct turn *turn = history_turn(history);
    assert_non_null(turn);
    turn->client = (uint32_t)(process - world.processes);
    turn->life = process->life;
    turn->thread = (uint32_t)(thread - process->threads);
    turn->fence_code = 1;
    draw_request(turn);
    thread->turn = turn;
    thread->state = ASKS;
    thread->reply_at = 0;
    thread->due = deadline_of(turn);
    thread->renew_at = world.now + LEASE / 3;
    turn->invoked = stamp();
    send_message(ASK, thread);
}

static void
rest(struct thread *thread)
{
    thread->state = RESTS;
    thread->turn = NULL;
    thread->due = world.now + (int64_t)below(one_in(10) ? 3000 : 60);
}

static void
return_code(struct thread *thread, int code)
{
    thread->turn->code = code;
    thread->turn->returned = stamp();
    if (code != DIBS_OK)
        rest(thread);
}

static void
begin_hold(struct thread *thread)
{
    thread->state = HOLDS;
    thread->due = world.now + (int64_t)below(one_in(5) ? 2 * LEASE : 30);
    thread->write_at =
        world.now + (int64_t)below((uint64_t)(thread->due - world.now) + 1);
    thread->renew_at = world.now;
    thread->turn->token = thread->reply_token;
    return_code(thread, DIBS_OK);
}

static void
read_grant(struct thread *thread)
{
    thread->until = thread->reply_sent + LEASE - GRACE;
    if (does(BELIEVES_TOO_LONG))
        thread->until = world.now + 2 * LEASE;
    if (!world.has_leases)
        thread->until = NEVER;
    if (world.now < thread->until) {
        begin_hold(thread);
        return;
    }
    /* it took too long to get here: is it still there? */
    send_message(RENEW, thread);
}

static void
give_up(struct thread *thread)
{
    struct turn *turn = thread->turn;
    struct line *line = &world.lines[turn->name];
    struct claim *claim = line_find(line, turn);
    if (does(OVERSLEEPS) && world.now < thread->due + 600)
        return;
    if (does(KEEPS_REFUSED) && claim && turn->wait_ms != DIBS_WAIT_NONE)
        claim->ends = world.now + 10 * LEASE;
    else
        send_message(END, thread);
    return_code(thread, turn->wait_ms == DIBS_WAIT_NONE ? DIBS_EUNAVAIL : DIBS_ETIMEDOUT);
}

static int
take_reply(struct thread *thread)
{
    if (!thread->reply_at || thread->reply_at > world.now)
        return 0;
    thread->reply_at = 0;
    return 1;
}

static void
wait_for_it(struct thread *thread)
{
    if (take_reply(thread)) {
        if (thread->reply == DIBS_OK)
            read_grant(thread);
        else
            return_code(thread, thread->reply);
    } else if (world.now >= thread->due) {
        give_up(thread);
    } else if (world.now >= thread->renew_at) {
        thread->renew_at = world.now + LEASE / 3;
        if (thread->turn->wait_ms != DIBS_WAIT_NONE)
            send_message(RENEW, thread);
    }
}

static void
write_to_register(struct turn *turn)
{
    struct fenced_register *reg = &history->registers[turn->name];
    uint64_t *fence = &world.lines[turn->name].fence;
    int admits = turn->token >= reg->largest || does(REGISTER_TAKES_ALL);
    if (admits) {
        reg->largest = turn->token;
        reg->sum += turn->token;
        turn->wrote = ++reg->writes;
    }
    if (admits && does(WRITE_IS_LOST) && one_in(50))
        reg->writes--;
    turn->seal_code = admits ? DIBS_OK : DIBS_ESTALE;
    turn->sealed = stamp();
    turn->fence_code =
        turn->token >= *fence || does(FENCE_TAKES_ALL) ? DIBS_OK : DIBS_ESTALE;
    if (turn->fence_code == DIBS_OK)
        *fence = turn->token;
}

static void
look_whether_held(struct thread *thread)
{
    struct turn *turn = thread->turn;
    int64_t before = stamp();
    int is_lost = turn->not_held || world.now >= thread->until;
    if (!is_lost) {
        turn->last_held = before;
        turn->first_held = turn->first_held ? (int64_t)turn->first_held : stamp();
    } else if (!turn->not_held) {
        turn->not_held = before;
    } else if (does(HELD_AGAIN)) {
        turn->held_again = before;
    }
    if (is_lost && !turn->lost_calls && !does(NOT_TOLD) &&
        (!does(TOLD_LATE) || world.now > thread->until + LEASE)) {
        turn->lost_at = stamp();
        turn->lost_calls = 1 + (uint32_t)does(TOLD_TWICE);
    }
}

static void
end_hold(struct thread *thread)
{
    struct turn *turn = thread->turn;
    int is_lost = turn->not_held != 0;
    turn->releasing = stamp();
    turn->abandoned = !is_lost && world.has_leases && one_in(20);
    if (!is_lost && !turn->abandoned) {
        thread->state = GIVES;
        thread->reply_at = 0;
        thread->due = world.now + ANSWER;
        send_message(END, thread);
        return;
    }
    if (is_lost)
        send_message(END, thread);
    turn->release_code = is_lost ? DIBS_ELOST : DIBS_OK;
    turn->released = stamp();
    rest(thread);
}

static void
hold(struct thread *thread)
{
    struct turn *turn = thread->turn;
    if (take_reply(thread)) {
        int64_t until = thread->reply_sent + LEASE - GRACE;
        if (thread->reply == DIBS_ELOST)
            thread->until = world.now;
        else if (world.now < thread->until && until > thread->until)
            thread->until = until;
    }
    look_whether_held(thread);
    if (world.now >= thread->write_at && turn->mode == DIBS_EXCLUSIVE && !turn->sealed)
        write_to_register(turn);
    if (world.now >= thread->renew_at && !turn->not_held) {
        thread->renew_at = world.now + LEASE / 3;
        send_message(RENEW, thread);
    }
    if (world.now >= thread->due)
        end_hold(thread);
}

static void
give(struct thread *thread)
{
    int is_answered = take_reply(thread);
    if (!is_answered && world.now < thread->due)
        return;
    thread->turn->release_code = is_answered ? thread->reply : DIBS_EUNKNOWN;
    thread->turn->released = stamp();
    rest(thread);
}

static void
thread_step(struct thread *thread)
{
    switch (thread->state) {
    case RESTS:
        /* at the end of the run nobody begins anew */
        if (world.now >= thread->due && world.now < RUN)
            ask(thread);
        break;
    case ASKS:
        if (!does(NEVER_RETURNS) || !thread->reply_at || !one_in(500))
            wait_for_it(thread);
        else
            thread->state = STUCK;
        break;
    case HOLDS:
        hold(thread);
        break;
    case GIVES:
        give(thread);
        break;
    case STUCK:
        break;
    }
}

/* ---- processes ---- */

static void
process_pause(struct process *process)
{
    process->pause = history_incident(history, INCIDENT_PAUSE, "paused");
    process->pause->client = (uint32_t)(process - world.processes);
    process->pause->life = process->life;
    process->pause->from = stamp();
    process->paused_until = world.now + 20 + (int64_t)below(2 * LEASE);
    process->next_pause = process->paused_until + (int64_t)below(6000);
}

static void
process_kill(struct process *process)
{
    struct incident *kill = history_incident(history, INCIDENT_KILL, "killed");
    kill->client = (uint32_t)(process - world.processes);
    kill->life = process->life;
    kill->from = stamp();
    kill->until = stamp();
    process->life++;
    process->paused_until = 0;
    if (!world.has_leases)
        store_bury(process);
    else if (does(KEEPS_THE_DEAD))
        store_embalm(process);
    process->next_kill = world.now + (int64_t)below(12000);
    for (size_t i = 0; i < THREADS; i++) {
        memset(&process->threads[i], 0, sizeof process->threads[i]);
        rest(&process->threads[i]);
    }
}

static void
process_step(struct process *process)
{
    if (world.now >= process->next_kill && world.now < RUN)
        process_kill(process);
    if (process->pause && world.now >= process->paused_until) {
        process->pause->until = stamp();
        process->pause = NULL;
    }
    if (!process->pause && world.now >= process->next_pause && world.now < RUN)
        process_pause(process);
    for (size_t i = 0; i < THREADS && !process->pause; i++)
        thread_step(&process->threads[i]);
}

/* ---- a run ---- */

static void
maybe_strike(void)
{
    if (world.now < world.down_until || world.now > RUN || !one_in(4000) ||
        !world.has_leases)
        return;
    struct incident *strike = history_incident(history, INCIDENT_SERVER, "down");
    strike->from = stamp();
    world.down_until = world.now + 50 + (int64_t)below(LEASE);
    strike->until = BEGIN + world.down_until * TICK_NS;
    for (size_t i = 0; i < NAMES && does(TOKENS_BEGIN_ANEW); i++)
        world.lines[i].tokens = 0;
}

static void
maybe_stand_still(void)
{
    if (!one_in(10000) || world.now > RUN)
        return;
    struct incident *late = history_incident(history, INCIDENT_LATE, "late");
    late->from = stamp();
    world.now += 20 + (int64_t)below(LEASE);
    world.stamps = 0;
    late->until = stamp();
}

static void
forget(void)
{
    memset(history->turns, 0, history->turn_count * sizeof *history->turns);
    memset(history->incidents, 0, history->incident_count * sizeof *history->incidents);
    memset(history->registers, 0, sizeof history->registers);
    history->turn_count = history->incident_count = 0;
    memset(&world, 0, sizeof world);
}

void
world_play(struct history *into, uint64_t seed, enum mistake mistake)
{
    history = into;
    forget();
    world.has_leases = mistake || seed % 4 != 0;
    world.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    world.mistake = mistake;
    for (size_t i = 0; i < CLIENTS; i++) {
        world.processes[i].next_pause = (int64_t)below(6000);
        world.processes[i].next_kill = (int64_t)below(12000);
    }
    /* some time at the end for what is under way; waits without a limit are killed then */
    for (world.now = 1; world.now < RUN + 6 * LEASE; world.now++) {
        world.stamps = 0;
        maybe_strike();
        maybe_stand_still();
        store_step();
        for (size_t i = 0; i < CLIENTS; i++)
            process_step(&world.processes[i]);
    }
    for (size_t i = 0; i < CLIENTS && !does(NEVER_RETURNS); i++)
        process_kill(&world.processes[i]);
}

int
world_has_leases(void)
{
    return world.has_leases;
}
