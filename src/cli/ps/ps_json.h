/* SPDX-License-Identifier: Apache-2.0 */
/* `allot ps --json`: the format is documented in docs/json.md, and stable. */
#ifndef ALLOT_CLI_PS_PS_JSON_H
#define ALLOT_CLI_PS_PS_JSON_H

#include <stdio.h>

#include "cli/ps/ps_outside.h"
#include "node/ended.h"
#include "node/tenants.h"

void ps_json(const struct tenants *tenants, const struct ps_outside *outside, FILE *out);

/* `allot ps --ended --json`: n of what ended in the runtime directory. */
void ps_json_ended(const char *runtime, const struct ended *list, size_t n, FILE *out);

#endif
