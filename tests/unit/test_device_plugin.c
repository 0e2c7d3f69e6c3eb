/* SPDX-License-Identifier: Apache-2.0 */
/* What the device plugin decides without a kubelet: names, lists, and what a container may use. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "kube/slots/allocate.h"
#include "kube/pods/device_id.h"
#include "kube/slots/device_list.h"
#include "kube/wire/deviceplugin.pb-c.h"
#include "kube/pods/holder.h"
#include "kube/slots/prefer.h"
#include "tests/check.h"

#define GPUS	  4
#define GIB	  (UINT64_C(1) << 30)
#define GPU_BYTES (80 * GIB)
#define W(text)	  ((char *)(text)) /* messages have no constant texts */

static struct node_devices devices;
static struct kube_conf conf;
static char gpu[GPUS][NODE_NAME_BYTES];

static void begin(void)
{
	static const struct kube_resource resource[] = {{"a.b/gpu", KUBE_SLOTS, 10},
							{"a.b/memory", KUBE_MEMORY, GIB},
							{"a.b/cores", KUBE_CORES, 5}};

	memcpy(conf.resource, resource, sizeof(resource));
	conf.nresources = 3;
	for (devices.n = 0; devices.n < GPUS; devices.n++) {
		struct node_device *d = &devices.list[devices.n];

		memset(d->device.uuid, 0xab, sizeof(d->device.uuid));
		d->device.uuid[15] = (uint8_t)devices.n;
		d->device.total_bytes = GPU_BYTES;
		d->numa = (int)devices.n / 2;
		node_device_name(d->device.uuid, gpu[devices.n]);
	}
}

static char *slot(unsigned int device, unsigned int n)
{
	static char name[64][DEVICE_ID_BYTES];
	static unsigned int next;
	char *ret = name[next++ % 64];

	snprintf(ret, DEVICE_ID_BYTES, "%s.%uof10", gpu[device], n);
	return ret;
}

static void check_ids(void)
{
	static const char *const wrong[] = {
		"",	  ".",	     "x.",     "x.1",	  "x.1of",   "x.of2",	"x.1of1",
		"x.2of1", "x.01of2", "x.1of0", "x.-1of2", "x.1of2x", "x.1of2.", "x.1of9999999999"};
	struct device_slot found;
	char name[DEVICE_ID_BYTES];

	for (unsigned int i = 0; i < GPUS; i++) {
		device_id_name(&conf.resource[0], &devices.list[i], 7, name);
		CHECK(!strcmp(name, slot(i, 7)));
		CHECK_EQ(device_id_parse(&devices, name, &found), 0);
		CHECK_EQ(found.device, i);
		CHECK_EQ(found.n, 7);
		CHECK_EQ(found.of, 10);
		CHECK(strlen(name) <= 63);
	}
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		CHECK_EQ(device_id_parse(&devices, wrong[i], &found), -EINVAL);
	CHECK_EQ(device_id_parse(&devices, "x.1of2", &found), -ENODEV);
	device_id_name(&conf.resource[1], &devices.list[0], 3, name);
	CHECK_EQ(device_id_parse(&devices, name, &found), -EINVAL);
}

static void check_list_of(const struct kube_resource *resource, uint64_t n)
{
	struct device_list list;
	V1beta1__ListAndWatchResponse *message;

	CHECK_EQ(device_list_make(resource, &devices, &list), 0);
	CHECK_EQ(list.n, n);
	message = v1beta1__list_and_watch_response__unpack(NULL, list.len, list.bytes);
	CHECK(message);
	CHECK_EQ(message->n_devices, n);
	for (size_t i = 0; i < n; i++) {
		CHECK_EQ(!strcmp(message->devices[i]->health, "Unhealthy"),
			 !strncmp(message->devices[i]->id, gpu[1], strlen(gpu[1])));
		CHECK_EQ(message->devices[i]->topology != NULL, resource->unit == KUBE_SLOTS);
	}
	v1beta1__list_and_watch_response__free_unpacked(message, NULL);
	device_list_free(&list);
}

static void check_list(void)
{
	struct kube_resource fine = {"a.b/fine", KUBE_MEMORY, GIB >> 10};
	struct device_list list;

	devices.list[1].sick = true;
	check_list_of(&conf.resource[0], 40);
	check_list_of(&conf.resource[1], 320);
	check_list_of(&conf.resource[2], 80);
	devices.list[1].sick = false;
	CHECK_EQ(device_list_make(&fine, &devices, &list), -EMSGSIZE);
	CHECK_EQ(list.n, 320 * 1024);
	/* Few enough devices, of which one takes more room than the least. */
	fine.amount = GIB / 100;
	CHECK_EQ(device_list_make(&fine, &devices, &list), -EMSGSIZE);
	CHECK_EQ(list.n, 32000);
	fine.amount = 1;
	CHECK_EQ(device_list_make(&fine, &devices, &list), -EMSGSIZE);
}

/* Devices of a resource in parts of two, as of devices on several NUMA nodes. */
struct made {
	V1__ContainerDevices part[8], *parts[8];
	V1__ContainerResources container, *containers[1];
	V1__PodResources pod;
	size_t n;
};

