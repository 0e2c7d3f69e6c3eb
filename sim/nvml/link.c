/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Links between devices: those of boards with an H200 each, all of whose NVLinks end at switches,
 * in one host with a NUMA node for each four. ALLOT_SIM_ISLAND=N: each N boards have switches of their own.
 */
#include <stdio.h>
#include <stdlib.h>

#include "sim/nvml/entry.h"

#define NVLINKS		18
#define NVLINK_MB_PER_S 26562
#define BOARDS_A_NODE	4

static nvmlReturn_t link_two_devices(nvmlDevice_t device1, nvmlDevice_t device2, int *ret_a,
				     int *ret_b)
{
	struct sim_region *region;
	nvmlReturn_t r = sim_nvml_device(device1, &region, ret_a);

	return r ? r : sim_nvml_device(device2, &region, ret_b);
}

static bool link_is_one_island(int a, int b)
{
	const char *text = getenv("ALLOT_SIM_ISLAND");
	int boards = text ? atoi(text) : 0;

	return boards <= 0 || a / boards == b / boards;
}

nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t device1, nvmlDevice_t device2,
				    nvmlGpuP2PCapsIndex_t p2pIndex, nvmlGpuP2PStatus_t *p2pStatus)
{
	int a, b;
	nvmlReturn_t r = link_two_devices(device1, device2, &a, &b);

	if (r)
		return r;
	if (a == b || !p2pStatus || (unsigned int)p2pIndex >= NVML_P2P_CAPS_INDEX_UNKNOWN)
		return NVML_ERROR_INVALID_ARGUMENT;
	*p2pStatus = p2pIndex != NVML_P2P_CAPS_INDEX_NVLINK || link_is_one_island(a, b)
			     ? NVML_P2P_STATUS_OK
			     : NVML_P2P_STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTopologyCommonAncestor(nvmlDevice_t device1, nvmlDevice_t device2,
						 nvmlGpuTopologyLevel_t *pathInfo)
{
	int a, b;
	nvmlReturn_t r = link_two_devices(device1, device2, &a, &b);

	if (r)
		return r;
	if (!pathInfo)
		return NVML_ERROR_INVALID_ARGUMENT;
	if (a == b)
		*pathInfo = NVML_TOPOLOGY_INTERNAL;
	else
		*pathInfo = a / BOARDS_A_NODE == b / BOARDS_A_NODE ? NVML_TOPOLOGY_NODE
								   : NVML_TOPOLOGY_SYSTEM;
	return NVML_SUCCESS;
}

static nvmlReturn_t link_find(nvmlDevice_t device, unsigned int link, const void *answer)
{
	struct sim_region *region;
	int i;
	nvmlReturn_t r = sim_nvml_device(device, &region, &i);

	if (r)
		return r;
	return link < NVLINKS && answer ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetNvLinkState(nvmlDevice_t device, unsigned int link,
				      nvmlEnableState_t *isActive)
{
	nvmlReturn_t r = link_find(device, link, isActive);

	if (!r)
		*isActive = NVML_FEATURE_ENABLED;
	return r;
}

nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned int link,
						 nvmlIntNvLinkDeviceType_t *pNvLinkDeviceType)
{
	nvmlReturn_t r = link_find(device, link, pNvLinkDeviceType);

	if (!r)
		*pNvLinkDeviceType = NVML_NVLINK_DEVICE_TYPE_SWITCH;
	return r;
}

/* The PCI address of the switch at the other end: one of four, which are next to each other. */
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned int link,
						 nvmlPciInfo_t *pci)
{
	nvmlReturn_t r = link_find(device, link, pci);

	if (r)
		return r;
	*pci = (nvmlPciInfo_t){.bus = 5 + link % 4, .pciDeviceId = 0x22a310de};
	snprintf(pci->busIdLegacy, sizeof(pci->busIdLegacy), "0000:%02X:00.0", pci->bus & 0xff);
	snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", pci->bus & 0xff);
	return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *maxLinkGen)
{
	nvmlReturn_t r = link_find(device, 0, maxLinkGen);

	if (!r)
		*maxLinkGen = 5;
	return r;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkGeneration(nvmlDevice_t device, unsigned int *currLinkGen)
{
	return nvmlDeviceGetMaxPcieLinkGeneration(device, currLinkGen);
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *maxLinkWidth)
{
	nvmlReturn_t r = link_find(device, 0, maxLinkWidth);

	if (!r)
		*maxLinkWidth = 16;
	return r;
}

nvmlReturn_t nvmlDeviceGetCurrPcieLinkWidth(nvmlDevice_t device, unsigned int *currLinkWidth)
{
	return nvmlDeviceGetMaxPcieLinkWidth(device, currLinkWidth);
}

/* Traffic is not simulated: none is seen. The real library takes 20 ms for a sample. */
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
					 unsigned int *value)
{
	nvmlReturn_t r = link_find(device, 0, value);

	if (r)
		return r;
	if ((unsigned int)counter >= NVML_PCIE_UTIL_COUNT)
		return NVML_ERROR_INVALID_ARGUMENT;
	*value = 0;
	return NVML_SUCCESS;
}

/* The recovery action that a device asks for after an error. */
#define FIELD_RECOVERY_ACTION 230

static void link_fill_recovery(nvmlDevice_t device, nvmlFieldValue_t *v)
{
	struct sim_region *region;
	int index;

	v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
	v->nvmlReturn = sim_nvml_device(device, &region, &index);
	if (!v->nvmlReturn)
		v->nvmlReturn = sim_nvml_recovery(index, &v->value.uiVal);
}

/* Each value has an answer of its own; speeds and the recovery action are simulated. */
nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int valuesCount,
				      nvmlFieldValue_t *values)
{
	nvmlReturn_t r = link_find(device, 0, values);

	if (r)
		return r;
	if (valuesCount < 1)
		return NVML_ERROR_INVALID_ARGUMENT;
	for (int i = 0; i < valuesCount; i++) {
		nvmlFieldValue_t *v = &values[i];

		v->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
		if (v->fieldId == FIELD_RECOVERY_ACTION)
			link_fill_recovery(device, v);
		if (v->fieldId != NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON &&
		    (v->fieldId != NVML_FI_DEV_NVLINK_GET_SPEED || v->scopeId >= NVLINKS))
			continue;
		v->nvmlReturn = NVML_SUCCESS;
		v->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		v->value.uiVal = NVLINK_MB_PER_S;
	}
	return NVML_SUCCESS;
}
