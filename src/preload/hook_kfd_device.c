/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that name GPUs: for those of the tenant only. */
#include <errno.h>

#include "preload/amd_call.h"

int amd_device_call(struct amd_call *call)
{
	return amd_call_kernel(call);
}
