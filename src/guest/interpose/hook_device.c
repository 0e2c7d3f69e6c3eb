/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of SMs of a device, in mode space: cuBLASLt is told of the whole device, everybody
 * else of the tenant's part.
 *
 * cuBLASLt plans a matrix product for that number of SMs. With a part of them, as MPS gives it,
 * those of its kernels that work in clusters leave pieces of the result unwritten, without an
 * error: on an H200 (CUDA 13.0) at most sizes of a part, with allot as without. Planned for the
 * whole device the same products are right at every size that was tried, and take up to 25 % longer
 * than the wrong ones: bench/results/h200-losses-2026-11-29.txt.
 */
#include <dlfcn.h>
#include <string.h>

#include "base/text.h"
#include "guest/core/hook.h"
#include "guest/core/own_nvml.h"
#include "guest/process/complain.h"

/* Devices since this one run blocks in clusters, and have this many cores in an SM. */
#define CLUSTERS_MAJOR 9
#define CORES_IN_SM    128

static bool device_is_cublaslt(const void *caller)
{
	static const char name[] = "libcublasLt.so";
	/* The library asks before each product, mostly from one place. */
	static _Atomic(const void *) known;
	Dl_info info;

	if (caller == atomic_load_explicit(&known, memory_order_relaxed))
		return true;
	if (!dladdr(caller, &info) || !info.dli_fname ||
	    strncmp(text_file_name(info.dli_fname), name, sizeof(name) - 1))
		return false;
	atomic_store_explicit(&known, caller, memory_order_relaxed);
	return true;
}

/*
 * 0: not known. CUDA knows the part alone, also where it describes what green contexts are made of.
 */
static int device_ask_nvml(struct guest *guest, const struct guest_device *d)
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

/* Returns the number for cuBLASLt: the part, if the device has no clusters or NVML says no more. */
static int device_find_sms(struct guest *guest, const struct guest_device *d, int part)
{
	int major = 0, sms;

	DRIVER(cuDeviceGetAttribute,
	       (&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d->ordinal));
	if (major < CLUSTERS_MAJOR)
		return part;
	sms = device_ask_nvml(guest, d);
	if (sms >= part)
		return sms;
	complain_line("NVML does not say how many cores the device has: results of cuBLAS may be "
		      "wrong in mode space; use --mode turns");
	return part;
}

static int device_sms(struct guest *guest, struct guest_device *d, int part)
{
	int sms = atomic_load_explicit(&d->sms, memory_order_relaxed);

	if (!sms) {
		sms = device_find_sms(guest, d, part);
		atomic_store_explicit(&d->sms, sms, memory_order_relaxed);
	}
	return sms;
}

CUresult hook_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	GUEST_OR_PASS(cuDeviceGetAttribute, (pi, attrib, dev));
	CUresult e = DRIVER(cuDeviceGetAttribute, (pi, attrib, dev));
	struct guest_device *d = guest_device(guest, dev);

	if (!e && d && attrib == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT &&
	    atomic_load(&guest->space.confirmed) && device_is_cublaslt(__builtin_return_address(0)))
		*pi = device_sms(guest, d, *pi);
	return e;
}
