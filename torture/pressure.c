/* SPDX-License-Identifier: MIT */
/*
 * How busy the machine is, by the kernel's own account (Documentation/accounting/psi): for how
 * long in all somebody had to wait for a processor. Whoever is late on a machine that has other
 * things to do as well is not late by its own fault; see K10 in check_time.c.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "parts.h"

/* the first line is "some avg10=0.00 avg60=0.00 avg300=0.00 total=MICROSECONDS" */
int64_t
pressure_us(void)
{
    char text[256];
    int fd = open("/proc/pressure/cpu", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t len = read(fd, text, sizeof text - 1);
    (void)close(fd);
    if (len <= 0)
        return -1;
    text[len] = '\0';
    const char *total = strstr(text, "total=");
    return total ? strtoll(total + strlen("total="), NULL, 10) : -1;
}
