/* SPDX-License-Identifier: MIT */
/*
 * Places: numbers that tell claims of this client on one name apart.
 *
 * Names are told apart by their hashes. Two that have the same one are taken for one name,
 * and then a number is larger than it had to be, which does no harm.
 */
#include "kit.h"

#define BUCKETS 256

struct place {
    struct place *next;
    uint64_t name_hash, serial;
    int number;
};

/* The places of a name are in order in their bucket. */
struct kit_places {
    const dibs_host *host;
    pthread_mutex_t mutex;
    struct place *buckets[BUCKETS];
};

kit_places *
dibs__kit_places_new(const dibs_host *host)
{
    kit_places *places = host->alloc(sizeof *places);
    if (!places)
        return NULL;
    places->host = host;
    pthread_mutex_init(&places->mutex, NULL);
    return places;
}

void
dibs__kit_places_free(kit_places *places, int forked)
{
    if (!places)
        return;
    for (int i = 0; i < BUCKETS; i++) {
        for (struct place *at = places->buckets[i], *next; at; at = next) {
            next = at->next;
            places->host->free(at);
        }
    }
    /* in a child somebody of the parent may have it for ever */
    if (!forked)
        pthread_mutex_destroy(&places->mutex);
    places->host->free(places);
}

/* Finds where the least free number of a name belongs. */
static struct place **
gap_locked(kit_places *places, uint64_t name_hash, int *number)
{
    struct place **at = &places->buckets[name_hash % BUCKETS];
    *number = 0;
    for (; *at; at = &(*at)->next) {
        if ((*at)->name_hash != name_hash)
            continue;
        if ((*at)->number != *number)
            break;
        ++*number;
    }
    return at;
}

int
dibs__kit_place_take(kit_places *places, const dibs_claim *claim)
{
    struct place *place = places->host->alloc(sizeof *place);
    int number;
    if (!place)
        return -1;
    pthread_mutex_lock(&places->mutex);
    struct place **at = gap_locked(places, claim->name_hash, &number);
    place->name_hash = claim->name_hash;
    place->serial = claim->serial;
    place->number = number;
    place->next = *at;
    *at = place;
    pthread_mutex_unlock(&places->mutex);
    return number;
}

static int
is_claims(const struct place *place, const dibs_claim *claim, int number)
{
    return place->number == number && place->serial == claim->serial &&
           place->name_hash == claim->name_hash;
}

int
dibs__kit_place_give(kit_places *places, const dibs_claim *claim, int number)
{
    pthread_mutex_lock(&places->mutex);
    struct place **at = &places->buckets[claim->name_hash % BUCKETS];
    while (*at && !is_claims(*at, claim, number))
        at = &(*at)->next;
    struct place *place = *at;
    if (place)
        *at = place->next;
    pthread_mutex_unlock(&places->mutex);
    places->host->free(place);
    return place != NULL;
}