static void make(struct made *m, const char *pod)
{
	*m = (struct made){.n = 0};
	v1__pod_resources__init(&m->pod);
	v1__container_resources__init(&m->container);
	m->pod.namespace_ = W("space");
	m->pod.name = (char *)pod;
	m->container.name = W("main");
	m->containers[0] = &m->container;
	m->pod.containers = m->containers;
	m->pod.n_containers = 1;
	m->container.devices = m->parts;
}

static void give(struct made *m, const char *resource, char **ids, size_t n)
{
	for (size_t at = 0; at < n; at += 2) {
		V1__ContainerDevices *part = &m->part[m->n];

		v1__container_devices__init(part);
		part->resource_name = (char *)resource;
		part->device_ids = ids + at;
		part->n_device_ids = n - at < 2 ? n - at : 2;
		m->parts[m->n++] = part;
	}
	m->container.n_devices = m->n;
}

static void check_find(void)
{
	char *both[] = {slot(0, 1), slot(1, 1)}, *one[] = {slot(0, 2)},
	     *units[] = {W("u1"), W("u2"), W("u3")};
	struct made a, b;
	V1__PodResources *pods[] = {&a.pod, &b.pod};
	V1__ListPodResourcesResponse list = V1__LIST_POD_RESOURCES_RESPONSE__INIT;
	static struct holder holder;
	char *swapped[] = {both[1], both[0]};

	make(&a, "a");
	make(&b, "b");
	give(&a, "a.b/gpu", both, 2);
	give(&a, "other/gpu", one, 1);
	give(&b, "a.b/gpu", one, 1);
	give(&b, "a.b/memory", units, 3);
	list.pod_resources = pods;
	list.n_pod_resources = 2;
	CHECK_EQ(holder_find(&conf, &devices, &list, "a.b/gpu", swapped, 2, &holder), 0);
	CHECK(!strcmp(holder.pod->name, "a"));
	CHECK(!strcmp(holder.first, both[0]));
	CHECK(!holder.asks_memory);
	CHECK_EQ(holder_quota(&holder, 1), 8 * GIB);
	CHECK_EQ(holder_find(&conf, &devices, &list, "a.b/gpu", one, 1, &holder), 0);
	CHECK(!strcmp(holder.pod->name, "b"));
	CHECK_EQ(holder_quota(&holder, 0), 3 * GIB);
	CHECK_EQ(holder_quota(&holder, 1), 0);
	CHECK_EQ(holder_find(&conf, &devices, &list, "a.b/gpu", both, 1, &holder), -ENOENT);
	CHECK_EQ(holder_find(&conf, &devices, &list, "a.b/gpu", both + 1, 1, &holder), -ENOENT);
	CHECK_EQ(holder_find(&conf, &devices, &list, "none", one, 1, &holder), -ENOENT);
	pods[0] = &b.pod;
	CHECK_EQ(holder_find(&conf, &devices, &list, "a.b/gpu", one, 1, &holder), -ENOTUNIQ);
}

static int policy_of(struct made *m, const uint64_t *given, struct policy *ret, char *why)
{
	static struct holder holder;

	holder_read(&conf, &devices, &m->pod, &m->container, &holder);
	return holder_policy(&conf, &devices, &holder, given, ret, why);
}

static void check_policy(void)
{
	char *slots[] = {slot(2, 1), slot(0, 5), slot(2, 4)},
	     *units[] = {W("1"), W("2"), W("3"), W("4")};
	char *foreign[] = {W("gone.1of10")};
	uint64_t given[POLICY_DEVICES] = {[0] = 76 * GIB, [2] = 72 * GIB};
	static struct policy p, other;
	char why[HOLDER_WHY];
	struct made m;

	make(&m, "pod");
	give(&m, "a.b/gpu", slots, 3);
	give(&m, "a.b/memory", units, 4);
	give(&m, "a.b/cores", units, 3);
	CHECK_EQ(policy_of(&m, given, &p, why), 0);
	CHECK_EQ(policy_check(&p), 0);
	CHECK_EQ(p.ndevices, 2);
	CHECK_EQ(p.compute, POLICY_COMPUTE_SHARE);
	CHECK(!memcmp(p.device[0].uuid, devices.list[0].device.uuid, 16));
	CHECK_EQ(p.device[0].limit_bytes, 4 * GIB);
	CHECK_EQ(p.device[0].share_permille, 150);
	CHECK_EQ(p.device[1].limit_bytes, 8 * GIB);
	CHECK_EQ(p.device[1].share_permille, 300);
	CHECK(!strncmp(p.name, "space.pod.main", 14));
	/* The same again is the same tenant; with other limits it is another one. */
	CHECK_EQ(policy_of(&m, given, &other, why), 0);
	CHECK(!strcmp(p.name, other.name));
	conf.cores_limit = true;
	CHECK_EQ(policy_of(&m, given, &other, why), 0);
	CHECK_EQ(other.compute, POLICY_COMPUTE_CAP);
	CHECK(strcmp(p.name, other.name));
	conf.cores_limit = false;
	given[2]++;
	CHECK_EQ(policy_of(&m, given, &other, why), -ENOSPC);
	CHECK(strstr(why, "8 GiB"));
	give(&m, "a.b/gpu", foreign, 1);
	CHECK_EQ(policy_of(&m, given, &other, why), -ENODEV);
	CHECK(strstr(why, foreign[0]));
}

