/* SPDX-License-Identifier: Apache-2.0 */
#include "families_guest.h"

#include <dlfcn.h>

struct cuda_driver cu;
const char *guest_label = "";
uint64_t guest_slack;

const char *guest_error(CUresult e)
{
	const char *name = NULL;

	return cu.cuGetErrorName && !cu.cuGetErrorName(e, &name) && name ? name : "?";
}

void tell(enum note_what what, int device, uint64_t a, const char *text)
{
	struct note n = {.what = (int)what, .device = device, .a = a, .slack = guest_slack};
	char answer = 'n';
	size_t free, total;

	/* What is kept for the next allocation goes when somebody asks what is free. */
	if (what == NOTE_FREED && getenv("FAMILIES_SWAPPABLE"))
		cu.cuMemGetInfo_v2(&free, &total);
	snprintf(n.text, sizeof(n.text), "%s", text);
	if (send(NOTE_FD, &n, sizeof(n), MSG_NOSIGNAL) != sizeof(n) ||
	    recv(NOTE_FD, &answer, 1, 0) != 1 || answer != 'y')
		exit(1);
}

void guest_bind(void)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW);

	CHECK(driver);
#define CUDA_HOOK(name, kind, params, args) *(void **)&cu.name = dlsym(driver, #name);
#define CUDA_CALL(name, kind, params, args) CUDA_HOOK(name, kind, params, args)
#include "nvidia/cuda_api.def"
}

CUcontext guest_context(CUdevice device)
{
	CUcontext ctx;

	OK(cu.cuInit(0));
	OK(cu.cuDevicePrimaryCtxRetain(&ctx, device));
	OK(cu.cuCtxSetCurrent(ctx));
	tell(NOTE_EMPTY, device, 0, "context");
	return ctx;
}
