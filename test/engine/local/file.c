/* SPDX-License-Identifier: MIT */
/*
 * The table file under bad conditions. In order: growing and a full disk, damage of every
 * kind, making it, folders that must not be used. Whatever happens, nobody crashes, hangs or overwrites a file that
 * is not a table of this library.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/name.h"
#include "core/sys.h"
#include "drive.h"

static const char *dir;
static char file[80];

static int
setup(void **state)
{
    (void)state;
    dir = drive_folder();
    snprintf(file, sizeof(file), "%s/table", dir);
    return 0;
}

static int
teardown(void **state)
{
    (void)state;
    drive_remove();
    return 0;
}

static void
poke(long offset, const void *bytes, size_t len)
{
    int fd = open(file, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, offset), len);
    close(fd);
}

static void
peek(long offset, void *bytes, size_t len)
{
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pread(fd, bytes, len, offset), len);
    close(fd);
}

/* ------------------------------------------------------------------- growth ---- */

static void
grows(void **state)
{
    enum { NAMES = 20000 };
    drive d;
    dibs_claim *claims = calloc(NAMES, sizeof(*claims));
    char(*names)[24] = calloc(NAMES, sizeof(*names));
    (void)state;
    assert_int_equal(drive_open(&d, dir), DIBS_OK);
    for (int i = 0; i < NAMES; i++) {
        snprintf(names[i], sizeof(names[i]), "name-%d", i);
        drive_claim(&claims[i], names[i], DIBS_EXCLUSIVE, 1, 0);
        assert_int_equal(drive_attempt(&d, &claims[i]), DIBS_OK);
    }
    assert_int_equal(drive_count(&d, KIND_LOCK), NAMES);
    drive_verify(&d);
    for (int i = 0; i < NAMES; i++)
        assert_int_equal(drive_release(&d, &claims[i]), DIBS_OK);
    assert_int_equal(drive_count(&d, KIND_LOCK) + drive_count(&d, KIND_CLAIM), 0);
    drive_verify(&d);
    drive_close(&d);
    free(claims);
    free(names);
}

/* fill takes names until the table is full, and proves that nothing is lost by it. */
static void
fill(drive *d)
{
    enum { NAMES = 100000 };
    dibs_claim *claims = calloc(NAMES, sizeof(*claims));
    char(*names)[24] = calloc(NAMES, sizeof(*names));
    int n = 0, rc = DIBS_OK;
    for (; n < NAMES; n++) {
        snprintf(names[n], sizeof(names[n]), "name-%d", n);
        drive_claim(&claims[n], names[n], DIBS_EXCLUSIVE, 1, 0);
        if ((rc = drive_attempt(d, &claims[n])) != DIBS_OK)
            break;
    }
    assert_int_equal(rc, DIBS_ENOMEM);
    assert_non_null(strstr(d->err.text, "no space left"));
    assert_true(n > 100);
    drive_verify(d);
    for (int i = 0; i < n; i++)
        assert_int_equal(drive_release(d, &claims[i]), DIBS_OK);
    assert_int_equal(drive_lock(d, &claims[0], "name-0", 100), DIBS_OK);
    assert_int_equal(drive_release(d, &claims[0]), DIBS_OK);
    drive_verify(d);
    free(claims);
    free(names);
}

static void
file_size_limit(void **state)
{
    struct rlimit limit = { 1000000, 1000000 };
    drive d;
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(drive_open(&d, dir), DIBS_OK);
    fill(&d);
    drive_close(&d);
}

static void
full_disk(void **state)
{
    drive d;
    (void)state;
    if (mount("dibs-test", dir, "tmpfs", 0, "size=600k,mode=700") != 0) {
        print_message("SKIPPED: cannot mount a small tmpfs: %s\n", strerror(errno));
        rmdir(dir);
        exit(77);
    }
    assert_int_equal(drive_open(&d, dir), DIBS_OK);
    fill(&d);
    drive_close(&d);
    unlink(file);
    assert_int_equal(umount(dir), 0);
}

static void
disk_full_at_once(void **state)
{
    struct rlimit limit = { 100000, 1000000 };
    drive d;
    (void)state;
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(drive_open(&d, dir), DIBS_ENOMEM);
    limit.rlim_cur = limit.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(drive_open(&d, dir),
                     DIBS_OK); /* it goes on where that one stopped */
    drive_close(&d);
}

