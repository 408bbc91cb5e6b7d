/* SPDX-License-Identifier: MIT */
/*
 * replay CORPUS [--time MS]: gives a target each file of its corpus, each of them cut off
 * after every byte, and then for a second inputs that are made of them by chance: from a
 * fixed seed, so that the n-th is the same in every run. What takes too long is left out. An input on which the target ends
 * is written to a file, whose name is printed.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "fuzz.h"

#define FILES_MAX 1000
#define INPUT_MAX ((size_t)64 << 10)
#define CUTS_MAX 256      /* of one file: a longer one is cut off after every n-th byte */
#define CUTS_MOST_MS 3000 /* of all of them: then it is enough */
#define SEED UINT64_C(0x9e3779b97f4a7c15)

struct sample {
    uint8_t *data;
    size_t size;
};

static struct sample samples[FILES_MAX];
static size_t sample_count;
static uint64_t random_state = SEED;
static const char *target = "target";

/* ---- what is being tried ---- */

static const uint8_t *tried;
static size_t tried_size;

static void
save_tried(void)
{
    char name[256];
    int len = snprintf(name, sizeof name, "crash-%s-%ld", target, (long)getpid());
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (len < 0 || fd < 0 || write(fd, tried, tried_size) != (ssize_t)tried_size)
        return;
    (void)close(fd);
    fprintf(stderr, "%s: the input is in %s (%zu bytes)\n", target, name, tried_size);
}

static void
on_signal(int number)
{
    save_tried();
    signal(number, SIG_DFL);
    raise(number);
}

/* the sanitizers' own way to end a process, where there is one */
void __sanitizer_set_death_callback(void (*callback)(void)) __attribute__((weak));

static void
watch_for_the_end(void)
{
    static const int numbers[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGALRM };
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        (void)signal(numbers[i], on_signal);
    if (__sanitizer_set_death_callback)
        __sanitizer_set_death_callback(save_tried);
}

/* one input may take some seconds, and no longer */
static void
try_input(const uint8_t *data, size_t size)
{
    uint8_t *copy = fuzz_copy(data, size);
    tried = copy;
    tried_size = size;
    (void)alarm(20);
    (void)LLVMFuzzerTestOneInput(copy, size);
    free(copy);
}

/* ---- the corpus ---- */

static void
read_file(const char *path)
{
    static uint8_t bytes[INPUT_MAX];
    FILE *file = fopen(path, "re");
    size_t size = file ? fread(bytes, 1, sizeof bytes, file) : 0;
    if (!file || ferror(file) || sample_count == FILES_MAX) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(2);
    }
    (void)fclose(file);
    samples[sample_count++] = (struct sample){ fuzz_copy(bytes, size), size };
}

static void
read_corpus(const char *folder)
{
    struct dirent **names;
    char path[4096];
    int count = scandir(folder, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        (void)snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        if (names[i]->d_name[0] != '.')
            read_file(path);
        free(names[i]);
    }
    if (count >= 0)
        free(names);
    if (sample_count == 0) {
        fprintf(stderr, "%s: no files there\n", folder);
        exit(2);
    }
}

/* ---- chance ---- */

static uint64_t
chance(uint64_t below)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % below;
}

/* what parsers have stumbled over before */
static const char *const words[] = {
    "0",
    "-1",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "%",
    "%00",
    "%2F",
    "\r\n",
    "\xff\xff\xff\xff",
    "\xc0\x80",
    "{",
    "}",
    "[",
    "]",
    "\"",
    "\\u0000",
    "//",
    "../..",
    " ",
    "=",
    ",",
    "\x7f",
};

/* puts bytes into an input in place of `gone` others */
static size_t
put(uint8_t *data, size_t size, size_t at, size_t gone, const void *bytes, size_t len)
{
    if (gone > size - at)
        gone = size - at;
    if (size - gone + len > INPUT_MAX)
        return size;
    memmove(data + at + len, data + at + gone, size - at - gone);
    if (len)
        memcpy(data + at, bytes, len);
    return size - gone + len;
}

static size_t
change(uint8_t *data, size_t size)
{
    size_t at = chance(size + 1), len = 1 + chance(16);
    const char *word = words[chance(sizeof words / sizeof *words)];
    const struct sample *other = &samples[chance(sample_count)];
    size_t from = other->size ? chance(other->size) : 0;
    uint8_t byte = (uint8_t)chance(256);
    switch (chance(7)) {
    case 0:
        if (at < size)
            data[at] ^= (uint8_t)(1u << chance(8));
        return size;
    case 1:
        return put(data, size, at, 1, &byte, 1);
    case 2:
        return put(data, size, at, 0, &byte, 1);
    case 3:
        return put(data, size, at, len, NULL, 0);
    case 4:
        return put(data, size, at, chance(2) ? strlen(word) : 0, word, strlen(word));
    case 5: /* a part of another one */
        len = len * 4 < other->size - from ? len * 4 : other->size - from;
        return put(data, size, at, 0, other->data + from, len);
    default:
        return at;
    }
}

static void
try_by_chance(int64_t *count)
{
    static uint8_t data[INPUT_MAX];
    const struct sample *sample = &samples[chance(sample_count)];
    size_t size = sample->size;
    memcpy(data, sample->data, size);
    for (uint64_t changes = 1 + chance(4); changes > 0; changes--)
        size = change(data, size);
    try_input(data, size);
    ++*count;
}

static int64_t
now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void
try_cuts(int64_t *count)
{
    int64_t end = now_ms() + CUTS_MOST_MS;
    for (size_t i = 0; i < sample_count; i++) {
        size_t step = 1 + samples[i].size / CUTS_MAX;
        for (size_t size = 0; size < samples[i].size && now_ms() < end; size += step) {
            try_input(samples[i].data, size);
            ++*count;
        }
    }
}

int
main(int argc, char **argv)
{
    int64_t limit_ms =
        argc == 4 && strcmp(argv[2], "--time") == 0 ? atoll(argv[3]) : 1000;
    int64_t count = 0;
    if (argc != 2 && argc != 4) {
        fprintf(stderr, "usage: %s CORPUS [--time MS]\n", argv[0]);
        return 2;
    }
    target = strrchr(argv[1], '/') ? strrchr(argv[1], '/') + 1 : argv[1];
    read_corpus(argv[1]);
    watch_for_the_end();
    for (size_t i = 0; i < sample_count; i++)
        try_input(samples[i].data, samples[i].size);
    try_cuts(&count);
    for (int64_t end = now_ms() + limit_ms; now_ms() < end;)
        try_by_chance(&count);
    printf("%s: %zu files, %lld inputs made of them\n", target, sample_count,
           (long long)count);
    for (size_t i = 0; i < sample_count; i++)
        free(samples[i].data);
    return 0;
}
