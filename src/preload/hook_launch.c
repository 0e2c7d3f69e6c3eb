/* SPDX-License-Identifier: Apache-2.0 */
/* Work on its way to the device passes the gate. Graph launches do so in hook_graph.c. */
#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/gate.h"
#include "preload/hook.h"

void gate_wait(const uint32_t *gate)
{
	uint32_t word;

	while ((word = atomic_acquire(gate)) & POLICY_GATE_CLOSED)
		syscall(SYS_futex, gate, FUTEX_WAIT, word, NULL, NULL, 0);
}

#define LAUNCH(name, params, args)             \
	CUresult hook_##name params            \
	{                                      \
		GUEST_OR_PASS(name, args);     \
		gate_pass(guest);              \
		return DRIVER(name, args);     \
	}

/* The list says which: each row of this kind is such a hook. */
#define CUDA_HOOK(name, kind, params, args) HOOK_##kind(name, params, args)
#define HOOK_LAUNCH(name, params, args) LAUNCH(name, params, args)
#define HOOK_LOOKUP(name, params, args)
#define HOOK_INIT(name, params, args)
#define HOOK_CONTEXT(name, params, args)
#define HOOK_MODULE(name, params, args)
#define HOOK_ALLOC(name, params, args)
#define HOOK_FREE(name, params, args)
#define HOOK_POOL(name, params, args)
#define HOOK_VMM(name, params, args)
#define HOOK_ARRAY(name, params, args)
#define HOOK_IPC(name, params, args)
#define HOOK_EXTERNAL(name, params, args)
#define HOOK_GRAPH(name, params, args)
#define HOOK_QUERY(name, params, args)
#define HOOK_SETTLE(name, params, args)
#include "nvidia/cuda_api.def"
