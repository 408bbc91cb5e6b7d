/* SPDX-License-Identifier: MIT */
/*
 * Tenures: the lives of this client at the store. See tenure.h.
 *
 * In this order: the table, losing them, keeping them, beginning them, joining and leaving,
 * new and free.
 */
#include "tenure.h"

#include "util/wait.h"

#define ROUNDS 8                   /* of looking for a tenure that is not lost at once */
#define PAUSE_FIRST (10 * DIBS_MS) /* after a failure to keep one */
#define PAUSE_MOST (500 * DIBS_MS)

/* ---- the table; the mutex is held ---- */

static kit_tenure *
born_locked(kit_tenures *tenures, uint64_t birth)
{
    kit_tenure *tenure = tenures->first;
    while (tenure && tenure->birth != birth)
        tenure = tenure->next;
    return tenure;
}

void
dibs__kit_unlink(kit_tenures *tenures, const kit_tenure *tenure)
{
    kit_tenure **at = &tenures->first;
    while (*at != tenure)
        at = &(*at)->next;
    *at = tenure->next;
}

static void
leave_locked(kit_tenures *tenures, kit_tenure *tenure)
{
    tenure->left = tenures->host->now();
    tenure->users--;
    if (tenure->state == OVER)
        dibs__kit_thread_wake(tenures);
}

/* ---- losing ---- */

static void
lose_locked(kit_tenures *tenures, kit_tenure *tenure)
{
    uint64_t birth = tenure->birth;
    if (tenure->state != ALIVE)
        return;
    tenure->state = OVER;
    tenure->due = tenures->host->now();
    pthread_cond_broadcast(&tenures->changed);
    dibs__kit_thread_wake(tenures);
    pthread_mutex_unlock(&tenures->mutex);
    tenures->ops->lost(tenures->state, birth);
    tenures->host->ring(tenures->session->keeper_bell);
    pthread_mutex_lock(&tenures->mutex);
}

void
dibs__kit_tenure_dead(kit_tenures *tenures, uint64_t birth)
{
    pthread_mutex_lock(&tenures->mutex);
    kit_tenure *tenure = born_locked(tenures, birth);
    if (tenure)
        lose_locked(tenures, tenure);
    pthread_mutex_unlock(&tenures->mutex);
}

/* ---- keeping ---- */

dibs_time
dibs__kit_slack(const kit_tenure *tenure)
{
    return tenure->ttl - tenure->lease;
}

static dibs_time
safe_until(const kit_tenure *tenure)
{
    return atomic_load_explicit(&tenure->safe_until, memory_order_acquire);
}

/* Half of the slack is for asking, and for asking again. */
static void
was_kept_locked(kit_tenures *tenures, kit_tenure *tenure, dibs_time until)
{
    dibs_time slack = dibs__kit_slack(tenure);
    if (until > safe_until(tenure))
        atomic_store_explicit(&tenure->safe_until, until, memory_order_release);
    tenure->pause = PAUSE_FIRST;
    tenure->due = later(safe_until(tenure) - tenure->lease - slack / 2,
                        tenures->host->now() + slack / 4);
}

static void
was_not_kept_locked(kit_tenures *tenures, kit_tenure *tenure)
{
    dibs_time jitter = (dibs_time)(tenures->host->random() % (uint64_t)tenure->pause) / 2;
    tenure->due = tenures->host->now() + tenure->pause / 2 + jitter;
    tenure->pause = earlier(2 * tenure->pause, PAUSE_MOST);
}

int
dibs__kit_keep(kit_tenures *tenures, kit_tenure *tenure, dibs_time deadline,
               dibs_error *err)
{
    dibs_time until = 0;
    tenure->is_busy = 1;
    pthread_mutex_unlock(&tenures->mutex);
    int rc = tenures->ops->keep(tenures->state, tenure->id, tenure->ttl / DIBS_MS, &until,
                                deadline, err);
    pthread_mutex_lock(&tenures->mutex);
    if (rc == DIBS_ELOST)
        lose_locked(tenures, tenure);
    else if (rc)
        was_not_kept_locked(tenures, tenure);
    else
        was_kept_locked(tenures, tenure, until);
    tenure->is_busy = 0;
    pthread_cond_broadcast(&tenures->changed);
    dibs__kit_thread_wake(tenures);
    return rc;
}

