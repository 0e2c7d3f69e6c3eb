/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/amd/call.h"

#include "guest/amd/ask.h"

int amd_call_kernel(struct amd_call *call)
{
	return amd_ask(call->fd, call->request, call->block);
}
