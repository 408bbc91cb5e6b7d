/* SPDX-License-Identifier: MIT */
/* A program that loads libcurl and does nothing: what every command that speaks HTTP by it
 * takes at least. */
#include <curl/curl.h>

int
main(void)
{
    return curl_version() == NULL;
}