/* ------------------------------------------------------------------- damage ---- */

static void
make_table(void)
{
    drive d;
    assert_int_equal(drive_open(&d, dir), DIBS_OK);
    drive_close(&d);
}

/* use does a bit of everything; whether it works is not asked. */
static void
use(void)
{
    drive d;
    dibs_claim claims[40];
    char names[40][8];
    dibs_cell cell;
    dibs_cell_key key = { 0, "cell", 4, dibs__hash("cell", 4) };
    if (drive_open(&d, dir) != DIBS_OK)
        return;
    for (int i = 0; i < 40; i++) {
        snprintf(names[i], sizeof(names[i]), "n%d", i);
        drive_claim(&claims[i], names[i], DIBS_EXCLUSIVE, 1, 0);
        (void)drive_wait(&d, &claims[i], 1);
    }
    if (dibs__engine_local.cell_read(&d.state, &key, &cell, DIBS_NEVER, NULL) >=
        DIBS_ENOTFOUND)
        (void)dibs__engine_local.cell_swap(&d.state, &key, cell.version, "x", 1, NULL,
                                           DIBS_NEVER, NULL);
    for (int i = 0; i < 40; i++)
        (void)drive_release(&d, &claims[i]);
    drive_close(&d);
}

/* survives says whether a process that uses the table neither crashes nor hangs. */
static int
survives(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        use();
        _exit(0);
    }
    int status = drive_reap(pid);
    return status != -1 && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void
damaged_header(void **state)
{
    (void)state;
    make_table();
    for (long i = 0; i < (long)sizeof(header); i++) {
        unsigned char byte, broken, after;
        drive d;
        peek(i, &byte, 1);
        broken = byte ^ 0x5a;
        poke(i, &broken, 1);
        if (i < (long)offsetof(header, pid_namespace)) {
            int rc = drive_open(&d, dir);
            assert_true(rc == DIBS_ECORRUPT || rc == DIBS_EUNSUPPORTED);
            assert_true(strlen(d.err.text) > 0);
            peek(i, &after, 1);
            assert_int_equal(after, broken); /* left as it was */
        } else if (!survives()) {
            fail_msg("byte %ld of the header", i);
        }
        unlink(file);
        make_table();
    }
}

/* a table with something of everything in it, left by a process that was killed */
static void
make_used_table(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        drive d, e;
        static dibs_claim claims[200];
        static char names[200][200];
        if (drive_open(&d, dir) != DIBS_OK || drive_open(&e, dir) != DIBS_OK)
            _exit(1);
        for (int i = 0; i < 100; i++) {
            snprintf(names[i], sizeof(names[i]), i % 3 ? "n%d" : "n%0150d", i);
            drive_claim(&claims[i], names[i], i % 4 ? DIBS_EXCLUSIVE : DIBS_SHARED, 1, 0);
            (void)drive_attempt(&d, &claims[i]);
            drive_claim(&claims[i + 100], names[i], DIBS_EXCLUSIVE, 1, 0);
            (void)drive_attempt(&e, &claims[i + 100]);
        }
        dibs_cell_key key = { 0, "cell", 4, dibs__hash("cell", 4) };
        (void)dibs__engine_local.cell_swap(&d.state, &key, 0, names, 4000, NULL,
                                           DIBS_NEVER, NULL);
        _exit(0);
    }
    assert_int_equal(drive_reap(pid), 0);
}

static void
damaged_inside(void **state)
{
    enum { FLIPS = 300, SHARD_FLIPS = 20 };
    static unsigned char image[RECORDS_OFFSET + FIRST_RECORDS * sizeof(record)];
    const char *seed_text = getenv("DIBS_TEST_SEED");
    uint64_t seed = seed_text ? strtoull(seed_text, NULL, 0) : dibs__random();
    (void)state;
    make_used_table();
    peek(0, image, sizeof(image));
    for (int i = 0; i < FLIPS; i++) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint64_t pick = seed >> 20;
        long offset = RECORDS_OFFSET + (long)(pick % (sizeof(image) - RECORDS_OFFSET));
        if (i < SHARD_FLIPS)
            offset = SHARDS_OFFSET + (long)(pick % (ALL_SHARDS * sizeof(local_shard)));
        else if (i < 2 * SHARD_FLIPS)
            offset = BUCKETS_OFFSET + (long)(pick % (SHARDS * BUCKETS * 4));
        unsigned char byte = image[offset] ^ (unsigned char)(1u << (seed >> 61));
        unlink(file);
        make_table();
        poke(0, image, sizeof(image));
        poke(offset, &byte, 1);
        if (!survives())
            fail_msg("flip %d, offset %ld: DIBS_TEST_SEED=%#llx", i, offset,
                     (unsigned long long)seed);
    }
}

