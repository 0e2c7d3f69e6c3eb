/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an API server, or somebody who writes there, says of ResourceSlices: an object, or a list of them. And
 * the same bytes as words of sysfs.
 */
#include <string.h>

#include "kube/slices/slice.h"
#include "tests/fuzz/fuzz.h"

static const struct kube_conf conf = {.driver = "gpu.allot.dev", .node = "n"};
static json_t *wanted;

static void begin(void)
{
	static struct node_devices devices = {.n = 2, .nvlinks = {{0, 4}, {4, 0}}};
	static struct slice_facts facts[2];

	for (unsigned int i = 0; i < devices.n; i++)
		devices.list[i] = (struct node_device){
			.sick = i, .device = {.total_bytes = (uint64_t)3 << 30, .uuid = {1, (uint8_t)i}}};
	wanted = slice_spec(&conf, &devices, facts, 0);
	MUST(wanted);
}

static void check_object(const json_t *object)
{
	const json_t *spec = json_object_get(object, "spec");
	bool same = slice_same(spec, wanted);
	json_t *next;

	MUST(same == slice_same(wanted, spec));
	MUST(!same || !slice_dropped(wanted, spec));
	if (!slice_is_ours(&conf, object))
		return;
	slice_is_owned(object, "uid");
	next = slice_object(&conf, wanted, "uid", object);
	MUST(next);
	MUST(slice_is_owned(next, "uid"));
	MUST(slice_same(json_object_get(next, "spec"), wanted));
	json_decref(next);
}

static void check_words(const uint8_t *data, size_t size)
{
	char text[256], version[SLICE_VERSION_BYTES], root[SLICE_ROOT_BYTES];

	if (size >= sizeof(text))
		return;
	memcpy(text, data, size);
	text[size] = '\0';
	slice_version(text, version);
	MUST(strspn(version, "0123456789.") == strlen(version));
	slice_pcie_root(text, root);
	MUST(!*root || (!strncmp(root, "pci", 3) && root[strlen(root) - 3] == ':'));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	json_t *root, *item;
	size_t i;

	if (!wanted)
		begin();
	check_words(data, size);
	root = slice_parse((const char *)data, size);
	if (!root)
		return 0;
	check_object(root);
	json_array_foreach (json_object_get(root, "items"), i, item) {
		check_object(item);
	}
	json_decref(root);
	return 0;
}
