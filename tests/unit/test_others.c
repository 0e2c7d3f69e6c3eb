/* SPDX-License-Identifier: Apache-2.0 */
/* Devices that others have given out, and containers that have something of ours. */
#include "kube/pods/others.h"

#include <stdlib.h>
#include <string.h>

#include "amd/identity.h"
#include "kube/pods/held.h"
#include "tests/check.h"

#define UUID_0 "GPU-00000000-0000-0000-0000-000000000001"
#define UUID_1 "GPU-00000000-0000-0000-0000-000000000002"
#define SLOT_1 "gpu-00000000-0000-0000-0000-000000000002.3of10"
#define NAME_0 "gpu-00000000-0000-0000-0000-000000000001"

static const struct kube_conf conf = {
	.ways = KUBE_DRA | KUBE_PLUGIN,
	.driver = "gpu.allot.dev",
	.nresources = 2,
	.resource = {{"huawei.com/vgpu-number", KUBE_SLOTS, 10}, {"huawei.com/vgpu-cores", KUBE_CORES, 1}}};
static const struct devices now = {
	.n = 2,
	.list = {{.uuid = {[15] = 1}, .number = 0}, {.uuid = {[15] = 2}, .number = 1, .pci = "0000:99:00.0"}}};
static struct node_devices devices;

/* A list of one container, which has one thing. */
static V1__ContainerDevices given;
static V1__ClaimResource claimed;
static V1__DynamicResource claim;
static V1__ContainerResources container;
static V1__PodResources pod;
static V1__ListPodResourcesResponse list;

static void make_list(const char *id, const char *device)
{
	static V1__ContainerDevices *all_given[] = {&given};
	static V1__ClaimResource *all_claimed[] = {&claimed};
	static V1__DynamicResource *all_claims[] = {&claim};
	static V1__ContainerResources *containers[] = {&container};
	static V1__PodResources *pods[] = {&pod};
	static char *ids[1];

	v1__container_devices__init(&given);
	v1__claim_resource__init(&claimed);
	v1__dynamic_resource__init(&claim);
	v1__container_resources__init(&container);
	v1__pod_resources__init(&pod);
	v1__list_pod_resources_response__init(&list);
	ids[0] = (char *)id;
	given.device_ids = ids;
	given.n_device_ids = 1;
	claimed.device_name = (char *)device;
	claim.claim_resources = all_claimed;
	claim.n_claim_resources = 1;
	container.name = (char *)"main";
	container.devices = all_given;
	container.n_devices = id != NULL;
	container.dynamic_resources = all_claims;
	container.n_dynamic_resources = device != NULL;
	pod.name = (char *)"theirs";
	pod.namespace_ = (char *)"team";
	pod.containers = containers;
	pod.n_containers = 1;
	list.pod_resources = pods;
	list.n_pod_resources = 1;
}

static bool give(const char *resource, const char *id)
{
	make_list(id, NULL);
	given.resource_name = (char *)resource;
	return others_note(&conf, &devices, &list, true);
}

static bool give_claim(const char *driver, const char *device)
{
	make_list(NULL, device);
	claimed.driver_name = (char *)driver;
	return others_note(&conf, &devices, &list, true);
}

/* One bit for each device. */
static int sick(void)
{
	return devices.list[0].sick | devices.list[1].sick << 1;
}

static void check_plugins(void)
{
	CHECK(give("nvidia.com/gpu", UUID_1));
	CHECK_EQ(sick(), 2);
	CHECK(!strcmp(devices.list[1].why, "nvidia.com/gpu has given it to Pod team/theirs"));
	CHECK(!give("nvidia.com/gpu", UUID_1));
	CHECK(give("nvidia.com/gpu", UUID_0 "::3"));
	CHECK_EQ(sick(), 1);
	give("nvidia.com/mig-1g.10gb", "MIG-" UUID_1 "/1/0");
	CHECK_EQ(sick(), 2);
	give("huawei.com/vgpu-number", UUID_0);
	CHECK_EQ(sick(), 0);
	CHECK(!devices.list[0].why[0]);
	/* Slots of ours, by another name of their resource, too. */
	CHECK(!give("huawei.com/vgpu-number", SLOT_1));
	CHECK(!give("volcano.sh/vgpu-number", SLOT_1));
	CHECK(!give("example.com/nic", "0000:99:00.0"));
}

