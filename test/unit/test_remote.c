/* SPDX-License-Identifier: MIT */
/* util/remote.h: which file systems machines may share. */
#include "unit.h"

#include "util/remote.h"

static const char *
of(uint32_t magic)
{
    struct statfs fs = { .f_type = (__typeof__(fs.f_type))magic };
    return remote_system(&fs);
}

CASE(shared)
{
    assert_string_equal(of(0x6969), "NFS");
    assert_string_equal(of(0xff534d42), "CIFS"); /* also where f_type is signed */
    assert_string_equal(of(0x65735546), "FUSE");
    assert_string_equal(of(0x786f4256), "vboxsf");
}

CASE(not_shared)
{
    assert_null(of(0xef53));     /* ext4 */
    assert_null(of(0x01021994)); /* tmpfs */
    assert_null(of(0x58465342)); /* xfs */
    assert_null(of(0x794c7630)); /* overlay */
}
