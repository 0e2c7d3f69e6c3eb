/* SPDX-License-Identifier: Apache-2.0 */
#include "guest/core/library.h"

#include <link.h>

#include "base/text.h"
#include "guest/core/hooks.h"
#include "guest/core/own_nvml.h"
#include "guest/process/lookup_libc.h"

static void *library_cuda_address(int row)
{
	return cuda_real_address((enum cuda_fn)row);
}

static void *library_nvml_address(int row)
{
	return nvml_real_address((enum nvml_fn)row);
}

struct library library_cuda = {
	.soname = "libcuda.so.1",
	.find = cuda_find,
	.hooks = hook_cuda,
	.bound = cuda_driver_bound,
	.bind = cuda_driver_bind,
	.address = library_cuda_address,
	.found = own_nvml_prepare,
};

struct library library_nvml = {
	.soname = "libnvidia-ml.so.1",
	.find = nvml_find,
	.hooks = hook_nvml,
	.bound = nvml_real_bound,
	.bind = nvml_real_bind,
	.address = library_nvml_address,
};

bool library_present(struct library *library)
{
	void *handle;

	if (library->bound())
		return true;
	handle = lookup_libc().dlopen(library->soname, RTLD_LAZY | RTLD_NOLOAD);
	if (!handle)
		return false;
	atomic_store_explicit(&library->handle, handle, memory_order_relaxed);
	library->bind(handle, lookup_libc().dlsym);
	if (library->found)
		library->found();
	return true;
}

/* By the loader's own list: to ask the loader would have it look for the file. */
static bool library_is_listed(const struct library *library)
{
	for (struct link_map *m = _r_debug.r_map; m; m = m->l_next)
		if (text_same(text_file_name(m->l_name), library->soname))
			return true;
	return false;
}

/*
 * A program that is linked with the driver has it from the start, and may fork before its first
 * call. Nothing is bound yet: for that a child needs no lock that may have stayed locked.
 */
__attribute__((constructor)) static void library_begin(void)
{
	if (library_is_listed(&library_cuda))
		library_cuda.found();
}
