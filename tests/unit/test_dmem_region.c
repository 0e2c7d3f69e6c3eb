/* SPDX-License-Identifier: Apache-2.0 */
/* What the dmem controller's files say, and what a policy makes of it. */
#include "cli/tenant/dmem_region.h"

#include <errno.h>
#include <string.h>

#include "tests/check.h"

#define GIB (UINT64_C(1) << 30)

static struct dmem_regions regions;

static void check_lines(void)
{
	char text[DMEM_REGIONS * 2 * 8], long_line[1024];

	dmem_regions_parse("a 1\nb/c.d max\n\nx\n y\nz -1\nz 1 \nz 0x1\nw 18446744073709551614\n"
			   "v 18446744073709551615\nlast 0",
			   &regions);
	CHECK_EQ(regions.n, 4);
	CHECK_EQ(regions.list[0].bytes, 1);
	CHECK(!strcmp(regions.list[1].name, "b/c.d") && regions.list[1].bytes == DMEM_NO_LIMIT);
	CHECK_EQ(regions.list[2].bytes, DMEM_NO_LIMIT - 1);
	CHECK(dmem_regions_find(&regions, "last") == &regions.list[3]);
	CHECK(!dmem_regions_find(&regions, "la") && !dmem_regions_find(&regions, ""));

	dmem_regions_parse("", &regions);
	CHECK_EQ(regions.n, 0);
	text[0] = '\0';
	for (int i = 0; i < DMEM_REGIONS + 9; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), "%d 5\n", i);
	dmem_regions_parse(text, &regions);
	CHECK_EQ(regions.n, DMEM_REGIONS);

	/* A name with its end, and one more. */
	for (size_t len = DMEM_REGION_BYTES - 1; len <= DMEM_REGION_BYTES; len++) {
		memset(long_line, 'n', len);
		strcpy(long_line + len, " 5\nnext 6\n");
		dmem_regions_parse(long_line, &regions);
		CHECK_EQ(regions.n, len < DMEM_REGION_BYTES ? 2 : 1);
		CHECK(dmem_regions_find(&regions, "next"));
	}
	memset(long_line, 'n', sizeof(long_line));
	strcpy(long_line + sizeof(long_line) - 8, "\nnext 6");
	dmem_regions_parse(long_line, &regions);
	CHECK_EQ(regions.n, 1);
}

static struct devices devices = {
	.n = 4,
	.list = {{.vendor = DEVICE_NVIDIA, .uuid = {1}, .pci = "0000:01:00.0", .total_bytes = GIB},
		 {.vendor = DEVICE_AMD, .uuid = {2}, .pci = "0000:02:00.0", .total_bytes = 4 * GIB},
		 {.vendor = DEVICE_AMD, .uuid = {3}, .pci = "0000:03:00.0", .total_bytes = 8 * GIB},
		 {.vendor = DEVICE_AMD,
		  .uuid = {4},
		  .pci = "0000:03:00.0",
		  .total_bytes = 8 * GIB}}};

static uint64_t allowed(const char *name, const struct policy *policy)
{
	struct dmem_region region = {.bytes = 64 * GIB};
	uint64_t bytes = 12345;
	int r;

	strcpy(region.name, name);
	r = dmem_region_allowed(&region, &devices, policy, &bytes);
	if (r < 0)
		CHECK_EQ(bytes, 12345);
	return r < 0 ? (uint64_t)r : bytes;
}

static void check_names(void)
{
	static const char *const others[] = {"drm/0000:01:00.0/vram",
					     "drm/0000:02:00.0/vra",
					     "drm/0000:02:00.0/vramx",
					     "drm/0000:02:00.0/gtt",
					     "drm/0000:02:00.0/vram/",
					     "drm/0000:02:00.1/vram",
					     "0000:02:00.0/vram",
					     "drm/0000:02:00.0",
					     "drm//vram",
					     "",
					     "drm/",
					     "drm/0000:02:00.0/vram 0"};
	struct policy policy = {.ndevices = 1, .flags = POLICY_ALL_DEVICES};

	policy.device[0].limit_bytes = GIB;
	CHECK_EQ(allowed("drm/0000:02:00.0/vram", &policy), GIB);
	CHECK_EQ(allowed("drm/0000:02:00.0/vram0", &policy), GIB);
	CHECK_EQ(allowed("drm/0000:02:00.0/vram12", &policy), GIB);
	for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		CHECK_EQ(allowed(others[i], &policy), (uint64_t)-ENOENT);
	/* A device whose place is not known is nobody's. */
	devices.list[1].pci[0] = '\0';
	CHECK_EQ(allowed("drm//vram", &policy), (uint64_t)-ENOENT);
	strcpy(devices.list[1].pci, "0000:02:00.0");
}

static void check_limits(void)
{
	struct policy policy = {.ndevices = 1, .flags = POLICY_ALL_DEVICES};

	policy.device[0].limit_permille = 250;
	CHECK_EQ(allowed("drm/0000:02:00.0/vram", &policy), GIB);
	/* Two parts of one GPU. */
	CHECK_EQ(allowed("drm/0000:03:00.0/vram", &policy), 4 * GIB);
	policy.device[0].limit_permille = 1000;
	CHECK_EQ(allowed("drm/0000:03:00.0/vram", &policy), DMEM_NO_LIMIT);
	policy.device[0].limit_permille = 0;
	policy.device[0].limit_bytes = 100 * GIB;
	CHECK_EQ(allowed("drm/0000:02:00.0/vram", &policy), 4 * GIB);

	/* What the tenant does not have. */
	policy.flags = 0;
	policy.device[0].uuid[0] = 3;
	policy.device[0].limit_bytes = GIB;
	CHECK_EQ(allowed("drm/0000:02:00.0/vram", &policy), 0);
	CHECK_EQ(allowed("drm/0000:03:00.0/vram", &policy), GIB);

	/* All of one part, which is not all of the board; and all of each. */
	policy.device[0].limit_bytes = 0;
	policy.device[0].limit_permille = 1000;
	CHECK_EQ(allowed("drm/0000:03:00.0/vram", &policy), devices.list[2].total_bytes);
	policy.ndevices = 2;
	policy.device[1] = policy.device[0];
	policy.device[1].uuid[0] = 4;
	CHECK_EQ(allowed("drm/0000:03:00.0/vram", &policy), DMEM_NO_LIMIT);
	policy.device[1].limit_permille = 500;
	CHECK_EQ(allowed("drm/0000:03:00.0/vram", &policy),
		 devices.list[2].total_bytes + devices.list[3].total_bytes / 2);
	policy.ndevices = 1;

	/* A part of who knows what is no limit that could be set. */
	policy.device[0].limit_bytes = 0;
	policy.device[0].limit_permille = 500;
	devices.list[2].total_bytes = 0;
	CHECK_EQ(allowed("drm/0000:03:00.0/vram", &policy), (uint64_t)-ENODATA);
}

int main(void)
{
	check_lines();
	check_names();
	check_limits();
	return 0;
}