static void check_claims(void)
{
	give_claim("gpu.nvidia.com", "gpu-1");
	CHECK_EQ(sick(), 2);
	CHECK(strstr(devices.list[1].why, "gpu.nvidia.com has given it to Pod team/theirs"));
	give_claim("gpu.nvidia.com", "gpu-0-mig-1g10gb-19-0");
	CHECK_EQ(sick(), 1);
	give_claim("gpu.example.com", NAME_0);
	CHECK_EQ(sick(), 1);
	give_claim("gpu.nvidia.com", "gpu-01x");
	CHECK_EQ(sick(), 0);
	give_claim("nic.example.com", "gpu-0");
	CHECK_EQ(sick(), 0);
	give_claim("gpu.allot.dev", NAME_0);
	CHECK_EQ(sick(), 0);
}

/* A part says not of which GPU it is: of the only one, else of one that is divided, and here none is. */
static void check_mig(void)
{
	give("nvidia.com/mig-1g.10gb", "MIG-12345678-0000-0000-0000-000000000000");
	CHECK_EQ(sick(), 0);
	devices.n = 1;
	CHECK(give("nvidia.com/mig-1g.10gb", "MIG-12345678-0000-0000-0000-000000000000"));
	CHECK_EQ(sick(), 1);
	give("nvidia.com/mig-1g.10gb", "MIG-" UUID_1 "/1/0");
	devices.n = 2;
	CHECK_EQ(sick(), 0);
}

/* What the driver lists and what others have are two matters. */
static void check_both(void)
{
	static const struct devices none = {.n = 0};

	give("nvidia.com/gpu", UUID_0);
	CHECK(!node_update(&devices, &now));
	CHECK_EQ(sick(), 1);
	CHECK(node_update(&devices, &none));
	CHECK_EQ(sick(), 3);
	CHECK(strstr(devices.list[0].why, "does not list it"));
	CHECK(node_update(&devices, &now));
	CHECK_EQ(sick(), 1);
	CHECK(strstr(devices.list[0].why, "nvidia.com/gpu"));
	/* A list that may lack Pods frees none. */
	list.n_pod_resources = 0;
	CHECK(!others_note(&conf, &devices, &list, false));
	CHECK_EQ(sick(), 1);
	CHECK(others_note(&conf, &devices, &list, true));
	CHECK_EQ(sick(), 0);
}

/* It is listed, and does not answer, or is used by others: the first counts more. */
static void check_words(void)
{
	struct faults faults = {.n = 1, .list = {{.words = "it does not answer its driver any more"}}};
	struct faults strangers = {.n = 1, .list = {{.words = "somebody uses it"}}}, none = {.n = 0};

	memcpy(faults.list[0].uuid, now.list[1].uuid, 16);
	memcpy(strangers.list[0].uuid, now.list[1].uuid, 16);
	CHECK(node_hear(&devices, NODE_STRANGER, &strangers));
	CHECK_EQ(sick(), 2);
	CHECK(strstr(devices.list[1].why, "somebody"));
	CHECK(node_hear(&devices, NODE_FAULT, &faults));
	CHECK_EQ(sick(), 2);
	CHECK(strstr(devices.list[1].why, "does not answer"));
	CHECK(!node_hear(&devices, NODE_FAULT, &faults));
	CHECK(!node_hear(&devices, NODE_STRANGER, &none));
	CHECK_EQ(sick(), 2);
	CHECK(node_hear(&devices, NODE_FAULT, &none));
	CHECK_EQ(sick(), 0);
}

static size_t hold(struct counts_held *ret)
{
	struct counts_held *held;
	size_t n;

	CHECK_EQ(held_read(&conf, &devices, &list, &held, &n), 0);
	if (n)
		*ret = held[0];
	free(held);
	return n;
}

