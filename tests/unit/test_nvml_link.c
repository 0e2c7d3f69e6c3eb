/* SPDX-License-Identifier: Apache-2.0 */
/* Links between devices, by libraries that tell this and that of them. */
#include <errno.h>
#include <string.h>

#include "nvidia/nvml_link.h"
#include "nvidia/nvml_priv.h"
#include "tests/check.h"

#define DEVICES 3

struct nvmlDevice_st {
	unsigned int links, to_switch; /* the first of the links go to a switch */
	unsigned int peer;	       /* the others to this device */
	unsigned int generation, width;
};

static struct nvmlDevice_st devices[DEVICES];
static bool readable, writable, by_nvlink;
static unsigned int common_speed, own_speed;
static unsigned int level;

static unsigned int index_of(nvmlDevice_t dev)
{
	CHECK(dev >= devices && dev < devices + DEVICES);
	return (unsigned int)(dev - devices);
}

static nvmlReturn_t by_index(unsigned int i, nvmlDevice_t *dev)
{
	if (i >= DEVICES)
		return NVML_ERROR_INVALID_ARGUMENT;
	*dev = &devices[i];
	return NVML_SUCCESS;
}

static nvmlReturn_t p2p_status(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuP2PCapsIndex_t what,
			       nvmlGpuP2PStatus_t *status)
{
	const bool ok[] = {readable, writable, by_nvlink};

	CHECK(a != b && what <= NVML_P2P_CAPS_INDEX_NVLINK);
	*status = ok[what] ? NVML_P2P_STATUS_OK : NVML_P2P_STATUS_NOT_SUPPORTED;
	return NVML_SUCCESS;
}

static nvmlReturn_t ancestor(nvmlDevice_t a, nvmlDevice_t b, nvmlGpuTopologyLevel_t *ret)
{
	*ret = (nvmlGpuTopologyLevel_t)level;
	return NVML_SUCCESS;
}

static void set_pci(nvmlPciInfo_t *pci, unsigned int bus)
{
	snprintf(pci->busId, sizeof(pci->busId), "00000000:%02X:00.0", bus & 0xff);
}

static nvmlReturn_t own_pci(nvmlDevice_t dev, nvmlPciInfo_t *pci)
{
	set_pci(pci, 0x10 + index_of(dev));
	return NVML_SUCCESS;
}

/* Every other one is down, so that a device has twice as many as are active. */
static nvmlReturn_t link_state(nvmlDevice_t dev, unsigned int link, nvmlEnableState_t *active)
{
	if (link >= dev->links * 2)
		return dev->links ? NVML_ERROR_INVALID_ARGUMENT : NVML_ERROR_NOT_SUPPORTED;
	*active = link % 2 ? NVML_FEATURE_ENABLED : NVML_FEATURE_DISABLED;
	return NVML_SUCCESS;
}

static nvmlReturn_t remote_type(nvmlDevice_t dev, unsigned int link,
				nvmlIntNvLinkDeviceType_t *type)
{
	*type = link / 2 < dev->to_switch ? NVML_NVLINK_DEVICE_TYPE_SWITCH
					  : NVML_NVLINK_DEVICE_TYPE_GPU;
	return NVML_SUCCESS;
}

static nvmlReturn_t remote_pci(nvmlDevice_t dev, unsigned int link, nvmlPciInfo_t *pci)
{
	set_pci(pci, link / 2 < dev->to_switch ? 0x80 : 0x10 + dev->peer);
	return NVML_SUCCESS;
}

