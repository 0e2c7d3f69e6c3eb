/* SPDX-License-Identifier: Apache-2.0 */
#include "preload/amd_call.h"

int amd_memory_call(struct amd_call *call)
{
	return amd_call_kernel(call);
}