static void check_held(void)
{
	struct counts_held held;

	give("huawei.com/vgpu-number", SLOT_1);
	CHECK_EQ(hold(&held), 1);
	CHECK(!strcmp(held.space, "team") && !strcmp(held.pod, "theirs") && !strcmp(held.container, "main"));
	CHECK(!held.device[0] && held.device[1]);
	give("huawei.com/vgpu-cores", NAME_0 ".c1");
	CHECK_EQ(hold(&held), 0);
	give("nvidia.com/gpu", UUID_0);
	CHECK_EQ(hold(&held), 0);
	give_claim("gpu.allot.dev", NAME_0);
	CHECK_EQ(hold(&held), 1);
	CHECK(held.device[0] && !held.device[1]);
	give_claim("gpu.nvidia.com", "gpu-0");
	CHECK_EQ(hold(&held), 0);
}

/* Render nodes of a board in two partitions: of its PCI device, and of a platform device. */
int __wrap_access(const char *path, int mode);
int __wrap_access(const char *path, int mode)
{
	return strcmp(path, "/sys/bus/pci/devices/0000:c1:00.0/drm/renderD128") &&
			       strcmp(path, "/sys/devices/platform/amdgpu_xcp_30/drm/renderD129")
		       ? -1
		       : 0;
}

/* AMD's names are of partitions, where a board has some. */
static void check_partitions(void)
{
	struct devices board = {.n = 2,
				.list = {{.vendor = DEVICE_AMD, .pci = "0000:c1:00.0", .render_minor = 128},
					 {.vendor = DEVICE_AMD, .pci = "0000:c1:00.0", .render_minor = 129}}};

	CHECK_EQ(amd_identity_parse("GPU-1234567890abcdef", board.list[0].uuid), 0);
	CHECK_EQ(amd_identity_parse("GPU-1234567890abcdef.1", board.list[1].uuid), 0);
	devices = (struct node_devices){0};
	CHECK(node_update(&devices, &board));
	give("amd.com/gpu", "0000:c1:00.0");
	CHECK_EQ(sick(), 1);
	give("amd.com/gpu", "amdgpu_xcp_30");
	CHECK_EQ(sick(), 2);
	CHECK(strstr(devices.list[1].why, "amd.com/gpu has given it to Pod team/theirs"));
	give("amd.com/gpu", "0000:c1:00.0-slice-2");
	CHECK_EQ(sick(), 1);
	give("amd.com/gpu", "amdgpu_xcp_30-slice-0");
	CHECK_EQ(sick(), 2);
	give("amd.com/gpu", "amdgpu_xcp_3");
	CHECK_EQ(sick(), 0);
	give("amd.com/gpu", "../../x");
	CHECK_EQ(sick(), 0);
	give("example.com/gpu", "GPU-1234567890abcdef.1");
	CHECK_EQ(sick(), 2);
	give("example.com/gpu", "GPU-1234567890abcdef::0");
	CHECK_EQ(sick(), 1);
	give("example.com/gpu", "GPU-1234567890abcdef.10");
	CHECK_EQ(sick(), 0);
	give_claim("gpu.example.com", "gpu-1234567890abcdef-1");
	CHECK_EQ(sick(), 2);
	give_claim("gpu.example.com", "gpu-1234567890abcdef");
	CHECK_EQ(sick(), 1);
	give_claim("gpu.amd.com", "gpu-1-129");
	CHECK_EQ(sick(), 2);
	give_claim("gpu.amd.com", "gpu-0-1280");
	CHECK_EQ(sick(), 0);
	/* The only GPU with that place is meant, whatever is in sysfs. */
	devices = (struct node_devices){0};
	board.n = 1;
	strcpy(board.list[0].pci, "0000:83:00.0");
	CHECK(node_update(&devices, &board));
	give("amd.com/gpu", "0000:83:00.0");
	CHECK_EQ(sick(), 1);
}

int main(void)
{
	CHECK(node_update(&devices, &now));
	CHECK(!node_update(&devices, &now));
	check_plugins();
	check_claims();
	check_mig();
	check_both();
	check_words();
	check_held();
	check_partitions();
	return 0;
}
