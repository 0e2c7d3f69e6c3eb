/* SPDX-License-Identifier: Apache-2.0 */
#include "nvidia/nvml_link.h"

#include <string.h>

#include "base/number.h"
#include "nvidia/nvml_priv.h"

/* More than any device has; a device ends the walk before. */
#define LINKS_MOST 64

static bool nvml_link_p2p(struct nvml *nvml, nvmlDevice_t from, nvmlDevice_t to,
			  nvmlGpuP2PCapsIndex_t what)
{
	nvmlGpuP2PStatus_t status = NVML_P2P_STATUS_UNKNOWN;

	return !nvml->lib.nvmlDeviceGetP2PStatus(from, to, what, &status) &&
	       status == NVML_P2P_STATUS_OK;
}

/* Active links of a device to another one, by its bus id, and to switches; and the last of them. */
struct ends {
	uint32_t there, switches;
	unsigned int link;
};

static struct ends nvml_link_count(struct nvml *nvml, nvmlDevice_t dev, const char *bus_id)
{
	struct ends ends = {0};

	for (unsigned int l = 0; l < LINKS_MOST; l++) {
		nvmlIntNvLinkDeviceType_t type = NVML_NVLINK_DEVICE_TYPE_UNKNOWN;
		nvmlEnableState_t active = NVML_FEATURE_DISABLED;
		nvmlPciInfo_t pci = {.busId = ""};
		nvmlReturn_t r = nvml->lib.nvmlDeviceGetNvLinkState(dev, l, &active);

		if (r == NVML_ERROR_INVALID_ARGUMENT)
			break; /* it has no such link */
		if (r || active != NVML_FEATURE_ENABLED)
			continue;
		nvml->lib.nvmlDeviceGetNvLinkRemoteDeviceType(dev, l, &type);
		if (type == NVML_NVLINK_DEVICE_TYPE_SWITCH)
			ends.switches++;
		else if (!nvml->lib.nvmlDeviceGetNvLinkRemotePciInfo_v2(dev, l, &pci) &&
			 !strncmp(pci.busId, bus_id, sizeof(pci.busId)))
			ends.there++;
		else
			continue;
		ends.link = l;
	}
	return ends;
}

static uint32_t nvml_link_speed(struct nvml *nvml, nvmlDevice_t dev, unsigned int link)
{
	nvmlFieldValue_t value[2] = {
		{.fieldId = NVML_FI_DEV_NVLINK_GET_SPEED, .scopeId = link},
		{.fieldId = NVML_FI_DEV_NVLINK_SPEED_MBPS_COMMON},
	};

	if (nvml->lib.nvmlDeviceGetFieldValues(dev, 2, value))
		return 0;
	for (int i = 0; i < 2; i++)
		if (!value[i].nvmlReturn && value[i].valueType == NVML_VALUE_TYPE_UNSIGNED_INT &&
		    value[i].value.uiVal)
			return value[i].value.uiVal;
	return 0;
}

static int nvml_link_get_nvlinks(struct nvml *nvml, nvmlDevice_t from, nvmlDevice_t to,
				 struct nvml_link *link)
{
	nvmlPciInfo_t from_pci, to_pci;
	struct ends here, there;
	uint64_t speed;
	int r;

	if ((r = nvml_errno(nvml->lib.nvmlDeviceGetPciInfo_v3(from, &from_pci))) < 0 ||
	    (r = nvml_errno(nvml->lib.nvmlDeviceGetPciInfo_v3(to, &to_pci))) < 0)
		return r;
	here = nvml_link_count(nvml, from, to_pci.busId);
	there = nvml_link_count(nvml, to, from_pci.busId);
	link->nvlinks = here.there;
	link->nvlinks += min_u64(here.switches, there.switches);
	speed = link->nvlinks ? (uint64_t)link->nvlinks * nvml_link_speed(nvml, from, here.link)
			      : 0;
	link->mb_per_s = speed <= UINT32_MAX ? (uint32_t)speed : 0;
	return 0;
}

/* Of a lane, by generation: 2.5, 5, 8, 16, 32 and 64 GT/s less the encoding. */
static uint32_t nvml_link_pcie_speed(struct nvml *nvml, nvmlDevice_t dev)
{
	static const uint32_t lane_mb_per_s[] = {0, 250, 500, 985, 1969, 3938, 7563};
	unsigned int generation = 0, width = 0;

	if (nvml->lib.nvmlDeviceGetMaxPcieLinkGeneration(dev, &generation) ||
	    nvml->lib.nvmlDeviceGetMaxPcieLinkWidth(dev, &width) ||
	    generation >= sizeof(lane_mb_per_s) / sizeof(lane_mb_per_s[0]) || width > 32)
		return 0;
	return lane_mb_per_s[generation] * width;
}

static const char *nvml_link_path_between(struct nvml *nvml, nvmlDevice_t from, nvmlDevice_t to)
{
	nvmlGpuTopologyLevel_t level;

	if (nvml->lib.nvmlDeviceGetTopologyCommonAncestor(from, to, &level))
		return NULL;
	switch (level) {
	case NVML_TOPOLOGY_INTERNAL:
		return "one board";
	case NVML_TOPOLOGY_SINGLE:
		return "one switch";
	case NVML_TOPOLOGY_MULTIPLE:
		return "switches";
	case NVML_TOPOLOGY_HOSTBRIDGE:
		return "host bridge";
	case NVML_TOPOLOGY_NODE:
		return "NUMA node";
	case NVML_TOPOLOGY_SYSTEM:
		return "sockets";
	}
	return NULL;
}

int nvml_link_get(struct nvml *nvml, unsigned int from_index, unsigned int to_index,
		  struct nvml_link *ret_link)
{
	struct nvml_link link = {.reach = false};
	nvmlDevice_t from, to;
	int r;

	if ((r = nvml_errno(nvml->lib.nvmlDeviceGetHandleByIndex_v2(from_index, &from))) < 0 ||
	    (r = nvml_errno(nvml->lib.nvmlDeviceGetHandleByIndex_v2(to_index, &to))) < 0)
		return r;
	link.reach = nvml_link_p2p(nvml, from, to, NVML_P2P_CAPS_INDEX_READ) &&
		     nvml_link_p2p(nvml, from, to, NVML_P2P_CAPS_INDEX_WRITE);
	link.nvlink = nvml_link_p2p(nvml, from, to, NVML_P2P_CAPS_INDEX_NVLINK);
	link.path = nvml_link_path_between(nvml, from, to);
	if (link.nvlink) {
		r = nvml_link_get_nvlinks(nvml, from, to, &link);
		if (r < 0)
			return r;
	} else {
		uint32_t a = nvml_link_pcie_speed(nvml, from), b = nvml_link_pcie_speed(nvml, to);

		link.mb_per_s = min_u64(a, b);
	}
	*ret_link = link;
	return 0;
}
