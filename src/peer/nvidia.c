/* SPDX-License-Identifier: Apache-2.0 */
/* NVIDIA's GPUs: their list, their reach, and their links. */
#include "peer/nvidia.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "nvidia/nvml_link.h"
#include "peer/complain.h"

/* Kept open: the driver does not like to be unloaded. */
static int nvidia_bind_driver(void)
{
	void *library;

	if (cuda_driver_bound())
		return 0;
	library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return complain(-ENOENT, "open: %s", dlerror());
	cuda_driver_bind(library, dlsym);
	return 0;
}

static CUresult nvidia_describe(struct allot_peer *peer, uint32_t i)
{
	struct allot_peer_device *d = &peer->device[i];
	CUmemAllocationProp prop = nvidia_prop(i);
	size_t bytes = 0, granule = 0;
	CUresult r;

	d->id = i;
	if ((r = cuda_real.cuDeviceGetName(d->name, sizeof(d->name), (CUdevice)i)) ||
	    (r = cuda_real.cuDeviceGetPCIBusId(d->pci, sizeof(d->pci), (CUdevice)i)) ||
	    (r = cuda_real.cuDeviceTotalMem_v2(&bytes, (CUdevice)i)) ||
	    (r = cuda_real.cuMemGetAllocationGranularity(&granule, &prop,
							 CU_MEM_ALLOC_GRANULARITY_MINIMUM)))
		return r;
	for (char *c = d->pci; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	d->memory_bytes = bytes;
	if (granule > peer->page)
		peer->page = granule;
	return CUDA_SUCCESS;
}

static CUresult nvidia_find_reach(struct allot_peer *peer)
{
	for (uint32_t i = 0; i < peer->n; i++)
		for (uint32_t j = 0; j < peer->n; j++) {
			int can = i == j;
			CUresult r = CUDA_SUCCESS;

			if (i != j)
				r = cuda_real.cuDeviceCanAccessPeer(&can, (CUdevice)i, (CUdevice)j);
			if (r)
				return r;
			if (can)
				peer->reach[i] |= UINT64_C(1) << j;
		}
	return CUDA_SUCCESS;
}

/* Devices are what they are by ordinal: CUdevice is that number. */
static int nvidia_open(struct allot_peer *peer)
{
	CLEANUP_FREE struct nvidia_state *s = calloc(1, sizeof(*s));
	int r = nvidia_bind_driver(), count = 0;
	CUresult result;

	if (r < 0)
		return r;
	if (!s)
		return complain(-ENOMEM, "open: out of memory");
	result = cuda_real.cuInit(0);
	if (result == CUDA_ERROR_NOT_INITIALIZED)
		return complain(-ENOTSUP,
				"open: NVIDIA's driver was in use in the process that this one was "
				"forked from, and does not work here; exec first, or fork earlier");
	if (!result)
		result = cuda_real.cuDeviceGetCount(&count);
	if (result)
		return nvidia_complain(result, "open", "NVIDIA's driver");
	if (count <= 0)
		return complain(-ENODEV, "open: no GPU that this process may use");
	if (count > ALLOT_PEER_DEVICES)
		return complain(-E2BIG, "open: more than %d GPUs", ALLOT_PEER_DEVICES);
	peer->n = (uint32_t)count;
	peer->page = ADDRESS_PAGE_BYTES;
	for (uint32_t i = 0; i < peer->n; i++) {
		result = nvidia_describe(peer, i);
		if (result)
			return nvidia_complain(result, "open", peer_name(peer, i).text);
	}
	result = nvidia_find_reach(peer);
	if (result)
		return nvidia_complain(result, "open", "who reaches whom");
	peer->aperture = (struct aperture){peer->page, ADDRESS_CANONICAL_LAST};
	peer->state = TAKE_PTR(s);
	return 0;
}

static void nvidia_close(struct allot_peer *peer, bool forked)
{
	struct nvidia_state *s = peer->state;

	for (uint32_t i = 0; !forked && i < peer->n; i++)
		if (s->context[i])
			cuda_real.cuDevicePrimaryCtxRelease_v2((CUdevice)i);
	free(s);
}

/* CUDA and NVML number devices differently; the PCI address is the same, but for the domain's
 * length. */
static int nvidia_nvml_index(struct nvml *nvml, const char *pci, unsigned int *ret)
{
	unsigned int n = 0;
	int r = nvml_device_count(nvml, &n);

	for (unsigned int i = 0; r == 0 && i < n; i++) {
		struct nvml_device d;
		size_t shorter;

		r = nvml_device_get(nvml, i, &d);
		shorter = strlen(d.pci) < strlen(pci) ? strlen(d.pci) : strlen(pci);
		if (r == 0 &&
		    !strcasecmp(d.pci + strlen(d.pci) - shorter, pci + strlen(pci) - shorter)) {
			*ret = i;
			return 0;
		}
	}
	return -ENODEV;
}

/* NVML knows their links; without NVML only the reach is known. */
static int nvidia_link(const struct allot_peer *peer, uint32_t from, uint32_t to,
		       struct allot_peer_link *ret_link)
{
	struct nvml_link link = {0};
	struct nvml *nvml;
	unsigned int a, b;

	if (nvml_open(NULL, &nvml) < 0)
		return 0;
	if (nvidia_nvml_index(nvml, peer->device[from].pci, &a) == 0 &&
	    nvidia_nvml_index(nvml, peer->device[to].pci, &b) == 0 &&
	    nvml_link_get(nvml, a, b, &link) == 0) {
		snprintf(ret_link->type, sizeof(ret_link->type), "%s",
			 link.nvlink ? "NVLink" : "PCIe");
		ret_link->max_mb_per_s = link.mb_per_s;
	}
	nvml_close(nvml);
	return 0;
}

const struct peer_backend peer_nvidia = {
	.name = "nvidia",
	.devices_only = true,
	.open = nvidia_open,
	.close = nvidia_close,
	.link = nvidia_link,
	.reserve = nvidia_reserve,
	.release = nvidia_release,
	.alloc = nvidia_alloc,
	.free = nvidia_free,
	.map = nvidia_map,
	.export_fd = nvidia_export,
	.inspect = nvidia_inspect,
	.import = nvidia_import,
	.read = nvidia_read,
	.write = nvidia_write,
};
