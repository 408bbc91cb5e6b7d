/* SPDX-License-Identifier: MIT */
/* File systems that more than one machine may write to, where neither shared memory nor locks
 * on files can be relied on. In a header, so that modules have it too. */
#ifndef DIBS_UTIL_REMOTE_H
#define DIBS_UTIL_REMOTE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/vfs.h>

/* remote_system returns what the file system is called if it is one of them, else NULL. */
static inline const char *
remote_system(const struct statfs *fs)
{
    static const struct {
        uint32_t magic;
        const char *name;
    } systems[] = {
        { 0x6969, "NFS" },        { 0x517b, "SMB" },        { 0xff534d42, "CIFS" },
        { 0xfe534d42, "SMB" },    { 0x65735546, "FUSE" },   { 0x01021997, "9p" },
        { 0x5346414f, "AFS" },    { 0x00c36400, "Ceph" },   { 0x01161970, "GFS2" },
        { 0x7461636f, "OCFS2" },  { 0x0bd00bd0, "Lustre" }, { 0x73757245, "Coda" },
        { 0x786f4256, "vboxsf" },
    };
    for (size_t i = 0; i < sizeof systems / sizeof *systems; i++) {
        if ((uint32_t)fs->f_type == systems[i].magic)
            return systems[i].name;
    }
    return NULL;
}

#endif /* DIBS_UTIL_REMOTE_H */