static void
truncated(void **state)
{
    static const long sizes[] = { 1,
                                  7,
                                  8,
                                  100,
                                  4095,
                                  4096,
                                  RECORDS_OFFSET - 1,
                                  RECORDS_OFFSET + FIRST_RECORDS * 128L - 1 };
    drive d;
    struct stat st;
    (void)state;
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        make_table();
        assert_int_equal(truncate(file, sizes[i]), 0);
        assert_int_equal(drive_open(&d, dir), DIBS_ECORRUPT);
        assert_int_equal(stat(file, &st), 0);
        assert_int_equal(st.st_size, sizes[i]);
        unlink(file);
    }
    make_table();
    assert_int_equal(truncate(file, 0), 0);
    make_table();
}

/* seal writes the checksum that fits the header's fields. */
static void
seal(header *h)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    const unsigned char *bytes = (const unsigned char *)h;
    for (size_t i = offsetof(header, version); i < offsetof(header, checksum); i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    h->checksum = hash;
    poke(0, h, sizeof(*h));
}

static void
foreign_version(void **state)
{
    header h;
    drive d;
    (void)state;
    make_table();
    peek(0, &h, sizeof(h));
    h.version = 99;
    seal(&h);
    assert_int_equal(drive_open(&d, dir), DIBS_EUNSUPPORTED);
    assert_non_null(strstr(d.err.text, "version 99"));
    h.version = LOCAL_VERSION;
    h.layout ^= 1;
    seal(&h);
    assert_int_equal(drive_open(&d, dir), DIBS_EUNSUPPORTED);
    assert_non_null(strstr(d.err.text, "built differently"));
}

/* one of an older library is made anew, but not while somebody lives in it */
static void
older_version(void **state)
{
    const uint64_t last = UINT64_C(1) << 62;
    struct flock life = { .l_type = F_WRLCK, .l_start = LIFE_OFFSET + 1, .l_len = 1 };
    header h;
    drive d;
    (void)state;
    make_table();
    peek(0, &h, sizeof(h));
    h.version = LOCAL_VERSION - 1;
    h.counter = last;
    seal(&h);
    int fd = open(file, O_RDWR | O_CLOEXEC);
    assert_int_equal(fcntl(fd, F_OFD_SETLK, &life), 0);
    assert_int_equal(drive_open(&d, dir), DIBS_EUNSUPPORTED);
    close(fd);
    assert_int_equal(drive_open(&d, dir), DIBS_OK);
    drive_close(&d);
    peek(0, &h, sizeof(h));
    assert_int_equal(h.version, LOCAL_VERSION);
    assert_true(h.counter >= last);
}

static void
earlier_boot(void **state)
{
    const uint64_t last = UINT64_C(1) << 62;
    header h;
    drive d;
    dibs_claim claim;
    (void)state;
    make_used_table();
    peek(0, &h, sizeof(h));
    memset(h.boot_id, 'x', 36);
    atomic_store(&h.counter, last);
    seal(&h);
    assert_int_equal(drive_open(&d, dir), DIBS_OK);
    assert_int_equal(drive_count(&d, KIND_CLAIM) + drive_count(&d, KIND_LOCK), 0);
    assert_int_equal(drive_lock(&d, &claim, "n1", 100), DIBS_OK);
    assert_true(claim.token > last);
    drive_verify(&d);
    drive_close(&d);
}

static void
half_made(void **state)
{
    const uint64_t magic = LOCAL_MAGIC_INIT;
    (void)state;
    make_table();
    poke(0, &magic, sizeof(magic));
    assert_int_equal(truncate(file, 5000), 0);
    make_table();
    assert_true(survives());
}