static nvmlReturn_t fields(nvmlDevice_t dev, int n, nvmlFieldValue_t *values)
{
	for (int i = 0; i < n; i++) {
		bool own = values[i].fieldId == NVML_FI_DEV_NVLINK_GET_SPEED;
		unsigned int speed = own ? own_speed : common_speed;

		/* Asked about one that is active, if it is of one. */
		CHECK(!own || (values[i].scopeId < dev->links * 2 && values[i].scopeId % 2));
		values[i].nvmlReturn = speed ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
		values[i].valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
		values[i].value.uiVal = speed;
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t generation(nvmlDevice_t dev, unsigned int *ret)
{
	*ret = dev->generation;
	return NVML_SUCCESS;
}

static nvmlReturn_t width(nvmlDevice_t dev, unsigned int *ret)
{
	*ret = dev->width;
	return NVML_SUCCESS;
}

static const struct {
	const char *name;
	void *address;
} exports[] = {
	{"nvmlDeviceGetHandleByIndex_v2", (void *)by_index},
	{"nvmlDeviceGetPciInfo_v3", (void *)own_pci},
	/* From here on, what an old library may lack. */
	{"nvmlDeviceGetP2PStatus", (void *)p2p_status},
	{"nvmlDeviceGetTopologyCommonAncestor", (void *)ancestor},
	{"nvmlDeviceGetNvLinkState", (void *)link_state},
	{"nvmlDeviceGetNvLinkRemoteDeviceType", (void *)remote_type},
	{"nvmlDeviceGetNvLinkRemotePciInfo_v2", (void *)remote_pci},
	{"nvmlDeviceGetFieldValues", (void *)fields},
	{"nvmlDeviceGetMaxPcieLinkGeneration", (void *)generation},
	{"nvmlDeviceGetMaxPcieLinkWidth", (void *)width},
};

#define EXPORTS (sizeof(exports) / sizeof(exports[0]))

/* `handle`: how many of them there are. */
static void *find(void *handle, const char *name)
{
	for (size_t i = 0; i < *(size_t *)handle; i++)
		if (!strcmp(exports[i].name, name))
			return exports[i].address;
	return NULL;
}

static struct nvml_link ask(size_t exported, unsigned int from, unsigned int to)
{
	struct nvml_link link = {.path = "not written"};
	struct nvml nvml = {.handle = NULL};

	nvml_library_bind(&nvml.lib, &exported, find);
	CHECK_EQ(nvml_link_get(&nvml, from, DEVICES, &link), -ENODEV);
	CHECK_EQ(nvml_link_get(&nvml, DEVICES, to, &link), -ENODEV);
	CHECK(!strcmp(link.path, "not written"));
	CHECK_EQ(nvml_link_get(&nvml, from, to, &link), 0);
	return link;
}

static void test_nvlink(void)
{
	struct nvml_link link;

	readable = writable = by_nvlink = true;
	level = NVML_TOPOLOGY_SYSTEM;
	own_speed = 26562;
	common_speed = 25781;
	/* Joined directly, though the other has more links than lead here. */
	devices[0] = (struct nvmlDevice_st){.links = 4, .peer = 1};
	devices[1] = (struct nvmlDevice_st){.links = 6, .peer = 0};
	devices[2] = (struct nvmlDevice_st){.links = 2, .peer = 1};
	link = ask(EXPORTS, 0, 1);
	CHECK(link.reach && link.nvlink);
	CHECK_EQ(link.nvlinks, 4);
	CHECK_EQ(link.mb_per_s, 4 * 26562);
	CHECK(!strcmp(link.path, "sockets"));
	/* NVLink by what the driver says, though no link of its own leads there. */
	link = ask(EXPORTS, 0, 2);
	CHECK_EQ(link.nvlinks, 0);
	CHECK_EQ(link.mb_per_s, 0);

	/* Through switches the smaller number counts, and older drivers know one speed only. */
	devices[0].to_switch = 4;
	devices[1].to_switch = 6;
	own_speed = 0;
	link = ask(EXPORTS, 1, 0);
	CHECK_EQ(link.nvlinks, 4);
	CHECK_EQ(link.mb_per_s, 4 * 25781);
	common_speed = 0;
	CHECK_EQ(ask(EXPORTS, 1, 0).mb_per_s, 0);
	common_speed = UINT32_MAX;
	CHECK_EQ(ask(EXPORTS, 1, 0).mb_per_s, 0);
}

static void test_pcie(void)
{
	struct nvml_link link;

	readable = writable = true;
	by_nvlink = false;
	level = NVML_TOPOLOGY_SINGLE;
	devices[0] = (struct nvmlDevice_st){.generation = 5, .width = 16};
	devices[1] = (struct nvmlDevice_st){.generation = 4, .width = 8};
	link = ask(EXPORTS, 0, 1);
	CHECK(link.reach && !link.nvlink);
	CHECK_EQ(link.nvlinks, 0);
	CHECK_EQ(link.mb_per_s, 8 * 1969);
	CHECK(!strcmp(link.path, "one switch"));
	devices[1].generation = 99;
	CHECK_EQ(ask(EXPORTS, 0, 1).mb_per_s, 0);
	devices[1].generation = 4;
	devices[1].width = 1u << 30;
	CHECK_EQ(ask(EXPORTS, 0, 1).mb_per_s, 0);
	level = 35;
	CHECK(!ask(EXPORTS, 0, 1).path);
	/* Both ways of access, or it does not reach. */
	writable = false;
	CHECK(!ask(EXPORTS, 0, 1).reach);
	readable = false;
	writable = true;
	CHECK(!ask(EXPORTS, 0, 1).reach);
}

/* Nothing is made up where the library does not tell. */
static void test_old_library(void)
{
	struct nvml_link link = ask(2, 0, 1);

	CHECK(!link.reach && !link.nvlink && !link.path);
	CHECK_EQ(link.nvlinks + link.mb_per_s, 0);
}

int main(void)
{
	test_nvlink();
	test_pcie();
	test_old_library();
	return 0;
}
