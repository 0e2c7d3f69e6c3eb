/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page for people, which asks for the JSON by itself: page/ has its parts, and tools/page.py
 * makes one of them when allotd is built.
 */
#ifndef ALLOT_DAEMON_WEB_PAGE_H
#define ALLOT_DAEMON_WEB_PAGE_H

#include <stdio.h>

#define PAGE_TYPE "text/html; charset=utf-8"

/* Content-Security-Policy: the page's own script and style, and its own server. */
extern const char page_policy[];

/* A page of http.h; `arg` is nothing to it. */
int page_write(FILE *out, void *arg);

#endif
