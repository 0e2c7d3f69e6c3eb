/* SPDX-License-Identifier: Apache-2.0 */
/* A node's devices as a ResourceSlice, and what of two slices is the same. */
#include <stdlib.h>
#include <string.h>

#include "kube/slices/slice.h"
#include "tests/check.h"

#define MIB ((uint64_t)1 << 20)

static const struct kube_conf conf = {.driver = "gpu.allot.dev", .node = "node-1"};
static struct node_devices devices;
static struct slice_facts facts[POLICY_DEVICES];

/* The text at a path of keys and indices, "devices/0/name". */
static const json_t *at(const json_t *value, const char *path)
{
	char copy[256], *rest = copy, *key;

	snprintf(copy, sizeof(copy), "%s", path);
	while ((key = strsep(&rest, ">")))
		value = json_is_array(value) ? json_array_get(value, (size_t)atoi(key))
					     : json_object_get(value, key);
	return value;
}

static void check_text(const json_t *value, const char *path, const char *expected)
{
	const char *text = json_string_value(at(value, path));

	if (!text || strcmp(text, expected) != 0) {
		fprintf(stderr, "%s: \"%s\", not \"%s\"\n", path, text ? text : "nothing", expected);
		exit(1);
	}
}

static json_t *spec(unsigned int without)
{
	json_t *made = slice_spec(&conf, &devices, facts, without);

	CHECK(made != NULL);
	return made;
}

static void add(uint8_t last, uint64_t mib)
{
	struct node_device *d = &devices.list[devices.n++];

	*d = (struct node_device){
		.device = {.number = devices.n - 1, .total_bytes = mib * MIB, .pci = "0000:17:00.0"},
		.numa = 1};
	snprintf(d->device.model, sizeof(d->device.model), "NVIDIA H200");
	memset(d->device.uuid, 0x11, 15);
	d->device.uuid[15] = last;
}

static void begin(void)
{
	memset(&devices, 0, sizeof(devices));
	memset(facts, 0, sizeof(facts));
}

static void check_words(void)
{
	char version[SLICE_VERSION_BYTES], root[SLICE_ROOT_BYTES];
	static const struct {
		const char *text, *expected;
	} versions[] = {{"580.159.03\n", "580.159.3"}, {"6.10", "6.10.0"}, {"5", "5.0.0"}, {"", ""},
			{"v5", ""}, {"1.2.3.4", "1.2.3"}, {"535.x", "535.0.0"},
			{"99999999999999999999999.1.1", "18446744073709551615.1.1"}},
	  roots[] = {{"../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0", "pci0000:16"},
		     {"../../../devices/pci10000:e1/10000:e1:00.0", "pci10000:e1"},
		     {"/sys/devices/platform/x/pci/pci0001:00", "pci0001:00"},
		     {"../../../devices/pci0000:1/x", ""}, {"../pci00000000000000000000000000000:16", ""},
		     {"../pcizzzz:16/x", ""}, {"", ""}};

	for (size_t i = 0; i < sizeof(versions) / sizeof(*versions); i++) {
		slice_version(versions[i].text, version);
		CHECK(!strcmp(version, versions[i].expected));
	}
	for (size_t i = 0; i < sizeof(roots) / sizeof(*roots); i++) {
		slice_pcie_root(roots[i].text, root);
		CHECK(!strcmp(root, roots[i].expected));
	}
}

static void check_device(void)
{
	json_t *s;

	begin();
	add(2, 143771);
	add(1, 81920);
	snprintf(facts[1].version, sizeof(facts[1].version), "580.159.3");
	snprintf(facts[1].pcie_root, sizeof(facts[1].pcie_root), "pci0000:16");
	devices.list[0].numa = -1;
	s = spec(0);
	check_text(s, "driver", "gpu.allot.dev");
	check_text(s, "nodeName", "node-1");
	check_text(s, "pool>name", "node-1");
	CHECK_EQ(json_integer_value(at(s, "pool>resourceSliceCount")), 1);
	CHECK_EQ(json_array_size(at(s, "devices")), 2);
	check_text(s, "devices>0>name", "gpu-11111111-1111-1111-1111-111111111101");
	check_text(s, "devices>0>capacity>memory>value", "80Gi");
	check_text(s, "devices>0>capacity>memory>requestPolicy>default", "20Gi");
	check_text(s, "devices>0>capacity>memory>requestPolicy>validRange>min", "1Mi");
	check_text(s, "devices>0>capacity>memory>requestPolicy>validRange>max", "80Gi");
	check_text(s, "devices>0>capacity>memory>requestPolicy>validRange>step", "1Mi");
	check_text(s, "devices>0>capacity>cores>value", "100");
	check_text(s, "devices>0>capacity>cores>requestPolicy>default", "25");
	check_text(s, "devices>0>attributes>driverVersion>version", "580.159.3");
	check_text(s, "devices>0>attributes>resource.kubernetes.io/pcieRoot>string", "pci0000:16");
	CHECK_EQ(json_integer_value(at(s, "devices>0>attributes>numa>int")), 1);
	CHECK(json_is_true(at(s, "devices>0>allowMultipleAllocations")));
	CHECK(!at(s, "devices>0>taints"));
	check_text(s, "devices>1>capacity>memory>value", "143771Mi");
	CHECK(!at(s, "devices>1>attributes>numa"));
	CHECK(!at(s, "devices>1>attributes>driverVersion"));
	json_decref(s);
}

