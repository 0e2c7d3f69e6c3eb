/* SPDX-License-Identifier: Apache-2.0 */
/* Tenants, and processes outside of them, as JSON, in the stable format of docs/json.md. */
#ifndef ALLOT_NODE_TENANTS_JSON_H
#define ALLOT_NODE_TENANTS_JSON_H

#include "node/outsiders.h"
#include "node/tenants.h"
#include "text/json.h"

/* Raised when a key changes its meaning or goes away; new keys may come at any time. */
#define TENANTS_JSON_VERSION 1

/* Into an object that is open: "version", "runtime_dir" and "tenants". */
void tenants_json_begin(struct json *j, const struct tenants *tenants);

/* The same, one by one: elements of an array that is open. */
void tenants_json_tenant(struct json *j, const struct tenant_entry *tenant);

/* An element of an array that is open. */
void tenants_json_outsider(struct json *j, const struct outsider_found *found);

#endif