static int
secure_locked(kit_tenures *tenures, kit_tenure *tenure, dibs_time until,
              dibs_time deadline, dibs_error *err)
{
    const dibs_host *host = tenures->host;
    while (tenure->is_busy && tenure->state == ALIVE && safe_until(tenure) < until) {
        if (wait_for(&tenures->changed, &tenures->mutex,
                     deadline - tenures->host->now()) != 0)
            return host->fail(err, DIBS_EUNAVAIL, "the store does not answer");
    }
    if (tenure->state != ALIVE)
        return host->fail(err, DIBS_ELOST, "the store has ended what it was held in");
    if (safe_until(tenure) >= until)
        return DIBS_OK;
    if (until - host->now() > tenure->ttl)
        return host->fail(err, DIBS_EINVAL, "what it is held in is too short for that");
    int rc = dibs__kit_keep(tenures, tenure, deadline, err);
    if (!rc && safe_until(tenure) < until)
        rc = host->fail(err, DIBS_EUNAVAIL, "the store does not say that it is kept");
    return rc;
}

int
dibs__kit_tenure_secure(kit_tenures *tenures, kit_tenure *tenure, dibs_time until,
                        dibs_time deadline, dibs_error *err)
{
    pthread_mutex_lock(&tenures->mutex);
    int rc = secure_locked(tenures, tenure, until, deadline, err);
    pthread_mutex_unlock(&tenures->mutex);
    return rc;
}

/* ---- beginning ---- */

static kit_tenure *
expect_locked(kit_tenures *tenures, int64_t wanted, unsigned n)
{
    kit_tenure *tenure = tenures->host->alloc(sizeof *tenure);
    if (!tenure)
        return NULL;
    tenure->wanted_ms = wanted;
    tenure->n = n;
    tenure->state = BEGINNING;
    tenure->due = DIBS_NEVER;
    tenure->next = tenures->first;
    tenures->first = tenure;
    return tenure;
}

static void
was_begun_locked(kit_tenures *tenures, kit_tenure *tenure, int64_t ttl_ms, dibs_time sent)
{
    tenure->birth = ++tenures->births;
    tenure->ttl = ttl_ms * DIBS_MS;
    tenure->lease = dibs__kit_lease_of(
        tenures, ttl_ms < tenure->wanted_ms ? ttl_ms : tenure->wanted_ms);
    tenure->state = ALIVE;
    tenure->users = 1;
    was_kept_locked(tenures, tenure, sent + tenure->ttl);
    dibs__kit_thread_wake(tenures);
}

