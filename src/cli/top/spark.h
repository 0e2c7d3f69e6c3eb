/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bars and small graphs that are one line of text: block characters of Unicode, which terminals and
 * tmux keep as they are, or ASCII where the locale has no others. Pure.
 */
#ifndef ALLOT_CLI_TOP_SPARK_H
#define ALLOT_CLI_TOP_SPARK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes for a text of `width` characters. */
#define SPARK_BYTES(width) ((width)*3 + 1)

#define SPARK_NONE UINT64_MAX /* there is no sample */

/* The last `width` of n samples, the newest at the right; `full` and more is the highest. */
void spark_draw(const uint64_t *samples, int n, uint64_t full, int width, bool utf8, char *ret);

/* Writes a bar, full to `permille`. A value above 0 shows at least one mark. */
void spark_bar(int permille, int width, bool utf8, char *ret);

#endif
