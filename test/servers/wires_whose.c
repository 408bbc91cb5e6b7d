/* SPDX-License-Identifier: MIT */
/* Which process a connection is of, by what the kernel shows of both. See wires_parts.h. */
#include <arpa/inet.h>
#include <dirent.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "wires_parts.h"

/* The inode of the other end of a connection, or 0. There the addresses are the other way
 * round. */
static unsigned long
inode_of_peer(int fd)
{
    struct sockaddr_in here, there;
    socklen_t len = sizeof(here);
    char line[256], want[64];
    unsigned long inode = 0;
    if (getsockname(fd, (struct sockaddr *)&here, &len) != 0 ||
        getpeername(fd, (struct sockaddr *)&there, &len) != 0) {
        return 0;
    }
    (void)snprintf(want, sizeof(want), "%08X:%04X %08X:%04X", there.sin_addr.s_addr,
                   ntohs(there.sin_port), here.sin_addr.s_addr, ntohs(here.sin_port));
    FILE *file = fopen("/proc/net/tcp", "re");
    while (file != NULL && inode == 0 && fgets(line, sizeof(line), file) != NULL) {
        if (strstr(line, want) != NULL) {
            (void)sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %*s %lu", &inode);
        }
    }
    if (file != NULL) {
        fclose(file);
    }
    return inode;
}

static int
has_inode(pid_t pid, unsigned long inode)
{
    char path[64], want[64], link[64];
    (void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
    (void)snprintf(want, sizeof(want), "socket:[%lu]", inode);
    DIR *dir = opendir(path);
    int found = 0;
    struct dirent *entry;
    while (dir != NULL && !found && (entry = readdir(dir)) != NULL) {
        ssize_t len = readlinkat(dirfd(dir), entry->d_name, link, sizeof(link) - 1);
        link[len > 0 ? len : 0] = '\0';
        found = strcmp(link, want) == 0;
    }
    if (dir != NULL) {
        closedir(dir);
    }
    return found;
}

int
is_of(pid_t pid, int fd)
{
    unsigned long inode = inode_of_peer(fd);
    return inode != 0 && has_inode(pid, inode);
}