static void link_both(unsigned int a, unsigned int b, uint8_t links)
{
	devices.nvlinks[a][b] = devices.nvlinks[b][a] = links;
}

static const char *island_of(const json_t *s, unsigned int device)
{
	char path[64];

	snprintf(path, sizeof(path), "devices>%u>attributes>nvlinkIsland>string", device);
	return json_string_value(at(s, path));
}

/* Each two of an island have links; a device without one has no attribute, which no constraint matches. */
static void check_islands(void)
{
	static const char first[] = "GPU-11111111-1111-1111-1111-111111111101",
			  third[] = "GPU-11111111-1111-1111-1111-111111111103";
	json_t *s;

	begin();
	for (uint8_t i = 1; i <= 6; i++)
		add(i, 1024);
	s = spec(0);
	for (unsigned int i = 0; i < 6; i++)
		CHECK(!island_of(s, i));
	json_decref(s);
	link_both(0, 1, 18);
	link_both(1, 2, 4); /* 2 has none to 0, so it is in no island with 1 */
	link_both(2, 3, 1);
	link_both(2, 4, 1);
	link_both(3, 4, 1);
	devices.nvlinks[5][4] = devices.nvlinks[5][3] = devices.nvlinks[5][2] = 1; /* by its own words alone */
	s = spec(0);
	CHECK(!strcmp(island_of(s, 0), first) && !strcmp(island_of(s, 1), first));
	CHECK(!strcmp(island_of(s, 2), third) && !strcmp(island_of(s, 3), third) && !strcmp(island_of(s, 4), third));
	CHECK(!island_of(s, 5));
	json_decref(s);
	link_both(0, 1, 0); /* one of them is gone; the one in the middle has a neighbour still */
	s = spec(0);
	CHECK(!island_of(s, 0) && !strcmp(island_of(s, 1), "GPU-11111111-1111-1111-1111-111111111102"));
	CHECK(!strcmp(island_of(s, 2), island_of(s, 1)));
	json_decref(s);
}

static void check_sick(void)
{
	json_t *s;

	begin();
	add(1, 1024);
	add(2, 1024);
	devices.list[0].sick = true;
	s = spec(0);
	check_text(s, "devices>0>taints>0>key", "gpu.allot.dev/unhealthy");
	check_text(s, "devices>0>taints>0>effect", "NoSchedule");
	CHECK(!at(s, "devices>1>taints"));
	json_decref(s);
	s = spec(SLICE_NO_TAINTS);
	CHECK_EQ(json_array_size(at(s, "devices")), 1);
	json_decref(s);
	s = spec(SLICE_NO_SHARING);
	CHECK(!at(s, "devices>0>allowMultipleAllocations"));
	CHECK(!at(s, "devices>0>capacity>memory>requestPolicy"));
	check_text(s, "devices>0>capacity>memory>value", "1Gi");
	json_decref(s);
}

/* What drivers may say: no size, next to none, words of any length and kind. */
static void check_odd(void)
{
	const char *model;
	json_t *s;

	begin();
	add(1, 1);
	add(2, 0);
	add(3, 3);
	devices.list[1].device.total_bytes = NVML_BYTES_UNKNOWN;
	memset(devices.list[0].device.model, 0xff, sizeof(devices.list[0].device.model) - 1);
	devices.list[1].device.model[0] = '\0';
	for (size_t i = 0; i + 3 < sizeof(devices.list[2].device.model); i += 2)
		memcpy(devices.list[2].device.model + i, "\xc3\xa4", 3);
	s = spec(0);
	check_text(s, "devices>0>capacity>memory>value", "1Mi");
	CHECK(!at(s, "devices>0>allowMultipleAllocations"));
	CHECK(!at(s, "devices>0>capacity>memory>requestPolicy"));
	CHECK(!at(s, "devices>1>capacity>memory"));
	CHECK(!at(s, "devices>1>allowMultipleAllocations"));
	CHECK(!at(s, "devices>1>capacity>cores>requestPolicy"));
	CHECK(!at(s, "devices>1>attributes>model"));
	check_text(s, "devices>2>capacity>memory>requestPolicy>default", "1Mi");
	model = json_string_value(at(s, "devices>0>attributes>model>string"));
	CHECK(model && strlen(model) == 64 && strspn(model, "?") == 64);
	model = json_string_value(at(s, "devices>2>attributes>model>string"));
	CHECK(model && strlen(model) == 64);
	json_decref(s);
}

