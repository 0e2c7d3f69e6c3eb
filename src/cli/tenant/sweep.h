/* SPDX-License-Identifier: Apache-2.0 */
/* Removes files that nobody uses any more. */
#ifndef ALLOT_CLI_TENANT_SWEEP_H
#define ALLOT_CLI_TENANT_SWEEP_H

/* Cgroups of commands that are over, which nobody counts, are left alone until they are so old. */
#define SWEEP_GRACE_S 60

/* Removes tenants that ended, their remaining files, and such cgroups. */
void sweep_runtime(const char *runtime);

#endif