/* Units beyond any device, and more percent than a device has. */
static void check_absurd(void)
{
	static char *ids[100000];
	static const uint64_t given[POLICY_DEVICES];
	char *slots[] = {slot(0, 0)};
	static struct policy p;
	char why[HOLDER_WHY];
	struct made m;

	for (size_t i = 0; i < 100000; i++)
		ids[i] = W("x");
	make(&m, "pod");
	give(&m, "a.b/gpu", slots, 1);
	give(&m, "a.b/cores", ids, 2);
	m.part[1].device_ids = ids;
	m.part[1].n_device_ids = 100000;
	CHECK_EQ(policy_of(&m, given, &p, why), 0);
	CHECK_EQ(p.device[0].share_permille, 1000);
	m.part[1].resource_name = W("a.b/memory");
	CHECK_EQ(policy_of(&m, given, &p, why), -ENOSPC);
	conf.resource[1].amount = UINT64_MAX / 2;
	CHECK_EQ(policy_of(&m, given, &p, why), -ENOSPC);
	conf.resource[1].amount = GIB;
}

static bool sized;

static void check_preferred(size_t n, char **available, size_t n_available, const char *gpus)
{
	struct prefer_request request = {available, n_available, NULL, 0, n, sized};
	struct device_slot found;
	char *chosen[16];

	CHECK_EQ(prefer_slots(&devices, &request, chosen), 0);
	for (size_t i = 0; i < n; i++) {
		CHECK_EQ(device_id_parse(&devices, chosen[i], &found), 0);
		CHECK(strchr(gpus, (int)('0' + found.device)));
	}
}

/* GPUs 0 and 2 have links, and 1 and 3, across NUMA nodes. */
static void check_prefer_links(char **free_slots)
{
	struct node_devices before = devices;

	devices.nvlinks[0][2] = devices.nvlinks[2][0] = 4;
	devices.nvlinks[1][3] = devices.nvlinks[3][1] = 2;
	check_preferred(2, free_slots, 8, "02");
	check_preferred(1, free_slots, 8, "0123");
	check_preferred(4, free_slots, 8, "0123");
	/* GPU 0 has nothing left: the pair that is whole, and not GPU 2, which stands alone. */
	check_preferred(2, free_slots + 2, 6, "13");
	/* All have as many: the NUMA node says. */
	memset(devices.nvlinks, 18, sizeof(devices.nvlinks));
	check_preferred(2, free_slots + 2, 6, "23");
	devices = before;
}

static void check_prefer(void)
{
	char *free_slots[] = {slot(0, 0), slot(0, 1), slot(1, 0), slot(1, 1),
			      slot(2, 0), slot(2, 1), slot(3, 0), slot(3, 1)};
	struct prefer_request request = {.available = free_slots, .n_available = 8, .size = 9};
	char *chosen[16];

	check_preferred(1, free_slots, 8, "0");
	check_preferred(1, free_slots + 1, 7, "0");
	check_preferred(1, free_slots, 7, "3");
	check_preferred(2, free_slots, 8, "01");
	check_preferred(2, free_slots + 1, 7, "01");
	check_preferred(2, free_slots, 7, "23");
	/* One node has one GPU left. */
	check_preferred(2, free_slots + 2, 6, "23");
	check_preferred(8, free_slots, 8, "0123");
	/* A GPU with most room. */
	sized = true;
	check_preferred(1, free_slots + 1, 7, "1");
	check_preferred(1, free_slots, 7, "0");
	check_preferred(2, free_slots + 1, 7, "23");
	check_preferred(2, free_slots, 7, "01");
	check_preferred(8, free_slots, 8, "0123");
	CHECK_EQ(prefer_slots(&devices, &request, chosen), -EINVAL);
	sized = false;
	check_prefer_links(free_slots);
	request = (struct prefer_request){free_slots, 8, free_slots, 2, 1, false};
	CHECK_EQ(prefer_slots(&devices, &request, chosen), -EINVAL);
	request = (struct prefer_request){free_slots, 8, free_slots + 7, 1, 2, false};
	CHECK_EQ(prefer_slots(&devices, &request, chosen), 0);
	CHECK(chosen[0] == free_slots[7]);
	CHECK(chosen[1] == free_slots[4]);
	/* What must be of them and is not free, more than once: there is one fewer to choose from.
	 */
	request = (struct prefer_request){free_slots, 1, free_slots, 1, 2, false};
	CHECK_EQ(prefer_slots(&devices, &request, chosen), -EINVAL);
}

int main(void)
{
	begin();
	check_ids();
	check_list();
	check_find();
	check_policy();
	check_absurd();
	check_prefer();
	return 0;
}