static void
made_by_many(void **state)
{
    pid_t pids[16];
    struct stat st;
    (void)state;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 16; i++)
            if ((pids[i] = fork()) == 0) {
                drive d;
                dibs_claim claim;
                int rc = drive_open(&d, dir);
                if (rc == DIBS_OK)
                    rc = drive_lock(&d, &claim, "x", 5000);
                if (rc == DIBS_OK)
                    rc = drive_release(&d, &claim);
                drive_close(&d);
                _exit(rc == DIBS_OK ? 0 : 1);
            }
        for (int i = 0; i < 16; i++)
            assert_int_equal(drive_reap(pids[i]), 0);
        assert_int_equal(stat(file, &st), 0);
        unlink(file);
    }
}

static void
unlinked(void **state)
{
    drive d, other;
    dibs_claim held, waits;
    (void)state;
    assert_int_equal(drive_open(&d, dir), DIBS_OK);
    assert_int_equal(drive_open(&other, dir), DIBS_OK);
    assert_int_equal(drive_lock(&d, &held, "x", 100), DIBS_OK);
    unlink(file);
    assert_int_equal(drive_lock(&other, &waits, "x", 3000), DIBS_EUNAVAIL);
    assert_non_null(strstr(other.err.text, "removed"));
    (void)drive_release(&other, &waits);
    (void)drive_release(&d, &held);
    drive_close(&d);
    drive_close(&other);
}

/* ------------------------------------------------------------------- folders ---- */

static void
refuses(const char *path, int code, const char *text)
{
    drive d;
    assert_int_equal(drive_open(&d, path), code);
    assert_non_null(strstr(d.err.text, text));
}

static void
folders(void **state)
{
    char path[128];
    struct stat st;
    drive d;
    (void)state;
    assert_int_equal(chmod(dir, 0777), 0);
    refuses(dir, DIBS_EDENIED, "chmod");
    assert_int_equal(chmod(dir, 0720), 0);
    refuses(dir, DIBS_EDENIED, "chmod");
    assert_int_equal(chmod(dir, 0700), 0);
    snprintf(path, sizeof(path), "%s/link", dir);
    assert_int_equal(symlink(dir, path), 0);
    refuses(path, DIBS_EDENIED, "open the folder");
    unlink(path);
    snprintf(path, sizeof(path), "%s/no/such", dir);
    refuses(path, DIBS_EUNAVAIL, "make the folder");
    snprintf(path, sizeof(path), "%s/new", dir);
    assert_int_equal(drive_open(&d, path), DIBS_OK);
    drive_close(&d);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0700);
    snprintf(path, sizeof(path), "%s/new/table", dir);
    refuses(path, DIBS_EDENIED, "open the folder");
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    unlink(path);
    assert_int_equal(symlink("/dev/null", path), 0);
    snprintf(path, sizeof(path), "%s/new", dir);
    refuses(path, DIBS_EDENIED, "table");
    snprintf(path, sizeof(path), "%s/new/table", dir);
    unlink(path);
    snprintf(path, sizeof(path), "%s/new", dir);
    rmdir(path);
}

static void
foreign_folder(void **state)
{
    (void)state;
    if (geteuid() != 0) {
        refuses("/", DIBS_EDENIED, "belongs to user 0");
        return;
    }
    assert_int_equal(chown(dir, 12345, 0), 0);
    refuses(dir, DIBS_EDENIED, "belongs to user 12345");
}

int
main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(grows, setup, teardown),
        cmocka_unit_test_setup_teardown(file_size_limit, setup, teardown),
        cmocka_unit_test_setup_teardown(full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(disk_full_at_once, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_header, setup, teardown),
        cmocka_unit_test_setup_teardown(damaged_inside, setup, teardown),
        cmocka_unit_test_setup_teardown(truncated, setup, teardown),
        cmocka_unit_test_setup_teardown(foreign_version, setup, teardown),
        cmocka_unit_test_setup_teardown(older_version, setup, teardown),
        cmocka_unit_test_setup_teardown(earlier_boot, setup, teardown),
        cmocka_unit_test_setup_teardown(half_made, setup, teardown),
        cmocka_unit_test_setup_teardown(made_by_many, setup, teardown),
        cmocka_unit_test_setup_teardown(unlinked, setup, teardown),
        cmocka_unit_test_setup_teardown(folders, setup, teardown),
        cmocka_unit_test_setup_teardown(foreign_folder, setup, teardown),
    };
    return drive_main(argc, argv, tests, sizeof(tests) / sizeof(tests[0]));
}
