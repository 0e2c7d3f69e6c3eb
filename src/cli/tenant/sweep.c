/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/tenant/sweep.h"

#include "cli/tenant/dmem.h"
#include "cli/tenant/space.h"
#include "node/tenants.h"

void sweep_runtime(const char *runtime)
{
	tenants_remove_ended(runtime);
	space_sweep(runtime);
	dmem_sweep(runtime, SWEEP_GRACE_S);
}