/* Whether it has begun is not known after EUNKNOWN; but nothing is in it. */
static int
ask_to_begin_locked(kit_tenures *tenures, kit_tenure *tenure, dibs_time deadline,
                    dibs_error *err)
{
    int64_t ttl_ms = tenure->wanted_ms;
    dibs_time sent = tenures->host->now();
    pthread_mutex_unlock(&tenures->mutex);
    int rc = tenures->ops->begin(tenures->state, tenure->id, &ttl_ms, deadline, err);
    pthread_mutex_lock(&tenures->mutex);
    if (!rc) {
        was_begun_locked(tenures, tenure, ttl_ms, sent);
    } else {
        dibs__kit_unlink(tenures, tenure);
        tenures->host->free(tenure);
    }
    pthread_cond_broadcast(&tenures->changed);
    return rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

static int
begin_locked(kit_tenures *tenures, int64_t wanted, unsigned n, dibs_time deadline,
             kit_tenure **out, dibs_error *err)
{
    int rc = dibs__kit_thread_start(tenures, err);
    if (rc)
        return rc;
    kit_tenure *tenure = expect_locked(tenures, wanted, n);
    if (!tenure)
        return tenures->host->fail(err, DIBS_ENOMEM, "out of memory");
    rc = ask_to_begin_locked(tenures, tenure, deadline, err);
    *out = rc ? NULL : tenure;
    return rc;
}

/* ---- joining and leaving ---- */

static kit_tenure *
such_locked(kit_tenures *tenures, int64_t wanted, unsigned n)
{
    kit_tenure *tenure = tenures->first;
    while (tenure &&
           (tenure->state == OVER || tenure->wanted_ms != wanted || tenure->n != n))
        tenure = tenure->next;
    return tenure;
}

/* Finds or begins one, and counts the user. */
static int
enter_locked(kit_tenures *tenures, int64_t wanted, unsigned n, dibs_time deadline,
             kit_tenure **out, dibs_error *err)
{
    kit_tenure *tenure = such_locked(tenures, wanted, n);
    while (tenure && tenure->state == BEGINNING) {
        if (wait_for(&tenures->changed, &tenures->mutex,
                     deadline - tenures->host->now()) != 0)
            return tenures->host->fail(err, DIBS_EUNAVAIL, "the store does not answer");
        tenure = such_locked(tenures, wanted, n);
    }
    if (!tenure)
        return begin_locked(tenures, wanted, n, deadline, out, err);
    tenure->users++;
    *out = tenure;
    return DIBS_OK;
}

/* One that is there may be over, or not have been kept for long. */
static int
join_locked(kit_tenures *tenures, uint32_t lease_ms, unsigned n, dibs_time deadline,
            kit_tenure **out, dibs_error *err)
{
    kit_tenure *tenure = NULL;
    int64_t wanted = dibs__kit_wanted_ms(tenures, lease_ms);
    int rc = enter_locked(tenures, wanted, n, deadline, &tenure, err);
    if (rc)
        return rc;
    rc = dibs__kit_check_length(tenures, lease_ms, tenure->ttl / DIBS_MS, err);
    if (!rc)
        rc = secure_locked(tenures, tenure, tenures->host->now() + lease_ms * DIBS_MS,
                           deadline, err);
    if (rc)
        leave_locked(tenures, tenure);
    else
        *out = tenure;
    return rc;
}

int
dibs__kit_tenure_join(kit_tenures *tenures, uint32_t lease_ms, unsigned n,
                      dibs_time deadline, kit_tenure **out, dibs_error *err)
{
    int rc = dibs__kit_check_length(tenures, lease_ms,
                                    dibs__kit_wanted_ms(tenures, lease_ms), err);
    if (rc)
        return rc;
    pthread_mutex_lock(&tenures->mutex);
    rc = DIBS_ELOST;
    for (int i = 0; rc == DIBS_ELOST && i < ROUNDS; i++)
        rc = join_locked(tenures, lease_ms, n, deadline, out, err);
    pthread_mutex_unlock(&tenures->mutex);
    return rc == DIBS_ELOST || rc == DIBS_EUNKNOWN ? DIBS_EUNAVAIL : rc;
}

void
dibs__kit_tenure_leave(kit_tenures *tenures, uint64_t birth)
{
    pthread_mutex_lock(&tenures->mutex);
    kit_tenure *tenure = birth ? born_locked(tenures, birth) : NULL;
    if (tenure && tenure->users)
        leave_locked(tenures, tenure);
    pthread_mutex_unlock(&tenures->mutex);
}

kit_tenure *
dibs__kit_tenure_find(kit_tenures *tenures, uint64_t birth)
{
    pthread_mutex_lock(&tenures->mutex);
    kit_tenure *tenure = birth ? born_locked(tenures, birth) : NULL;
    int is_alive = tenure && tenure->state == ALIVE;
    pthread_mutex_unlock(&tenures->mutex);
    return is_alive ? tenure : NULL;
}

uint64_t
dibs__kit_tenure_birth(const kit_tenure *tenure)
{
    return tenure->birth;
}

const char *
dibs__kit_tenure_id(const kit_tenure *tenure)
{
    return tenure->id;
}

dibs_time
dibs__kit_tenure_safe_until(const kit_tenure *tenure)
{
    return safe_until(tenure);
}

_Atomic uint64_t *
dibs__kit_tenure_word(kit_tenure *tenure)
{
    return &tenure->word;
}

/* ---- new and free ---- */

/* for lapses */
static void
wake(void *arg)
{
    kit_tenures *tenures = arg;
    pthread_mutex_lock(&tenures->mutex);
    dibs__kit_thread_wake(tenures);
    pthread_mutex_unlock(&tenures->mutex);
}

kit_tenures *
dibs__kit_tenures_new(dibs_session *session, const kit_tenure_ops *ops,
                      kit_lapses *lapses, void *state)
{
    kit_tenures *tenures = session->host->alloc(sizeof *tenures);
    if (!tenures)
        return NULL;
    tenures->session = session;
    tenures->host = session->host;
    tenures->ops = ops;
    tenures->lapses = lapses;
    tenures->state = state;
    pthread_mutex_init(&tenures->mutex, NULL);
    cond_init(&tenures->changed);
    cond_init(&tenures->woken);
    dibs__kit_lapses_waker(lapses, wake, tenures);
    return tenures;
}

/* In a child somebody of the parent may have the mutex for ever. */
void
dibs__kit_tenures_free(kit_tenures *tenures, int forked, dibs_time deadline)
{
    if (!tenures)
        return;
    if (!forked)
        dibs__kit_thread_stop(tenures);
    for (kit_tenure *tenure = tenures->first, *next; tenure; tenure = next) {
        next = tenure->next;
        if (!forked && tenure->state == ALIVE)
            (void)tenures->ops->end(tenures->state, tenure->id, deadline);
        tenures->host->free(tenure);
    }
    if (!forked) {
        pthread_cond_destroy(&tenures->woken);
        pthread_cond_destroy(&tenures->changed);
        pthread_mutex_destroy(&tenures->mutex);
    }
    tenures->host->free(tenures);
}
