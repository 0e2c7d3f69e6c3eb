/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many SMs a device has, in mode space: cuBLASLt is told of the whole device, everybody else of
 * the tenant's part.
 *
 * cuBLASLt plans a matrix product for so many SMs. With a part of them, as MPS gives it, those of
 * its kernels that work in clusters leave pieces of the result unwritten, without an error: on an
 * H200 (CUDA 13.0) at most sizes of a part, with allot as without. Planned for the whole device the
 * same products are right at every size that was tried, and take up to 25 % longer than the wrong
 * ones: bench/results/h200-losses-2026-11-29.txt.
 */
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "guest/core/complain.h"
#include "guest/core/hook.h"
#include "guest/core/own_nvml.h"

/* Devices since this one run blocks in clusters, and have so many cores in an SM. */
#define CLUSTERS_MAJOR 9
#define CORES_IN_SM    128

static bool device_is_cublaslt(const void *caller)
{
	static const char name[] = "libcublasLt.so";
	/* The library asks before each product, mostly from one place. */
	static _Atomic(const void *) known;
	const char *file;
	Dl_info info;

	if (caller == atomic_load_explicit(&known, memory_order_relaxed))
		return true;
	if (!dladdr(caller, &info) || !info.dli_fname)
		return false;
	file = strrchr(info.dli_fname, '/');
	if (strncmp(file ? file + 1 : info.dli_fname, name, sizeof(name) - 1))
		return false;
	atomic_store_explicit(&known, caller, memory_order_relaxed);
	return true;
}

/* CUDA knows the part alone, also where it describes what green contexts are made of. */
static int device_ask_sms(struct guest *guest, const struct guest_device *d)
{
	const struct nvml_library *nvml;
	unsigned int cores = 0;
	nvmlDevice_t device;
	nvmlReturn_t r;

	nvml = own_nvml_get(guest, d->uuid, d->ledger, &device);
	if (!nvml)
		return 0;
	guest_depth++;
	r = nvml->nvmlDeviceGetNumGpuCores(device, &cores);
	guest_depth--;
	return r == NVML_SUCCESS ? (int)(cores / CORES_IN_SM) : 0;
}

static int device_sms(struct guest *guest, struct guest_device *d, int part)
{
	int sms = atomic_load_explicit(&d->sms, memory_order_relaxed);

	if (sms)
		return sms;
	sms = device_ask_sms(guest, d);
	if (sms < part) {
		complain_line("NVML does not say how many cores the device has: results of cuBLAS "
			      "may be wrong in mode space; use --mode turns");
		sms = part;
	}
	atomic_store_explicit(&d->sms, sms, memory_order_relaxed);
	return sms;
}

static bool device_has_clusters(const struct guest_device *d)
{
	int major = 0;

	DRIVER(cuDeviceGetAttribute,
	       (&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->ordinal));
	return major >= CLUSTERS_MAJOR;
}

CUresult hook_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	GUEST_OR_PASS(cuDeviceGetAttribute, (pi, attrib, dev));
	CUresult e = DRIVER(cuDeviceGetAttribute, (pi, attrib, dev));
	struct guest_device *d = guest_device(guest, dev);

	if (!e && d && attrib == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
	    atomic_load(&guest->in_space) && device_is_cublaslt(__builtin_return_address(0)) &&
	    device_has_clusters(d))
		*pi = device_sms(guest, d, *pi);
	return e;
}
