/* SPDX-License-Identifier: Apache-2.0 */
/* `allot ps --json`: the format is documented in docs/json.md, and stable. */
#ifndef ALLOT_CLI_PS_PS_JSON_H
#define ALLOT_CLI_PS_PS_JSON_H

#include <stdio.h>

#include "cli/ps/ps_outside.h"
#include "node/tenants.h"

void ps_json(const struct tenants *tenants, const struct ps_outside *outside, FILE *out);

/* `allot ps --ended --json`: 0, or a message and allot's exit status. */
int ps_json_ended(const char *runtime, FILE *out);

#endif