static void check_amd(void)
{
	json_t *s;

	begin();
	add(1, 1024);
	devices.list[0].device.vendor = DEVICE_AMD;
	snprintf(devices.list[0].device.architecture, sizeof(devices.list[0].device.architecture),
		 "gfx942");
	s = spec(0);
	check_text(s, "devices>0>attributes>vendor>string", "amd");
	check_text(s, "devices>0>attributes>architecture>string", "gfx942");
	json_decref(s);
}

static void check_same(void)
{
	json_t *a, *b;

	begin();
	add(1, 1024);
	add(2, 1024);
	devices.list[0].sick = true;
	a = spec(0);
	b = spec(0);
	CHECK(slice_same(a, b));
	json_object_set_new((json_t *)at(b, "pool"), "generation", json_integer(7));
	json_object_set_new((json_t *)at(b, "devices>0>taints>0"), "timeAdded", json_string("now"));
	CHECK(slice_same(a, b));
	CHECK(slice_same(b, a));
	CHECK_EQ(slice_dropped(a, b), 0);
	json_object_del((json_t *)at(b, "devices>1"), "allowMultipleAllocations");
	CHECK(!slice_same(a, b));
	CHECK_EQ(slice_dropped(a, b), SLICE_NO_SHARING);
	json_object_del((json_t *)at(b, "devices>0"), "taints");
	CHECK_EQ(slice_dropped(a, b), SLICE_NO_SHARING | SLICE_NO_TAINTS);
	json_decref(b);
	b = json_object();
	CHECK(!slice_same(a, b) && !slice_same(a, NULL) && !slice_is_ours(&conf, b));
	CHECK_EQ(slice_dropped(a, NULL), SLICE_NO_SHARING | SLICE_NO_TAINTS);
	json_decref(b);
	json_decref(a);
}

static void check_object(void)
{
	json_t *s, *first, *next;

	begin();
	add(1, 1024);
	s = spec(0);
	first = slice_object(&conf, s, "uid-1", NULL);
	check_text(first, "apiVersion", "resource.k8s.io/v1");
	check_text(first, "kind", "ResourceSlice");
	check_text(first, "metadata>name", "node-1-gpu.allot.dev");
	check_text(first, "metadata>ownerReferences>0>uid", "uid-1");
	CHECK_EQ(json_integer_value(at(first, "spec>pool>generation")), 1);
	CHECK(slice_is_owned(first, "uid-1") && !slice_is_owned(first, "uid-2"));
	CHECK(slice_is_ours(&conf, first));
	json_object_set_new((json_t *)at(first, "metadata"), "resourceVersion", json_string("42"));
	next = slice_object(&conf, s, "uid-2", first);
	check_text(next, "metadata>resourceVersion", "42");
	CHECK(slice_is_owned(next, "uid-2") && !slice_is_owned(next, "uid-1"));
	CHECK_EQ(json_integer_value(at(next, "spec>pool>generation")), 2);
	json_decref(next);
	json_decref(first);
	json_decref(s);
}

static void check_names(void)
{
	struct kube_conf a = conf, b = conf;
	char name_a[KUBE_NAME_BYTES], name_b[KUBE_NAME_BYTES];

	memset(a.node, 'n', sizeof(a.node) - 1);
	memset(b.node, 'n', sizeof(b.node) - 1);
	b.node[sizeof(b.node) - 2] = 'm';
	slice_name(&a, name_a);
	slice_name(&b, name_b);
	CHECK_EQ(strlen(name_a), KUBE_NAME_BYTES - 1);
	CHECK(strcmp(name_a, name_b) != 0);
}

static void check_parse(void)
{
	char deep[4096];
	static const char brackets[] = "{\"a\":\"[[[[\\\"{\"}";
	json_t *root = slice_parse(brackets, strlen(brackets));

	CHECK(root != NULL);
	json_decref(root);
	CHECK(!slice_parse("[]", 2) && !slice_parse("", 0) && !slice_parse("{\"a\":1}x", 8));
	CHECK(!slice_parse("{\"a\0\":1}", 8));
	memset(deep, '[', sizeof(deep));
	CHECK(!slice_parse(deep, sizeof(deep)));
}

int main(void)
{
	check_words();
	check_device();
	check_islands();
	check_sick();
	check_odd();
	check_amd();
	check_same();
	check_object();
	check_names();
	check_parse();
	return 0;
}
