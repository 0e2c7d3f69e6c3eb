/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files of the dmem controller: every region has a name that can be written back, and no GPU's
 * region is allowed more than the policy says.
 */
#include <errno.h>
#include <string.h>

#include "cli/tenant/dmem_region.h"
#include "tests/fuzz/fuzz.h"

#define LIMIT UINT64_C(1000)

static const struct devices devices = {
	.n = 2,
	.list = {{.vendor = DEVICE_AMD, .uuid = {1}, .pci = "0000:03:00.0", .total_bytes = 1 << 20},
		 {.vendor = DEVICE_AMD, .uuid = {2}, .pci = "0000:03:00.0", .total_bytes = 500}}};

static void check(const struct dmem_region *region)
{
	struct policy policy = {.ndevices = 1, .flags = POLICY_ALL_DEVICES};
	size_t len = strnlen(region->name, sizeof(region->name));
	uint64_t bytes;
	int r;

	MUST(len && len < sizeof(region->name) && !strpbrk(region->name, " \n"));
	policy.device[0].limit_bytes = LIMIT;
	r = dmem_region_allowed(region, &devices, &policy, &bytes);
	MUST(r == -ENOENT || (r == 0 && bytes == LIMIT + 500));
	MUST(r || !strncmp(region->name, "drm/0000:03:00.0/vram", 21));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct dmem_regions regions;
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	memset(&regions, 0xff, sizeof(regions));
	dmem_regions_parse(text, &regions);
	MUST(regions.n <= DMEM_REGIONS);
	for (size_t i = 0; i < regions.n; i++) {
		check(&regions.list[i]);
		MUST(dmem_regions_find(&regions, regions.list[i].name) <= &regions.list[i]);
	}
	free(text);
	return 0;
}
