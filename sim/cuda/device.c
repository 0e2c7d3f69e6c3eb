/* SPDX-License-Identifier: Apache-2.0 */
/* What a program may ask of a device. The figures are those of an H200 where there is no choice. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/cuda/api.h"
#include "sim/cuda/mps.h"
#include "sim/cuda/sim.h"

#define DRIVER_VERSION 13000

CUresult cuDriverGetVersion(int *driverVersion)
{
	if (!driverVersion)
		return CUDA_ERROR_INVALID_VALUE;
	*driverVersion = DRIVER_VERSION;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count)
{
	CUresult r = sim_ready();

	if (!r && !count)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*count = sim.ndevices;
	return r;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal)
{
	struct sim_device *d;
	CUresult r = sim_device_get(ordinal, &d);

	if (!r && !device)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*device = ordinal;
	return r;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev)
{
	struct sim_device *d;
	CUresult r = sim_device_get(dev, &d);

	if (!r && (!name || len <= 0))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		snprintf(name, (size_t)len, "%s", d->row->name);
	return r;
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev)
{
	struct sim_device *d;
	CUresult r = sim_device_get(dev, &d);

	if (!r && !uuid)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		memcpy(uuid->bytes, d->row->uuid, sizeof(uuid->bytes));
	return r;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev)
{
	return cuDeviceGetUuid_v2(uuid, dev);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev)
{
	struct sim_device *d;
	CUresult r = sim_device_get(dev, &d);

	if (!r && !bytes)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*bytes = d->row->total_bytes;
	return r;
}

/* The 32-bit interface cannot say more than it can hold. */
static unsigned int device_saturate(size_t v)
{
	return v > 0xffffffffu ? 0xffffffffu : (unsigned int)v;
}

CUresult cuDeviceTotalMem(unsigned int *bytes, CUdevice dev)
{
	size_t total;
	CUresult r = cuDeviceTotalMem_v2(&total, dev);

	if (!r && !bytes)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*bytes = device_saturate(total);
	return r;
}

CUresult cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev)
{
	struct sim_device *d;
	CUresult r = sim_device_get(dev, &d);

	if (!r && (!pciBusId || len <= 0))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		snprintf(pciBusId, (size_t)len, "%04X:%02X:%02X.0", d->row->pci_domain,
			 d->row->pci_bus, d->row->pci_device);
	return r;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId)
{
	unsigned int domain = 0, bus, device;
	CUresult r = sim_ready();

	if (r)
		return r;
	if (!dev || !pciBusId)
		return CUDA_ERROR_INVALID_VALUE;
	if (sscanf(pciBusId, "%x:%x:%x", &domain, &bus, &device) != 3) {
		domain = 0;
		if (sscanf(pciBusId, "%x:%x", &bus, &device) != 2)
			return CUDA_ERROR_INVALID_VALUE;
	}
	for (int i = 0; i < sim.ndevices; i++) {
		const struct sim_device_row *row = sim.device[i].row;

		if (row->pci_domain == domain && row->pci_bus == bus && row->pci_device == device) {
			*dev = i;
			return CUDA_SUCCESS;
		}
	}
	return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev)
{
	struct sim_device *d;
	CUresult r = sim_device_get(dev, &d);

	if (!r && (!major || !minor))
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r) {
		*major = 9;
		*minor = 0;
	}
	return r;
}

/* Attributes that are not 0, by number; those of the device itself are below. */
static const struct {
	CUdevice_attribute attribute;
	int value;
} attributes[] = {
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y, 1024},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z, 64},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X, 2147483647},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z, 65535},
	{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, 49152},
	{CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY, 65536},
	{CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
	{CU_DEVICE_ATTRIBUTE_MAX_PITCH, 2147483647},
	{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK, 65536},
	{CU_DEVICE_ATTRIBUTE_CLOCK_RATE, 1980000},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT, 512},
	{CU_DEVICE_ATTRIBUTE_GPU_OVERLAP, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_WIDTH, 131072},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_HEIGHT, 65536},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_WIDTH, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_HEIGHT, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE3D_DEPTH, 16384},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 2048},
	{CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT, 512},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS, 1},
	{CU_DEVICE_ATTRIBUTE_ECC_ENABLED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, 3201000},
	{CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, 6144},
	{CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, 62914560},
	{CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR, 2048},
	{CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT, 3},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
	{CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT, 32},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 32768},
	{CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 32768},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
	{CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 233472},
	{CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR, 65536},
	{CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY, 1},
	{CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 2},
	{CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS, 1},
	{CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS, 1},
	{CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR, 1},
	{CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 232448},
	{CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR, 32},
	{CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE, 39321600},
	{CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE, 134213632},
	{CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK, 1024},
	{CU_DEVICE_ATTRIBUTE_SPARSE_CUDA_ARRAY_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_READ_ONLY_HOST_REGISTER_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES, 1},
	{CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
	{CU_DEVICE_ATTRIBUTE_DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_IPC_EVENT_SUPPORTED, 1},
	{CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT, 4},
	{CU_DEVICE_ATTRIBUTE_UNIFIED_FUNCTION_POINTERS, 1},
	{CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 1},
};

CUresult cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev)
{
	struct sim_device *d;
	CUresult r = sim_device_get(dev, &d);

	if (r)
		return r;
	if (!pi || attrib <= 0 || attrib >= CU_DEVICE_ATTRIBUTE_MAX)
		return CUDA_ERROR_INVALID_VALUE;
	*pi = 0;
	switch (attrib) {
	case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
		*pi = (int)sim_mps_sms(d->row->sm_count);
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MPS_ENABLED:
		*pi = sim_mps_enabled();
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
		*pi = (int)d->row->pci_domain;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
		*pi = (int)d->row->pci_bus;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
		*pi = (int)d->row->pci_device;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
		*pi = d->index;
		return CUDA_SUCCESS;
	case CU_DEVICE_ATTRIBUTE_NUMA_ID:
	case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
		*pi = -1;
		return CUDA_SUCCESS;
	default:
		break;
	}
	for (size_t i = 0; i < sizeof(attributes) / sizeof(attributes[0]); i++)
		if (attributes[i].attribute == attrib)
			*pi = attributes[i].value;
	return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev)
{
	struct sim_device *d;
	CUresult r = sim_device_get(dev, &d);

	if (!r && !prop)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*prop = (CUdevprop){
			.maxThreadsPerBlock = 1024,
			.maxThreadsDim = {1024, 1024, 64},
			.maxGridSize = {2147483647, 65535, 65535},
			.sharedMemPerBlock = 49152,
			.totalConstantMemory = 65536,
			.SIMDWidth = 32,
			.memPitch = 2147483647,
			.regsPerBlock = 65536,
			.clockRate = 1980000,
			.textureAlign = 512,
		};
	return r;
}

/* Every device reaches every other, as boards on one switch do. */
CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
	struct sim_device *a, *b;
	CUresult r = sim_device_get(dev, &a);

	if (!r)
		r = sim_device_get(peerDev, &b);
	if (!r && !canAccessPeer)
		r = CUDA_ERROR_INVALID_VALUE;
	if (!r)
		*canAccessPeer = a != b;
	return r;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
				 CUdevice dstDevice)
{
	struct sim_device *a, *b;
	CUresult r = sim_device_get(srcDevice, &a);

	if (!r)
		r = sim_device_get(dstDevice, &b);
	if (r)
		return r;
	if (a == b)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value)
		return CUDA_ERROR_INVALID_VALUE;
	*value = attrib != CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK &&
		 attrib != CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED;
	return CUDA_SUCCESS;
}
