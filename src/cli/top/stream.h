/* SPDX-License-Identifier: Apache-2.0 */
/* `allot top --json`: an object on a line for each look; docs/json.md describes it. */
#ifndef ALLOT_CLI_TOP_STREAM_H
#define ALLOT_CLI_TOP_STREAM_H

#include <stdio.h>

#include "cli/top/rows.h"

/* Writes the tenants and programs that the choice shows, in its order. -ENOMEM. */
int stream_put(const struct view *view, const struct rows_choice *choice, FILE *out);

#endif
